package storage

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/vfs"
)

// TestNobodyWaitsForWhatAKilledProcessLeft: a start goes on while that is brought to the disk. Logs are opened when it is there, or when
// it has taken so long that each may as well do it for itself; and when it is there at last, they need not any more.
func TestNobodyWaitsForWhatAKilledProcessLeft(t *testing.T) {
	for _, whole := range []time.Duration{wholePatience / 2, 4 * wholePatience} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			before := run(t, options(mem, "/a"))
			for i := range 3 {
				appendTo(t, open(t, before, fmt.Sprint("t", i), byte(1+i)), 1)
			}
			must(t, before.Stop(false))

			disk := &slowSyncs{whole: whole}
			began := time.Now()
			s := run(t, options(vfs.NewInject(mem, disk.rule), "/a"))
			defer func() { must(t, s.Stop(true)) }()
			if took := time.Since(began); took > 0 {
				t.Errorf("the start took %v", took)
			}
			dirs := func(i int) int64 { // how many syncs a log needs of its own to be opened
				n := disk.files.Load()
				open(t, s, fmt.Sprint("t", i), byte(1+i))
				return disk.files.Load() - n
			}
			first := dirs(0)
			if took := time.Since(began); took != min(whole, wholePatience) {
				t.Errorf("the first log was open after %v, the sync took %v", took, whole)
			}
			if alone := whole > wholePatience; first > 0 != alone || dirs(1) > 0 != alone {
				t.Errorf("the sync took %v, the first log had %d of its own", whole, first)
			}
			time.Sleep(2 * whole)
			if n := dirs(2); n > 0 {
				t.Errorf("a log that was opened later had %d syncs of its own", n)
			}
		})
	}
}

// TestThousandsOfLogsHavePatience: as many logs as a start may have to sync are not synced one by one because that of the whole takes a
// second, for what they have to write themselves, nor because the one before took so long.
func TestThousandsOfLogsHavePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions = 3000
		disk := &slowSyncs{file: 10 * time.Millisecond, whole: 2 * time.Second}
		fs := vfs.NewInject(vfs.NewMem())
		s := run(t, options(fs, "/a"))
		logs := many(t, s, partitions)
		writeAll(t, logs)
		time.Sleep(time.Second) // until the journal has them
		fs.SetRules(disk.rule)
		for range 3 {
			writeAll(t, logs)
		}
		if n := disk.wholes.Load(); n < 3 {
			t.Errorf("%d syncs of the filesystem", n)
		}
		if n := disk.files.Load(); n > 30 { // those of the journal
			t.Errorf("%d syncs of a file", n)
		}
		fs.SetRules()
		must(t, s.Stop(true))
	})
}

// TestOpeningComesBeforeRecoveryPoints: while logs are opened that a killed process has left, their recovery points do not move,
// which costs more than the opening. They do soon afterwards, and at once if an append has to wait for it.
func TestOpeningComesBeforeRecoveryPoints(t *testing.T) {
	const limit, logs = 64 << 10, 20
	for _, crowded := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			o := options(mem, "/a")
			before := run(t, o)
			for i := range logs { // three quarters of the limit
				l := open(t, before, fmt.Sprint("t", i), byte(1+i))
				for l.Size() < limit*3/4/logs {
					appendTo(t, l, 20)
				}
			}
			must(t, before.Stop(false))

			o.RecoveryBytes = limit
			s := run(t, o)
			defer func() { must(t, s.Stop(true)) }()
			moved := func() (n int) {
				for _, l := range s.Logs() {
					if l.RecoveryPoint() > 0 {
						n++
					}
				}
				return n
			}
			for i := range logs {
				open(t, s, fmt.Sprint("t", i), byte(1+i))
				time.Sleep(afterOpening / 2)
			}
			if n := moved(); n > 0 {
				t.Fatalf("%d recovery points have moved", n)
			}
			if crowded {
				for began, l := time.Now(), s.Logs()[0]; s.dirs[0].keeper.toRead() <= limit && moved() == 0; {
					if appendTo(t, l, 100); time.Since(began) > 0 {
						t.Fatal("an append has waited")
					}
				}
			} else {
				time.Sleep(afterOpening)
			}
			synctest.Wait()
			if n := moved(); n < logs/3 {
				t.Errorf("%d recovery points have moved", n)
			}
		})
	}
}
