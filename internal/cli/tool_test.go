package cli

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/config"
	"moldau/internal/node"
	"moldau/internal/vfs"
	"moldau/test/harness"
)

// cluster is a node in this process that the tools of a test talk to.
type cluster struct {
	address string
	disk    vfs.FS
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	c, _, err := config.Load(config.Source{File: "test", Text: []byte("process.roles=broker,controller\nnode.id=1\n" +
		"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n" +
		"http.listeners=http://127.0.0.1:0\nlog.dirs=/disk\ngroup.initial.rebalance.delay.ms=0\noffsets.topic.num.partitions=2\n")})
	if err != nil {
		t.Fatal(err)
	}
	disk := vfs.NewMem()
	n, err := node.Build(node.Options{Config: c, Logger: slog.New(slog.DiscardHandler), FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(context.Background()); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	for _, a := range n.Addresses() {
		if a.Name == "PLAINTEXT" {
			return &cluster{address: a.Bound, disk: disk}
		}
	}
	t.Fatal("the node has no address")
	return nil
}

// run runs a tool to its end, with --bootstrap-server in front, and returns what a script sees.
func (c *cluster) run(stdin, tool string, args ...string) (code int, stdout, stderr string) {
	var out, errs output
	a := &app{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errs, signals: make(chan os.Signal, 1)}
	code = a.run(append([]string{tool, "--bootstrap-server", c.address}, args...))
	return code, out.String(), errs.String()
}

// want runs a tool that has to succeed and compares its output, in which ids are "…".
func (c *cluster) want(t *testing.T, want, stdin, tool string, args ...string) {
	t.Helper()
	code, out, errs := c.run(stdin, tool, args...)
	if code != exitOK {
		t.Fatalf("%s %v: exit code %d\n%s%s", tool, args, code, out, errs)
	}
	if got := regexp.MustCompile(`\b[\w-]{22}([\s"])`).ReplaceAllString(out, "…$1"); got != want {
		t.Errorf("%s %v prints:\n%s\nwant:\n%s", tool, args, got, want)
	}
}

// fails runs a tool that has to fail with a code and a sentence.
func (c *cluster) fails(t *testing.T, code int, sentence, tool string, args ...string) {
	t.Helper()
	got, out, errs := c.run("", tool, args...)
	if got != code || !strings.Contains(errs, sentence) {
		t.Errorf("%s %v: exit code %d, want %d and %q:\n%s%s", tool, args, got, code, sentence, out, errs)
	}
}

// kgo is a client that tests look at a cluster with, past the tools.
func (c *cluster) kgo(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.address)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func TestUnreachableClusterIsExplained(t *testing.T) {
	dead := &cluster{address: "127.0.0.1:1"}
	dead.fails(t, exitUnreachable, "127.0.0.1:1: connection refused: nothing listens on that port", "topics", "--list")
	nowhere := &cluster{address: "nowhere.invalid:9092"}
	nowhere.fails(t, exitUnreachable, "nowhere.invalid:9092: ", "topics", "--list")
	// Whether a name does not exist or nobody can say is up to this machine's name server.
	for want, err := range map[string]error{
		"no such host":                           &net.DNSError{Err: "gone", IsNotFound: true},
		"its name cannot be looked up: too late": &net.DNSError{Err: "too late", IsTimeout: true},
	} {
		if got := reason(&net.OpError{Op: "dial", Err: err}); got != want {
			t.Errorf("%v is told as %q, want %q", err, got, want)
		}
	}

	var out, errs output
	signals := make(chan os.Signal, 1)
	signals <- syscall.SIGINT
	a := &app{stdout: &out, stderr: &errs, signals: signals}
	if code := a.run([]string{"topics", "--list", "--bootstrap-server", "192.0.2.1:9"}); code != exitInterrupted {
		t.Errorf("a signal: exit code %d: %s", code, &errs)
	}
}

// TestWorkWithoutEndTellsOfAddresses: who waits for records hears at once that the way to them is closed, once for each address, and
// again only after it was open.
func TestWorkWithoutEndTellsOfAddresses(t *testing.T) {
	ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)[0])) // which nobody else gets once it is closed
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	d := &dialed{seeds: []string{"127.0.0.1:2"}, timeout: time.Second}
	dial := func(address string) {
		if conn, err := d.dial(t.Context(), "tcp", address); err == nil {
			_ = conn.Close()
		}
	}
	dial("127.0.0.1:1") // before anybody wants to hear of it
	var told strings.Builder
	d.tell(&told)
	dial("127.0.0.1:1")
	dial("127.0.0.1:2")
	dial(address)
	_ = ln.Close()
	dial(address)
	dial(address)
	want := "moldau: warning: cannot reach 127.0.0.1:1, which the cluster advertises: connection refused: nothing listens on that port; trying again\n" +
		"moldau: warning: cannot reach 127.0.0.1:2: connection refused: nothing listens on that port; trying again\n" +
		"moldau: warning: cannot reach " + address + ", which the cluster advertises: connection refused: nothing listens on that port; trying again\n"
	if told.String() != want {
		t.Errorf("told:\n%s\nwant:\n%s", &told, want)
	}
}

