package storage

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// TestDamagedFiles (KAFKA-1758, -2012, -13603, -19407): whatever happens to one file that holds no records, the next start has
// all records of all partitions, each under its topic id. Only the identity of a directory cannot be made up: a start
// says so, and a missing one makes the directory a new one, which keeps what is in it.
func TestDamagedFiles(t *testing.T) {
	mem := vfs.NewMem()
	s := run(t, options(mem, "/a"))
	must(t, s.SetBrokerEpoch(5))
	want := map[string][]byte{}
	for i, topic := range []string{"orders", "other"} {
		c := commitlog.DefaultConfig()
		c.SegmentBytes = 300
		l, err := s.Open(tp(topic, 0), id(byte(i+1)), kafka.DirUnassigned, c)
		must(t, err)
		w := watchSync(l)
		for range 5 + 4*i {
			a := appendTo(t, l, 2)
			l.AppendDone()
			must(t, w.wait(a.Last+1))
			l.SetHighWatermark(a.Last + 1)
		}
		want[topic] = contentOf(t, l)
		if err := l.dir.cleaned.set(l.tp, 1); err != nil {
			t.Fatal(err)
		}
	}
	must(t, s.Stop(true))
	files := filesBelow(t, mem, "/a")
	damages := map[string]func(b []byte) []byte{
		"missing": nil,
		"empty":   func([]byte) []byte { return nil },
		"cut":     func(b []byte) []byte { return b[:len(b)/2] },
		"zeroed":  func(b []byte) []byte { return make([]byte, len(b)) },
		"garbled": func(b []byte) []byte {
			for i := range b {
				b[i] ^= byte(i*31 + 7)
			}
			return b
		},
	}
	tried := 0
	for _, path := range files {
		name := filepath.Base(path)
		if strings.HasSuffix(name, ".log") || name == lockFile || name == "moldau.reserve" {
			continue
		}
		original, err := vfs.ReadFile(mem, path)
		must(t, err)
		all := map[string]func(b []byte) []byte{"swapped": swapped(t, mem, path)}
		for damage, apply := range damages {
			all[damage] = apply
		}
		for damage, apply := range all {
			for _, clean := range []bool{true, false} {
				if name == cleanStopFile && !clean {
					continue
				}
				what := fmt.Sprintf("%s %s, clean=%v", path, damage, clean)
				disk := mem.KillClone()
				if !clean {
					must(t, disk.Remove(filepath.Join("/a", cleanStopFile)))
				}
				if apply == nil {
					must(t, disk.Remove(path))
				} else {
					rewrite(t, disk, path, apply(bytes.Clone(original)))
				}
				tried++
				checkDamaged(t, disk, name, want, what)
			}
		}
	}
	if tried < 100 {
		t.Fatalf("only %d damages were tried", tried)
	}
}

// checkDamaged starts twice on a disk.
func checkDamaged(t *testing.T, disk *vfs.Mem, name string, want map[string][]byte, what string) {
	t.Helper()
	for range 2 {
		s, err := OpenDirectories(options(disk, "/a"))
		if name == propertiesFile && err != nil {
			if !strings.Contains(err.Error(), "restore the file") {
				t.Fatalf("%s: %v", what, err)
			}
			return // it says what to do
		}
		must(t, err)
		must(t, s.Format("cluster"))
		if err := s.Start(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		known := func(p kafka.TopicPartition, topic kafka.TopicID) bool {
			return p.Topic == "orders" && topic == id(1) || p.Topic == "other" && topic == id(2)
		}
		if err := s.Strays(known); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		for i, topic := range []string{"orders", "other"} {
			l, err := s.Open(tp(topic, 0), id(byte(i+1)), kafka.DirUnassigned, commitlog.DefaultConfig())
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if got := contentOf(t, l); !bytes.Equal(got, want[topic]) {
				t.Fatalf("%s: %s holds %d bytes, want %d", what, topic, len(got), len(want[topic]))
			}
			if hw := l.StoredHighWatermark(); hw < l.LogStart() || hw > l.LogEnd() {
				t.Fatalf("%s: high watermark %d of [%d, %d)", what, hw, l.LogStart(), l.LogEnd())
			}
		}
		must(t, s.Stop(true))
	}
}

// contentOf returns the bytes of all batches of a log.
func contentOf(t *testing.T, l *Log) (all []byte) {
	t.Helper()
	for from := l.LogStart(); from < l.LogEnd(); {
		r, err := l.Read(from, commitlog.ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd(), AtLeastOne: true})
		must(t, err)
		b, err := r.Region.ReadAll()
		must(t, err)
		r.Region.Release()
		all, from = append(all, b...), r.NextOffset
	}
	return all
}

func filesBelow(t *testing.T, disk *vfs.Mem, dir string) (all []string) {
	t.Helper()
	entries, err := disk.List(dir)
	must(t, err)
	for _, e := range entries {
		if path := filepath.Join(dir, e.Name); e.Dir {
			all = append(all, filesBelow(t, disk, path)...)
		} else {
			all = append(all, path)
		}
	}
	return all
}

