package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestLoneNodeTakenOver: a node goes on in the directory of an Apache Kafka that was alone and has its voters in its metadata log, and
// Apache Kafka goes on after it. Topics, settings, records and groups' offsets stay.
func TestLoneNodeTakenOver(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	b := kafka.PrepareBroker(t, "offsets.topic.num.partitions=1")
	text, err := os.ReadFile(b.Properties)
	if err != nil {
		t.Fatal(err)
	}
	dynamic := strings.Replace(string(text), "controller.quorum.voters=1@", "controller.quorum.bootstrap.servers=", 1)
	if err := os.WriteFile(b.Properties, []byte(dynamic), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(b.Dir); err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(mustOwnTool(t, "", "storage", "random-uuid"))
	kafka.Run(t, "", "kafka.tools.StorageTool", "format", "--standalone", "-t", id, "-c", b.Properties)

	at := func(args ...string) []string { return append([]string{"--bootstrap-server", b.Addr}, args...) }
	read := func(who string, want string) {
		t.Helper()
		if got := lines(mustOwnTool(t, "", "console-consumer", at("--topic", "orders", "--from-beginning", "--timeout-ms", "3000")...)); got != want {
			t.Errorf("%s has the records %q, want %q", who, got, want)
		}
	}
	b.Spawn(t)
	waitUntilAnswered(t, b.Addr)
	mustOwnTool(t, "", "topics", at("--create", "--topic", "orders", "--partitions", "2", "--config", "retention.ms=864000000")...)
	mustOwnTool(t, "a\nb\n", "console-producer", at("--topic", "orders")...)
	mustOwnTool(t, "", "console-consumer", at("--topic", "orders", "--group", "audit", "--from-beginning", "--max-messages", "2")...)
	described := mustOwnTool(t, "", "consumer-groups", at("--describe", "--group", "audit")...)
	for _, feature := range []string{"share.version", "streams.version", "group.version", "transaction.version"} {
		mustOwnTool(t, "", "features", at("disable", "--feature", feature)...)
	}
	b.Stop(t)

	n := harness.Prepare(t)
	n.Addr, n.Dir, n.Properties = b.Addr, b.Dir, b.Properties
	n.Spawn(t, "--override", "http.listeners=http://"+n.HTTP)
	n.WaitReady(t, 30*time.Second)
	read("moldau", "a\nb")
	if got := mustOwnTool(t, "", "consumer-groups", at("--describe", "--group", "audit")...); got != described {
		t.Errorf("the group is\n%s\nand was\n%s", got, described)
	}
	if got := mustOwnTool(t, "", "topics", at("--describe", "--topic", "orders")...); !strings.Contains(got, "retention.ms=864000000") {
		t.Errorf("the topic has lost its setting:\n%s", got)
	}
	mustOwnTool(t, "c\n", "console-producer", at("--topic", "orders")...)
	n.Stop(t)
	if _, err := os.Stat(filepath.Join(b.Dir, ".kafka_cleanshutdown")); err != nil {
		t.Error(err)
	}

	b.Spawn(t)
	waitUntilAnswered(t, b.Addr)
	read("Apache Kafka", "a\nb\nc")
	b.Stop(t)
}
