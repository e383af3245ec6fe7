package fetcher

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
	"moldau/internal/vfs"
)

// TestFollowersCopy: what a leader has, its followers get, and acks=all is answered when they have it.
func TestFollowersCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		defer w.stop()
		all := []kafka.NodeID{1, 2, 3}
		w.lead("t", 0, 0, all, 1, all...)
		for range 20 {
			began := time.Now()
			waiter := w.nodes[1].produce("t", 0, 3)
			<-waiter.Done()
			w.must(waiter.Err())
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Fatalf("acks=all took %s", took)
			}
		}
		time.Sleep(time.Second)
		for _, id := range all {
			p := w.nodes[id].partition("t", 0)
			if p.LogEnd() != 60 || p.HighWatermark() != 60 {
				t.Errorf("node %d: end %d, high watermark %d", id, p.LogEnd(), p.HighWatermark())
			}
		}
	})
}

// TestFollowerRestarts: a follower that was killed gets what it missed.
func TestFollowerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		w.lead("t", 0, 0, both, 1, both...)
		<-w.nodes[1].produce("t", 0, 3).Done()
		w.nodes[2].stop(false)
		w.lead("t", 0, 1, both, 1, 1)
		<-w.nodes[1].produce("t", 0, 4).Done()
		w.nodes[2].start()
		time.Sleep(time.Second)
		if p := w.nodes[2].partition("t", 0); p.LogEnd() != 7 || p.HighWatermark() != 7 {
			t.Errorf("end %d, high watermark %d", p.LogEnd(), p.HighWatermark())
		}
	})
}

// within fails the test if a produce is not committed in time.
func (w *world) within(limit time.Duration, waiter *replica.Waiter) {
	w.t.Helper()
	select {
	case <-waiter.Done():
		w.must(waiter.Err())
	case <-time.After(limit):
		w.t.Fatalf("not committed after %s\n%s", limit, w.log.String())
	}
}

// TestIdlePartitionsCostNothing: a thousand followers without news cost what one does.
func TestIdlePartitionsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		records := []metadata.Record{&metadata.TopicRecord{Name: "t", TopicID: topicID("t")}}
		for i := range int32(1000) {
			records = append(records, &metadata.PartitionRecord{
				TopicID: topicID("t"), PartitionID: i, Replicas: both, ISR: both, Leader: 1, Directories: make([]kafka.DirID, 2),
			})
		}
		w.apply(records...)
		time.Sleep(2 * time.Second)
		before := w.bytes.Load()
		time.Sleep(10 * time.Second) // in which a leader holds twenty requests
		if bytes := w.bytes.Load() - before; bytes > 25*150 {
			t.Errorf("%d bytes in ten seconds of silence", bytes)
		}
		w.within(100*time.Millisecond, w.nodes[1].produce("t", 500, 1))
		if bytes := w.bytes.Load() - before; bytes > 40*150 {
			t.Errorf("%d bytes for one record", bytes)
		}
	})
}

// TestNewPartitionsDoNotWait: while the leader holds a request for want of news, partitions that came since are fetched.
func TestNewPartitionsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		w.lead("idle", 0, 0, both, 1, both...)
		for partition := range int32(20) {
			time.Sleep(137 * time.Millisecond) // anywhere in the leader's wait
			w.lead("t", partition, 0, both, 1, both...)
			for range 3 {
				w.within(50*time.Millisecond, w.nodes[1].produce("t", partition, 1))
			}
		}
		w.within(50*time.Millisecond, w.nodes[1].produce("idle", 0, 1))
	})
}

// TestPartitionThatComesBackIsNotForgotten: while the leader held a request the follower of a partition has ended and another has
// begun. The next request names the partition and does not have it forgotten.
func TestPartitionThatComesBackIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		w.lead("t", 0, 0, []kafka.NodeID{1, 2}, 1, 1, 2)
		p := w.nodes[2].partition("t", 0)
		k := key{p.TopicID(), 0}
		l := newLoop(w.nodes[2].fetcher, lane{leader: 1, shard: 1})
		l.session, l.inSession = session{id: 5, epoch: 2}, 1
		l.followers[k] = &follower{p: p, key: k, in: true}
		l.drop(l.followers[k])
		l.followers[k] = &follower{p: p, key: k}
		l.name(l.followers[k])
		if req := l.next(); len(req.Topics) != 1 || len(req.ForgottenTopics) != 0 {
			t.Errorf("the request names %v and forgets %v", req.Topics, req.ForgottenTopics)
		}
	})
}

