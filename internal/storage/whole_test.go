package storage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// slowSyncs is a disk on which each sync takes some time; it counts them.
type slowSyncs struct {
	file, whole   time.Duration
	files, wholes atomic.Int64
}

func (d *slowSyncs) rule(op vfs.Op) error {
	switch op.Kind {
	case vfs.OpSyncFS:
		d.wholes.Add(1)
		time.Sleep(d.whole)
	case vfs.OpSync, vfs.OpSyncData, vfs.OpSyncDir:
		d.files.Add(1)
		time.Sleep(d.file)
	}
	return nil
}

// told returns how far the log was said to be synced.
func (w *syncWatch) told() kafka.Offset {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.end
}

// failures returns how often it was said to have failed.
func (w *syncWatch) failures() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.errs)
}

// TestSyncsFollowTheDiskNotThePartitions: with 1, 100 and 1,000 partitions under load, as many syncs are made in a second as
// the disk can do one after the other, and everybody's records are durable all the same.
func TestSyncsFollowTheDiskNotThePartitions(t *testing.T) {
	const each = 5 * time.Millisecond
	for _, partitions := range []int{1, 100, 1000} {
		synctest.Test(t, func(t *testing.T) {
			disk := &slowSyncs{file: each, whole: each}
			fs := vfs.NewInject(vfs.NewMem())
			s := run(t, options(fs, "/a"))
			defer func() { must(t, s.Stop(false)) }()
			var watches []*syncWatch
			for i := range partitions {
				watches = append(watches, watchSync(open(t, s, fmt.Sprint("t", i), byte(1+i%250))))
			}
			time.Sleep(2 * time.Second)
			fs.SetRules(disk.rule)
			began := time.Now()
			var clients sync.WaitGroup
			var acked atomic.Int64
			for _, w := range watches {
				clients.Go(func() {
					for time.Since(began) < time.Second {
						a := appendTo(t, w.l, 1)
						if err := w.wait(a.Last + 1); err != nil {
							t.Error(err)
							return
						}
						acked.Add(1)
					}
				})
			}
			clients.Wait()
			took := time.Since(began)
			syncs := disk.files.Load() + disk.wholes.Load()
			if most := int64(took/each) + 20; syncs > most { // the journal and the first syncs of a log take some
				t.Errorf("%d partitions: %d syncs in %v, want %d at most", partitions, syncs, took, most)
			}
			if least := int64(partitions) * int64(time.Second/each) / 3; acked.Load() < least {
				t.Errorf("%d partitions: %d records acked in %v, want %d at least", partitions, acked.Load(), took, least)
			}
		})
	}
}

// TestOthersWriteMuch: a sync of the filesystem that takes long, for what other programs have written, holds nobody up for
// long, and is not tried again soon.
func TestOthersWriteMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowSyncs{file: time.Millisecond, whole: 10 * time.Second}
		fs := vfs.NewInject(vfs.NewMem())
		s := run(t, options(fs, "/a"))
		defer func() { must(t, s.Stop(true)) }()
		var watches []*syncWatch
		for i := range 50 {
			watches = append(watches, watchSync(open(t, s, fmt.Sprint("t", i), byte(1+i))))
		}
		time.Sleep(time.Second)
		fs.SetRules(disk.rule)
		write := func() time.Duration {
			began := time.Now()
			var all []*Log
			for _, w := range watches {
				appendTo(t, w.l, 1)
				all = append(all, w.l)
			}
			Hurry(all...)
			for _, w := range watches {
				must(t, w.wait(w.l.LogEnd()))
			}
			return time.Since(began)
		}
		if took := write(); took > wholePatience+100*time.Millisecond {
			t.Errorf("the first round took %v", took)
		}
		for range 100 {
			if took := write(); took > 100*time.Millisecond {
				t.Fatalf("a later round took %v", took)
			}
			time.Sleep(time.Second)
		}
		if n := disk.wholes.Load(); n != 1 {
			t.Errorf("%d syncs of the filesystem", n)
		}
		time.Sleep(wholePenalty * 10 * time.Second)
		disk.whole = time.Millisecond
		for range 3 {
			if took := write(); took > 100*time.Millisecond {
				t.Errorf("afterwards a round took %v", took)
			}
		}
		if n := disk.wholes.Load(); n < 3 {
			t.Errorf("%d syncs of the filesystem although it is quiet again", n)
		}
		fs.SetRules()
	})
}

