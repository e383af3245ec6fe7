package harness

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// ZooKeeper starts Apache ZooKeeper from the jars of a release of Kafka that needs it, and returns its address when it serves.
func (k *Kafka) ZooKeeper(t T) string {
	t.Helper()
	dir, port := t.TempDir(), FreePorts(t, 1)[0]
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	file := filepath.Join(dir, "zookeeper.properties")
	text := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n", filepath.Join(dir, "data"), port)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := k.CommandJVM(context.Background(), toolJVM(), "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
	log, done := &syncBuffer{}, make(chan struct{})
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Logf("log of Apache ZooKeeper:\n%s", tail(log.String(), 2000))
		}
	})
	for deadline := time.Now().Add(30 * time.Second); ; {
		if word(addr, "ruok") == "imok" {
			return addr
		}
		select {
		case <-done:
			t.Fatalf("Apache ZooKeeper ended:\n%s", log.String())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("Apache ZooKeeper does not serve:\n%s", log.String())
		}
	}
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
		kafka:      k,
		jvm:        toolJVM(),
	}
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
