package storage

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// syncs counts the syncs of each log's records, and lets each take some time.
type syncs struct {
	took time.Duration

	mu     sync.Mutex
	by     map[string]int // by topic
	inside int
	most   int // at once
}

func (c *syncs) rule(op vfs.Op) error {
	if op.Kind != vfs.OpSyncData || !strings.HasSuffix(op.Path, ".log") {
		return nil
	}
	c.mu.Lock()
	topic, _, _ := strings.Cut(strings.TrimPrefix(op.Path, "/a/"), "-")
	c.by[topic]++
	c.inside++
	c.most = max(c.most, c.inside)
	c.mu.Unlock()
	time.Sleep(c.took)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside--
	return nil
}

// take returns the counts since the last time.
func (c *syncs) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for topic, n := range c.by {
		all = append(all, fmt.Sprintf("%s:%d", topic, n))
	}
	slices.Sort(all)
	c.by = map[string]int{}
	return strings.Join(all, " ")
}

// counted runs a Store in which each sync takes some time, with logs of topics t0, t1 and so on, all synced.
func counted(t *testing.T, logs int, took time.Duration, do func(s *Store, c *syncs, logs []*Log)) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewInject(vfs.NewMem())
		o := options(fs, "/a")
		o.SyncWholeFrom = 1000
		s := run(t, o)
		defer func() { must(t, s.Stop(true)) }()
		c := &syncs{took: took, by: map[string]int{}}
		var all []*Log
		for i := range logs {
			all = append(all, open(t, s, fmt.Sprint("t", i), byte(i)))
		}
		time.Sleep(time.Second)
		fs.SetRules(c.rule)
		do(s, c, all)
	})
}

