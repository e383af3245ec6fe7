package commitlog

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// TestConcurrentUse appends, reads, syncs, looks up times, retains and describes at once, with few descriptors. Readers
// check that what they get is whole and of the offsets they asked for.
func TestConcurrentUse(t *testing.T) {
	c := smallConfig()
	c.RetentionMs, c.RetentionBytes = -1, 5000
	var ms atomic.Int64
	ms.Store(startMs)
	mem := vfs.NewMem()
	o := testOptions(mem, c)
	o.Now = func() time.Time { return time.UnixMilli(ms.Load()) }
	o.Files = NewFiles(mem, 5)
	l, _ := mustOpen(t, o)
	var busy sync.WaitGroup
	stop := make(chan struct{})
	during := func(f func()) {
		busy.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					f()
				}
			}
		})
	}
	fatal := func(what string, err error) {
		if err != nil && !errors.Is(err, kerr.OffsetOutOfRange) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for range 2 {
		during(func() {
			from := l.LogStart()
			for from < l.LogEnd() {
				r, err := l.Read(from, ReadOptions{MaxBytes: 700, UpTo: l.LogEnd(), AtLeastOne: true})
				fatal("read", err)
				if err != nil || r.Region == nil {
					return
				}
				b, err := r.Region.ReadAll()
				r.Region.Release()
				fatal("region", err)
				next := from
				for len(b) > 0 {
					bt, rest, err := batch.Next(b)
					if err == nil {
						err = bt.VerifyCRC()
					}
					if err != nil || bt.NextOffset() <= next || bt.BaseOffset() > next {
						t.Errorf("read at %d: %v", from, err)
						return
					}
					next, b = bt.NextOffset(), rest
				}
				from = next
			}
		})
	}
	during(func() {
		synced, err := l.Sync()
		fatal("sync", err)
		b := l.Bounds()
		if synced > b.LogEnd || b.SyncedEnd > b.LogEnd || b.LogStart > b.LogEnd {
			t.Errorf("bounds %+v", *b)
		}
		l.SetDeletionBound(synced)
	})
	during(func() {
		_, err := l.Retain(o.Now())
		fatal("retain", err)
		_, err = l.DeletePending(o.Now().Add(time.Hour))
		fatal("delete", err)
	})
	during(func() {
		_, _, err := l.OffsetForTimestamp(ms.Load()-50, l.LogEnd())
		fatal("time", err)
		_, _, err = l.OffsetOfMaxTimestamp(l.LogEnd())
		fatal("newest", err)
		_, err = l.AbortedTxns(l.LogStart(), l.LogEnd())
		fatal("aborted", err)
		l.Producers()
		l.Segments()
		l.Dirty()
		l.EndOffsetForEpoch(1)
	})
	for i := range 1500 {
		now := ms.Add(1)
		o := batch.BuildOptions{Producer: &batch.Producer{ID: 1, BaseSequence: int32(2 * i)}}
		if _, err := l.Append(records("r", 2, o, now), AppendOptions{LeaderEpoch: int32(i / 100), Now: now}); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	busy.Wait()
	end := l.LogEnd()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(end-1, ReadOptions{MaxBytes: 1, UpTo: end, AtLeastOne: true}); !errors.Is(err, kerr.NotLeaderForPartition) {
		t.Fatalf("read of a closed log: %v", err)
	}
	if n := o.Files.Open(); n != 0 {
		t.Fatalf("%d descriptors are open after the close", n)
	}
	o.Clean = true
	if l, _ = mustOpen(t, o); l.LogEnd() != end {
		t.Fatalf("log end %d, want %d", l.LogEnd(), end)
	}
}

// TestTruncateDuringSync: a sync that runs while the log is truncated and written anew must not vouch for the new records.
func TestTruncateDuringSync(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	w := newWorld(t, mem, fs, smallConfig())
	w.reopen(false)
	w.append(1, 4, false)
	w.append(1, 4, false)
	once := false
	fs.After = func(op vfs.Op, _ error) {
		if op.Kind != vfs.OpSyncData || once {
			return
		}
		once = true
		w.truncate(4)
		w.append(1, 4, false)
	}
	end, err := w.l.Sync()
	if err != nil || end > 4 {
		t.Fatalf("sync covers %d of records written during it, %v", end, err)
	}
	if end, err = w.l.Sync(); err != nil || end != 8 {
		t.Fatalf("the next sync covers %d, %v", end, err)
	}
}

// TestEvictionSyncs: a descriptor with unsynced data is synced before it is closed, and a failure of that sync is not
// forgotten.
func TestEvictionSyncs(t *testing.T) {
	for _, cause := range []error{nil, syscall.EIO} {
		log := vfs.NewLog(vfs.NewMem(), nil)
		fs := vfs.NewInject(log)
		files := NewFiles(fs, 2)
		a, b, c := files.file("/a"), files.file("/b"), files.file("/c")
		for _, f := range []*file{a, b} {
			if err := errors.Join(f.create(), f.writeAt([]byte("x"), 0)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.pin(); err != nil {
			t.Fatal(err)
		}
		if cause != nil {
			fs.SetRules(vfs.OnOp(vfs.OpSyncData, "", cause))
		}
		if err := c.create(); err != nil {
			t.Fatal(err)
		}
		fs.SetRules()
		if n := log.Count(vfs.OpClose); n != 1 || a.f != nil || b.f == nil {
			t.Fatalf("%d closed; the one that nobody has pinned should be", n)
		}
		if n := log.Count(vfs.OpSyncData); n != 1 && cause == nil {
			t.Fatalf("%d syncs before the close", n)
		}
		if err := a.sync(); !errors.Is(err, cause) || cause == nil && err != nil {
			t.Fatalf("sync after an eviction whose sync gave %v: %v", cause, err)
		}
		b.unpin()
	}
}

// TestRegionOutlivesLog: eviction, retention and Close leave a region readable.
func TestRegionOutlivesLog(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem, smallConfig())
	o.Files = NewFiles(mem, 1)
	l, _ := mustOpen(t, o)
	b := records("a", 3, noOptions, startMs)
	mustAppend(t, l, b)
	r, err := l.Read(0, ReadOptions{MaxBytes: 1000, UpTo: 3})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := l.RenameForDelete(kafka.UUID{1})
	if err != nil || !IsDeleteDir(dir) {
		t.Fatalf("renamed to %q, %v", dir, err)
	}
	if err := mem.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := r.Region.SendTo(&got); err != nil || !bytes.Equal(got.Bytes(), b) {
		t.Fatalf("region of a deleted log: %d bytes, %v", got.Len(), err)
	}
	r.Region.Release()
	if n := o.Files.Open(); n != 0 {
		t.Fatalf("%d descriptors are open", n)
	}
}

// TestFetchedMustFollow: a follower's append refuses what does not follow, and damaged bytes.
func TestFetchedMustFollow(t *testing.T) {
	l, _ := mustOpen(t, testOptions(vfs.NewMem(), smallConfig()))
	at := func(base int64) []byte {
		return records("f", 2, batch.BuildOptions{BaseOffset: base, LeaderEpoch: 1}, startMs)
	}
	if a, err := l.AppendFetched(append(at(5), at(9)...)); err != nil || a.First != 5 || a.Last != 10 {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := l.AppendFetched(at(10)); !errors.Is(err, ErrUnexpectedOffset) {
		t.Fatalf("a batch that overlaps: %v", err)
	}
	bad := at(11)
	bad[len(bad)-1]++
	if a, err := l.AppendFetched(append(bad, at(13)...)); !errors.Is(err, batch.ErrCorrupt) || a.Bytes != 0 || l.LogEnd() != 11 {
		t.Fatalf("a damaged batch: %+v, %v, log end %d", a, err, l.LogEnd())
	}
	// One without a CRC, the offset, contradicts another: nobody knows which of the two is wrong.
	if a, err := l.AppendFetched(append(at(12), at(13)...)); !errors.Is(err, ErrUnexpectedOffset) || a.Bytes != 0 || l.LogEnd() != 11 {
		t.Fatalf("a batch that overlaps: %+v, %v, log end %d", a, err, l.LogEnd())
	}
	// What comes before a damaged one is taken, so that the next request begins with that.
	if a, err := l.AppendFetched(append(append(at(11), bad...), at(15)...)); !errors.Is(err, batch.ErrCorrupt) || a.First != 11 || a.Last != 12 || l.LogEnd() != 13 {
		t.Fatalf("a damaged batch behind a good one: %+v, %v, log end %d", a, err, l.LogEnd())
	}
	if err := l.Truncate(11); err != nil {
		t.Fatal(err)
	}
	// A gap that no relative offset can bridge begins a segment of its own, and survives a recovery.
	far := int64(11) + 3<<31
	if _, err := l.AppendFetched(append(at(11), at(far)...)); err != nil {
		t.Fatal(err)
	}
	if got := l.Segments(); len(got) != 2 || got[1].BaseOffset != far {
		t.Fatalf("segments %v", got)
	}
	o := testOptions(l.fs, smallConfig())
	l.Abandon()
	l, r := mustOpen(t, o)
	if l.LogEnd() != far+2 || r.TruncatedBytes != 0 {
		t.Fatalf("log end %d, %+v", l.LogEnd(), r)
	}
	if got := offsets(t, readAll(t, l, 0)); len(got) != 4 {
		t.Fatalf("batches %v", got)
	}
}

// TestAllocations bounds what the hot paths allocate.
func TestAllocations(t *testing.T) {
	c := DefaultConfig()
	mem := vfs.NewMem()
	l, _ := mustOpen(t, testOptions(mem, c))
	b := records("x", 20, noOptions, startMs)
	mustAppend(t, l, b)
	appends := testing.AllocsPerRun(500, func() { mustAppend(t, l, b) })
	if appends > 4 {
		t.Errorf("an append allocates %v times", appends)
	}
	end := l.LogEnd()
	reads := testing.AllocsPerRun(500, func() {
		r, err := l.Read(end-40, ReadOptions{MaxBytes: 1 << 20, UpTo: end})
		if err != nil || r.Region == nil {
			t.Fatal(err)
		}
		if _, err := r.Region.SendTo(io.Discard); err != nil {
			t.Fatal(err)
		}
		r.Region.Release()
	})
	if reads > 4 {
		t.Errorf("a read allocates %v times", reads)
	}
	empty := testing.AllocsPerRun(100, func() {
		if _, err := l.Read(end, ReadOptions{MaxBytes: 1 << 20, UpTo: end}); err != nil {
			t.Fatal(err)
		}
	})
	if empty > 0 {
		t.Errorf("an empty read allocates %v times", empty)
	}
	t.Logf("append %v, read %v", appends, reads)
}