// TestFailedWholeSyncFailsTheDirectory: that alone, once, for everybody in it, and whether somebody still waits for it or not.
func TestFailedWholeSyncFailsTheDirectory(t *testing.T) {
	for _, took := range []time.Duration{time.Millisecond, 2 * wholePatience} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			fs := vfs.NewInject(mem)
			s := run(t, options(fs, "/a", "/b"))
			var watches []*syncWatch
			for i := range 20 {
				watches = append(watches, watchSync(open(t, s, fmt.Sprint("t", i), byte(1+i)))) // ten in each
			}
			time.Sleep(time.Second)
			fs.SetRules(func(op vfs.Op) error {
				if op.Kind == vfs.OpSyncFS && op.Path == "/a" {
					time.Sleep(took)
					return syscall.EIO
				}
				return nil
			})
			for _, w := range watches {
				appendTo(t, w.l, 1)
			}
			Hurry(s.Logs()...)
			time.Sleep(4 * wholePatience)
			synctest.Wait()
			for _, w := range watches {
				broken := w.l.Dir().Path() == "/a"
				if _, err := w.l.Append(records(1), commitlog.AppendOptions{}); (err != nil) != broken {
					t.Errorf("%s in %s: append after the failure: %v", w.l.TopicPartition(), w.l.Dir().Path(), err)
				}
				if told := w.failures(); broken && told != 1 || !broken && told != 0 {
					t.Errorf("%s in %s was told of %d failures", w.l.TopicPartition(), w.l.Dir().Path(), told)
				}
				if broken && took < wholePatience && w.told() > 0 {
					t.Errorf("%s is said to be synced to %d by a sync that failed", w.l.TopicPartition(), w.told())
				}
			}
			fs.SetRules()
			_ = s.Stop(true)
		})
	}
}

// TestRecoveredIsNotYetDurable: what a killed process has left counts for nobody before it is synced, and for everybody
// afterwards. Only then may a power cut not take it.
func TestRecoveredIsNotYetDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		o := options(mem, "/a")
		o.FlushBeforeAck = false
		s := run(t, o)
		for i := range 5 {
			appendTo(t, open(t, s, fmt.Sprint("t", i), byte(1+i)), 10)
		}
		killed := mem.KillClone()
		must(t, s.Stop(false))

		gate := make(chan struct{})
		fs := vfs.NewInject(killed)
		o = options(fs, "/a")
		s = run(t, o)
		defer func() { must(t, s.Stop(false)) }()
		fs.SetRules(func(op vfs.Op) error {
			if op.Kind == vfs.OpSyncFS || op.Kind == vfs.OpSyncData {
				<-gate
			}
			return nil
		})
		var watches []*syncWatch
		for i := range 5 {
			watches = append(watches, watchSync(open(t, s, fmt.Sprint("t", i), byte(1+i))))
		}
		time.Sleep(100 * time.Millisecond)
		for _, w := range watches {
			if w.told() != 0 || w.l.LogEnd() != 10 || w.l.SyncedEnd() != 0 {
				t.Errorf("before the sync: end %d, synced %d, told %d", w.l.LogEnd(), w.l.SyncedEnd(), w.told())
			}
		}
		close(gate)
		time.Sleep(100 * time.Millisecond)
		for _, w := range watches {
			if w.told() != 10 || w.l.SyncedEnd() != 10 {
				t.Errorf("after the sync: told %d, synced %d", w.told(), w.l.SyncedEnd())
			}
		}
		after := run(t, options(killed.CrashClone(rand.New(rand.NewPCG(1, 1)), 0), "/a"))
		defer func() { must(t, after.Stop(false)) }()
		for i := range 5 {
			if l := open(t, after, fmt.Sprint("t", i), byte(1+i)); l.LogEnd() != 10 {
				t.Errorf("after a power cut the log ends at %d", l.LogEnd())
			}
		}
	})
}

