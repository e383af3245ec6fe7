package cli

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/config"
	"moldau/internal/node"
)

// dumped runs dump-log.
func dumped(args ...string) (code int, stdout, stderr string) {
	var out, errs output
	a := &app{stdout: &out, stderr: &errs}
	code = a.run(append([]string{"dump-log"}, args...))
	return code, out.String(), errs.String()
}

// writeLog writes a log of two batches and says what a dump of it has to be.
func writeLog(t *testing.T) (path string, lines []string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "00000000000000000005.log")
	first := batch.NewBuilder(batch.BuildOptions{BaseOffset: 5, LeaderEpoch: 2, Codec: batch.Gzip})
	first.Add(batch.Record{Timestamp: 1000, Key: []byte("k"), Value: []byte("v"), Headers: []batch.Header{{Key: "a"}, {Key: "b", Value: []byte("x")}}})
	first.Add(batch.Record{Timestamp: 1001})
	marker := batch.EndTxnMarker{CoordinatorEpoch: 9}
	second := batch.NewBuilder(batch.BuildOptions{BaseOffset: 8, LeaderEpoch: 2, Producer: &batch.Producer{ID: 7, Epoch: 1, BaseSequence: -1}, Transactional: true, Control: true})
	second.Add(batch.Record{Timestamp: 2000, Key: batch.ControlCommit.Key(), Value: marker.AppendTo(nil)})
	if err := os.WriteFile(path, append(first.Build(), second.Build()...), 0o644); err != nil {
		t.Fatal(err)
	}
	return path, []string{
		"Dumping " + path,
		"Log starting offset: 5",
		"baseOffset: 5 lastOffset: 6 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 2 isTransactional: false " +
			"isControl: false deleteHorizonMs: OptionalLong.empty position: 0 CreateTime: 1001 size: … magic: 2 compresscodec: gzip crc: … isvalid: true",
		"| offset: 5 CreateTime: 1000 keySize: 1 valueSize: 1 sequence: -1 headerKeys: [a,b] key: k payload: v",
		"| offset: 6 CreateTime: 1001 keySize: -1 valueSize: -1 sequence: -1 headerKeys: []",
		"baseOffset: 8 lastOffset: 8 count: 1 baseSequence: -1 lastSequence: -1 producerId: 7 producerEpoch: 1 partitionLeaderEpoch: 2 isTransactional: true " +
			"isControl: true deleteHorizonMs: OptionalLong.empty position: … CreateTime: 2000 size: … magic: 2 compresscodec: none crc: … isvalid: true",
		"| offset: 8 CreateTime: 2000 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 9",
	}
}

func TestDumpLog(t *testing.T) {
	path, lines := writeLog(t)
	code, out, errs := dumped("--files", path, "--print-data-log")
	out = regexp.MustCompile(`(size|crc|position): [1-9]\d*`).ReplaceAllString(out, "$1: …")
	if want := strings.Join(lines, "\n") + "\n"; out != want {
		t.Errorf("got:\n%s\nwant:\n%s", out, want)
	}
	if code != exitData || !strings.Contains(errs, "6 is followed by 8") {
		t.Errorf("a gap: exit code %d: %s", code, errs)
	}
	code, out, _ = dumped("--files", path)
	if code != exitOK || strings.Contains(out, "|") || strings.Count(out, "baseOffset") != 2 {
		t.Errorf("shallow: exit code %d:\n%s", code, out)
	}
	if _, out, _ := dumped("--files", path, "--print-data-log", "--skip-record-metadata"); !strings.Contains(out, "\n| key: k payload: v\n") {
		t.Errorf("--skip-record-metadata:\n%s", out)
	}
	if _, out, _ := dumped("--files", path, "--max-bytes", "130"); strings.Count(out, "baseOffset") != 1 || strings.Contains(out, "invalid") {
		t.Errorf("--max-bytes:\n%s", out)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	whole[len(whole)-1] ^= 1
	if err := os.WriteFile(path, append(whole, 1, 2, 3), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := dumped("--files", path); !strings.Contains(out, "isvalid: false") || !strings.Contains(out, "Found 3 invalid bytes at the end of 00000000000000000005.log") {
		t.Errorf("damaged:\n%s", out)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "--files is required"}, {[]string{"--files", path + ".none"}, exitUsage, "not a file that can be shown"},
		{[]string{"--files", filepath.Dir(path) + "/1.log"}, exitData, "no such file"},
	} {
		if code, _, errs := dumped(c.args...); code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%v: exit code %d: %s", c.args, code, errs)
		}
	}
}

