package cli

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestPerfTools(t *testing.T) {
	c := startCluster(t)
	for _, run := range []struct {
		args []string
		want string
	}{
		{[]string{"producer-perf-test", "--topic", "p", "--num-records", "200", "--record-size", "50", "--throughput", "-1", "--producer-props", "acks=all", "linger.ms=1"},
			`^200 records sent, \d+\.\d{6} records/sec \(\d+\.\d\d MB/sec\), \d+\.\d\d ms avg latency, \d+\.00 ms max latency, \d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\.\n$`},
		{[]string{"producer-perf-test", "--topic", "p", "--num-records", "50", "--payload-monotonic", "--throughput", "1000", "--output", "json"}, `"records": 50,`},
		{[]string{"producer-perf-test", "--topic", "k", "--num-records", "20", "--record-size", "5", "--throughput", "-1", "--warmup-records", "5",
			"--key-distribution", "range", "--record-key-range", "3", "--random-seed", "7"},
			`^Warmup first 5 records\. .*\n20 records sent, .*\n15 steady state records sent, \d+\.\d{6} records/sec .* ms 99\.9th\.\n$`},
		{[]string{"consumer-perf-test", "--topic", "p", "--messages", "250"}, `^start\.time, end\.time, data.*\n\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}, .*, 250, \d+\.\d{4}, 0, \d+, \d+\.\d{4}, \d+\.\d{4}\n$`},
		{[]string{"consumer-perf-test", "--topic", "p", "--num-records", "250", "--group", "g", "--hide-header"}, `^2.*, 250, [\d., ]+\n$`},
		{[]string{"consumer-perf-test", "--topic", "p", "--num-records", "250", "--show-detailed-stats", "--reporting-interval", "1", "--output", "json"}, `"records": 250`},
	} {
		code, out, errs := c.run("", run.args[0], run.args[1:]...)
		if code != exitOK || !regexp.MustCompile(run.want).MatchString(out) {
			t.Errorf("%v: exit code %d, want %s:\n%s%s", run.args, code, run.want, out, errs)
		}
	}
	c.want(t, "p,0,250\n", "", "consumer-groups", "--reset-offsets", "--group", "g", "--all-topics", "--to-current", "--dry-run", "--export")
	if _, _, errs := c.run("", "consumer-perf-test", "--topic", "p", "--num-records", "251", "--timeout", "5000"); !strings.Contains(errs, "250 of 251 records came") {
		t.Error(errs)
	}
	if _, out, _ := c.run("", "console-consumer", "--topic", "k", "--from-beginning", "--max-messages", "5", "--formatter-property", "print.key=true",
		"--formatter-property", "print.value=false"); out != "0\n1\n2\n0\n1\n" {
		t.Errorf("keys:\n%s", out)
	}
	for _, bad := range []struct{ want, args string }{
		{"--warmup-records has to be below", "--warmup-records 5"}, {"want none, range or random", "--key-distribution x"},
		{"needs --record-key-range", "--key-distribution random"}, {"needs --key-distribution", "--record-key-range 3"}, {"--transaction-duration-ms", "--transaction-duration-ms 0"},
	} {
		c.fails(t, exitUsage, bad.want, "producer-perf-test", append([]string{"--topic", "p", "--num-records", "5", "--record-size", "1"}, strings.Fields(bad.args)...)...)
	}
	c.fails(t, exitUsage, "want exactly one of --record-size", "producer-perf-test", "--topic", "p", "--num-records", "5")
	c.fails(t, exitUsage, "--topic and --num-records are required", "producer-perf-test", "--topic", "p")
	c.fails(t, exitUsage, `"x" is neither a flag nor key=value`, "producer-perf-test", "--topic", "p", "x")
	c.fails(t, exitUsage, "want exactly one of --topic, --include", "consumer-perf-test")
}

func TestPayloadsOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values")
	if err := os.WriteFile(file, []byte("a\nb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	next, err := perfProduceFlags{payloadFile: file, delimiter: `\n`}.payloads()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool)
	for i := range int64(100) {
		seen[string(next(i))] = true
	}
	if len(seen) != 2 || !seen["a"] || !seen["b"] {
		t.Errorf("picked %v", seen)
	}
}

func TestPerfStatsKeepABoundedSample(t *testing.T) {
	s := newPerfStats(io.Discard, time.Hour, 0, nil)
	sent := time.Now().Add(-time.Second)
	for i := range int64(1_100_000) {
		s.done(i, sent, 1, nil)
	}
	if total := s.total(); len(s.all.latencies.kept) >= 500_000 || total.Records != 1_100_000 || total.P50 < 1000 || total.MaxMs < 1000 {
		t.Errorf("%d kept, %+v", len(s.all.latencies.kept), total)
	}
}
