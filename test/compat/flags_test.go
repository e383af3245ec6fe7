package compat

import (
	"regexp"
	"strings"
	"testing"

	"moldau/test/harness"
)

// TestOwnToolsKnowApacheKafkasFlags: whatever its tools' help lists, ours take, or say why not.
func TestOwnToolsKnowApacheKafkasFlags(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	flag := regexp.MustCompile(`(?m)^(?:\* |  )?(?:-\w, )?--([a-z0-9][a-z0-9.-]*)`)
	for _, c := range []struct{ tool, class string }{
		{"topics", topicCommand}, {"console-consumer", consoleConsumer}, {"console-producer", consoleProducer}, {"consumer-groups", consumerGroups},
		{"configs", "org.apache.kafka.tools.ConfigCommand"}, {"get-offsets", getOffsets}, {"delete-records", deleteRecords}, {"log-dirs", logDirs},
		{"dump-log", dumpLogSegments}, {"producer-perf-test", producerPerformance}, {"consumer-perf-test", "org.apache.kafka.tools.ConsumerPerformance"},
		{"broker-api-versions", apiVersions}, {"cluster", clusterTool}, {"metadata-quorum", metadataQuorum}, {"groups", "org.apache.kafka.tools.GroupsCommand"},
		{"features", "org.apache.kafka.tools.FeatureCommand"}, {"verifiable-producer", verifiableProducer}, {"verifiable-consumer", verifiableConsumer},
	} {
		help, err := kafka.Try("", c.class, "--help")
		names := flag.FindAllStringSubmatch(help, -1)
		if len(names) < 2 && c.tool != "cluster" { // whose flags belong to its actions
			t.Fatalf("%s lists %d flags: %v\n%s", c.class, len(names), err, help)
		}
		for _, name := range names {
			args := []string{"--" + name[1]}
			if c.tool != "dump-log" { // which asks nobody and has no such flag
				args = append([]string{"--output=none"}, args...)
			}
			if _, errs, _ := ownTool(t, "", c.tool, args...); strings.Contains(errs, "unknown") {
				t.Errorf("%s --%s: %s", c.tool, name[1], errs)
			}
		}
	}
}