// TestIdleFollowersAreInSync: who had everything when his session last fetched is late only from then on, however long ago
// anything was appended; and a session that has ended vouches for nobody.
func TestIdleFollowersAreInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		w.lead("t", 0, 0, both, 1, both...)
		w.within(time.Second, w.nodes[1].produce("t", 0, 1))
		leader := w.nodes[1].set
		wished := func() bool {
			leader.DropLagging(30 * time.Second)
			return len(leader.TakeWishes(1)) > 0
		}
		time.Sleep(5 * time.Minute)
		w.nodes[1].produce("t", 0, 1)
		if wished() {
			t.Error("a follower that was idle with its leader looks late")
		}
		time.Sleep(time.Second)
		w.nodes[2].stop(false)
		time.Sleep(5 * time.Minute)
		w.nodes[1].produce("t", 0, 1)
		if !wished() {
			t.Error("a follower that is gone is in sync")
		}
	})
}

// TestDamagedRecordsAreRefused (KAFKA-4384, -18723): one bad batch on the leader stops one partition, which says so and
// goes on when it is repaired.
func TestDamagedRecordsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		w.lead("good", 0, 0, both, 1, both...)
		w.within(time.Second, w.nodes[1].produce("good", 0, 1))
		w.nodes[2].stop(true)
		w.lead("bad", 0, 0, both, 1, 1)
		w.within(time.Second, w.nodes[1].produce("bad", 0, 1))
		flip := func() { w.nodes[1].flip("/data/bad-0/00000000000000000000.log", 70) }
		flip()
		w.nodes[2].start()
		time.Sleep(10 * time.Second)
		if end := w.nodes[2].partition("bad", 0).LogEnd(); end != 0 {
			t.Errorf("the follower took damaged records up to %d", end)
		}
		if text := w.log.String(); !strings.Contains(text, "partition=bad-0") || !strings.Contains(text, "CRC") {
			t.Errorf("nobody was told:\n%s", text)
		}
		w.within(100*time.Millisecond, w.nodes[1].produce("good", 0, 1))
		flip()
		time.Sleep(3 * time.Second)
		if end := w.nodes[2].partition("bad", 0).LogEnd(); end != 1 {
			t.Errorf("repaired, and the follower ends at %d", end)
		}
	})
}

// TestWhatLiesBeforeDamageIsCopied: of what comes in one answer the follower takes the batches before a damaged one. So it asks for that
// one next, by its offset; and all of this is between the two logs: the follower's disk stays in use, also when it is an offset, which
// no CRC covers, that the leader's disk has changed.
func TestWhatLiesBeforeDamageIsCopied(t *testing.T) {
	size := int64(len(records(1, 10)))
	for name, at := range map[string]int64{"a record": size + 70, "an offset": size + 7} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 2)
				defer w.stop()
				w.nodes[2].stop(true)
				w.lead("bad", 0, 0, []kafka.NodeID{1, 2}, 1, 1)
				for range 3 {
					w.within(time.Second, w.nodes[1].produce("bad", 0, 1))
				}
				flip := func() { w.nodes[1].flip("/data/bad-0/00000000000000000000.log", at) }
				flip()
				w.nodes[2].start()
				time.Sleep(10 * time.Second)
				p := w.nodes[2].partition("bad", 0)
				if end := p.LogEnd(); name == "a record" && end != 1 || end > 1 {
					t.Errorf("the follower ends at %d", end)
				}
				flip()
				time.Sleep(10 * time.Second)
				if end := p.LogEnd(); end != 3 {
					t.Errorf("repaired, and the follower ends at %d", end)
				}
				if dirs := w.nodes[2].store.Directories(); !dirs[0].Online() {
					t.Errorf("the follower's directory is offline: %v", dirs[0].Err())
				}
			})
		})
	}
}