// swapped returns what makes a file that of the other partition, or of a checkpoint another one.
func swapped(t *testing.T, disk *vfs.Mem, path string) func([]byte) []byte {
	t.Helper()
	other := strings.NewReplacer("/orders-0/", "/other-0/", "/other-0/", "/orders-0/",
		checkpointFiles()[0], checkpointFiles()[2], checkpointFiles()[2], checkpointFiles()[0]).Replace(path)
	b, err := vfs.ReadFile(disk, other)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return func(own []byte) []byte {
		if b == nil {
			return own
		}
		return b
	}
}

func rewrite(t *testing.T, disk *vfs.Mem, path string, content []byte) {
	t.Helper()
	f, err := disk.Open(path, vfs.Create|vfs.Truncate)
	must(t, err)
	_, err = f.WriteAt(content, 0)
	must(t, err)
	must(t, f.Close())
}

// TestOneFlippedBit (Ganesan et al., FAST 2017): one bit of one file, wherever it is, costs at most the batch that it is
// in: no other record, no partition, no topic.
func TestOneFlippedBit(t *testing.T) {
	mem := vfs.NewMem()
	s := run(t, options(mem, "/a"))
	must(t, s.SetBrokerEpoch(5))
	c := commitlog.DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes = 300, 100
	const batches = 12
	l, err := s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, c)
	must(t, err)
	w := watchSync(l)
	for range batches {
		a := appendTo(t, l, 2)
		must(t, w.wait(a.Last+1))
		l.SetHighWatermark(a.Last + 1)
	}
	must(t, s.Stop(true))
	flips := 0
	for _, path := range filesBelow(t, mem, "/a") {
		if filepath.Base(path) == "moldau.reserve" {
			continue // 16 MiB of nothing
		}
		content, err := vfs.ReadFile(mem, path)
		must(t, err)
		step := 7
		if len(content) > 4096 {
			step = 512
		}
		for at := 3; at < len(content); at += step {
			for _, clean := range []bool{true, false} {
				disk := mem.KillClone()
				if !clean {
					must(t, disk.Remove(filepath.Join("/a", cleanStopFile)))
					if filepath.Base(path) == cleanStopFile {
						continue
					}
				}
				b := bytes.Clone(content)
				b[at] ^= 0x20
				rewrite(t, disk, path, b)
				flips++
				if lost, refused := readableBatches(t, disk, batches); lost > 1 || lost == 1 && !strings.HasSuffix(path, ".log") || refused && filepath.Base(path) != propertiesFile {
					t.Errorf("byte %d of %s, clean=%v: %d of %d batches are lost, refused %v", at, path, clean, lost, batches, refused)
				}
			}
		}
	}
	t.Logf("%d bits flipped", flips)
}

// readableBatches starts on a disk and returns how many batches of two records cannot be read, or that the start refuses.
func readableBatches(t *testing.T, disk *vfs.Mem, batches int64) (lost int64, refused bool) {
	t.Helper()
	s, err := OpenDirectories(options(disk, "/a"))
	if err != nil {
		return 0, true
	}
	defer func() { must(t, s.Stop(false)) }()
	if err := errors.Join(s.Format("cluster"), s.Start()); err != nil {
		return 0, true
	}
	l, err := s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, commitlog.DefaultConfig())
	must(t, err)
	for b := range batches {
		r, err := l.Read(2*b, commitlog.ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd(), AtLeastOne: true})
		if err != nil || r.Region == nil || r.FirstBatchOffset != 2*b {
			lost++
		}
		if r.Region != nil {
			r.Region.Release()
		}
	}
	return lost, false
}

// TestTopicIDIsWrittenAgain: a partition.metadata that is lost, garbled or another's is written anew while the journal still knows
// better: a later start without a journal would believe it, or set the folder aside.
func TestTopicIDIsWrittenAgain(t *testing.T) {
	for name, content := range map[string]string{
		"missing": "", "garbled": "xyz", "of another version": "version: 8\ntopic_id: " + id(1).String(), "another's": "version: 0\ntopic_id: " + id(2).String(),
	} {
		for _, clean := range []bool{true, false} {
			mem := vfs.NewMem()
			s := run(t, options(mem, "/a"))
			l := open(t, s, "orders", 1)
			w := watchSync(l)
			appendTo(t, l, 1)
			must(t, w.wait(1))
			must(t, s.Stop(true))
			path := "/a/orders-0/partition.metadata"
			if content == "" {
				must(t, mem.Remove(path))
			} else {
				must(t, vfs.WriteFileAtomic(mem, path, []byte(content)))
			}
			s = run(t, options(mem, "/a"))
			open(t, s, "orders", 1)
			must(t, s.Stop(clean))
			must(t, mem.Remove("/a/"+journalFile))
			s = run(t, options(mem, "/a"))
			must(t, s.Strays(func(_ kafka.TopicPartition, known kafka.TopicID) bool { return known == id(1) }))
			if l := open(t, s, "orders", 1); l.LogEnd() != 1 {
				t.Errorf("%s: the log ends at %d", name, l.LogEnd())
			}
			must(t, s.Stop(true))
		}
	}
}
