package commitlog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// TestCompactionBesideEverything compacts while others append, read, sync, look up times, delete and cut. Readers check
// that offsets grow and that no key goes back to an earlier value.
func TestCompactionBesideEverything(t *testing.T) {
	c := compactedConfig()
	mem := vfs.NewMem()
	k := newKeyedLog(t, mem, mem, c)
	l := k.l
	stop := make(chan struct{})
	var busy sync.WaitGroup
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
	for range 2 {
		during(func() {
			values := map[string]string{}
			next := l.LogStart()
			for next < l.LogEnd() {
				r, err := l.Read(next, ReadOptions{MaxBytes: 700, UpTo: l.LogEnd(), AtLeastOne: true})
				if errors.Is(err, kerr.OffsetOutOfRange) {
					return
				}
				if err != nil {
					t.Errorf("read at %d: %v", next, err)
					return
				}
				if r.Region == nil {
					return // what lay here went since the log end was asked for, and the next batch is beyond that
				}
				b, err := r.Region.ReadAll()
				r.Region.Release()
				for len(b) > 0 && err == nil {
					var bt batch.Batch
					if bt, b, err = batch.Next(b); err != nil {
						break
					}
					if err = bt.VerifyCRC(); err != nil || bt.NextOffset() <= next {
						break
					}
					next = bt.NextOffset()
					err = bt.Each(func(rec batch.Record) error {
						if value := string(rec.Value); value < values[string(rec.Key)] {
							return fmt.Errorf("key %s had the value %s, and at offset %d has %s", rec.Key, values[string(rec.Key)], rec.Offset, value)
						}
						values[string(rec.Key)] = string(rec.Value)
						return nil
					})
				}
				if err != nil {
					t.Errorf("read at %d: %v", next, err)
					return
				}
				next = max(next, r.NextOffset)
			}
		})
	}
	during(func() {
		if err := l.AdvanceRecoveryPoint(); err != nil {
			t.Error(err)
		}
		if _, _, err := l.OffsetForTimestamp(startMs+100, l.LogEnd()); err != nil {
			t.Error(err)
		}
		if _, err := l.Retain(k.clk.now()); err != nil {
			t.Error(err)
		}
		if _, err := l.DeletePending(k.clk.now().Add(1e9 * 3600)); err != nil {
			t.Error(err)
		}
	})
	compactions, moot := 0, 0
	busy.Go(func() {
		o := k.options(9)
		for {
			select {
			case <-stop:
				return
			default:
			}
			done, err := l.Compact(o)
			if errors.Is(err, ErrCompactionMoot) {
				moot++
				continue
			}
			if err != nil {
				t.Error(err)
				return
			}
			o.FirstDirty = done.FirstDirty
			compactions += done.SegmentsNew
		}
	})
	last := map[string]string{}
	for i := range 700 {
		key, value := fmt.Sprint("key", i%7), fmt.Sprintf("%06d", i)
		bu := batch.NewBuilder(batch.BuildOptions{Codec: batch.Codec(i % 3)})
		bu.Add(batch.Record{Timestamp: startMs + int64(i), Key: []byte(key), Value: []byte(value)})
		mustAppend(t, l, bu.Build())
		last[key] = value
		l.SetDeletionBound(l.LogEnd())
		if i%200 == 199 {
			if err := l.SetLogStart(l.LogEnd() - 150); err != nil { // the rest still has all keys
				t.Fatal(err)
			}
		}
	}
	close(stop)
	busy.Wait()
	got := map[string]string{}
	for _, r := range k.records(l) {
		got[r.key] = r.value
	}
	for key, value := range last {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
	}
	if compactions == 0 {
		t.Error("nothing was compacted")
	}
	if err := l.AdvanceRecoveryPoint(); err != nil { // what is not synced stays open
		t.Fatal(err)
	}
	if n := l.files.Open(); n > 9 {
		t.Errorf("%d descriptors are open, at most 9 are wanted where none is in use", n)
	}
	t.Logf("%d segments made, %d compactions in vain", compactions, moot)
}