// TestPausesGrowAndEndTogether: partitions that go on failing are tried again less and less often, and all in one request.
func TestPausesGrowAndEndTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		const partitions = 20
		both := []kafka.NodeID{1, 2}
		w.nodes[2].stop(false)
		for i := range int32(partitions) {
			w.lead("t", i, 0, both, 1, 1)
			w.within(time.Second, w.nodes[1].produce("t", i, 1))
			f, err := w.nodes[1].disk.Open(fmt.Sprintf("/data/t-%d/00000000000000000000.log", i), vfs.Write)
			w.must(err)
			_, err = f.WriteAt([]byte{0xff}, 70)
			w.must(err)
			w.must(f.Close())
		}
		w.nodes[2].start()
		time.Sleep(10 * time.Second)
		value := func(name string) float64 {
			families, err := w.nodes[2].fetcher.o.Metrics.Gatherer().Gather()
			w.must(err)
			for _, family := range families {
				if family.GetName() == name {
					return family.GetMetric()[0].GetCounter().GetValue()
				}
			}
			t.Fatalf("no metric %s", name)
			return 0
		}
		// Pauses of 20, 40, … 640 ms and nine of a second, each followed by two requests at most; and empty ones.
		if n := value("moldau_fetcher_failures_total") / partitions; n < 10 || n > 20 {
			t.Errorf("each partition failed %.1f times in ten seconds", n)
		}
		if n := value("moldau_fetcher_requests_total"); n > 70 {
			t.Errorf("%.0f requests in ten seconds", n)
		}
	})
}

// TestSlowDiskHoldsUpNobodyElse: a partition whose sync hangs, or takes long each time, leaves the session; the others are fetched
// and reported as if it were not there.
func TestSlowDiskHoldsUpNobodyElse(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		name := "each sync takes a second"
		if hangs {
			name = "it hangs"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 2)
				defer w.stop()
				both := []kafka.NodeID{1, 2}
				w.nodes[2].stop(true)
				w.nodes[2].dirs = []string{"/data", "/more"} // the syncs of one directory go side by side and wait for each other
				w.nodes[2].start()
				w.lead("slow", 0, 0, both, 1, both...)
				w.lead("fast", 0, 0, both, 1, both...)
				goOn := make(chan struct{})
				var open sync.Once
				defer open.Do(func() { close(goOn) })
				w.nodes[2].fs.SetRules(func(op vfs.Op) error {
					if (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncData) && strings.Contains(op.Path, "slow-0") {
						if hangs {
							<-goOn
						} else {
							time.Sleep(time.Second)
						}
					}
					return nil
				})
				slow := w.nodes[1].produce("slow", 0, 1)
				time.Sleep(2 * time.Second)
				for range 50 {
					again := w.nodes[1].produce("slow", 0, 1) // so that there is always a sync to be waited for
					w.within(50*time.Millisecond, w.nodes[1].produce("fast", 0, 1))
					time.Sleep(100 * time.Millisecond)
					select {
					case <-slow.Done():
						if hangs {
							t.Fatal("committed without being on the follower's disk")
						}
						slow = again
					default:
					}
				}
				open.Do(func() { close(goOn) })
				w.within(5*time.Second, w.nodes[1].produce("slow", 0, 1))
			})
		})
	}
}

// TestOneOfTwoSlowDisks: of two partitions whose syncs take long one goes on when its own is done, although nothing else happens.
func TestOneOfTwoSlowDisks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		w.nodes[2].stop(true)
		w.nodes[2].dirs = []string{"/data", "/more"}
		w.nodes[2].start()
		w.lead("a", 0, 0, both, 1, both...)
		w.lead("b", 0, 0, both, 1, both...)
		for _, hangs := range []string{"a-0", "b-0"} {
			goOn := make(chan struct{})
			open := sync.OnceFunc(func() { close(goOn) })
			defer open()
			w.nodes[2].fs.SetRules(func(op vfs.Op) error {
				if op.Kind != vfs.OpSync && op.Kind != vfs.OpSyncData {
					return nil
				}
				if strings.Contains(op.Path, hangs) {
					<-goOn
				} else if strings.Contains(op.Path, "-0/") {
					time.Sleep(2 * time.Second)
				}
				return nil
			})
			a, b := w.nodes[1].produce("a", 0, 1), w.nodes[1].produce("b", 0, 1)
			if hangs == "b-0" {
				a, b = b, a
			}
			w.within(10*time.Second, b)
			open()
			w.within(10*time.Second, a)
		}
	})
}

