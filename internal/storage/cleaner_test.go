package storage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

func cleanerOptions(fs vfs.FS) Options {
	o := options(fs, "/d")
	o.Cleaner = CleanerOptions{Threads: 2, Backoff: 10 * time.Second}
	return o
}

func openCompacted(t testing.TB, s *Store, topic string, n byte) *Log {
	t.Helper()
	c := commitlog.DefaultConfig()
	c.Compact, c.Delete, c.SegmentBytes, c.FileDeleteDelayMs = true, false, 1000, 60_000
	l, err := s.Open(tp(topic, 0), id(n), kafka.DirUnassigned, c)
	must(t, err)
	return l
}

// appendKeys appends n records of keys that repeat, and makes all that is not in the active segment compactable.
func appendKeys(t testing.TB, l *Log, n int) {
	t.Helper()
	for i := range n {
		bu := batch.NewBuilder(batch.BuildOptions{})
		bu.Add(batch.Record{Timestamp: time.Now().UnixMilli(), Key: fmt.Appendf(nil, "key %d", i%5), Value: make([]byte, 50)})
		_, err := l.Append(bu.Build(), commitlog.AppendOptions{LeaderEpoch: 1})
		must(t, err)
	}
	l.SetHighWatermark(l.LogEnd())
	must(t, l.AdvanceRecoveryPoint())
}

func activeBase(l *Log) kafka.Offset {
	segments := l.Segments()
	return segments[len(segments)-1].BaseOffset
}

func TestCleaner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		s := run(t, cleanerOptions(fs))
		l, other := openCompacted(t, s, "compacted", 1), open(t, s, "deleted", 2)
		appendKeys(t, l, 200)
		appendKeys(t, other, 200)
		before, active := l.Size(), activeBase(l)
		l.dir.space.full.Store(true) // what is left is for what must be written
		if found := s.dirs[0].cleaning.candidates(); len(found) > 0 {
			t.Fatalf("%d logs are to be compacted on a full disk", len(found))
		}
		l.dir.space.full.Store(false)
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if l.Size() > before/4 || other.Size() != before {
			t.Fatalf("%d bytes of %d are left, and of the other log %d", l.Size(), before, other.Size())
		}
		text, err := vfs.ReadFile(fs, "/d/cleaner-offset-checkpoint")
		must(t, err)
		if want := fmt.Sprintf("0\n1\ncompacted 0 %d\n", active); string(text) != want {
			t.Fatalf("cleaner-offset-checkpoint is %q, want %q", text, want)
		}
		deleted := func() (n int) {
			entries, err := fs.List("/d/compacted-0")
			must(t, err)
			for _, e := range entries {
				if strings.HasSuffix(e.Name, ".deleted") {
					n++
				}
			}
			return n
		}
		if deleted() == 0 {
			t.Fatal("the old segments are gone before file.delete.delay.ms")
		}
		time.Sleep(75 * time.Second)
		synctest.Wait()
		if n := deleted(); n != 0 {
			t.Fatalf("%d files of old segments are left", n)
		}
		must(t, s.Stop(true))

		s = run(t, cleanerOptions(fs))
		l = openCompacted(t, s, "compacted", 1)
		if got := l.dir.cleaned.offset(l.tp, -1); got != active {
			t.Fatalf("compacted below %d after a restart, want %d", got, active)
		}
		// A log that was cut is not compacted beyond the cut, and one of the same name is another.
		must(t, l.Truncate(50))
		if got := l.dir.cleaned.offset(l.tp, -1); got > l.LogEnd() {
			t.Fatalf("compacted below %d, the log ends at %d", got, l.LogEnd())
		}
		must(t, s.Delete(l))
		l = openCompacted(t, s, "compacted", 3)
		if got := l.dir.cleaned.offset(l.tp, -1); got != -1 {
			t.Fatalf("a new topic is compacted below %d", got)
		}
		must(t, s.Stop(true))
	})
}

