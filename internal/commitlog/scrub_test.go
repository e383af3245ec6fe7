package commitlog

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

func unpaced(int) error { return nil }

// wantSound scrubs a log in which all is well.
func wantSound(t tb, l *Log) {
	t.Helper()
	if done, err := l.Scrub(unpaced); err != nil || len(done.Damage) > 0 || done.Indexes > 0 {
		t.Fatalf("scrub of a sound log: %+v, %v", done, err)
	}
}

// TestScrubBesideCompaction: compaction may put another segment under the names of the one that is being scrubbed, at any moment of
// that. Nothing is damaged by it.
func TestScrubBesideCompaction(t *testing.T) {
	for moment := 0; ; moment++ {
		mem := vfs.NewMem()
		fs := vfs.NewInject(mem)
		k := newKeyedLog(t, mem, fs, compactedConfig())
		for i := range 60 {
			k.append(-1, false, batch.None, fmt.Sprint("key", i%5, "=value ", i))
		}
		k.o.Files = NewFiles(fs, 1000) // none is closed under its lock
		k.reopen(true)
		ops, on := 0, true
		fs.Hook = func(op vfs.Op) error {
			if !on || op.Kind == vfs.OpOpen && strings.HasSuffix(op.Path, logSuffix) { // or opened
				return nil
			}
			if ops++; ops == moment+1 {
				on = false
				if done, err := k.compact(100); err != nil || done.SegmentsNew == 0 {
					t.Fatalf("%+v, %v", done, err)
				}
			}
			return nil
		}
		done, err := k.l.Scrub(unpaced)
		if err != nil || len(done.Damage) > 0 || done.Indexes > 0 {
			t.Fatalf("compaction before operation %d of a scrub: %+v, %v", moment, done, err)
		}
		if on {
			if moment < 20 {
				t.Fatalf("a scrub is only %d operations", moment)
			}
			return
		}
		k.check(k.l, "afterwards")
		wantSound(t, k.l)
		k.l.Abandon()
	}
}

// TestScrubIsPaced: whatever is read is told before more is, index files too, and an error of pace ends the scrub.
func TestScrubIsPaced(t *testing.T) {
	mem, o, content := filled(t)
	l, _ := mustOpen(t, o.on(mem))
	defer l.Abandon()
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	least := len(content)
	segments := l.Segments()
	for _, e := range entries {
		if strings.HasSuffix(e.Name, indexSuffix) && e.Name != fileName(segments[len(segments)-1].BaseOffset, indexSuffix) {
			least += int(e.Size)
		}
	}
	told := 0
	if _, err := l.Scrub(func(n int) error { told += n; return nil }); err != nil || told < least {
		t.Errorf("%d bytes were told of at least %d: %v", told, least, err)
	}
	stop, calls := errors.New("stopped"), 0
	_, err = l.Scrub(func(int) error {
		if calls++; calls == 3 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || calls != 3 {
		t.Errorf("stopped at the third call, and after %d: %v", calls, err)
	}
}
