package commitlog

import (
	"math/rand/v2"
	"path/filepath"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

// TestFoundIsNotDurable: files that a killed process has made need not have their names on the disk. What is written to
// them later does not count before they have.
func TestFoundIsNotDurable(t *testing.T) {
	for _, test := range []struct {
		name  string
		dying func(t *testing.T, l *Log) // what the process did last
	}{
		{"new log", func(*testing.T, *Log) {}},
		{"new segment", func(t *testing.T, l *Log) {
			mustAppend(t, l, records("first", 1, batch.BuildOptions{}, startMs))
			if err := l.AdvanceRecoveryPoint(); err != nil {
				t.Fatal(err)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			if err := l.rollLocked(l.logEnd); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			mem := vfs.NewMem()
			if err := mem.MkdirAll(testDir); err != nil {
				t.Fatal(err)
			}
			for dir := testDir; dir != "/"; {
				dir = filepath.Dir(dir)
				if err := mem.SyncDir(dir); err != nil {
					t.Fatal(err)
				}
			}
			l, _ := mustOpen(t, testOptions(mem, smallConfig()))
			test.dying(t, l)
			point := l.RecoveryPoint()

			mem = mem.KillClone()
			o := testOptions(mem, smallConfig())
			o.RecoveryPoint = point
			l, _ = mustOpen(t, o)
			mustAppend(t, l, records("acked", 1, batch.BuildOptions{}, startMs))
			end, err := l.Sync()
			if err != nil || end != l.LogEnd() {
				t.Fatalf("synced to %d of %d, %v", end, l.LogEnd(), err)
			}

			mem = mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
			o = testOptions(mem, smallConfig())
			o.RecoveryPoint = point
			if l, _ = mustOpen(t, o); l.LogEnd() != end {
				t.Fatalf("the log ends at %d after a power cut, synced was %d", l.LogEnd(), end)
			}
		})
	}
}