// TestCompactionHoldsNobodyUp stops a compaction in each sync that it waits for, and at each rename: appends and reads go on.
func TestCompactionHoldsNobodyUp(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	c := compactedConfig()
	k := newKeyedLog(t, mem, fs, c)
	k.o.Files = NewFiles(fs, 1000) // none is closed, which syncs it under its lock
	k.reopen(true)
	k.fill()
	syncs, on := 0, true
	fs.Hook = func(op vfs.Op) error {
		if !on || op.Kind != vfs.OpSyncDir && op.Kind != vfs.OpSyncData && op.Kind != vfs.OpRename {
			return nil
		}
		syncs++
		from := k.l.LogEnd()
		k.append(-1, false, batch.None, "later=value")
		r, err := k.l.Read(from, ReadOptions{MaxBytes: 1000, UpTo: k.l.LogEnd()})
		if err != nil || r.Region == nil {
			t.Errorf("read during %v: %v", op, err)
			return nil
		}
		r.Region.Release()
		return nil
	}
	if done, err := k.compact(100); err != nil || done.SegmentsNew == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	on = false
	if syncs < 20 {
		t.Fatalf("%d syncs and renames", syncs)
	}
	k.check(k.l, "afterwards")
}

// TestAbortedTxnsBesideCompaction: segments may leave the log while a reader of committed records asks for the aborted transactions
// in them. It is told of those that are left, and no error.
func TestAbortedTxnsBesideCompaction(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	k := newKeyedLog(t, mem, fs, compactedConfig())
	for i := range 6 {
		k.append(10, true, batch.None, "a=aborted")
		k.end(10, false)
		for j := range 12 {
			k.append(-1, false, batch.None, fmt.Sprint("key", j, "=value ", i))
		}
	}
	k.o.Files = NewFiles(fs, 1000)
	k.reopen(true)
	reads := 0
	fs.Hook = func(op vfs.Op) error {
		if op.Kind != vfs.OpRead || !strings.HasSuffix(op.Path, txnIndexSuffix) {
			return nil
		}
		if reads++; reads == 1 {
			if done, err := k.compact(100); err != nil || done.SegmentsRead < 3 {
				t.Fatalf("%+v, %v", done, err)
			}
		}
		return nil
	}
	got, err := k.l.AbortedTxns(0, k.l.LogEnd())
	if err != nil || reads == 0 {
		t.Fatalf("during a compaction: %v; the index was read %d times", err, reads)
	}
	if want, err := k.l.AbortedTxns(0, k.l.LogEnd()); err != nil || !slices.Equal(got, want) || len(want) == 0 {
		t.Fatalf("during a compaction %v, afterwards %v, %v", got, want, err)
	}
	k.check(k.l, "afterwards")
}

// TestCompactionOfALogThatIsCut: an unclean election may cut off segments that are being compacted, at any moment of that. Then
// there is nothing to compact, and no damage.
func TestCompactionOfALogThatIsCut(t *testing.T) {
	for moment := 0; ; moment++ {
		mem := vfs.NewMem()
		k := newKeyedLog(t, mem, mem, compactedConfig())
		k.fill()
		o, calls := k.options(100), 0
		o.Pace = func(int) error {
			if calls++; calls == moment+1 {
				return k.l.Truncate(k.l.Segments()[1].BaseOffset + 3)
			}
			return nil
		}
		_, err := k.l.Compact(o)
		if calls <= moment {
			if moment < 10 || err != nil {
				t.Fatalf("%d moments: %v", moment, err)
			}
			return
		}
		if err != nil && !errors.Is(err, ErrCompactionMoot) {
			t.Fatalf("cut at moment %d: %v", moment, err)
		}
		readAll(t, k.l, 0)
		k.l.Abandon()
	}
}

