package mission

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestToolsByZooKeeper: ours with --zookeeper say on standard output what Apache Kafka 1.1.1's say, of the same nodes. Each
// topic is made, changed and deleted by one and looked at by both.
func TestToolsByZooKeeper(t *testing.T) {
	k := harness.ApacheKafka(t, "1.1.1")
	zookeeper := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)[0])
	n := harness.Start(t, "zookeeper.listeners="+zookeeper, "offsets.topic.num.partitions=2")
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	classes := map[string]string{
		"topics": "kafka.admin.TopicCommand", "configs": "kafka.admin.ConfigCommand", "consumer-groups": "kafka.admin.ConsumerGroupCommand",
		"reassign-partitions": "kafka.admin.ReassignPartitionsCommand", "preferred-replica-election": "kafka.admin.PreferredReplicaLeaderElectionCommand",
	}
	// say runs a tool, ours or theirs, and returns what it prints, without what differs from run to run.
	say := func(t *testing.T, whose, tool string, args ...string) string {
		t.Helper()
		args = append([]string{"--zookeeper", zookeeper}, args...)
		var cmd *exec.Cmd
		if whose == "ours" {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			cmd = exec.CommandContext(ctx, harness.Binary(t), append([]string{tool}, args...)...)
			cmd.Env = harness.Environment()
		} else {
			cmd = k.Command(context.Background(), classes[tool], args...)
		}
		out, err := harness.Output(cmd, "")
		if err != nil {
			t.Fatalf("%s %s %v: %v\n%s", whose, tool, args, err, out)
		}
		// Settings in no order, as in a Java map.
		out = regexp.MustCompile(`(Configs:| are )(\S+)`).ReplaceAllStringFunc(out, func(s string) string {
			at := strings.LastIndexAny(s, ": ") + 1
			words := strings.Split(s[at:], ",")
			slices.Sort(words)
			return s[:at] + strings.Join(words, ",")
		})
		return out
	}
	same := func(t *testing.T, tool string, args ...string) {
		t.Helper()
		theirs, ours := say(t, "theirs", tool, args...), say(t, "ours", tool, args...)
		if ours != theirs {
			t.Errorf("%s %v\nours:\n%s\ntheirs:\n%s", tool, args, ours, theirs)
		}
	}
	// both has each of them do the same to a topic of its own.
	both := func(t *testing.T, tool string, args ...string) {
		t.Helper()
		said := make(map[string]string)
		for _, whose := range []string{"ours", "theirs"} {
			own := slices.Clone(args)
			for i := range own {
				own[i] = strings.ReplaceAll(own[i], "TOPIC", "by-"+whose)
			}
			said[whose] = strings.ReplaceAll(say(t, whose, tool, own...), "by-"+whose, "TOPIC")
		}
		if said["ours"] != said["theirs"] {
			t.Errorf("%s %v\nours:\n%s\ntheirs:\n%s", tool, args, said["ours"], said["theirs"])
		}
	}
	both(t, "topics", "--create", "--topic", "TOPIC", "--partitions", "2", "--replication-factor", "1", "--config", "retention.ms=3600000")
	same(t, "topics", "--list")
	same(t, "topics", "--describe", "--topic", "by-.*")
	both(t, "topics", "--alter", "--topic", "TOPIC", "--partitions", "3")
	both(t, "configs", "--alter", "--entity-type", "topics", "--entity-name", "TOPIC", "--add-config", "segment.bytes=1048576,cleanup.policy=[compact,delete]")
	both(t, "configs", "--alter", "--entity-type", "topics", "--entity-name", "TOPIC", "--delete-config", "retention.ms")
	both(t, "configs", "--describe", "--entity-type", "topics", "--entity-name", "TOPIC")
	same(t, "topics", "--describe")
	same(t, "topics", "--describe", "--topics-with-overrides")
	moves := file("moves.json", `{"version":1,"partitions":[{"topic":"by-ours","partition":0,"replicas":[1]},{"topic":"by-theirs","partition":0,"replicas":[1]}]}`)
	same(t, "reassign-partitions", "--verify", "--reassignment-json-file", moves)
	same(t, "preferred-replica-election", "--path-to-json-file", file("elect.json", `{"partitions":[{"topic":"by-ours","partition":0}]}`))

	// A group of ours, which has read and gone.
	g := &genuine{kafka: k, zookeeper: zookeeper}
	send, err := g.tool(t, "1\ta\n2\tb\n", "console-producer", "--bootstrap-server", n.Addr, "--topic", "by-ours", "--property", "parse.key=true")
	if err != nil {
		t.Fatalf("%v\n%s", err, send)
	}
	for _, group := range []string{"one", "two"} {
		out, err := g.tool(t, "", "console-consumer", "--zookeeper", zookeeper, "--topic", "by-ours", "--group", group, "--from-beginning", "--max-messages", "2")
		if err != nil || out != "a\nb\n" && out != "b\na\n" {
			t.Fatalf("%q, %v", out, err)
		}
	}
	same(t, "consumer-groups", "--list")
	same(t, "consumer-groups", "--describe", "--group", "one")
	member := join(t, g.settings(t, "group.id=one", "topics=by-ours"))
	same(t, "consumer-groups", "--describe", "--group", "one")
	member.stop()
	gone(t, treeOf(t, zookeeper), "one")
	if ours, theirs := say(t, "ours", "consumer-groups", "--delete", "--group", "one"), say(t, "theirs", "consumer-groups", "--delete", "--group", "two"); ours != strings.ReplaceAll(theirs, "two", "one") {
		t.Errorf("delete\nours:\n%s\ntheirs:\n%s", ours, theirs)
	}
	same(t, "consumer-groups", "--list")
	both(t, "topics", "--delete", "--topic", "TOPIC")
}
