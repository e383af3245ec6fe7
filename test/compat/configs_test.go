package compat

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestSettingsByApacheKafkasTool: kafka-configs changes and shows settings of all brokers, of one, of topics, groups, metrics
// of clients and the log, as on Apache Kafka; our own tool prints the same of them.
func TestSettingsByApacheKafkasTool(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, "log.retention.hours=24")
	at := func(args ...string) []string { return append([]string{"--bootstrap-server", n.Addr}, args...) }
	alter := func(entity []string, args ...string) {
		t.Helper()
		kafka.Run(t, "", configCommand, at(append(append([]string{"--alter"}, entity...), args...)...)...)
	}
	// shown wants lines of both tools, which have to say the same.
	shown := func(entity []string, want ...string) {
		t.Helper()
		args := at(append([]string{"--describe"}, entity...)...)
		theirs, ours := kafka.Run(t, "", configCommand, args...), mustOwnTool(t, "", "configs", args...)
		if lines(theirs) != lines(ours) {
			t.Errorf("%v: Apache Kafka's tool prints\n%s\nours\n%s", entity, theirs, ours)
		}
		for _, line := range want {
			if !strings.Contains(theirs, line) {
				t.Errorf("%v: there is no %q in\n%s", entity, line, theirs)
			}
		}
	}
	allBrokers := []string{"--entity-type", "brokers", "--entity-default"}
	oneBroker := []string{"--entity-type", "brokers", "--entity-name", "1"}
	topic := []string{"--entity-type", "topics", "--entity-name", "orders"}
	group := []string{"--entity-type", "groups", "--entity-name", "audit"}
	metrics := []string{"--entity-type", "client-metrics", "--entity-name", "slow"}
	loggers := []string{"--entity-type", "broker-loggers", "--entity-name", "1"}

	mustOwnTool(t, "", "topics", at("--create", "--topic", "orders")...)
	alter(allBrokers, "--add-config", "message.max.bytes=3000,log.retention.ms=5000")
	alter(oneBroker, "--add-config", "message.max.bytes=2000,listener.name.plaintext.max.connections=50")
	alter(topic, "--add-config", "retention.ms=7000")
	alter(group, "--add-config", "consumer.session.timeout.ms=50000,share.isolation.level=read_committed")
	alter(metrics, "--add-config", "metrics=[org.apache.kafka.producer.,x],interval.ms=1000")
	alter(loggers, "--add-config", "root=WARN")

	check := func() {
		t.Helper()
		shown(oneBroker, "message.max.bytes=2000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:message.max.bytes=2000, DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=3000, DEFAULT_CONFIG:message.max.bytes=1048588}",
			"listener.name.plaintext.max.connections=50")
		shown(append([]string{"--all"}, topic...), "max.message.bytes=2000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:message.max.bytes=2000, ",
			"retention.ms=7000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=5000, STATIC_BROKER_CONFIG:log.retention.hours=24, DEFAULT_CONFIG:log.retention.hours=168}")
		shown([]string{"--entity-type", "groups"}, "Dynamic configs for group audit are:", "consumer.session.timeout.ms=50000")
	}
	check()
	shown(allBrokers, "message.max.bytes=3000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=3000}")
	shown(append([]string{"--all"}, oneBroker...), "log.retention.ms=5000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=5000, STATIC_BROKER_CONFIG:log.retention.hours=24, DEFAULT_CONFIG:log.retention.hours=168}")
	shown(append([]string{"--all"}, group...), "share.isolation.level=read_committed sensitive=false synonyms={DYNAMIC_GROUP_CONFIG:share.isolation.level=read_committed, DEFAULT_CONFIG:share.isolation.level=read_uncommitted}")
	shown([]string{"--entity-type", "client-metrics"}, "interval.ms=1000", "metrics=org.apache.kafka.producer.,x")
	shown(loggers, "root=WARN")

	// They are what the broker goes by.
	send := func(size int) bool {
		_, _, ok := ownTool(t, strings.Repeat("x", size)+"\n", "console-producer", at("--topic", "orders", "--batch-size", "100000")...)
		return ok
	}
	if !send(1500) || send(2500) {
		t.Error("message.max.bytes=2000 does not count for a topic without a limit of its own")
	}
	// What a client gets for a wrong one.
	for args, want := range map[string]string{
		"brokers log.retention.hours=5":             "Cannot update these configs dynamically: [log.retention.hours]",
		"brokers log.cleaner.threads=many":          "log.cleaner.threads=many: want a whole number",
		"topics retention.ms=soon":                  "retention.ms=soon: want a whole number",
		"groups consumer.session.timeout.ms=1":      "want from 45000 to 60000",
		"broker-loggers root=LOUD":                  "Valid log levels are",
		"brokers log.retention.minute=5":            "did you mean log.retention.minutes?",
		"brokers log.cleaner.dedupe.buffer.size=10": "want at least 1 MiB per thread",
	} {
		entity, pair, _ := strings.Cut(args, " ")
		name := map[string]string{"brokers": "1", "broker-loggers": "1", "topics": "orders", "groups": "audit"}[entity]
		if _, errs, ok := ownTool(t, "", "configs", at("--alter", "--entity-type", entity, "--entity-name", name, "--add-config", pair)...); ok || !strings.Contains(errs, want) {
			t.Errorf("%s: want %q in\n%s", args, want, errs)
		}
	}

	if out, err := kafka.Try("", configCommand, at(append([]string{"--alter", "--add-config", "log.retention.hours=5"}, allBrokers...)...)...); err == nil || !strings.Contains(out+err.Error(), "InvalidRequestException: Cannot update these configs dynamically: [log.retention.hours]") {
		t.Errorf("a setting that cannot change: %v\n%s", err, out)
	}

	n.Stop(t)
	n.Run(t)
	check()
	if !send(1500) || send(2500) {
		t.Error("message.max.bytes=2000 does not count after a restart")
	}
	alter(oneBroker, "--delete-config", "message.max.bytes")
	if !send(2500) || send(3500) {
		t.Error("message.max.bytes=3000 of all brokers does not count once the broker's own is gone")
	}
}

