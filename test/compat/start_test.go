package compat

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestStopAndStartAgain: SIGTERM is a clean stop with status 0, and a second start finds everything.
func TestStopAndStartAgain(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t)
	for _, line := range []string{"Kafka Server started", "Transitioning from RECOVERY to RUNNING"} {
		if !strings.Contains(n.Log(), line) {
			t.Errorf("the log lacks %q, which test harnesses wait for", line)
		}
	}
	runKcat(t, kcat, "kept\n", "-P", "-b", n.Addr, "-t", "again", "-p", "0")
	n.Stop(t)
	n.Run(t)
	if got := runKcat(t, kcat, "", "-C", "-b", n.Addr, "-t", "again", "-p", "0", "-e", "-q"); got != "kept\n" {
		t.Errorf("after the second start: %q", got)
	}
}

// TestTerminalGoes: SIGHUP, which a closed terminal sends, is a clean stop, too.
func TestTerminalGoes(t *testing.T) {
	if signal.Ignored(syscall.SIGHUP) {
		t.Skip("SIGHUP is ignored here, and so it is in what is started from here")
	}
	n := harness.Start(t)
	if err := syscall.Kill(n.Pid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-n.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the node runs on")
	}
	if n.Err() != nil || !strings.Contains(n.Log(), "shut down completed") {
		t.Errorf("ended with %v:\n%s", n.Err(), n.Log())
	}
}

// TestLogReaderGoes: a node whose log nobody reads any more goes on, and stops cleanly.
func TestLogReaderGoes(t *testing.T) {
	n := harness.Prepare(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	cmd := exec.Command(harness.Binary(t), "serve", n.Properties)
	cmd.Env, cmd.Stdout, cmd.Stderr = harness.Environment(), writer, writer
	if err := errors.Join(cmd.Start(), writer.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	harness.Eventually(t, 20*time.Second, "the node is ready", func() error { return harness.Answers("http://" + n.HTTP + "/readyz") })
	reader.Close()
	sendSignal(t, cmd.Process, syscall.SIGTERM) // which it tells its log
	if err := cmd.Wait(); err != nil {
		t.Errorf("the node ended with %v", err)
	}
}

// TestSecondProcessIsRefused: two processes never share a data directory.
func TestSecondProcessIsRefused(t *testing.T) {
	n := harness.Start(t)
	second := harness.Prepare(t, "log.dirs="+n.Dir)
	second.Spawn(t)
	select {
	case <-second.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the second process runs")
	}
	if second.Err() == nil || !strings.Contains(second.Log(), n.Dir) {
		t.Errorf("ended with %v:\n%s", second.Err(), second.Log())
	}
	if code, _ := n.Get(t, "/readyz"); code != 200 {
		t.Errorf("the first node is not ready any more: %d", code)
	}
}

// TestBusyPort: a listener that is taken is an error that names address and setting.
func TestBusyPort(t *testing.T) {
	n := harness.Prepare(t)
	ln, err := net.Listen("tcp", n.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	n.Spawn(t)
	select {
	case <-n.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("the node runs on a port that is taken")
	}
	if n.Err() == nil || !strings.Contains(n.Log(), n.Addr) || !strings.Contains(n.Log(), "listeners") {
		t.Errorf("ended with %v:\n%s", n.Err(), n.Log())
	}
}

// TestWrongSettings: every fault is told at once, with file, line, key, value and what is allowed.
func TestWrongSettings(t *testing.T) {
	n := harness.Prepare(t, "log.retention.hurs=5", "num.partitions=none", "log.segment.bytes=-7")
	n.Spawn(t)
	<-n.Done()
	for _, want := range []string{n.Properties, "log.retention.hurs", "log.retention.hours", "num.partitions", "none", "log.segment.bytes", "-7"} {
		if !strings.Contains(n.Log(), want) {
			t.Errorf("the message lacks %q:\n%s", want, n.Log())
		}
	}
}

// TestMetricsAndHealth: what is watched is there.
func TestMetricsAndHealth(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t)
	runKcat(t, kcat, "counted\n", "-P", "-b", n.Addr, "-t", "metered", "-p", "0", "-X", "acks=all")
	for _, path := range []string{"/livez", "/readyz", "/debug/pprof/goroutine?debug=1"} {
		if code, body := n.Get(t, path); code != 200 {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	_, body := n.Get(t, "/metrics")
	for _, want := range []string{`moldau_requests_total{api="Produce"} 1`, "moldau_request_seconds_bucket", "moldau_response_bytes_total", "process_resident_memory_bytes"} {
		if !strings.Contains(body, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
}

// TestDiskFull: a full disk refuses writes with KAFKA_STORAGE_ERROR, serves reads, and recovers without a restart.
func TestDiskFull(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	disk := smallDisk(t, 64<<20)
	n := harness.Start(t, "log.dirs="+filepath.Join(disk, "data"), "log.segment.bytes=4194304")
	runKcat(t, kcat, "before\n", "-P", "-b", n.Addr, "-t", "full", "-p", "0")
	ballast := filepath.Join(disk, "ballast")
	for round := range 3 {
		harness.FillUp(t, ballast)
		out := tryKcat(kcat, strings.Repeat("x", 500000)+"\n", "-P", "-b", n.Addr, "-t", "full", "-p", "0", "-X", "message.timeout.ms=3000")
		if !strings.Contains(out, "failed") {
			t.Fatalf("round %d: a produce to a full disk went through: %q", round, out)
		}
		if got := runKcat(t, kcat, "", "-C", "-b", n.Addr, "-t", "full", "-p", "0", "-o", "0", "-c", "1", "-q"); got != "before\n" {
			t.Errorf("round %d: read on a full disk: %q", round, got)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		deadline := time.Now().Add(20 * time.Second)
		for strings.Contains(tryKcat(kcat, "after\n", "-P", "-b", n.Addr, "-t", "full", "-p", "0", "-X", "message.timeout.ms=3000"), "failed") {
			if time.Now().After(deadline) {
				t.Fatalf("round %d: no writes 20 s after space came back", round)
			}
		}
	}
	n.Stop(t)
	n.Run(t)
	if got := runKcat(t, kcat, "", "-C", "-b", n.Addr, "-t", "full", "-p", "0", "-e", "-q"); !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after\n") {
		t.Errorf("after a restart: %d bytes", len(got))
	}
}

// TestScripts: Kafka's script names do what Kafka's do.
func TestScripts(t *testing.T) {
	n := harness.Prepare(t)
	run := func(script string, args ...string) string { return runScript(t, script, args...) }
	id := strings.TrimSpace(run("kafka-storage.sh", "random-uuid"))
	if len(id) != 22 {
		t.Fatalf("random-uuid: %q", id)
	}
	run("kafka-storage.sh", "format", "-t", id, "-c", n.Properties)
	text, err := os.ReadFile(filepath.Join(n.Dir, "meta.properties"))
	if err != nil || !strings.Contains(string(text), "cluster.id="+id) || !strings.Contains(string(text), "version=1") {
		t.Errorf("meta.properties: %v\n%s", err, text)
	}
	if out := run("kafka-storage.sh", "info", "-c", n.Properties); !strings.Contains(out, n.Dir) {
		t.Errorf("info: %s", out)
	}
	n.Run(t)
	if _, body := n.Get(t, "/readyz"); body == "" {
		t.Error("an empty answer of /readyz")
	}
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	if got := runKcat(t, kcat, "", "-L", "-b", n.Addr); !strings.Contains(got, "1 brokers") {
		t.Error(got)
	}
	n.Stop(t)
}
