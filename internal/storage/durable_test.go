package storage

import (
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/vfs"
)

// TestKillThenPowerCut: a process is killed while it makes a partition, the next one goes on with what it finds and
// promises a record, and then the power fails. What is found is in the system's memory and need not be on the disk.
func TestKillThenPowerCut(t *testing.T) {
	fs := vfs.NewMem()
	s := run(t, options(fs, "/a"))
	must(t, s.Stop(false))
	killed := []*vfs.Mem{}
	watched := vfs.NewInject(fs)
	var mu sync.Mutex
	watched.Hook = func(vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		killed = append(killed, fs.KillClone())
		return nil
	}
	s = run(t, options(watched, "/a"))
	open(t, s, "orders", 1)
	must(t, s.Stop(false))
	for i, disk := range killed {
		s := run(t, options(disk, "/a"))
		l := open(t, s, "orders", 1)
		w := watchSync(l)
		appendTo(t, l, 1)
		must(t, w.wait(1))
		after := disk.CrashClone(rand.New(rand.NewPCG(uint64(i), 1)), 0)
		must(t, s.Stop(false))
		s = run(t, options(after, "/a"))
		if l := open(t, s, "orders", 1); l.LogEnd() != 1 {
			t.Errorf("killed before operation %d: the log ends at %d after a power cut, 1 was synced", i, l.LogEnd())
		}
		must(t, s.Stop(false))
	}
}

// fileByFile is a filesystem that cannot be synced as a whole.
type fileByFile struct{ vfs.FS }

func (fileByFile) OpenDisk(string) (vfs.Disk, error) { return nil, errors.ErrUnsupported }

// TestFolderThatWasMadeJustNow: an administrator has made the log directory, and nothing has brought its name to the disk before
// the first record is promised.
func TestFolderThatWasMadeJustNow(t *testing.T) {
	fs := vfs.NewMem()
	must(t, fs.MkdirAll("/srv"))
	must(t, fs.SyncDir("/"))
	must(t, fs.MkdirAll("/srv/data"))
	s := run(t, options(fileByFile{fs}, "/srv/data"))
	l := open(t, s, "orders", 1)
	w := watchSync(l)
	appendTo(t, l, 1)
	must(t, w.wait(1))
	for seed := range uint64(10) {
		after := fs.CrashClone(rand.New(rand.NewPCG(seed, 1)), 0)
		s := run(t, options(after, "/srv/data"))
		if l := open(t, s, "orders", 1); l.LogEnd() != 1 {
			t.Errorf("the log ends at %d after a power cut, 1 was synced", l.LogEnd())
		}
		must(t, s.Stop(false))
	}
	must(t, s.Stop(false))
}

// TestSyncedBySomebodyElse: when another than the syncer has synced what a log's owner waits for, as retention may before
// it deletes, the owner hears of it all the same.
func TestSyncedBySomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := run(t, options(vfs.NewMem(), "/a"))
		defer func() { must(t, s.Stop(true)) }()
		l := open(t, s, "orders", 1)
		w := watchSync(l)
		appendTo(t, l, 1)
		must(t, l.AdvanceRecoveryPoint())
		time.Sleep(time.Second)
		synctest.Wait()
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.end != 1 {
			t.Fatalf("heard of a sync to %d, the log is synced to 1", w.end)
		}
	})
}

// TestJournalWritesAgainWhatItFound: after a sync that failed the system shows entries that are not on the disk, and no later
// sync brings them there. A log start that is promised behind such a gap must not be lost with it.
func TestJournalWritesAgainWhatItFound(t *testing.T) {
	disk := vfs.NewMem()
	must(t, disk.MkdirAll("/a"))
	must(t, disk.SyncDir("/"))
	fs := vfs.NewInject(disk)
	j, _, err := openJournal(fs, "/a")
	must(t, err)
	news := func(start int64) []change {
		return []change{{tp: tp("orders", 0), id: id(1), offsets: offsets{recoveryPoint: 9, highWatermark: 9, logStart: start}}}
	}
	must(t, j.write(news(1)))
	fs.SetRules(vfs.OnOp(vfs.OpSyncData, "", syscall.EIO))
	lost := news(2)
	for n := range int32(500) { // more than what a later entry shares a page with
		lost = append(lost, change{tp: tp("payments", n), id: id(2)})
	}
	if err := j.write(lost); err == nil {
		t.Fatal("a failed sync was not told")
	}
	fs.SetRules()
	must(t, j.close())

	disk = disk.KillClone()
	j, _, err = openJournal(disk, "/a")
	must(t, err)
	must(t, j.write(news(3)))
	must(t, j.close())

	disk = disk.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
	j, _, err = openJournal(disk, "/a")
	must(t, err)
	if start := j.recall(tp("orders", 0), id(1)).logStart; start != 3 {
		t.Errorf("log start %d after a power cut, 3 was promised", start)
	}
	must(t, j.close())
}
