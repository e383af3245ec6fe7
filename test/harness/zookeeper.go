package harness

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ZooKeeper is one process of Apache ZooKeeper.
type ZooKeeper struct {
	Addr string // "127.0.0.1:port"
	Dir  string // dataDir
	server
}

// PrepareZooKeeper writes the configuration of an Apache ZooKeeper, whose jars are those of a release of Kafka that needs it, and
// does not start it. Its JVM is that of bin/zookeeper-server-start.sh.
func (k *Kafka) PrepareZooKeeper(t T) *ZooKeeper {
	t.Helper()
	dir, port := t.TempDir(), FreePorts(t, 1)[0]
	z := &ZooKeeper{Addr: fmt.Sprintf("127.0.0.1:%d", port), Dir: filepath.Join(dir, "data")}
	file := filepath.Join(dir, "zookeeper.properties")
	text := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n", z.Dir, port)
	if err := os.Mkdir(z.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	z.server = k.server("Apache ZooKeeper at "+z.Addr, append([]string{"-Xms512m", "-Xmx512m"}, performanceJVM()...), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	return z
}

// ZooKeeper starts Apache ZooKeeper and returns its address when it serves.
func (k *Kafka) ZooKeeper(t T) string {
	t.Helper()
	z := k.PrepareZooKeeper(t)
	z.jvm = toolJVM()
	z.Spawn(t)
	for deadline := time.Now().Add(2 * time.Minute); word(z.Addr, "ruok") != "imok"; {
		select {
		case <-z.Done():
			t.Fatalf("Apache ZooKeeper ended:\n%s", z.Log())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("Apache ZooKeeper does not serve:\n%s", z.Log())
		}
	}
	return z.Addr
}

// word sends one of ZooKeeper's four-letter words and returns the answer, or nothing.
func word(addr, word string) string {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return ""
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := io.WriteString(conn, word); err != nil {
		return ""
	}
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

func toolJVM() []string {
	return []string{"-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true"}
}

// PrepareOldBroker writes the configuration of a broker of a release that needs ZooKeeper, with extra properties on top
// ("key=value"), but does not start it.
func (k *Kafka) PrepareOldBroker(t T, zookeeper string, id int, extra ...string) *Broker {
	t.Helper()
	dir := t.TempDir()
	b := &Broker{
		Addr:       fmt.Sprintf("127.0.0.1:%d", FreePorts(t, 1)[0]),
		Dir:        filepath.Join(dir, "data"),
		Properties: filepath.Join(dir, "server.properties"),
	}
	b.server = k.server("Apache Kafka at "+b.Addr, toolJVM(), "kafka.Kafka", b.Properties)
	var text bytes.Buffer
	fmt.Fprintf(&text, "broker.id=%d\nlisteners=PLAINTEXT://%s\nlog.dirs=%s\nzookeeper.connect=%s\n", id, b.Addr, b.Dir, zookeeper)
	fmt.Fprintf(&text, "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=3\ntransaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n")
	for _, line := range extra {
		fmt.Fprintln(&text, line)
	}
	if err := os.WriteFile(b.Properties, text.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return b
}