func expect(t *testing.T, what string, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

// TestNobodyWaits: what acks=1 has written is synced in 10 ms, by one sync however many appends there were.
func TestNobodyWaits(t *testing.T) {
	counted(t, 2, 0, func(s *Store, c *syncs, logs []*Log) {
		for range 9 {
			for range 50 {
				appendTo(t, logs[0], 1)
			}
			appendTo(t, logs[1], 1)
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		expect(t, "after 9 ms", c.take(), "")
		if pending := s.Pending(s.Directories()[0]); pending == 0 {
			t.Fatal("nothing counts as unsynced")
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		expect(t, "after 10 ms", c.take(), "t0:1 t1:1")
		if logs[0].SyncedEnd() != logs[0].LogEnd() || s.Pending(s.Directories()[0]) != 0 {
			t.Fatalf("synced to %d of %d, %d bytes pending", logs[0].SyncedEnd(), logs[0].LogEnd(), s.Pending(s.Directories()[0]))
		}
		time.Sleep(time.Second)
		synctest.Wait()
		expect(t, "idle", c.take(), "")
	})
}

// TestSomebodyWaits: a log is synced at once for those who wait for it, and others are not.
func TestSomebodyWaits(t *testing.T) {
	counted(t, 3, 0, func(s *Store, c *syncs, logs []*Log) {
		logs[0].Hurry() // there is nothing to sync
		for _, l := range logs {
			appendTo(t, l, 1)
		}
		synctest.Wait()
		expect(t, "before anybody waits", c.take(), "")
		logs[1].Hurry()
		logs[1].Hurry()
		synctest.Wait()
		expect(t, "hurried", c.take(), "t1:1")
		for range 50 { // those that nobody waits for have their time all the same
			appendTo(t, logs[1], 1)
			logs[1].Hurry()
			time.Sleep(200 * time.Microsecond)
			synctest.Wait()
		}
		expect(t, "after 10 ms", c.take(), "t0:1 t1:50 t2:1")
	})
}

// TestManyBytesWait: a log does not wait for its time with more than a megabyte.
func TestManyBytesWait(t *testing.T) {
	counted(t, 2, 0, func(s *Store, c *syncs, logs []*Log) {
		appendTo(t, logs[1], 1)
		for logs[0].UnsyncedBytes() < lazyBytes-16<<10 {
			appendTo(t, logs[0], 1000)
		}
		synctest.Wait()
		expect(t, "below", c.take(), "")
		for bytes := logs[0].UnsyncedBytes(); bytes < lazyBytes; {
			bytes += int64(appendTo(t, logs[0], 1000).Bytes)
		}
		synctest.Wait()
		expect(t, "above", c.take(), "t0:1")
	})
}

// TestSyncsOverlap: a round of many syncs does not take many times as long as one.
func TestSyncsOverlap(t *testing.T) {
	const took = 20 * time.Millisecond
	counted(t, 20, took, func(s *Store, c *syncs, logs []*Log) {
		var watches []*syncWatch
		for _, l := range logs {
			watches = append(watches, watchSync(l))
			appendTo(t, l, 1)
		}
		started := time.Now()
		Hurry(logs...)
		for i, w := range watches {
			must(t, w.wait(logs[i].LogEnd()))
		}
		if all := time.Since(started); all != 2*took || c.most != 16 {
			t.Fatalf("a round of 20 syncs of %v took %v, %d at once", took, all, c.most)
		}
	})
}

// TestClientsAreGathered: clients that each wait for one sync before they write again share their syncs, all of them.
func TestClientsAreGathered(t *testing.T) {
	counted(t, 1, time.Millisecond, func(s *Store, c *syncs, logs []*Log) {
		const clients, rounds = 5, 40
		w := watchSync(logs[0])
		var running sync.WaitGroup
		for i := range clients {
			running.Go(func() {
				time.Sleep(time.Duration(i) * 300 * time.Microsecond) // not in step
				for range rounds {
					a := appendTo(t, logs[0], 1)
					if err := w.wait(a.Last + 1); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Duration(100+10*i) * time.Microsecond) // the way to the client and back
				}
			})
		}
		running.Wait()
		if n := c.by["t0"]; n > rounds*5/4 {
			t.Fatalf("%d clients that wrote %d times each took %d syncs", clients, rounds, n)
		}
	})
}

// TestOneClientIsNotHeldUp: whoever is alone waits for his sync and for nobody else.
func TestOneClientIsNotHeldUp(t *testing.T) {
	counted(t, 2, time.Millisecond, func(s *Store, c *syncs, logs []*Log) {
		w := watchSync(logs[0])
		for _, pause := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond, time.Second} {
			for range 10 {
				a := appendTo(t, logs[0], 1)
				started := time.Now()
				must(t, w.wait(a.Last+1))
				if took := time.Since(started); took != time.Millisecond {
					t.Fatalf("with a pause of %v between its appends a client waits %v for a sync of 1 ms", pause, took)
				}
				time.Sleep(pause)
			}
		}
	})
}

// TestHurryMany: who waits for several logs counts once, and has them all synced.
func TestHurryMany(t *testing.T) {
	counted(t, 3, time.Millisecond, func(s *Store, c *syncs, logs []*Log) {
		for range 3 {
			for _, l := range logs {
				appendTo(t, l, 1)
			}
			Hurry(logs...)
			if asked := logs[0].dir.syncer.asked.Load(); asked > 1 {
				t.Fatalf("one who waits counts as %d", asked)
			}
			time.Sleep(5 * time.Millisecond)
			expect(t, "hurried", c.take(), "t0:1 t1:1 t2:1")
		}
		Hurry() // nobody waits
		Hurry(logs...)
		if asked := logs[0].dir.syncer.asked.Load(); asked != 0 {
			t.Fatalf("%d wait for logs that have nothing to sync", asked)
		}
	})
}

// TestFlushSettings: without FlushBeforeAck a log is synced when so many records or so much time ask for it, and not before;
// new settings count for it too.
func TestFlushSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options(vfs.NewMem(), "/d")
		o.FlushBeforeAck = false
		s := run(t, o)
		defer func() { must(t, s.Stop(true)) }()
		append1 := func(l *Log) {
			t.Helper()
			_, err := l.Append(records(1), commitlog.AppendOptions{LeaderEpoch: 1})
			must(t, err)
			l.AppendDone()
		}
		synced := func(l *Log, after time.Duration, want kafka.Offset) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			if got := l.SyncedEnd(); got != want {
				t.Errorf("%s is synced up to %d, want %d", l.TopicPartition(), got, want)
			}
		}
		plain, counted, timed := open(t, s, "plain", 1), open(t, s, "counted", 2), open(t, s, "timed", 3)
		c := commitlog.DefaultConfig()
		c.FlushMessages = 2
		counted.SetConfig(c)
		c = commitlog.DefaultConfig()
		c.FlushMs = 5000
		timed.SetConfig(c)

		append1(plain)
		append1(counted)
		synced(counted, time.Second, 0)
		append1(counted)
		synced(counted, 0, 2)
		synced(plain, 0, 0)
		time.Sleep(2 * time.Minute) // all are synced by now
		append1(plain)
		time.Sleep(time.Second)
		append1(timed)
		synced(timed, 4*time.Second, 0)
		synced(timed, 2*time.Second, 1)
		append1(timed)
		synced(timed, 6*time.Second, 2)
	})
}