// TestNodeOfAnImagesEnvironment: what starts Apache's or Confluent's image starts a node, without a file.
func TestNodeOfAnImagesEnvironment(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Prepare(t)
	n.Properties = ""
	for name, value := range map[string]string{
		"KAFKA_NODE_ID":                                   "3",
		"KAFKA_PROCESS_ROLES":                             "broker,controller",
		"KAFKA_LISTENERS":                                 "PLAIN_HOST://" + n.Addr + ",CONTROLLER://" + n.Controller,
		"KAFKA_ADVERTISED_LISTENERS":                      "PLAIN_HOST://" + n.Addr,
		"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP":            "PLAIN_HOST:PLAINTEXT,CONTROLLER:PLAINTEXT",
		"KAFKA_INTER_BROKER_LISTENER_NAME":                "PLAIN_HOST",
		"KAFKA_CONTROLLER_LISTENER_NAMES":                 "CONTROLLER",
		"KAFKA_CONTROLLER_QUORUM_VOTERS":                  "3@" + n.Controller,
		"KAFKA_LOG_DIRS":                                  n.Dir,
		"CLUSTER_ID":                                      "4L6g3nShT-eMCtK--X86sw",
		"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR":          "1",
		"KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS":          "0",
		"KAFKA_NUM_PARTITIONS":                            "7",
		"KAFKA_HEAP_OPTS":                                 "-Xmx1g",
		"KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE":          "false",
		"KAFKA_LISTENER_NAME_PLAIN__HOST_MAX_CONNECTIONS": "90",
		"MOLDAU_HTTP_LISTENERS":                           "http://" + n.HTTP,
		"KAFKA_SERVICE_HOST":                              "10.0.0.1",
		"KAFKA_PORT":                                      "tcp://10.0.0.1:9092",
	} {
		t.Setenv(name, value)
	}
	n.Run(t)
	if id := kafka.Run(t, "", clusterTool, "cluster-id", "--bootstrap-server", n.Addr); !strings.Contains(id, "4L6g3nShT-eMCtK--X86sw") {
		t.Errorf("cluster id: %s", id)
	}
	shown := kafka.Run(t, "", configCommand, "--bootstrap-server", n.Addr, "--describe", "--all", "--entity-type", "brokers", "--entity-name", "3")
	for _, line := range []string{
		"num.partitions=7 sensitive=false synonyms={STATIC_BROKER_CONFIG:num.partitions=7, DEFAULT_CONFIG:num.partitions=1}",
		"listener.name.plain_host.max.connections=90",
	} {
		if !strings.Contains(shown, line) {
			t.Errorf("there is no %q in\n%s", line, shown)
		}
	}
	for _, line := range []string{"KAFKA_HEAP_OPTS has no effect", "KAFKA_CONFLUENT_SUPPORT_METRICS_ENABLE is not a setting"} {
		if strings.Count(n.Log(), line) != 1 {
			t.Errorf("%q is not said once in\n%s", line, n.Log())
		}
	}
	mustOwnTool(t, "a\nb\n", "console-producer", "--bootstrap-server", n.Addr, "--topic", "orders")
	if got := mustOwnTool(t, "", "topics", "--bootstrap-server", n.Addr, "--describe", "--topic", "orders"); !regexp.MustCompile(`PartitionCount: 7\b`).MatchString(got) {
		t.Errorf("the topic has not 7 partitions:\n%s", got)
	}
	n.Stop(t)

	t.Setenv("KAFKA_LOG_RETENTION_HOUR", "5")
	n.Spawn(t)
	select {
	case <-n.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("a node with a misspelt variable runs")
	}
	if want := "environment: KAFKA_LOG_RETENTION_HOUR is not a setting; did you mean KAFKA_LOG_RETENTION_HOURS?"; !strings.Contains(n.Log(), want) {
		t.Errorf("there is no %q in\n%s", want, n.Log())
	}
}

// TestConnectionsAreLimited: by max.connections, which can change while it is reached.
func TestConnectionsAreLimited(t *testing.T) {
	n := harness.Start(t, "max.connections=3")
	var held []*raw
	for range 3 {
		r := dialRaw(t, n.Addr)
		defer r.conn.Close()
		held = append(held, r)
	}
	fourth := dialRaw(t, n.Addr) // the kernel takes it, the node does not
	defer fourth.conn.Close()
	_ = fourth.conn.SetDeadline(time.Now().Add(500 * time.Millisecond))
	if _, err := looked(9, false, "nowhere")(fourth); err == nil {
		t.Fatal("a fourth connection was served")
	}
	for i, r := range held {
		if _, err := looked(9, false, "nowhere")(r); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	held[0].conn.Close()
	// The limit changes while all are taken.
	if _, err := altered(4, "", "max.connections", ptr("10"), 0)(held[1]); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		r := dialRaw(t, n.Addr)
		defer r.conn.Close()
		if _, err := looked(9, false, "nowhere")(r); err != nil {
			t.Fatal(err)
		}
	}
}

func ptr(s string) *string { return &s }
