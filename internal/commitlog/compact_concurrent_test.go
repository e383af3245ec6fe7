package commitlog

import (
	"errors"
	"fmt"
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
	if l.files.Open() > 9+8 {
		t.Errorf("%d descriptors are open", l.files.Open())
	}
	t.Logf("%d segments made, %d compactions in vain", compactions, moot)
}

// TestCompactionHoldsNobodyUp stops a compaction in each sync that it waits for: appends and reads go on.
func TestCompactionHoldsNobodyUp(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	c := compactedConfig()
	k := newKeyedLog(t, mem, fs, c)
	k.o.Files = NewFiles(fs, 1000) // none is closed, which syncs it under its lock
	k.reopen(true)
	for i := range 60 {
		k.append(-1, false, batch.None, fmt.Sprint("key", i%5, "=value"))
	}
	if err := k.l.AdvanceRecoveryPoint(); err != nil {
		t.Fatal(err)
	}
	syncs, on := 0, true
	fs.Hook = func(op vfs.Op) error {
		if !on || op.Kind != vfs.OpSyncDir && op.Kind != vfs.OpSyncData {
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
	if syncs < 5 {
		t.Fatalf("%d syncs", syncs)
	}
	k.check(k.l, "afterwards")
}

// TestReadersOutliveCompaction reads from a segment that compaction has put another in the place of.
func TestReadersOutliveCompaction(t *testing.T) {
	mem := vfs.NewMem()
	k := newKeyedLog(t, mem, mem, compactedConfig())
	for i := range 60 {
		k.append(-1, false, batch.None, fmt.Sprint("key", i%5, "=value"))
	}
	if err := k.l.AdvanceRecoveryPoint(); err != nil {
		t.Fatal(err)
	}
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
	k := newKeyedLog(t, mem, mem, compactedConfig())
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
	for i := range 60 {
		k.append(-1, false, batch.None, fmt.Sprint("key", i%5, "=value"))
	}
	if err := k.l.AdvanceRecoveryPoint(); err != nil {
		t.Fatal(err)
	}
	if c := compactable(); c.End > open || c.End < all.End {
		t.Errorf("%+v can be compacted with a transaction open from %d on", c, open)
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
