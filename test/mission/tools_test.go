package mission

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// tool runs a tool of ours to its end.
func (g *genuine) tool(t *testing.T, input string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, harness.Binary(t), args...)
	cmd.Env = harness.Environment()
	return harness.Output(cmd, input)
}

// TestConsoleConsumer: ours with the flags and the file of old.
func TestConsoleConsumer(t *testing.T) {
	g := startGenuine(t)
	tree := g.tree(t)
	g.send(t, "first", 0, "a", "b", "c")
	file := filepath.Join(t.TempDir(), "consumer.properties")
	if err := os.WriteFile(file, []byte("zookeeper.connect=elsewhere:2181\nzookeeper.connection.timeout.ms=6000\ngroup.id=test_group\n#consumer.timeout.ms=5000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	consume := func(args ...string) (string, error) {
		return g.tool(t, "", append([]string{"console-consumer", "--zookeeper", g.zookeeper, "--topic", "first", "--consumer.config", file}, args...)...)
	}
	// limits are how many lines to wait for, however long they take, or how long to wait for none.
	limits := func(want string) []string {
		if n := strings.Count(want, "\n"); n > 0 {
			return []string{"--max-messages", fmt.Sprint(n)}
		}
		return []string{"--timeout-ms", "1000"}
	}
	expect := func(want string, args ...string) {
		t.Helper()
		args = append(args, limits(want)...)
		if out, err := consume(args...); err != nil || out != want {
			t.Errorf("%v prints %q, %v, want %q", args, out, err, want)
		}
	}
	fails := func(sentence string, args ...string) {
		t.Helper()
		if out, err := consume(args...); err == nil || !strings.Contains(out, sentence) {
			t.Errorf("%v: %v, want %q:\n%s", args, err, sentence, out)
		}
	}
	expect("a\nb\n", "--from-beginning")
	fails("group test_group has offsets in ZooKeeper", "--from-beginning")
	expect("c\n")
	expect("a\nb\nc\n", "--from-beginning", "--delete-consumer-offsets")
	expect("", "--group", "test_group")
	fails("two group ids, test_group and other", "--group", "other")
	fails("auto.offset.reset=none: want", "--consumer-property", "auto.offset.reset=none")
	fails("exclude each other", "--from-beginning", "--consumer-property", "auto.offset.reset=largest")
	fails("--partition does not go with --zookeeper", "--partition", "0")
	expect("", "--consumer-property", "bogus=1")

	// Without a group of its own nothing stays.
	all := "Partition:0\ta\nPartition:0\tb\nPartition:0\tc\n"
	out, err := g.tool(t, "", append([]string{"console-consumer", "--zookeeper", g.zookeeper, "--blacklist", "__.*", "--from-beginning", "--property", "print.partition=true"}, limits(all)...)...)
	if err != nil || out != all {
		t.Errorf("without a group: %q, %v", out, err)
	}
	if groups, err := tree.Children("/consumers"); err != nil || fmt.Sprint(groups) != "[test_group]" {
		t.Errorf("groups: %v, %v", groups, err)
	}
	out, err = g.tool(t, "", "console-consumer", "--zookeeper", "127.0.0.1:1", "--topic", "first")
	if err == nil || !strings.Contains(out, "cannot reach ZooKeeper at 127.0.0.1:1: connection refused") {
		t.Errorf("without a ZooKeeper: %v, %s", err, out)
	}
}