// TestCleanerKeepsItsRate measures a compaction that is slowed down, and ends another one by a deletion and a stop.
func TestCleanerKeepsItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := cleanerOptions(vfs.NewMem())
		o.Cleaner.BytesPerSecond = 1000
		s := run(t, o)
		l := openCompacted(t, s, "slow", 1)
		appendKeys(t, l, 200)
		bytes := l.Size()
		// All is read twice, and a little is written.
		quickest := time.Duration(2*(bytes-1000)) * time.Second / 1000
		began := time.Now()
		for l.dir.cleaned.offset(l.tp, -1) < 0 {
			time.Sleep(time.Second)
		}
		if took := time.Since(began); took < quickest || took > 2*quickest+o.Cleaner.Backoff {
			t.Errorf("%d bytes took %v, at least %v are due", bytes, took, quickest)
		}
		gone, stays := openCompacted(t, s, "gone", 2), openCompacted(t, s, "stays", 3)
		appendKeys(t, gone, 3000)
		appendKeys(t, stays, 3000)
		time.Sleep(12 * time.Second)
		s.cleaner.mu.Lock()
		busy := len(s.cleaner.jobs)
		s.cleaner.mu.Unlock()
		if busy != 2 {
			t.Fatalf("%d compactions go on, want 2", busy)
		}
		began = time.Now()
		must(t, s.Delete(gone))
		if took := time.Since(began); took > time.Second {
			t.Errorf("the deletion waited for %v", took)
		}
		began = time.Now()
		must(t, s.Stop(true))
		if took := time.Since(began); took > time.Second {
			t.Errorf("the stop waited for %v", took)
		}
	})
}

// TestCleanerLeavesDamageAlone: a damaged batch takes its log out of compaction, and nothing else.
func TestCleanerLeavesDamageAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		s := run(t, cleanerOptions(fs))
		bad, good := openCompacted(t, s, "bad", 1), openCompacted(t, s, "good", 2)
		appendKeys(t, bad, 100)
		appendKeys(t, good, 100)
		f, err := fs.Open("/d/bad-0/00000000000000000000.log", vfs.Write)
		must(t, err)
		_, err = f.WriteAt([]byte("nonsense"), 300)
		must(t, err)
		must(t, f.Close())
		before := bad.Size()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		if bad.Size() != before || good.Size() >= before || !bad.dir.Online() || s.cleaner.metrics.broken.Load() != 1 {
			t.Fatalf("bad %d bytes, good %d of %d; directory online: %v; broken: %d", bad.Size(), good.Size(), before, bad.dir.Online(), s.cleaner.metrics.broken.Load())
		}
		appendKeys(t, bad, 1)
		must(t, s.Stop(true))
	})
}

// TestCleanedFileDamaged: what cannot be read costs a compaction, no start.
func TestCleanedFileDamaged(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, cleanerOptions(fs))
	must(t, s.Stop(true))
	must(t, vfs.WriteFileAtomic(fs, "/d/"+cleanedFile, []byte("0\n2\na 0 1\n")))
	s = run(t, cleanerOptions(fs))
	l := openCompacted(t, s, "a", 1)
	if got := l.dir.cleaned.offset(l.tp, -1); got != -1 {
		t.Fatalf("compacted below %d", got)
	}
	must(t, s.Stop(true))
}

// TestCleanerIsSetAnew: threads, pause and rate count at once, for a cleaner that did nothing and for one at work.
func TestCleanerIsSetAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := cleanerOptions(vfs.NewMem())
		o.Cleaner.Threads, o.Cleaner.Backoff = 0, time.Hour
		s := run(t, o)
		l := openCompacted(t, s, "compacted", 1)
		appendKeys(t, l, 200)
		before := l.Size()
		s.SetCleaner(CleanerOptions{Threads: 1, Backoff: time.Second, BytesPerSecond: 1})
		time.Sleep(time.Minute)
		synctest.Wait()
		if s.cleaner.idle(l) {
			t.Fatal("nobody works on the log after a minute at a byte a second")
		}
		s.SetCleaner(CleanerOptions{Threads: 1, Backoff: time.Second})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if l.Size() > before/4 || !s.cleaner.idle(l) {
			t.Fatalf("%d bytes of %d are left without a rate, and idle=%v", l.Size(), before, s.cleaner.idle(l))
		}
		s.SetCleaner(CleanerOptions{Threads: 0, Backoff: time.Second})
		appendKeys(t, l, 200)
		grown := l.Size()
		time.Sleep(time.Minute)
		synctest.Wait()
		if l.Size() != grown {
			t.Fatal("a log was compacted by no threads")
		}
		must(t, s.Stop(true))
	})
}

// TestEmptyCleanerCheckpoint: Apache Kafka begins with an empty file, which is no damage.
func TestEmptyCleanerCheckpoint(t *testing.T) {
	disk := vfs.NewMem()
	if err := errors.Join(disk.MkdirAll("/d"), vfs.WriteFileAtomic(disk, "/d/"+cleanedFile, nil)); err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	d := &Directory{path: "/d", o: &Options{FS: disk}, logger: slog.New(slog.NewTextHandler(&told, nil))}
	if _, err := openCleaned(d); err != nil || told.Len() > 0 {
		t.Errorf("%v: %s", err, told.String())
	}
}