// A client is told an address that it cannot dial: the commonest mistake with listeners there is.
func TestWrongAdvertisedAddressIsExplained(t *testing.T) {
	d := &dialed{seeds: []string{"10.0.0.1:9092"}, failed: map[string]error{"inside:9092": syscall.ECONNREFUSED}, answered: map[string]bool{"10.0.0.1:9092": true}}
	err := d.explain(context.DeadlineExceeded)
	if code := exitCode(err); code != exitUnreachable {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"inside:9092, which the cluster advertises: connection refused", "Check advertised.listeners"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q: %v", want, err)
		}
	}
}

func TestJavaProperties(t *testing.T) {
	file := t.TempDir() + "/client.properties"
	if err := os.WriteFile(file, []byte("client.id=x\nrequest.timeout.ms=5000\nbootstrap.servers=127.0.0.1:1\nacsk=1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--command-config", file}, exitUnreachable, "127.0.0.1:1: connection refused"},
		{[]string{"--command-config", file}, exitUnreachable, "warning: " + file + ": acsk has no effect here"},
		{[]string{"--command-config", file, "--bootstrap-server", "127.0.0.1:2"}, exitUnreachable, "127.0.0.1:2: connection refused"},
		{[]string{"--command-config", file + ".none"}, exitConfig, "cannot read the client's properties"},
		{[]string{"--command-property", "acks=3"}, exitConfig, "acks=3: want 0, 1, -1 or all"},
		{[]string{"--command-property", "acks=1", "--command-property", "enable.idempotence=true"}, exitConfig, "want all beside enable.idempotence=true"},
		{[]string{"--command-property", "request.timeout.ms=soon"}, exitConfig, "want milliseconds"},
		{[]string{"--command-property", "security.protocol=SSL"}, exitConfig, "only PLAINTEXT"},
		{[]string{"--command-property", "compression.type=zip"}, exitConfig, "want none, gzip, snappy, lz4 or zstd"},
		{[]string{"--command-property", "x"}, exitUsage, "want key=value"},
		{[]string{"--bootstrap-server", ":9092"}, exitUsage, `":9092" has no host`},
		{[]string{"--bootstrap-server", "127.0.0.1 9092"}, exitUsage, `"127.0.0.1 9092:9092" has no host; want host:port`},
		{[]string{"--bootstrap-server", "localhost:909x"}, exitUsage, `"909x" is no port`},
		{[]string{"--bootstrap-server", "localhost:1,localhost:70000"}, exitUsage, `"70000" is no port, want 1 to 65535`},
		{[]string{"--bootstrap-server", "localhost:"}, exitUsage, `"" is no port`},
		{[]string{"--bootstrap-server", ""}, exitUsage, `--bootstrap-server "": want host:port`},
		{[]string{"--output", "xml"}, exitUsage, "want text or json"},
	} {
		var out, errs output
		a := &app{stdout: &out, stderr: &errs, signals: make(chan os.Signal, 1)}
		if code := a.run(append([]string{"topics", "--list"}, c.args...)); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, &errs)
		}
	}
}

