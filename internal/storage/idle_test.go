package storage

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// disk counts what is asked of a memory disk.
type disk struct {
	*vfs.Inject
	mu   sync.Mutex
	seen map[vfs.OpKind]int
	open atomic.Int64 // descriptors of files
}

func newDisk(of *vfs.Mem) *disk {
	d := &disk{Inject: vfs.NewInject(of), seen: map[vfs.OpKind]int{}}
	d.Hook = func(op vfs.Op) error {
		d.mu.Lock()
		d.seen[op.Kind]++
		d.mu.Unlock()
		return nil
	}
	return d
}

// Open counts a descriptor from when it is there until it is closed.
func (d *disk) Open(path string, flag vfs.Flag) (vfs.File, error) {
	f, err := d.Inject.Open(path, flag)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &openFile{File: f, open: &d.open}, nil
}

type openFile struct {
	vfs.File
	open *atomic.Int64
}

func (f *openFile) Close() error {
	f.open.Add(-1)
	return f.File.Close()
}

// take returns how many operations there were since the last call, by kind and in all.
func (d *disk) take() (seen map[vfs.OpKind]int, all int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen, d.seen = d.seen, map[vfs.OpKind]int{}
	for _, n := range seen {
		all += n
	}
	return seen, all
}

// many opens so many partitions, as a node does at its start.
func many(t testing.TB, s *Store, n int) []*Log {
	t.Helper()
	logs := make([]*Log, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range logs {
		wg.Add(1)
		key := tp(fmt.Sprintf("t%d", i/100), int32(i%100))
		s.Run(key, func() {
			defer wg.Done()
			logs[i], errs[i] = s.Open(key, id(byte(i/100)), kafka.DirUnassigned, commitlog.DefaultConfig())
		})
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	return logs
}

// writeAll appends a record to each log and has all synced.
func writeAll(t testing.TB, logs []*Log) {
	t.Helper()
	watches := make([]*syncWatch, len(logs))
	for i, l := range logs {
		watches[i] = watchSync(l)
		appendTo(t, l, 1)
	}
	Hurry(logs...)
	for i, w := range watches {
		must(t, w.wait(logs[i].LogEnd()))
	}
}

// TestIdlePartitionsHoldNothing: partitions that nobody uses have no descriptor open and no goroutine, after they were written,
// after they were read, and after a start.
func TestIdlePartitionsHoldNothing(t *testing.T) {
	const partitions = 2000
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		fs := newDisk(mem)
		o := options(fs, "/a")
		o.RetentionInterval, o.ProducerInterval = 1000*time.Hour, 1000*time.Hour
		var s *Store
		var files int64
		var goroutines int
		begin := func() {
			s = run(t, o)
			synctest.Wait()
			files, goroutines = fs.open.Load(), runtime.NumGoroutine()
		}
		idle := func(after string) {
			t.Helper()
			time.Sleep(3 * idleFile)
			synctest.Wait()
			if n := fs.open.Load() - files; n > 1 { // the journal, which is made with the first partition
				t.Errorf("%s: %d partitions have %d descriptors open", after, partitions, n)
			}
			if n := runtime.NumGoroutine() - goroutines; n > 0 {
				t.Errorf("%s: %d partitions have %d goroutines", after, partitions, n)
			}
		}
		begin()
		logs := many(t, s, partitions)
		idle("made")
		writeAll(t, logs)
		idle("written")
		for _, l := range logs {
			r, err := l.Read(0, commitlog.ReadOptions{MaxBytes: 1000, UpTo: 1})
			must(t, err)
			_, err = r.Region.ReadAll()
			must(t, err)
			r.Region.Release()
		}
		idle("read")
		must(t, s.Stop(true))
		begin()
		many(t, s, partitions)
		idle("started")
		must(t, s.Stop(true))
	})
}

// TestStopOfManyPartitions: a clean stop waits for the disk as often as one of few partitions does.
func TestStopOfManyPartitions(t *testing.T) {
	const partitions = 500
	mem := vfs.NewMem()
	fs := newDisk(mem)
	s := run(t, options(fs, "/a"))
	logs := many(t, s, partitions)
	writeAll(t, logs)
	fs.take()
	must(t, s.Stop(true))
	seen, _ := fs.take()
	if syncs := seen[vfs.OpSync] + seen[vfs.OpSyncData] + seen[vfs.OpSyncDir] + seen[vfs.OpSyncFS]; syncs > 30 {
		t.Errorf("the stop of %d partitions took %d syncs: %v", partitions, syncs, seen)
	}
	s = run(t, options(fs, "/a"))
	for _, l := range many(t, s, partitions) {
		if l.LogEnd() != 1 || l.SyncedEnd() != 1 || l.RecoveryPoint() != 1 {
			t.Fatalf("%s ends at %d, is synced to %d, recovered to %d", l.tp, l.LogEnd(), l.SyncedEnd(), l.RecoveryPoint())
		}
	}
	if n := s.dirs[0].scanned.Load(); n != 0 {
		t.Errorf("%d bytes were scanned after a clean stop", n)
	}
	fs.take()
	must(t, s.Stop(true))
	if seen, all := fs.take(); all-seen[vfs.OpClose] > 50 {
		t.Errorf("the stop of %d partitions that nobody has used: %v", partitions, seen)
	}
}

// TestStartOfManyPartitions: a partition costs a start after a clean stop one operation, and one after a crash few.
func TestStartOfManyPartitions(t *testing.T) {
	const partitions = 500
	mem := vfs.NewMem()
	s := run(t, options(mem, "/a"))
	writeAll(t, many(t, s, partitions))
	must(t, s.Stop(true))
	start := func(how string, most float64) *Store {
		t.Helper()
		fs := newDisk(mem)
		s := run(t, options(fs, "/a"))
		fs.take()
		for _, l := range many(t, s, partitions) {
			if l.LogEnd() != 1 || l.SyncedEnd() != 1 {
				t.Fatalf("%s: %s ends at %d, is synced to %d", how, l.tp, l.LogEnd(), l.SyncedEnd())
			}
		}
		seen, all := fs.take()
		t.Logf("%s: %.1f operations per partition: %v", how, float64(all)/partitions, seen)
		if n := float64(all) / partitions; n > most {
			t.Errorf("%s: %.1f operations per partition, there may be %.1f: %v", how, n, most, seen)
		}
		return s
	}
	must(t, start("clean", 1.1).Stop(true))
	must(t, start("clean again", 1.1).Stop(true))
	must(t, mem.Remove("/a/"+closedFile))
	s = start("clean, without a file of summaries", 18.1)
	must(t, s.Stop(true))
	must(t, start("clean with another", 1.1).Stop(false))
	must(t, start("killed", 18.1).Stop(true))
}

// TestMakingManyPartitions: partitions without records are made without a sync of their own, also those whose descriptors are
// closed for others.
func TestMakingManyPartitions(t *testing.T) {
	const partitions = 500
	fs := newDisk(vfs.NewMem())
	o := options(fs, "/a")
	o.MaxOpenFiles = 100
	s := run(t, o)
	fs.take()
	logs := many(t, s, partitions)
	if seen, _ := fs.take(); seen[vfs.OpSyncData] > 20 {
		t.Errorf("the making of %d partitions: %v", partitions, seen)
	}
	// The limit is soft by the files that a running sync has pinned.
	if n := fs.open.Load(); n > 2*int64(o.MaxOpenFiles) {
		t.Errorf("%d descriptors are open, there may be %d and those that are being synced", n, o.MaxOpenFiles)
	}
	writeAll(t, logs)
	must(t, s.Stop(true))
}
