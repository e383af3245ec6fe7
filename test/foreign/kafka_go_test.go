package foreign

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"moldau/test/harness"
)

// ownLoopback runs a node and then a command, which it is given, on a loopback that nobody else has, so that a suite can have
// the ports that are written in its code. It ends as the command does.
const ownLoopback = `
ip link set lo up || exit 1
"$MOLDAU_BINARY" serve "$MOLDAU_PROPERTIES" >"$MOLDAU_LOG" 2>&1 &
node=$!
trap 'kill $node; wait $node' EXIT
until (echo >/dev/tcp/localhost/9092) 2>/dev/null; do
  kill -0 $node || exit 1
  sleep 0.05
done
"$@"
`

// TestKafkaGo: the tests of segmentio/kafka-go's package, whose address is localhost:9092.
func TestKafkaGo(t *testing.T) {
	wantedAll(t)
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		harness.Missing(t, "the suite wants port 9092, and only root on Linux can give it one of its own")
	}
	const suite = "kafka-go"
	e := readExpectation(t, suite)
	bash := harness.Tool(t, "bash", "install bash")
	unshare := harness.Tool(t, "unshare", "install util-linux")
	dir := t.TempDir()
	properties := filepath.Join(dir, "server.properties")
	text := "process.roles=broker,controller\nnode.id=1\nlisteners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9099\n" +
		"controller.listener.names=CONTROLLER\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n" +
		"controller.quorum.voters=1@localhost:9099\nhttp.listeners=http://localhost:9098\nlog.dirs=" + filepath.Join(dir, "data") + "\n" +
		"offsets.topic.num.partitions=5\ngroup.initial.rebalance.delay.ms=0\nmessage.max.bytes=200000000\n"
	if err := os.WriteFile(properties, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	t.Cleanup(func() {
		if node, err := os.ReadFile(log); t.Failed() && err == nil {
			t.Logf("the node's log ends with\n%s", tail(string(node), 8000))
		}
	})
	results := goSuite{
		dir:     "../compat/goclients", // requires it
		pkg:     "github.com/segmentio/kafka-go",
		skip:    either(e.leaveOut()),
		env:     []string{"KAFKA_SKIP_NETTEST=1", "KAFKA_VERSION=4.0.0", "MOLDAU_BINARY=" + harness.Binary(t), "MOLDAU_PROPERTIES=" + properties, "MOLDAU_LOG=" + log},
		timeout: 15 * time.Minute,
	}.results(t, "kafka-go", unshare, "--net", bash, "-c", ownLoopback, "bash")
	e.check(t, suite, []string{"kafka-go"}, results)
}
