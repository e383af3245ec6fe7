package commitlog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/planted"
	"moldau/internal/vfs"
)

// verdict is a test that is not ours: it keeps the first complaint.
type verdict struct {
	mu    sync.Mutex
	first string
}

func (*verdict) Helper() {}

func (v *verdict) Errorf(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.first == "" {
		v.first = fmt.Sprintf(format, args...)
	}
}

func (v *verdict) Fatalf(format string, args ...any) {
	v.Errorf(format, args...)
	runtime.Goexit()
}

func (v *verdict) Fatal(args ...any) { v.Fatalf("%s", fmt.Sprint(args...)) }

func (v *verdict) Failed() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.first != ""
}

// TestPlantedBugs: each bug is found by its check. Without a bug the same runs find nothing: those are TestCrashEverywhere,
// TestErrorEverywhere, TestSummaryOfChangedFolder, TestSummaryOfEarlierStop and TestWindowOutlivesAPowerCut. That a folder is not synced
// is one of them (KAFKA-3968, -1539).
func TestPlantedBugs(t *testing.T) {
	crash := func(bug planted.Bug) func(tb) {
		return func(t tb) { crashStates(t, smallConfig(), bug, nil) }
	}
	failing := func(bug planted.Bug) func(tb) {
		return func(t tb) { errorStates(t, syscall.EIO, bug) }
	}
	none := planted.Bug(planted.None)
	log := planted.Has(logSuffix)
	for _, p := range []struct {
		name  string
		check func(tb)
	}{
		{"records are not synced", crash(planted.SkipSync(log))},
		{"names are not synced", crash(planted.SkipSyncDir(planted.Any))},
		{"a sync is reported before it is made", crash(planted.SyncLate(log))},
		{"a truncation is not synced", crash(planted.SkipSyncOfCut(log))},
		{"the names are on disk before what they lead to", crash(planted.NameFirst(planted.Any))},
		{"a segment that was cut off or deleted stays", crash(planted.KeepRemoved(deletedSuffix))},
		{"recovery syncs nothing", func(t tb) { crashStates(t, smallConfig(), none, planted.SkipSyncsWhile) }},
		{"a failed sync is tried again", failing(planted.RetrySync())},
		{"a failed write passes for a good one", failing(planted.HideWriteErrors())},
		{"the folder of a closed log is known by names and sizes alone", func(t tb) { checkChangedFolder(t, planted.HideChanges()) }},
		{"the summary of a closed log is believed without a look at its folder", func(t tb) { checkEarlierSummary(t, folderOf) }},
		{"the batches in flight are forgotten", func(t tb) { checkWindow(t, planted.NeverWritten(planted.Has(sequencesSuffix))) }},
	} {
		t.Run(p.name, func(t *testing.T) {
			v := &verdict{}
			apart(func() { p.check(v) })
			if !v.Failed() {
				t.Error("not found")
			}
			t.Log("found: ", v.first)
		})
	}
}

// TestWindowOutlivesAPowerCut: a producer that had five batches in flight may send all of them again after a power cut.
func TestWindowOutlivesAPowerCut(t *testing.T) { checkWindow(t, planted.None) }

func checkWindow(t tb, bug planted.Bug) {
	mem := vfs.NewMem()
	w := newWorld(t, mem, bug(mem), smallConfig())
	w.reopen(false)
	for range 8 {
		w.append(1, 2, false)
	}
	if err := w.l.AdvanceRecoveryPoint(); err != nil {
		t.Fatal(err)
	}
	mem = mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
	o := w.o
	o.on(mem)
	o.RecoveryPoint = w.l.RecoveryPoint()
	w.l.Abandon()
	l, _ := mustOpen(t, o)
	defer l.Abandon()
	for _, p := range w.pieces[len(w.pieces)-duplicateWindow:] {
		b := batch.Batch(bytes.Clone(p.b))
		a, err := l.Append(b, AppendOptions{Now: w.clk.ms})
		if err != nil || !a.Duplicate || a.First != p.b.BaseOffset() {
			t.Fatalf("batch %d-%d sent again: %+v, %v", p.b.BaseOffset(), p.b.LastOffset(), a, err)
		}
	}
}
