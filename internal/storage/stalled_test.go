package storage

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/vfs"
)

// TestStalledDiskHoldsUpNoOther: while one of two disks answers nothing, jobs of partitions on the other are done, and new
// partitions are made there, the first of them within moments. When the disk answers again all is done that was asked for.
func TestStalledDiskHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, goOn := vfs.NewInject(vfs.NewMem()), make(chan struct{})
		s := run(t, options(disk, "/a", "/b"))
		defer func() { must(t, s.Stop(false)) }()
		for i := range 20 {
			open(t, s, fmt.Sprint("old", i), 1)
		}
		disk.SetRules(func(op vfs.Op) error {
			if strings.HasPrefix(op.Path, "/b/") {
				<-goOn
			}
			return nil
		})
		var mu sync.Mutex
		done := map[string]int{}
		count := func(what string) int {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return done[what]
		}
		for i := range int32(20) {
			key := tp(fmt.Sprint("old", i), 0)
			l, _ := s.Lookup(key)
			s.Run(key, func() {
				_, err := s.o.FS.List(l.Log.Dir())
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				done["old in "+l.Dir().Path()]++
			})
		}
		if n := count("old in /a"); n != 10 {
			t.Errorf("%d of 10 jobs in the other directory are done", n)
		}
		for i := range int32(100) {
			key := tp("new", i)
			s.Run(key, func() {
				l, err := s.Open(key, id(2), kafka.DirUnassigned, commitlog.DefaultConfig())
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				done["new in "+l.Dir().Path()]++
			})
		}
		time.Sleep(3 * stallPatience)
		if n := count("new in /a"); n < 90 {
			t.Errorf("%d of 100 new partitions are made", n)
		}
		if n := count("new in /b") + count("old in /b"); n != 0 {
			t.Errorf("%d jobs are done on a disk that answers nothing", n)
		}
		close(goOn)
		if n := count("old in /b"); n != 10 {
			t.Errorf("%d of 10 jobs are done when the disk answers again", n)
		}
		if n := count("new in /a") + count("new in /b"); n != 100 {
			t.Errorf("%d of 100 new partitions are there in the end", n)
		}
		if l, stalled := open(t, s, "last", 3), s.dirs[1].stalled; stalled != 0 || l.Dir().Path() != "/b" {
			t.Errorf("afterwards a partition is made in %s, %d are stalled", l.Dir().Path(), stalled)
		}
	})
}

// TestStalledDiskHoldsUpNoBackground: while one of two disks answers nothing, what nobody waits for goes on in the other: records
// and folders are deleted, logs are compacted and read for damage.
func TestStalledDiskHoldsUpNoBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, goOn := vfs.NewInject(vfs.NewMem()), make(chan struct{})
		o := options(disk, "/a", "/b")
		o.RetentionInterval, o.Metrics = time.Minute, metrics.NewSet()
		o.Cleaner = CleanerOptions{Threads: 1, Backoff: 10 * time.Second}
		o.Scrub.BytesPerSecond = 1 << 20
		s := run(t, o)
		retain := commitlog.DefaultConfig()
		retain.SegmentBytes, retain.RetentionBytes, retain.FileDeleteDelayMs = 1000, 0, 1
		logs := map[string]*Log{}
		for _, topic := range []string{"z compacted", "a compacted", "z retained", "a retained", "z gone", "a gone"} { // in /a and /b by turns
			if strings.Contains(topic, "retained") {
				l, err := s.Open(tp(topic, 0), id(1), kafka.DirUnassigned, retain)
				must(t, err)
				logs[topic] = l
			} else {
				logs[topic] = openCompacted(t, s, topic, 1)
			}
			appendKeys(t, logs[topic], 200)
		}
		compacted, retained := logs["z compacted"], logs["z retained"]
		if compacted.dir.path != "/a" || retained.dir.path != "/a" {
			t.Fatalf("the logs lie in %s and %s", compacted.dir.path, retained.dir.path)
		}
		must(t, s.Delete(logs["a gone"]))
		must(t, s.Delete(logs["z gone"]))
		before, other := compacted.Size(), logs["a compacted"].Size()
		disk.SetRules(func(op vfs.Op) error {
			if strings.HasPrefix(op.Path, "/b/") {
				<-goOn
			}
			return nil
		})
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := compacted.Size(); got > before/4 {
			t.Errorf("%d bytes of %d are left after compaction", got, before)
		}
		if retained.LogStart() == 0 {
			t.Error("retention has deleted nothing")
		}
		for _, name := range folders(t, disk, "/a") {
			if commitlog.IsDeleteDir(name) {
				t.Errorf("%s is still there", name)
			}
		}
		if sum(t, o.Metrics, "moldau_log_scrubbed_bytes_total") == 0 {
			t.Error("no log was read for damage")
		}
		if logs["a compacted"].Size() != other || logs["a retained"].LogStart() != 0 {
			t.Error("a disk that answers nothing has taken changes")
		}
		close(goOn)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if got := logs["a compacted"].Size(); got > other/4 || logs["a retained"].LogStart() == 0 {
			t.Errorf("afterwards %d bytes of %d are left, and the other log starts at %d", got, other, logs["a retained"].LogStart())
		}
		must(t, s.Stop(true))
	})
}
