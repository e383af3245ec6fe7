package harness

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
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
	Dir        string // log.dirs
	Properties string // path of its server.properties

	kafka *Kafka
	jvm   []string
	cmd   *exec.Cmd
	log   *syncBuffer
	done  chan struct{}
	err   error // of the process, valid after done
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
			Dir:        filepath.Join(dir, "data"),
			Properties: filepath.Join(dir, "server.properties"),
			kafka:      k,
			jvm:        append([]string{"-Xms512m", "-Xmx1g"}, performanceJVM()...),
		}
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

// Spawn starts the process and does not wait until it serves; args may be "--override", "key=value" pairs.
func (b *Broker) Spawn(t T, args ...string) {
	t.Helper()
	cmd := b.kafka.CommandJVM(context.Background(), b.jvm, "kafka.Kafka", append([]string{b.Properties}, args...)...)
	b.log = &syncBuffer{}
	cmd.Stdout, cmd.Stderr = b.log, b.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b.cmd, b.done = cmd, make(chan struct{})
	done := b.done
	go func() {
		b.err = cmd.Wait()
		close(done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-done
		if t.Failed() {
			t.Logf("log of Apache Kafka at %s:\n%s", b.Addr, tail(b.log.String(), 8000))
		}
	})
}

// Stop sends SIGTERM and waits for a clean end.
func (b *Broker) Stop(t T) {
	t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("SIGTERM: %v", err)
	}
	select {
	case <-b.done:
	case <-time.After(60 * time.Second):
		t.Fatalf("Apache Kafka did not stop within 60 s of SIGTERM\n%s", tail(b.log.String(), 8000))
	}
}

// Kill ends the process as kill -9 does, if it has not ended by itself.
func (b *Broker) Kill(t T) {
	t.Helper()
	if err := b.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-b.done
}

// Pid is the process id of the running broker.
func (b *Broker) Pid() int { return b.cmd.Process.Pid }

// Done is closed when the process has ended; Err tells how.
func (b *Broker) Done() <-chan struct{} { return b.done }

// Err is how the process ended, nil for status 0; valid after Done.
func (b *Broker) Err() error { return b.err }

// Log is what the broker has printed since its last start.
func (b *Broker) Log() string { return b.log.String() }
