package harness

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// BrokerJVM is the JVM of a broker as bin/kafka-server-start.sh sets it up. It is not that of Command, which suits tools
// that live for a second.
func BrokerJVM() []string { return append([]string{"-Xms1g", "-Xmx1g"}, performanceJVM()...) }

// ClientJVM is the JVM of a client as bin/kafka-producer-perf-test.sh and its like set it up.
func ClientJVM() []string { return append([]string{"-Xmx512m"}, performanceJVM()...) }

func performanceJVM() []string {
	return []string{"-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
		"-XX:+ExplicitGCInvokesConcurrent", "-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"}
}

// CommandJVM prepares a run of one of Kafka's classes in a JVM with the given options.
func (k *Kafka) CommandJVM(ctx context.Context, jvm []string, class string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, k.java, append(append(jvm[:len(jvm):len(jvm)], "-cp", k.classPath, class), args...)...)
	cmd.SysProcAttr = deathSignal()
	return cmd
}

// Broker is one process of Apache Kafka, broker and controller at once.
type Broker struct {
	Addr       string // "127.0.0.1:port"
	Controller string // the same of its controller's listener; "" for a release that needs ZooKeeper
	Dir        string // log.dirs
	Properties string // path of its server.properties
	server
}

// PrepareBroker writes the configuration of an Apache Kafka broker, with extra properties on top ("key=value"), and
// formats its data folder, but does not start it. What it does not set is Kafka's default.
func (k *Kafka) PrepareBroker(t T, extra ...string) *Broker {
	t.Helper()
	b := k.PrepareBrokers(t, 1, extra...)[0]
	b.jvm = BrokerJVM()
	return b
}

// PrepareBrokers does so for n brokers that are one cluster, each of them a voter, too. Their heaps begin at half of what
// one broker alone is given.
func (k *Kafka) PrepareBrokers(t T, n int, extra ...string) []*Broker {
	t.Helper()
	ports := FreePorts(t, 2*n)
	controller := func(i int) string { return fmt.Sprintf("127.0.0.1:%d", ports[n+i]) }
	var voters []string
	for i := range n {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, controller(i)))
	}
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		t.Fatal(err)
	}
	id[0] &= 0x7f // a leading "-" would look like a flag
	copies := min(n, 3)
	var all []*Broker
	for i := range n {
		dir := t.TempDir()
		b := &Broker{
			Addr:       fmt.Sprintf("127.0.0.1:%d", ports[i]),
			Controller: controller(i),
			Dir:        filepath.Join(dir, "data"),
			Properties: filepath.Join(dir, "server.properties"),
		}
		b.server = k.server("Apache Kafka at "+b.Addr, append([]string{"-Xms512m", "-Xmx1g"}, performanceJVM()...), "kafka.Kafka", b.Properties)
		var text bytes.Buffer
		fmt.Fprintf(&text, "process.roles=broker,controller\nnode.id=%d\nlisteners=PLAINTEXT://%s,CONTROLLER://%s\n", i+1, b.Addr, controller(i))
		fmt.Fprintf(&text, "controller.listener.names=CONTROLLER\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n")
		fmt.Fprintf(&text, "controller.quorum.voters=%s\nlog.dirs=%s\n", strings.Join(voters, ","), b.Dir)
		fmt.Fprintf(&text, "offsets.topic.replication.factor=%d\ntransaction.state.log.replication.factor=%[1]d\ntransaction.state.log.min.isr=1\n", copies)
		fmt.Fprintf(&text, "share.coordinator.state.topic.replication.factor=%d\nshare.coordinator.state.topic.min.isr=1\n", copies)
		for _, line := range extra {
			fmt.Fprintln(&text, line)
		}
		if err := os.WriteFile(b.Properties, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		k.Run(t, "", "kafka.tools.StorageTool", "format", "-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", b.Properties)
		all = append(all, b)
	}
	return all
}