// TestReadersOutliveCompaction reads from a segment that compaction has put another in the place of.
func TestReadersOutliveCompaction(t *testing.T) {
	mem := vfs.NewMem()
	k := newKeyedLog(t, mem, mem, compactedConfig())
	k.fill()
	r, err := k.l.Read(0, ReadOptions{MaxBytes: 1 << 20, UpTo: k.l.LogEnd()})
	if err != nil {
		t.Fatal(err)
	}
	want, err := r.Region.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if done, err := k.compact(100); err != nil || done.SegmentsNew == 0 {
		t.Fatalf("%+v, %v", done, err)
	}
	if _, err := k.l.DeletePending(k.clk.now().Add(1e9 * 3600)); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Region.ReadAll(); err != nil || string(got) != string(want) {
		t.Fatalf("the old segment reads otherwise: %v", err)
	}
	r.Region.Release()
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name, deletedSuffix) || strings.Contains(e.Name, cleanedSuffix) || strings.Contains(e.Name, swapSuffix) {
			t.Errorf("%s is left", e.Name)
		}
	}
}

// TestCompactionLimits: what is too young, not stable, not below the high watermark or the recovery point stays.
func TestCompactionLimits(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	k := newKeyedLog(t, mem, fs, compactedConfig())
	compactable := func() Compactable {
		t.Helper()
		c, err := k.l.Compactable(0, k.clk.now())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for i := range 60 {
		k.clk.ms += 100
		k.append(-1, false, batch.None, fmt.Sprint("key", i%5, "=value"))
	}
	if c := compactable(); c.End != 0 {
		t.Errorf("%+v can be compacted above the recovery point", c)
	}
	if err := k.l.AdvanceRecoveryPoint(); err != nil {
		t.Fatal(err)
	}
	segments := k.l.Segments()
	active := segments[len(segments)-1].BaseOffset
	all := compactable()
	if all.End != active || all.CleanBytes != 0 || all.Ratio() != 1 || all.Overdue {
		t.Errorf("%+v can be compacted, the active segment is %d", all, active)
	}
	k.l.SetDeletionBound(segments[2].BaseOffset + 1)
	if c := compactable(); c.End != segments[2].BaseOffset {
		t.Errorf("%+v can be compacted below the high watermark", c)
	}
	k.l.SetDeletionBound(k.l.LogEnd())
	c := k.l.Config()
	c.MinCompactionLagMs = 3000
	k.l.SetConfig(c)
	if c := compactable(); c.End == 0 || c.End >= all.End {
		t.Errorf("%+v is old enough", c)
	}
	c.MinCompactionLagMs, c.MaxCompactionLagMs = 0, 5800
	k.l.SetConfig(c)
	if c := compactable(); !c.Overdue {
		t.Errorf("%+v is not overdue", c)
	}
	if c, err := k.l.Compactable(segments[3].BaseOffset, k.clk.now()); err != nil || c.Overdue || c.CleanBytes == 0 || c.Ratio() >= 1 || c.Ratio() <= 0 {
		t.Errorf("%+v, %v: from the third segment on", c, err)
	}
	open := k.l.LogEnd()
	k.append(10, true, batch.None, "a=open")
	k.fill()
	if c := compactable(); c.End > open || c.End < all.End {
		t.Errorf("%+v can be compacted with a transaction open from %d on", c, open)
	}
	c.MinCompactionLagMs, c.MaxCompactionLagMs = 1, 1<<60
	k.l.SetConfig(c)
	compactable()
	disk := fs.Count()
	if again := compactable(); again.DirtyBytes == 0 || fs.Count() != disk {
		t.Errorf("looked again at %+v: %d operations of the disk", again, fs.Count()-disk)
	}
	stopped := errors.New("stopped")
	o := k.options(100)
	o.Pace = func(int) error { return stopped }
	if _, err := k.l.Compact(o); !errors.Is(err, stopped) {
		t.Errorf("stopped compaction says %v", err)
	}
	k.all, k.clean = k.records(k.l), kafka.Offset(0)
	k.check(k.l, "after it was stopped")
}