// TestUncleanStartReadsNoMoreThanTheLimit: whenever a node is killed, however many logs it writes to and however slow its
// disk is, the next start has no more to read in a directory than the limit.
func TestUncleanStartReadsNoMoreThanTheLimit(t *testing.T) {
	const limit, logs, batch = 256 << 10, 20, 4 << 10
	for _, whole := range []time.Duration{time.Millisecond, 300 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			mem := vfs.NewMem()
			disk := &slowSyncs{whole: whole}
			fs := vfs.NewInject(mem, disk.rule)
			o := options(fs, "/a")
			o.RecoveryBytes = limit
			s := run(t, o)
			var written atomic.Int64
			var clients sync.WaitGroup
			done := make(chan struct{})
			for i := range logs {
				l := open(t, s, fmt.Sprint("t", i), byte(1+i))
				clients.Go(func() {
					for !received(done) {
						written.Add(int64(appendTo(t, l, batch/10).Bytes))
						time.Sleep(time.Duration(i%5+1) * time.Millisecond)
					}
				})
			}
			for range 40 {
				time.Sleep(97 * time.Millisecond)
				killed := mem.KillClone()
				again := run(t, Options{FS: killed, Dirs: []string{"/a"}, NodeID: 1, Now: time.Now})
				for i := range logs {
					open(t, again, fmt.Sprint("t", i), byte(1+i))
				}
				if n := again.dirs[0].scanned.Load(); n > limit {
					t.Errorf("an unclean start read %d bytes, the limit is %d", n, limit)
				}
				must(t, again.Stop(false))
			}
			close(done)
			clients.Wait()
			if n := written.Load(); n < 3*limit/2 {
				t.Errorf("only %d bytes were written: appends were held up for good", n)
			}
			must(t, s.Stop(false))
		})
	}
}

// TestNewPartitionsCostNoSync: partitions are made without a sync, however many; the first sync that somebody waits for makes
// what it needs of their folders durable. A crash before leaves them empty or not there.
func TestNewPartitionsCostNoSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions = 50
		mem := vfs.NewMem()
		disk := &slowSyncs{}
		fs := vfs.NewInject(mem)
		s := run(t, options(fs, "/a"))
		time.Sleep(time.Second)
		fs.SetRules(disk.rule)
		var all []*Log
		for i := range partitions {
			all = append(all, open(t, s, fmt.Sprint("t", i), byte(1+i)))
		}
		if n := disk.files.Load() + disk.wholes.Load(); n > 1 { // of the journal
			t.Errorf("%d syncs for %d new partitions", n, partitions)
		}
		w := watchSync(all[7])
		appendTo(t, all[7], 3)
		must(t, w.wait(3))
		for variant := range uint64(20) {
			for _, keep := range []float64{0, 0.5} {
				crashed := mem.CrashClone(rand.New(rand.NewPCG(variant, 3)), keep)
				after := run(t, options(crashed, "/a"))
				must(t, after.Strays(func(kafka.TopicPartition, kafka.TopicID) bool { return true }))
				for i := range partitions {
					want := kafka.Offset(0)
					if i == 7 {
						want = 3
					}
					if l := open(t, after, fmt.Sprint("t", i), byte(1+i)); l.LogEnd() != want {
						t.Errorf("variant %d, keep %v: t%d ends at %d, want %d", variant, keep, i, l.LogEnd(), want)
					}
				}
				if strays := strings.Count(fmt.Sprint(folders(t, crashed, "/a")), "-stray"); strays > 0 {
					t.Errorf("variant %d, keep %v: %d folders were set aside", variant, keep, strays)
				}
				must(t, after.Stop(false))
			}
		}
		must(t, s.Stop(true))
	})
}

// TestRunFirst: what comes first does not wait for what is in line for other partitions, nor at the end of the line with what is in
// line for its own; jobs of one partition stay in order.
func TestRunFirst(t *testing.T) {
	w := newWorkers(1, 1)
	var order []string
	gate := make(chan struct{})
	w.run(nil, tp("a", 0), func() { <-gate })
	for i := range 3 {
		w.run(nil, tp(fmt.Sprint("b", i), 0), func() { order = append(order, fmt.Sprint("b", i)) })
	}
	w.runFirst(nil, tp("b2", 0), func() { order = append(order, "b2 again") })
	w.runFirst(nil, tp("c", 0), func() { order = append(order, "c") })
	close(gate)
	w.wait()
	if got := fmt.Sprint(order); got != "[b2 c b2 again b0 b1]" {
		t.Errorf("ran in the order %v", got)
	}
}
