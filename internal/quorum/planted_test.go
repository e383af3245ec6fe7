package quorum

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"

	"moldau/internal/planted"
	"moldau/internal/vfs"
)

// verdict is a test that is not ours: it keeps the first complaint.
type verdict struct{ first string }

func (*verdict) Helper()        {}
func (v *verdict) Failed() bool { return v.first != "" }

func (v *verdict) Errorf(format string, args ...any) {
	if v.first == "" {
		v.first = fmt.Sprintf(format, args...)
	}
}

// TestPlantedBugs: each bug is found by crashes of the same life as in TestCrashEverywhere and with the same checks, which
// find nothing without a bug.
func TestPlantedBugs(t *testing.T) {
	operations := countOperations(t)
	for name, bug := range map[string]planted.Bug{
		"the metadata log is not synced":       planted.SkipSync(planted.Has(".log")),
		"names are not synced":                 planted.SkipSyncDir(planted.Any),
		"a sync is reported before it is made": planted.SyncLate(planted.Has(".log")),
		"term and vote are written in place":   planted.WriteInPlace(planted.Has("quorum-state")),
	} {
		t.Run(name, func(t *testing.T) {
			for at := range operations {
				v := &verdict{}
				synctest.Test(t, func(t *testing.T) {
					disk := newDisk(t)
					l := live(bug(vfs.NewInject(disk, vfs.FromIndex(at, syscall.EIO))))
					for _, disk := range disk.Survivors(rand.New(rand.NewPCG(uint64(at), 1)), 8) {
						checkLife(v, disk, l)
					}
				})
				if v.Failed() {
					t.Logf("found at operation %d of %d: %s", at, operations, v.first)
					return
				}
			}
			t.Error("not found")
		})
	}
}