func TestTopicsTool(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic first.\n", "", "topics", "--create", "--topic", "first", "--partitions", "2", "--config", "retention.ms=60000", "--config", "segment.bytes = 2097152")
	c.want(t, "", "", "topics", "--create", "--topic", "first", "--if-not-exists")
	c.want(t, "{\n  \"topic\": \"third\",\n  \"topicId\": \"…\",\n  \"partitionCount\": 1,\n  \"replicationFactor\": 1\n}\n",
		"", "topics", "--create", "--topic", "third", "--replica-assignment", "1", "--output=json")
	c.want(t, "first\nthird\n", "", "topics", "--list")
	c.want(t, "third\n", "", "topics", "--list", "--topic", "t.*, nothing")
	c.want(t, "[\n  \"first\",\n  \"third\"\n]\n", "", "topics", "--list", "--output", "json")
	c.want(t, "Topic: first\tTopicId: …\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: min.insync.replicas=1,retention.ms=60000,segment.bytes=2097152\n"+
		"\tTopic: first\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n"+
		"\tTopic: first\tPartition: 1\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n",
		"", "topics", "--describe", "--topic", "first", "--partition-size-limit-per-response", "1")
	c.want(t, "", "x\ny\n", "console-producer", "--topic", "third")
	c.want(t, "Topic: third\tTopicId: …\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: min.insync.replicas=1\n"+
		"\tTopic: third\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \tLeaderEpoch: 0\tLogStartOffset: 0\tHighWatermark: 2\tLogEndOffset: 2\n",
		"", "topics", "--describe", "--topic", "third", "--verbose", "--offsets")
	c.want(t, "Topic: first\tTopicId: …\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: min.insync.replicas=1,retention.ms=60000,segment.bytes=2097152\n"+
		"Topic: third\tTopicId: …\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: min.insync.replicas=1\n",
		"", "topics", "--describe", "--topics-with-overrides")
	c.want(t, "", "", "topics", "--describe", "--under-replicated-partitions")
	c.want(t, "", "", "topics", "--describe", "--unavailable-partitions")
	c.want(t, "", "", "topics", "--describe", "--under-min-isr-partitions")
	c.want(t, "\tTopic: third\tPartition: 0\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: \n",
		"", "topics", "--describe", "--at-min-isr-partitions", "--topic", "third")
	c.want(t, "", "", "topics", "--describe", "--topic", "none", "--if-exists")
	c.want(t, "", "", "topics", "--alter", "--topic", "third", "--partitions", "3")
	c.want(t, "", "", "topics", "--delete", "--topic", "fir.*")
	c.want(t, "", "", "topics", "--delete", "--topic", "first", "--if-exists")
	c.want(t, "third\n", "", "topics", "--list")
	if _, out, _ := c.run("", "topics", "--describe", "--topic", "third", "--output", "json"); !strings.Contains(out, `"partitionCount": 3`) || !strings.Contains(out, `"elr": []`) {
		t.Errorf("JSON:\n%s", out)
	}

	c.fails(t, exitFailure, `topic "none" does not exist; `, "topics", "--describe", "--topic", "none")
	c.fails(t, exitFailure, `TOPIC_ALREADY_EXISTS`, "topics", "--create", "--topic", "third")
	c.fails(t, exitFailure, `INVALID_TOPIC_EXCEPTION`, "topics", "--create", "--topic", "a b")
	c.fails(t, exitFailure, `INVALID_PARTITIONS`, "topics", "--alter", "--topic", "third", "--partitions", "2")
	c.fails(t, exitFailure, "no topic has the id AAAAAAAAAAAAAAAAAAAAAA", "topics", "--describe", "--topic-id", "AAAAAAAAAAAAAAAAAAAAAA")
	c.fails(t, exitUsage, "want exactly one of --list, --describe", "topics")
	c.fails(t, exitUsage, "--list and --describe exclude each other", "topics", "--list", "--describe")
	c.fails(t, exitUsage, "--create needs --topic", "topics", "--create")
	c.fails(t, exitUsage, "--alter needs --partitions", "topics", "--alter", "--topic", "x")
	c.fails(t, exitUsage, "has to be greater than 0", "topics", "--create", "--topic", "x", "--partitions", "0")
	c.fails(t, exitUsage, "--if-exists goes with --alter or --delete or --describe, not with --create", "topics", "--create", "--topic", "x", "--if-exists")
	c.fails(t, exitUsage, "is not a regular expression", "topics", "--list", "--topic", "[")
	c.fails(t, exitUsage, "names broker 1 twice", "topics", "--create", "--topic", "x", "--replica-assignment", "1:1")
	c.fails(t, exitUsage, "another number of brokers", "topics", "--create", "--topic", "x", "--replica-assignment", "1,1:2")
	c.fails(t, exitUsage, "want key=value", "topics", "--create", "--topic", "x", "--config", "y")
}