// TestDumpForPrograms: an object a line, with the bytes that are no text, and nothing for people among them.
func TestDumpForPrograms(t *testing.T) {
	path, _ := writeLog(t)
	bytes := batch.NewBuilder(batch.BuildOptions{BaseOffset: 9, LeaderEpoch: 2, Codec: batch.None})
	bytes.Add(batch.Record{Timestamp: 3000, Key: []byte{0xff}, Value: []byte(`"q"`)})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(append(whole, bytes.Build()...), 1, 2, 3), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := dumped("--files", path, "--print-data-log", "--output", "json")
	if code != exitData || !strings.Contains(errs, "6 is followed by 8") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	var kinds []string
	for line := range strings.Lines(out) {
		var thing struct{ File, Kind string }
		if err := json.Unmarshal([]byte(line), &thing); err != nil || thing.File != path {
			t.Errorf("%q: %v", line, err)
		}
		kinds = append(kinds, thing.Kind)
	}
	if got := strings.Join(kinds, " "); got != "batch record record batch record batch record end" {
		t.Error(got)
	}
	for _, want := range []string{
		`"baseOffset":5,"lastOffset":6,"count":2,`, `"deleteHorizonMs":null,"position":0,"timestampType":"CreateTime","maxTimestamp":1001,`, `"compressionCodec":"gzip",`,
		`"headers":[{"key":"a","value":null},{"key":"b","value":"x"}],"key":"k","value":"v"}`, `"headers":[],"key":null,"value":null}`,
		`"control":"endTxnMarker: COMMIT coordinatorEpoch: 9"}`, `"key":{"base64":"/w=="},"value":"\"q\""}`, `"invalidBytes":3}`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("lacks %s:\n%s", want, out)
		}
	}
	if code, _, errs := dumped("--files", path, "--output", "xml"); code != exitUsage || !strings.Contains(errs, "--output xml: want text or json") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// What a node wrote is in order, and a bent index is told.
func TestDumpIndexesOfANode(t *testing.T) {
	dir := t.TempDir()
	c, _, err := config.Load(config.Source{File: "test", Text: []byte("process.roles=broker,controller\nnode.id=1\n" +
		"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0\ncontroller.listener.names=CONTROLLER\n" +
		"http.listeners=http://127.0.0.1:0\nlog.dirs=" + dir + "\nlog.index.interval.bytes=100\n")})
	if err != nil {
		t.Fatal(err)
	}
	n, err := node.Build(node.Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	tools := &cluster{address: n.Addresses()[0].Bound}
	tools.want(t, "Created topic t.\n", "", "topics", "--create", "--topic", "t")
	tools.want(t, "", strings.Repeat("a line of fifty bytes or so, to fill an index with\n", 20), "console-producer", "--topic", "t", "--sync")
	if err := n.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	at := func(ending string) string { return filepath.Join(dir, "t-0", "00000000000000000000"+ending) }
	for ending, want := range map[string]string{".index": `\noffset: \d+ position: \d+\n`, ".timeindex": `\ntimestamp: \d+ offset: \d+\n`} {
		if code, out, errs := dumped("--files", at(ending)); code != exitOK || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("%s: exit code %d:\n%s%s", ending, code, out, errs)
		}
		if code, out, errs := dumped("--files", at(ending), "--output", "json"); code != exitOK || !regexp.MustCompile(`"kind":"(index","offset":\d+,"position"|timeindex","timestamp":\d+,"offset"):\d+}\n`).MatchString(out) {
			t.Errorf("%s: exit code %d:\n%s%s", ending, code, out, errs)
		}
		if code, out, errs := dumped("--files", at(ending), "--verify-index-only"); code != exitOK || strings.Contains(out, "position") {
			t.Errorf("%s: exit code %d:\n%s%s", ending, code, out, errs)
		}
		if code, out, errs := dumped("--files", at(ending), "--index-sanity-check"); code != exitOK || !strings.Contains(out, "passed sanity check.") {
			t.Errorf("%s: exit code %d:\n%s%s", ending, code, out, errs)
		}
	}
	snapshots, err := filepath.Glob(filepath.Join(dir, "t-0", "*.snapshot"))
	if err != nil || len(snapshots) == 0 {
		t.Fatal("no snapshot", err)
	}
	if code, out, errs := dumped("--files", snapshots[len(snapshots)-1]); code != exitOK || !regexp.MustCompile(`producerId: \d+ producerEpoch: 0 coordinatorEpoch: -1 `+
		`currentTxnFirstOffset: OptionalLong.empty lastTimestamp: \d{13} firstSequence: \d+ lastSequence: 19 lastOffset: 19 offsetDelta: \d+ timestamp: \d{13}\n`).MatchString(out) {
		t.Errorf("snapshot: exit code %d:\n%s%s", code, out, errs)
	}
	if code, out, errs := dumped("--files", snapshots[len(snapshots)-1], "--output", "json"); code != exitOK || !regexp.MustCompile(`"currentTxnFirstOffset":null,.*"lastSequence":19,"lastOffset":19,`).MatchString(out) {
		t.Errorf("snapshot: exit code %d:\n%s%s", code, out, errs)
	}
	metadata := filepath.Join(dir, "__cluster_metadata-0", "00000000000000000000.log")
	if code, out, errs := dumped("--files", metadata, "--cluster-metadata-decoder", "--output", "json"); code != exitOK || !strings.Contains(out, `"key":null,"value":{"type":"TOPIC_RECORD",`) {
		t.Errorf("metadata: exit code %d:\n%s%s", code, out, errs)
	}
	index, err := os.ReadFile(at(".index"))
	if err != nil {
		t.Fatal(err)
	}
	index[3]++
	if err := os.WriteFile(at(".index"), index, 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := dumped("--files", at(".index"), "--verify-index-only"); code != exitData || !strings.Contains(errs, "Mismatches in "+at(".index")) {
		t.Errorf("a bent index: exit code %d: %s", code, errs)
	}
}
