package quorum

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"moldau/internal/vfs"
)

// The storage ring: the same small life of a quorum, cut short at every disk operation, or with an error at every one.

// tb is what a check needs of a test.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Failed() bool
}

// life is what a run proposed and what of it was acknowledged, in order.
type life struct {
	proposed, acked []string
	told            bool // an error came out: of Open, Stop, WriteSnapshot, or the quorum's
}

func ringOptions(disk vfs.FS, l Listener) Options {
	o := testOptions(disk, l)
	o.SegmentBytes, o.RetentionBytes = 500, 0
	return o
}

// live runs two incarnations that propose, take snapshots and delete; the second moves to another endpoint.
func live(disk vfs.FS) (l life) {
	for incarnation := range 2 {
		r := &recorder{leads: -1}
		o := ringOptions(disk, r)
		o.Endpoints[0].Port += uint16(incarnation)
		q, err := Open(o)
		if err != nil {
			l.told = true
			return l
		}
		q.Start()
		synctest.Wait()
		if epoch, leads := r.leading(); leads {
			for range 3 {
				var done []<-chan error
				for range 3 {
					v := fmt.Sprintf("record %d", len(l.proposed))
					_, d, err := q.Propose(epoch, values(v))
					if err != nil {
						break
					}
					l.proposed = append(l.proposed, v)
					done = append(done, d)
					if len(done) == 1 {
						synctest.Wait()
					}
				}
				for i, d := range done {
					if <-d == nil {
						l.acked = append(l.acked, l.proposed[len(l.proposed)-len(done)+i])
					}
				}
				id, state := r.snapshot()
				if err := q.WriteSnapshot(id, emitAll(state)); err != nil {
					l.told = true
				}
			}
		}
		synctest.Wait()
		l.told = l.told || q.Err() != nil
		if err := q.Stop(); err != nil {
			l.told = true
			return l
		}
	}
	return l
}

// checkLife opens what is left of a disk: all that was acked must be there, in order, and nothing that was not proposed.
func checkLife(t tb, disk vfs.FS, l life) {
	t.Helper()
	var before []string
	for range 2 {
		r := &recorder{leads: -1}
		q, err := Open(ringOptions(disk, r))
		if err != nil {
			t.Errorf("reopen: %v", err)
			return
		}
		q.Start()
		synctest.Wait()
		epoch, leads := r.leading()
		_, state := r.snapshot()
		var got []string
		for _, v := range state {
			got = append(got, string(v))
		}
		if !leads {
			t.Errorf("does not lead after reopening: %v; heard %v", q.Err(), r.heard())
		} else {
			_, done, err := q.Propose(epoch, values("after"))
			if err == nil {
				err = <-done
			}
			if err != nil {
				t.Errorf("proposal after reopening: %v", err)
			}
		}
		if err := q.Stop(); err != nil {
			t.Errorf("stop after reopening: %v", err)
		}
		if before == nil {
			l.check(t, got)
			before = append(got, "after")
		} else if !slices.Equal(got, before) {
			t.Errorf("second reopen has %q, want %q", got, before)
		}
		if t.Failed() {
			return
		}
	}
}

func (l life) check(t tb, got []string) {
	t.Helper()
	next := 0
	for _, v := range got {
		i := slices.Index(l.proposed[next:], v)
		if i < 0 {
			t.Errorf("state %q has %q, which is out of order or was never proposed", got, v)
			return
		}
		next += i + 1
	}
	for _, v := range l.acked {
		if !slices.Contains(got, v) {
			t.Errorf("%q was acked and is gone; state %q", v, got)
			return
		}
	}
}

func countOperations(t *testing.T) (n int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		inject := vfs.NewInject(newDisk(t))
		l := live(inject)
		if l.told || len(l.acked) != 18 {
			t.Fatalf("a life without faults: %+v", l)
		}
		n = inject.Count()
		checkLife(t, inject, l)
	})
	return n
}

// TestCrashEverywhere: the process is killed, or the power cut, before any one disk operation, and before one of the start
// after that.
func TestCrashEverywhere(t *testing.T) {
	operations := countOperations(t)
	states, starts := 0, 0
	for at := range operations {
		synctest.Test(t, func(t *testing.T) {
			disk := newDisk(t)
			l := live(vfs.NewInject(disk, vfs.FromIndex(at, syscall.EIO)))
			if !l.told && len(l.acked) != len(l.proposed) {
				t.Errorf("%d of %d proposals acked, and nobody was told why", len(l.acked), len(l.proposed))
			}
			rng := rand.New(rand.NewPCG(uint64(at), 1))
			for how, disk := range disk.Survivors(rng, thorough(4, 16)) {
				if states++; states%thorough(7, 2) == 0 {
					starts += crashStart(t, disk.KillClone(), l, rng)
				}
				if checkLife(t, disk, l); t.Failed() {
					t.Fatalf("crash at operation %d of %d, %s", at, operations, how)
				}
			}
		})
	}
	t.Logf("%d crash states at %d operations, and in the start after them %d", states, operations, starts)
}

// crashStart lets the start after a crash crash too, somewhere. It returns how many different disks that gave.
func crashStart(t *testing.T, disk *vfs.Mem, l life, rng *rand.Rand) (states int) {
	t.Helper()
	count := vfs.NewInject(disk.KillClone())
	openAndStop(count)
	at := rng.Int64N(count.Count())
	openAndStop(vfs.NewInject(disk, vfs.FromIndex(at, syscall.EIO)))
	for how, disk := range disk.Survivors(rng, thorough(2, 6)) {
		states++
		if checkLife(t, disk, l); t.Failed() {
			t.Fatalf("crash at operation %d of the next start, %s", at, how)
		}
	}
	return states
}

// openAndStop opens a quorum and ends it, whatever comes of it.
func openAndStop(disk vfs.FS) {
	q, err := Open(ringOptions(disk, &recorder{leads: -1}))
	if err != nil {
		return
	}
	q.Start()
	synctest.Wait()
	_ = q.Stop()
}

// thorough returns how far to go at most: what is enough beside the code, or for a landing.
func thorough(normal, landing int) int {
	if effort := os.Getenv("MOLDAU_EFFORT"); effort == "ci" || effort == "night" {
		return landing
	}
	return normal
}

// TestErrorEverywhere: one disk operation fails; what was acked nevertheless survives a power cut right after.
func TestErrorEverywhere(t *testing.T) {
	operations := countOperations(t)
	for at := range operations {
		synctest.Test(t, func(t *testing.T) {
			disk := newDisk(t)
			l := live(vfs.NewInject(disk, vfs.OnIndex(at, syscall.EIO)))
			if !l.told && len(l.acked) != len(l.proposed) {
				t.Errorf("%d of %d proposals acked, and nobody was told why", len(l.acked), len(l.proposed))
			}
			checkLife(t, disk.CrashClone(rand.New(rand.NewPCG(uint64(at), 1)), 0), l)
			checkLife(t, disk.KillClone(), l)
			if t.Failed() {
				t.Fatalf("error at operation %d of %d", at, operations)
			}
		})
	}
}