// TestLeaderFails: when the leader is gone the others go on under the next one in the time that their first pause takes, and
// an old leader that comes back is cut to what they have.
func TestLeaderFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		defer w.stop()
		all := []kafka.NodeID{1, 2, 3}
		w.lead("t", 0, 0, all, 1, all...)
		w.within(time.Second, w.nodes[1].produce("t", 0, 2))
		// Node 1 appends what nobody fetches any more.
		w.nodes[2].fetcher.Stop()
		w.nodes[3].fetcher.Stop()
		w.nodes[1].produce("t", 0, 5)
		time.Sleep(time.Second)
		w.nodes[1].stop(false)
		for _, id := range all[1:] {
			w.nodes[id].stop(false)
			w.nodes[id].start()
		}
		w.lead("t", 0, 1, all, 2, 2, 3)
		w.within(100*time.Millisecond, w.nodes[2].produce("t", 0, 3))
		w.nodes[1].start()
		w.apply(registration(1, 2))
		time.Sleep(2 * time.Second)
		if p := w.nodes[1].partition("t", 0); p.LogEnd() != 5 || p.HighWatermark() != 5 {
			t.Errorf("the old leader ends at %d with watermark %d, want 5", p.LogEnd(), p.HighWatermark())
		}
	})
}

// TestDeadLeaderIsTriedEverLessOften: pauses double while nobody listens at the leader's address, and the log tells of the first
// failure and then of one a second at most.
func TestDeadLeaderIsTriedEverLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		all := []kafka.NodeID{1, 2}
		w.lead("t", 0, 0, all, 1, all...)
		w.within(time.Second, w.nodes[1].produce("t", 0, 2))
		w.nodes[1].stop(false)
		before := strings.Count(w.log.String(), "cannot fetch from the leader")
		time.Sleep(10 * time.Second)
		if told := strings.Count(w.log.String(), "cannot fetch from the leader") - before; told < 5 || told > 12 {
			t.Errorf("told %d times within 10 s", told)
		}
		w.nodes[1].start()
	})
}

// TestDeletedRecordsAreDeletedEverywhere: DeleteRecords is done when the followers have deleted them too, which they hear of
// with their next fetch and tell with the one after it.
func TestDeletedRecordsAreDeletedEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		w.lead("t", 0, 0, both, 1, both...)
		w.within(time.Second, w.nodes[1].produce("t", 0, 5))
		time.Sleep(time.Second)
		_, waiter, err := w.nodes[1].partition("t", 0).DeleteRecords(3)
		w.must(err)
		if waiter == nil {
			t.Fatal("nobody waits for the follower")
		}
		w.within(100*time.Millisecond, waiter)
		if start := w.nodes[2].partition("t", 0).LogStart(); start != 3 {
			t.Errorf("the follower begins at %d", start)
		}
	})
}

// TestFollowersBeginWhereTheLeaderDoes: a follower whose next record has been deleted meanwhile, or that never had one, asks
// for the leader's bounds and goes on from its start; also when that lies inside of a batch.
func TestFollowersBeginWhereTheLeaderDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		w.lead("t", 0, 0, both, 1, both...)
		w.within(time.Second, w.nodes[1].produce("t", 0, 2))
		w.nodes[2].stop(false)
		w.lead("t", 0, 1, []kafka.NodeID{1}, 1, 1)
		w.within(time.Second, w.nodes[1].produce("t", 0, 5))
		_, _, err := w.nodes[1].partition("t", 0).DeleteRecords(4)
		w.must(err)
		w.lead("t", 0, 2, both, 1, 1)
		w.apply(registration(2, 2))
		w.nodes[2].start()
		time.Sleep(3 * time.Second)
		p := w.nodes[2].partition("t", 0)
		if p.LogStart() != 4 || p.LogEnd() != 7 || p.HighWatermark() != 7 {
			t.Errorf("the follower has [%d, %d) with watermark %d, want [4, 7)\n%s", p.LogStart(), p.LogEnd(), p.HighWatermark(), w.log.String())
		}
	})
}
