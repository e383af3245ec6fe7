package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

func verify(args ...string) (code int, stdout, stderr string) {
	var out, errs output
	a := &app{stdout: &out, stderr: &errs}
	code = a.run(append([]string{"verify-log"}, args...))
	return code, out.String(), errs.String()
}

// writeFolder writes a data directory with one partition of ten batches, two records each.
func writeFolder(t *testing.T) (dir, log string) {
	t.Helper()
	dir = t.TempDir()
	folder := filepath.Join(dir, "orders-0")
	var content []byte
	for i := range int64(10) {
		b := batch.NewBuilder(batch.BuildOptions{BaseOffset: 2 * i, LeaderEpoch: 1})
		b.Add(batch.Record{Timestamp: 1000 + i, Value: []byte("first")})
		b.Add(batch.Record{Timestamp: 1000 + i, Value: []byte("second")})
		content = append(content, b.Build()...)
	}
	log = filepath.Join(folder, "00000000000000000000.log")
	for path, text := range map[string]string{
		log: string(content), filepath.Join(folder, "00000000000000000000.index"): "", filepath.Join(folder, "00000000000000000000.timeindex"): "\x00\x00\x00\x00\x00\x00\x03\xf1\x00\x00\x00\x13",
		filepath.Join(folder, "leader-epoch-checkpoint"): "0\n1\n1 0\n", filepath.Join(dir, ".kafka_cleanshutdown"): "",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, log
}

func TestVerifyLog(t *testing.T) {
	dir, log := writeFolder(t)
	if code, stdout, stderr := verify(dir); code != exitOK || stdout != "4 files read, 0 damaged, 0 to be made anew\n" {
		t.Fatalf("of good files: %d %q %q", code, stdout, stderr)
	}
	content, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	size := len(content) / 10
	content[3*size+size-2] ^= 1 // in batch 3
	content[7*size+10] = 0x55   // the length of batch 7
	if err := os.WriteFile(log, content, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, arg := range []string{dir, filepath.Dir(log)} {
		code, stdout, stderr := verify(arg)
		if code != exitData || !strings.Contains(stdout, "damaged at offset 6: ") || !strings.Contains(stdout, "damaged at offset 14: ") ||
			!strings.Contains(stdout, "the next that can be read is 8") || !strings.Contains(stdout, "the next that can be read is 16") || !strings.Contains(stderr, "1 of 4 files") {
			t.Fatalf("%s: %d %q %q", arg, code, stdout, stderr)
		}
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(log), "leader-epoch-checkpoint"), []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, stdout, _ := verify("--output", "json", dir)
	var files []verifiedFile
	if err := json.Unmarshal([]byte(stdout), &files); err != nil || code != exitData || len(files) != 4 {
		t.Fatalf("%d %v %s", code, err, stdout)
	}
	for _, f := range files {
		switch filepath.Base(f.File) {
		case "00000000000000000000.log":
			if f.FirstDamaged == nil || *f.FirstDamaged != 6 || len(f.Damage) != 2 || f.Batches != 8 || f.DamagedBytes != int64(2*size) {
				t.Errorf("%+v", f)
			}
		case "leader-epoch-checkpoint":
			if f.Fault == "" {
				t.Errorf("%+v", f)
			}
		}
	}
}

// TestVerifyLogOfASpareSnapshot: what no start needs is named, and counts as nothing.
func TestVerifyLogOfASpareSnapshot(t *testing.T) {
	dir, log := writeFolder(t)
	older, newer := filepath.Join(filepath.Dir(log), "00000000000000000010.snapshot"), filepath.Join(filepath.Dir(log), "00000000000000000020.snapshot")
	whole := "\x00\x01\x48\x67\x4b\xc7\x00\x00\x00\x00" // of no producer
	for path, content := range map[string]string{older: "nonsense", newer: whole} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if code, stdout, stderr := verify(dir); code != exitOK || !strings.Contains(stdout, older+": ") || !strings.Contains(stdout, "does no harm") || !strings.HasSuffix(stdout, "6 files read, 0 damaged, 0 to be made anew\n") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	if err := os.WriteFile(newer, []byte("nonsense"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := verify(dir); code != exitData || strings.Contains(stdout, "does no harm") {
		t.Errorf("%d %q", code, stdout)
	}
}

// TestVerifyLogAfterACrash: a batch that was never written whole is no damage.
func TestVerifyLogAfterACrash(t *testing.T) {
	dir, log := writeFolder(t)
	content, err := os.ReadFile(log)
	if err == nil {
		err = os.WriteFile(log, content[:len(content)-5], 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := verify(dir); code != exitData || !strings.Contains(stdout, "damaged at offset 18") {
		t.Fatalf("after a clean stop: %d %q", code, stdout)
	}
	if err := os.Remove(filepath.Join(dir, ".kafka_cleanshutdown")); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := verify(dir); code != exitOK || !strings.Contains(stdout, "cuts them off") {
		t.Fatalf("after a crash: %d %q", code, stdout)
	}
}

func TestVerifyLogOfARunningNode(t *testing.T) {
	dir, _ := writeFolder(t)
	lock, err := vfs.NewOS().Lock(filepath.Join(dir, ".lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if code, _, stderr := verify(dir); code != exitData || !strings.Contains(stderr, "a node uses") {
		t.Fatalf("%d %q", code, stderr)
	}
	if code, stdout, stderr := verify("--running", dir); code != exitOK {
		t.Fatalf("%d %q %q", code, stdout, stderr)
	}
}

// TestVerifyLogOfSomethingElse: whoever names what is no directory of ours is told what it is.
func TestVerifyLogOfSomethingElse(t *testing.T) {
	_, log := writeFolder(t)
	empty := t.TempDir()
	for path, want := range map[string]string{
		empty: "holds no partition", log: "is a file: name the folder", filepath.Join(empty, "nowhere"): "nowhere: no such file or directory",
	} {
		if code, stdout, stderr := verify(path); code != exitUsage || stdout != "" || !strings.Contains(stderr, want) || strings.Count(stderr, path) != 1 {
			t.Errorf("%s: %d %q %q", path, code, stdout, stderr)
		}
	}
}

// TestVerifyLogOfABadDisk: a file that cannot be read is named, and the others are read.
func TestVerifyLogOfABadDisk(t *testing.T) {
	dir, log := writeFolder(t)
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(log, 0o755); err != nil { // opens, and gives an error when it is read
		t.Fatal(err)
	}
	code, stdout, stderr := verify(dir)
	if code != exitData || !strings.Contains(stdout, log+": cannot be read: is a directory\n") || !strings.Contains(stdout, log+": damaged at offset 0: ") ||
		!strings.Contains(stdout, "4 files read, 1 damaged, 0 to be made anew\n") || !strings.Contains(stderr, "1 of 4 files are damaged") {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
}
