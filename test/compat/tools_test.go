package compat

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"

	"moldau/test/harness"
)

const consumerGroups = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

// ownTool runs one of our tools and returns standard output, standard error and whether it ended well.
func ownTool(t *testing.T, input, tool string, args ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(harness.Binary(t), append([]string{tool}, args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err := cmd.Run()
	return out.String(), errs.String(), err == nil
}

func mustOwnTool(t *testing.T, input, tool string, args ...string) string {
	t.Helper()
	out, errs, ok := ownTool(t, input, tool, args...)
	if !ok {
		t.Fatalf("%s %v:\n%s%s", tool, args, out, errs)
	}
	return out
}

// lines sorts lines, for tools of Apache Kafka that print them in the order of a hash map.
func lines(s string) string {
	all := strings.Split(strings.Trim(s, "\n"), "\n")
	sort.Strings(all)
	return strings.Join(all, "\n")
}

// servedAPIs leaves out what a broker does not take: each tool lists as missing what it knows itself.
func servedAPIs(s string) string {
	s = regexp.MustCompile(`(?m)^\t\w+\(\d+\): UNSUPPORTED,?\n`).ReplaceAllString(s, "")
	return regexp.MustCompile(`(?m),$`).ReplaceAllString(s, "")
}

// TestOwnToolsPrintWhatApacheKafkasPrint: on one and the same cluster, ours or Apache Kafka's, both tools say the same.
func TestOwnToolsPrintWhatApacheKafkasPrint(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	t.Run("on a node of ours", func(t *testing.T) {
		n := harness.Start(t, "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=2")
		compareTools(t, kafka, n.Addr)
	})
	t.Run("on Apache Kafka", func(t *testing.T) {
		b := kafka.PrepareBroker(t, "group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=2")
		b.Spawn(t)
		waitUntilAnswered(t, b.Addr)
		compareTools(t, kafka, b.Addr)
	})
}

func compareTools(t *testing.T, kafka *harness.Kafka, address string) {
	at := func(args ...string) []string { return append([]string{"--bootstrap-server", address}, args...) }
	mustOwnTool(t, "", "topics", at("--create", "--topic", "first", "--partitions", "3", "--config", "retention.ms=3600000", "--config", "cleanup.policy=compact")...)
	mustOwnTool(t, "", "topics", at("--create", "--topic", "second")...)
	mustOwnTool(t, "h:1,g:N\tk\tv\nh:2\tN\tN\n", "console-producer", at("--topic", "second", "--property", "parse.key=true", "--property", "parse.headers=true", "--property", "null.marker=N")...)
	mustOwnTool(t, strings.Repeat("x\n", 5), "console-producer", at("--topic", "first", "--partition", "2", "--property", "parse.key=true", "--property", "key.separator=x", "--compression-codec", "snappy")...)
	mustOwnTool(t, "", "console-consumer", at("--topic", "first", "--group", "audit", "--from-beginning", "--max-messages", "3")...)
	offsets := filepath.Join(t.TempDir(), "offsets.json")
	if err := os.WriteFile(offsets, []byte(`{"partitions":[{"topic":"second","partition":0,"offset":1}],"version":1}`), 0o644); err != nil {
		t.Fatal(err)
	}
	all := []string{"--topic", "second", "--from-beginning", "--max-messages", "2"}
	// Not print.epoch: of these records Java's consumer says NOT_PRESENT, although their batches carry the epoch.
	for _, column := range []string{"timestamp", "partition", "offset", "headers", "key", "delivery"} {
		all = append(all, "--formatter-property", "print."+column+"=true")
	}
	internal := func(partition, formatter string) []string {
		return []string{"--topic", "__consumer_offsets", "--partition", partition, "--offset", "earliest", "--timeout-ms", "3000",
			"--formatter", "org.apache.kafka.tools.consumer." + formatter + "MessageFormatter"}
	}
	// Apache Kafka's formatters of internal topics put nothing between records.
	oneLine := func(s string) string { return strings.ReplaceAll(s, "}\n", "}") }
	changing := regexp.MustCompile(`(HighWatermark: +\d+|\b\d{4,})( *\t| *\n)`) // metadata grows and time goes by between the two
	for _, c := range []struct {
		tool, class string
		args        []string
		same        func(string) string // nil: as it is
	}{
		{"topics", topicCommand, []string{"--list"}, nil},
		{"topics", topicCommand, []string{"--describe", "--topic", "first"}, configsInOrder},
		{"topics", topicCommand, []string{"--describe", "--topic", "first|second", "--topics-with-overrides"}, func(out string) string { return lines(configsInOrder(out)) }},
		{"topics", topicCommand, []string{"--describe", "--at-min-isr-partitions", "--topic", "second"}, configsInOrder},
		{"console-consumer", consoleConsumer, all, nil},
		{"console-consumer", consoleConsumer, []string{"--topic", "first", "--partition", "2", "--offset", "3", "--max-messages", "2", "--formatter-property", "print.key=true"}, nil},
		{"console-consumer", consoleConsumer, internal("0", "Offsets"), oneLine},
		{"console-consumer", consoleConsumer, internal("1", "Offsets"), oneLine},
		{"console-consumer", consoleConsumer, internal("0", "GroupMetadata"), oneLine},
		{"console-consumer", consoleConsumer, internal("1", "GroupMetadata"), oneLine},
		{"get-offsets", getOffsets, []string{"--exclude-internal-topics"}, nil},
		{"get-offsets", getOffsets, []string{"--topic-partitions", "fir.*:1-,second", "--time", "earliest"}, nil},
		{"get-offsets", getOffsets, []string{"--topic", "first", "--time", "1"}, nil},
		{"configs", configCommand, []string{"--describe", "--topic", "first"}, nil},
		{"configs", configCommand, []string{"--describe", "--topic", "first", "--all"}, nil},
		{"configs", configCommand, []string{"--describe", "--entity-type", "brokers", "--entity-name", "1", "--all"}, nil},
		{"delete-records", deleteRecords, []string{"--offset-json-file", offsets}, nil},
		{"log-dirs", logDirs, []string{"--describe", "--topic-list", "second"}, nil},
		{"cluster", clusterTool, []string{"cluster-id"}, nil},
		{"cluster", clusterTool, []string{"list-endpoints"}, nil},
		{"metadata-quorum", metadataQuorum, []string{"describe", "--status"}, func(s string) string { return changing.ReplaceAllString(s, "$2") }},
		{"metadata-quorum", metadataQuorum, []string{"describe", "--replication"}, func(s string) string { return regexp.MustCompile(`\d+ *\t`).ReplaceAllString(s, "\t") }},
		{"broker-api-versions", apiVersions, nil, servedAPIs},
		{"cluster", clusterTool, []string{"api-versions"}, servedAPIs},
		{"features", "org.apache.kafka.tools.FeatureCommand", []string{"describe"}, func(s string) string { return regexp.MustCompile(`Epoch: \d+`).ReplaceAllString(s, "") }},
		{"features", "org.apache.kafka.tools.FeatureCommand", []string{"version-mapping"}, nil},
		{"features", "org.apache.kafka.tools.FeatureCommand", []string{"version-mapping", "--release-version", "3.9"}, nil},
		{"features", "org.apache.kafka.tools.FeatureCommand", []string{"version-mapping", "--release-version", "4.1-IV0"}, nil},
		{"features", "org.apache.kafka.tools.FeatureCommand", []string{"feature-dependencies", "--feature", "eligible.leader.replicas.version=1", "--feature", "share.version=2", "--feature", "metadata.version=25"}, nil},
		{"groups", "org.apache.kafka.tools.GroupsCommand", []string{"--list"}, lines},
		{"groups", "org.apache.kafka.tools.GroupsCommand", []string{"--list", "--group-type", "share"}, nil},
		{"consumer-groups", consumerGroups, []string{"--list"}, lines},
		{"consumer-groups", consumerGroups, []string{"--list", "--state"}, lines},
		{"consumer-groups", consumerGroups, []string{"--describe", "--group", "audit"}, nil},
		{"consumer-groups", consumerGroups, []string{"--list", "--state", "--type"}, lines},
		{"consumer-groups", consumerGroups, []string{"--describe", "--group", "audit", "--verbose"}, nil},
		{"consumer-groups", consumerGroups, []string{"--describe", "--group", "audit", "--members"}, nil},
		{"consumer-groups", consumerGroups, []string{"--describe", "--group", "audit", "--state"}, nil},
		{"consumer-groups", consumerGroups, []string{"--describe", "--group", "audit", "--state", "--verbose"}, nil},
		{"consumer-groups", consumerGroups, []string{"--reset-offsets", "--group", "audit", "--topic", "first", "--to-earliest", "--dry-run"}, lines},
		{"consumer-groups", consumerGroups, []string{"--reset-offsets", "--group", "audit", "--topic", "first:2", "--shift-by", "-1", "--dry-run"}, nil},
		{"consumer-groups", consumerGroups, []string{"--reset-offsets", "--group", "audit", "--all-topics", "--to-latest", "--dry-run", "--export"}, strings.TrimSpace},
	} {
		args := at(c.args...)
		if c.tool == "cluster" { // its flags come after the action
			args = append(append([]string{}, c.args...), "--bootstrap-server", address)
		}
		theirs := kafka.Run(t, "", c.class, args...)
		ours := mustOwnTool(t, "", c.tool, args...)
		if c.same != nil {
			ours, theirs = c.same(ours), c.same(theirs)
		}
		if ours != theirs {
			t.Errorf("%s %v prints:\n%s\nApache Kafka's prints:\n%s", c.tool, c.args, ours, theirs)
		}
	}
}

// configsInOrder sorts the settings of topics: Apache Kafka's tool prints them as its map has them.
func configsInOrder(out string) string {
	return configsOf.ReplaceAllStringFunc(out, func(found string) string {
		list := strings.Split(strings.TrimPrefix(found, "Configs: "), ",")
		slices.Sort(list)
		return "Configs: " + strings.Join(list, ",")
	})
}

var configsOf = regexp.MustCompile(`Configs: [^\n]+`)

// TestOwnDumpIsApacheKafkas: the files of a partition look the same through both.
func TestOwnDumpIsApacheKafkas(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, "log.index.interval.bytes=200")
	mustOwnTool(t, strings.Repeat("h:1\tkey\tsome value to fill the log with, line by line\n", 50), "console-producer", "--bootstrap-server", n.Addr, "--topic", "dumped",
		"--property", "parse.key=true", "--property", "parse.headers=true", "--sync")
	mustOwnTool(t, "a\nb\n", "console-producer", "--bootstrap-server", n.Addr, "--topic", "dumped", "--compression-codec", "zstd")
	n.Stop(t)
	dir := filepath.Join(n.Dir, "dumped-0")
	snapshots, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil || len(snapshots) == 0 {
		t.Fatalf("no snapshot in %s: %v", dir, err)
	}
	metadata, err := filepath.Glob(filepath.Join(n.Dir, "__cluster_metadata-0", "*.checkpoint"))
	if err != nil || len(metadata) == 0 {
		t.Fatalf("no snapshot of the metadata in %s: %v", n.Dir, err)
	}
	for _, args := range [][]string{
		{"--files", metadata[0], "--cluster-metadata-decoder"},
		{"--files", filepath.Join(dir, "00000000000000000000.log")},
		{"--files", filepath.Join(dir, "00000000000000000000.log"), "--print-data-log"},
		{"--files", filepath.Join(dir, "00000000000000000000.log"), "--print-data-log", "--skip-record-metadata"},
		{"--files", filepath.Join(dir, "00000000000000000000.log"), "--deep-iteration"},
		{"--files", filepath.Join(dir, "00000000000000000000.index") + "," + filepath.Join(dir, "00000000000000000000.timeindex")},
		{"--files", filepath.Join(dir, "00000000000000000000.index"), "--index-sanity-check"},
		{"--files", snapshots[len(snapshots)-1]},
	} {
		ours, theirs := mustOwnTool(t, "", "dump-log", args...), kafka.Run(t, "", dumpLogSegments, args...)
		if ours != theirs {
			t.Errorf("dump-log %v prints:\n%s\nApache Kafka's prints:\n%s", args, ours, theirs)
		}
	}
}

// TestKeysLieWhereJavaPutsThem: both producers choose the same partition for a key.
func TestKeysLieWhereJavaPutsThem(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t)
	var input strings.Builder
	for i := range 200 {
		input.WriteString(strings.Repeat("k", i%17) + string(rune('a'+i%26)) + strings.Repeat("é", i%5) + "\tv\n")
	}
	var found [2]string
	for i, topic := range []string{"ours", "theirs"} {
		mustOwnTool(t, "", "topics", "--bootstrap-server", n.Addr, "--create", "--topic", topic, "--partitions", "7")
		args := []string{"--bootstrap-server", n.Addr, "--topic", topic, "--reader-property", "parse.key=true"}
		if topic == "ours" {
			mustOwnTool(t, input.String(), "console-producer", args...)
		} else {
			kafka.Run(t, input.String(), consoleProducer, args...)
		}
		found[i] = lines(mustOwnTool(t, "", "console-consumer", "--bootstrap-server", n.Addr, "--topic", topic, "--from-beginning", "--max-messages", "200",
			"--formatter-property", "print.partition=true", "--formatter-property", "print.key=true"))
	}
	if found[0] != found[1] {
		t.Errorf("ours:\n%s\nJava's:\n%s", found[0], found[1])
	}
}
