package foreign

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// serviceStub takes the place of the one file that kafka-python's integration tests want and its source package lacks: what
// starts brokers. Ours runs already.
const serviceStub = `
class ExternalService:
    def __init__(self, host, port):
        self.host, self.port = host, port

    def open(self):
        pass

    def close(self):
        pass


class SpawnedService(ExternalService):
    pass
`

// askAgain mends a race of kafka-python 3.0.12 that two in ten of its tests lose on a busy machine: a topic that is subscribed to
// while a metadata request is under way is forgotten for five minutes, because ClusterMetadata.update_metadata clears the wish for
// an update that set_topics had just put there.
const askAgain = `from kafka.cluster import ClusterMetadata

metadata_request = ClusterMetadata.metadata_request
update_metadata = ClusterMetadata.update_metadata

def request_and_note(self):
    self.asked = (self.need_all_topic_metadata, set(self._topics))
    return metadata_request(self)

def update_and_ask_again(self, metadata):
    update_metadata(self, metadata)
    all_topics, topics = self.asked
    if not all_topics and (self.need_all_topic_metadata or self._topics - topics):
        self.request_update()

ClusterMetadata.metadata_request = request_and_note
ClusterMetadata.update_metadata = update_and_ask_again
`

// TestKafkaPython: kafka-python's integration tests, from its source package.
func TestKafkaPython(t *testing.T) {
	wanted(t)
	const suite, version = "kafka-python", "3.0.12"
	e := readExpectation(t, suite)
	python := harness.Python(t, "kafka-python=="+version, "pytest==9.2.0", "pytest-timeout==2.4.0", "py==1.11.0",
		"cramjam==2.14.0", "python-snappy==0.7.3", "lz4==4.4.5", "zstandard==0.25.0", "crc32c==2.9.post0")
	dir := t.TempDir()
	run := func(args ...string) {
		cmd := exec.Command(python, args...)
		cmd.Dir = dir
		if out, err := harness.Output(cmd, ""); err != nil {
			t.Fatalf("python %v: %v\n%s", args, err, out)
		}
	}
	run("-m", "pip", "-q", "--disable-pip-version-check", "download", "--no-deps", "--no-binary=:all:", "kafka-python=="+version)
	run("-m", "tarfile", "-e", "kafka_python-"+version+".tar.gz")
	root := filepath.Join(dir, "kafka_python-"+version)
	// Where they would look for Apache Kafka, and do not.
	if err := os.MkdirAll(filepath.Join(root, "servers/4.3/kafka-bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"test/__init__.py": "", "test/service.py": serviceStub, "test/conftest.py": askAgain} {
		if err := os.WriteFile(filepath.Join(root, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	// The tests expect what their own fixture would set.
	n := startNode0(t, "num.partitions=4", "group.min.session.timeout.ms=1000", "advertised.listeners=PLAINTEXT://ADDRESS")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	report := filepath.Join(dir, "report.xml")
	cmd := exec.CommandContext(ctx, python, "-m", "pytest", "test/integration", "--timeout=60", "--timeout-method=signal", "-o", "addopts=", "-q", "--junitxml="+report)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "KAFKA_URI=kafka://"+n.Addr, "KAFKA_VERSION=4.3")
	out, err := harness.Output(cmd, "")
	results, readErr := junitResults(dir)
	if readErr != nil || len(results) == 0 {
		t.Fatalf("no report: %v, %v\n%s", err, readErr, tail(out, 20000))
	}
	seen := make(map[string]bool)
	var groups []string
	for n := range results {
		if !seen[n.group] {
			seen[n.group] = true
			groups = append(groups, n.group)
		}
	}
	for group := range e.passes {
		if !seen[group] {
			groups = append(groups, group)
		}
	}
	e.check(t, suite, groups, results)
}

// startNode0 starts a node with the id 0, which suites take for granted, and extra properties, in which ADDRESS is where the
// node listens.
func startNode0(t *testing.T, extra ...string) *harness.Node {
	t.Helper()
	n := harness.Prepare(t, "offsets.topic.num.partitions=5", "group.initial.rebalance.delay.ms=0")
	f, err := os.OpenFile(n.Properties, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := append([]string{"node.id=0", "controller.quorum.voters=0@" + n.Controller}, extra...)
	_, err = fmt.Fprintln(f, strings.ReplaceAll(strings.Join(lines, "\n"), "ADDRESS", n.Addr))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	n.Run(t)
	return n
}