// TestEveryToolHelps: each has an example, and each that asks a cluster says which address it tried and what to check.
// TestFormerFlags: scripts that were written for Kafka 0.8 to 2 run, and are told which of their flags mean nothing any more.
func TestFormerFlags(t *testing.T) {
	c := startCluster(t)
	c.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t", "--force")
	for _, line := range [][]string{
		{"console-producer", "--topic", "t", "--broker-list", c.address, "--old-producer", "--queue-size", "500", "--queue-enqueuetimeout-ms", "9",
			"--metadata-fetch-timeout-ms", "9", "--key-serializer", "k", "--value-serializer", "v", "--new-producer"},
		{"console-consumer", "--topic", "t", "--csv-reporter-enabled", "--metrics-dir", "/m", "--from-beginning", "--max-messages", "1"},
		{"get-offsets", "--topic", "t", "--time", "-1", "--offsets", "1", "--max-wait-ms", "1000"},
	} {
		code, _, errs := c.run("hello\n", line[0], line[1:]...)
		if code != exitOK || strings.Count(errs, "has no effect: it is of an older Kafka\n") < 2 {
			t.Errorf("%v: exit code %d\n%s", line, code, errs)
		}
	}
	c.want(t, "t:0:1\n", "", "get-offsets", "--topic", "t") // the producer did its work
	c.fails(t, exitUsage, "Try 'moldau get-offsets --help'.", "get-offsets", "--tpic", "t")
}

func TestEveryToolHelps(t *testing.T) {
	file := t.TempDir() + "/offsets.json"
	if err := os.WriteFile(file, []byte(`{"partitions":[{"topic":"t","partition":0,"offset":1}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	needs := map[string][]string{
		"topics": {"--list"}, "console-producer": {"--topic", "t"}, "console-consumer": {"--topic", "t"}, "configs": {"--describe", "--topic", "t"}, "log-dirs": {"--describe"},
		"cluster": {"cluster-id"}, "metadata-quorum": {"describe", "--status"}, "consumer-groups": {"--list"}, "groups": {"--list"}, "features": {"describe"}, "client-metrics": {"--list"},
		"producer-perf-test": {"--topic", "t", "--num-records", "1", "--record-size", "1"}, "consumer-perf-test": {"--topic", "t", "--num-records", "1"},
		"e2e-latency": {"--topic", "t", "--num-records", "1", "--record-size", "1"}, "verifiable-producer": {"--topic", "t"},
		"verifiable-consumer": {"--topic", "t", "--group-id", "g"}, "tail": {"t"}, "delete-records": {"--offset-json-file", file}, "get-offsets": {}, "broker-api-versions": {},
		"drain": {"1"}, "reassign-partitions": {"--list"}, "leader-election": {"--election-type", "preferred", "--all-topic-partitions"},
		"preferred-replica-election": {}, "simple-consumer-shell": {"--topic", "t"},
	}
	dead := &cluster{address: "127.0.0.1:1"}
	for _, cmd := range (&app{}).root().Commands() {
		if cmd.Example == "" && cmd.Name() != "help" && cmd.Name() != "completion" && cmd.Name() != "version" && !cmd.HasSubCommands() {
			t.Errorf("%s has no example", cmd.Name())
		}
		args, known := needs[cmd.Name()]
		if cmd.Flags().Lookup("bootstrap-server") == nil || cmd.Name() == "doctor" { // which reports instead
			continue
		}
		if !known {
			t.Errorf("%s is not in this test", cmd.Name())
			continue
		}
		code, out, errs := dead.run("", cmd.Name(), args...)
		if code != exitUnreachable || !strings.Contains(errs, "127.0.0.1:1: connection refused") || !strings.Contains(errs, "Check that") {
			t.Errorf("%s: exit code %d:\n%s%s", cmd.Name(), code, out, errs)
		}
	}
}
