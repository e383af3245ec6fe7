package compat

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestAnotherClusterAtTheSameAddress: a Java consumer whose broker's address has been given to another cluster is told so
// with REBOOTSTRAP_REQUIRED (KIP-1242), begins anew with its bootstrap servers (KIP-1102), and reads what is there.
func TestAnotherClusterAtTheSameAddress(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t)
	at := func(args ...string) []string { return append([]string{"--bootstrap-server", n.Addr}, args...) }
	mustOwnTool(t, "one\n", "console-producer", at("--topic", "orders")...)
	ctx, stop := context.WithCancel(context.Background())
	// Without a pause before it connects again: during one there is no node that it could ask, which is reason enough to begin anew too.
	cmd := kafka.Command(ctx, consoleConsumer, at("--topic", "orders", "--partition", "0", "--offset", "earliest",
		"--command-property", "reconnect.backoff.ms=0", "--command-property", "reconnect.backoff.max.ms=0")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(io.Reader(out)); s.Scan(); {
			lines <- s.Text()
		}
	}()
	defer func() {
		stop()
		for range lines {
		}
		_ = cmd.Wait()
	}()
	read := func(want string) {
		t.Helper()
		select {
		case got := <-lines:
			if got != want {
				t.Fatalf("the consumer reads %q, want %q", got, want)
			}
		case <-time.After(90 * time.Second):
			t.Fatalf("the consumer does not read %q", want)
		}
	}
	read("one")

	// The consumer sees nothing of what happens meanwhile: that nobody listens would be reason enough to begin anew (KIP-899), and at a
	// log that is still empty it would take offset 1 for out of range.
	sendSignal(t, cmd.Process, syscall.SIGSTOP)
	harness.Eventually(t, 30*time.Second, "the consumer stands still", func() error {
		if !harness.Halted(cmd.Process.Pid) {
			return errors.New("it runs")
		}
		return nil
	})
	n.Kill(t)
	if err := os.RemoveAll(n.Dir); err != nil {
		t.Fatal(err)
	}
	n.Run(t) // a cluster with another id, whose node has the same
	mustOwnTool(t, "another\ntwo\n", "console-producer", at("--topic", "orders")...)
	sendSignal(t, cmd.Process, syscall.SIGCONT)
	read("two") // at offset 1, where it was
	if want := "a client took this node for another"; !strings.Contains(n.Log(), want) {
		t.Errorf("the consumer was not told: there is no %q in\n%s", want, n.Log())
	}
}

func sendSignal(t *testing.T, p *os.Process, s syscall.Signal) {
	t.Helper()
	if err := p.Signal(s); err != nil {
		t.Fatalf("%v to process %d: %v", s, p.Pid, err)
	}
}
