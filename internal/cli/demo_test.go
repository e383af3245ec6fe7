package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// demoPort finds a port from which a demo of three nodes finds all the others free.
func demoPort(t *testing.T) int {
	t.Helper()
search:
	for range 50 {
		port, ok := harness.HoldPort(t, 0)
		if !ok || port > 65000 {
			continue
		}
		for node := range 3 {
			for offset := range 3 {
				if _, ok := harness.HoldPort(t, port+100*node+offset); !ok && node+offset > 0 {
					continue search
				}
			}
		}
		return port
	}
	t.Fatal("no nine ports are free at the distance that a demo wants")
	return 0
}

// TestDemo does what the demo's screen proposes, ends it by Ctrl-C, and finds everything again with --dir.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("three nodes take seconds")
	}
	port, dir := demoPort(t), t.TempDir()
	brokers := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d", port, port+100, port+200)
	c := &cluster{address: brokers}
	for round := range 2 {
		var out, errs output
		signals := make(chan os.Signal, 2)
		a := &app{program: "moldau", stdin: strings.NewReader(""), stdout: &out, stderr: &errs, signals: signals}
		code := make(chan int, 1)
		go func() { code <- a.run([]string{"demo", "--nodes", "3", "--port", strconv.Itoa(port), "--dir", dir}) }()
		for deadline := time.After(time.Minute); !strings.Contains(out.String(), "Ctrl-C stops all nodes."); {
			select {
			case got := <-code:
				t.Fatalf("exit code %d: %s%s", got, out.String(), errs.String())
			case <-deadline:
				t.Fatalf("not ready: %s%s", out.String(), errs.String())
			case <-time.After(10 * time.Millisecond):
			}
		}
		if !strings.Contains(out.String(), "topics --bootstrap-server "+brokers+" --create") {
			t.Errorf("the screen says:\n%s", out.String())
		}
		if round == 0 {
			c.want(t, "Created topic greetings.\n", "", "topics", "--create", "--topic", "greetings", "--partitions", "3")
			if code, _, errs := c.run("hello\n", "console-producer", "--topic", "greetings"); code != exitOK {
				t.Errorf("console-producer: %s", errs)
			}
		}
		c.want(t, "hello\n", "", "console-consumer", "--topic", "greetings", "--from-beginning", "--max-messages", "1")
		code2, described, _ := c.run("", "topics", "--describe", "--topic", "greetings")
		if code2 != exitOK || strings.Count(described, "\tReplicas: ") != 3 || !strings.Contains(described, "ReplicationFactor: 3") {
			t.Errorf("topics --describe: exit code %d\n%s", code2, described)
		}
		signals <- os.Interrupt
		if got := <-code; got != exitOK {
			t.Errorf("exit code %d after Ctrl-C: %s", got, errs.String())
		}
		if text := out.String(); strings.Contains(text, "WARN") || strings.Contains(text, "ERROR") {
			t.Errorf("an ordinary life of a demo warns:\n%s", text)
		}
	}
	for id := range 3 {
		if _, err := os.Stat(filepath.Join(dir, strconv.Itoa(id+1), "meta.properties")); err != nil {
			t.Error(err)
		}
	}
}

// TestDemoRefusals: what is in the way of a demo is told with what to type against it, --dir included.
func TestDemoRefusals(t *testing.T) {
	dir := t.TempDir()
	try := func(want int, args ...string) string {
		t.Helper()
		var out, errs output
		a := &app{program: "moldau", stdin: strings.NewReader(""), stdout: &out, stderr: &errs, signals: make(chan os.Signal)}
		if code := a.run(append([]string{"demo", "--dir", dir}, args...)); code != want {
			t.Errorf("exit code %d of demo %v\n%s%s", code, args, out.String(), errs.String())
		}
		return errs.String()
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	says := try(exitBind, "--nodes", "2", "--port", strconv.Itoa(port-100)) // the second broker's
	suggested := fmt.Sprintf("moldau demo --nodes 2 --dir %s --port ", dir)
	if !strings.Contains(says, suggested) || strings.Contains(says, suggested+strconv.Itoa(port-100)+"\n") {
		t.Errorf("a port is taken:\n%s", says)
	}
	if err := os.MkdirAll(filepath.Join(dir, "5"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "5", metaProperties), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if says := try(exitUsage, "--nodes", "3"); !strings.Contains(says, "add --nodes 5") {
		t.Errorf("two of five nodes are left out:\n%s", says)
	}
}
