package replica

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quota"
	"moldau/internal/storage"
	"moldau/internal/vfs"
)

// newMovingWorld is a world of two directories.
func newMovingWorld(t testing.TB) *world {
	w := newNode(t, self, true)
	w.dirs = append(w.dirs, "/other")
	w.start()
	return w
}

// elsewhere returns the directory that a partition does not lie in.
func (w *world) elsewhere(p *Partition) *storage.Directory {
	dirs := w.store.Directories()
	if p.Dir() == dirs[0] {
		return dirs[1]
	}
	return dirs[0]
}

// arrived waits until a partition lies in a directory.
func (w *world) arrived(p *Partition, in *storage.Directory) {
	w.t.Helper()
	for limit := time.Now().Add(time.Minute); p.Dir() != in || p.future.Load() != nil; {
		if time.Now().After(limit) {
			w.t.Fatalf("%s lies in %s, want %s", p.tp, p.Dir().Path(), in.Path())
		}
		w.settle(p.tp)
	}
	w.settle(p.tp)
}

func (w *world) append(p *Partition, n int) {
	w.t.Helper()
	for range n {
		_, waiter, err := p.Append(records(2, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
		w.must(err)
		if waiter != nil {
			<-waiter.Done()
			w.must(waiter.Err())
		}
	}
}

// TestMovesUnderAppends: a producer that waits for each record is never left waiting while its partition moves back and
// forth, and loses none.
func TestMovesUnderAppends(t *testing.T) {
	w := newMovingWorld(t)
	p := w.lead("t")
	var end atomic.Int64
	over, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-over:
				failed <- nil
				return
			default:
			}
			a, waiter, err := p.Append(records(2, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
			if err == nil && waiter != nil {
				select {
				case <-waiter.Done():
					err = waiter.Err()
				case <-time.After(time.Minute):
					err = fmt.Errorf("nothing is heard of offset %d: log [.., %d) synced to %d, watermark %d", a.Last, p.LogEnd(), p.acting.Load().log.SyncedEnd(), p.HighWatermark())
				}
			}
			if err != nil {
				failed <- err
				return
			}
			end.Store(a.Last + 1)
		}
	}()
	for moves := 0; (moves < 60 || end.Load() < 20) && len(failed) == 0; moves++ {
		to := w.elsewhere(p)
		w.must(<-w.set.Move(p.tp, to))
		w.arrived(p, to)
	}
	close(over)
	w.must(<-failed)
	if p.HighWatermark() != end.Load() {
		t.Errorf("acked up to %d, watermark %d", end.Load(), p.HighWatermark())
	}
	at := p.Dir().Path()
	w.stop(true)
	w.start()
	w.set.Apply(metadata.Between(metadata.EmptyImage(), w.image), w.image)
	w.settle(p.tp)
	p, err := w.set.Partition(p.tp)
	w.must(err)
	if p.LogEnd() != end.Load() || p.Dir().Path() != at {
		t.Errorf("opened again it ends at %d, in %s; acked was up to %d, in %s", p.LogEnd(), p.Dir().Path(), end.Load(), at)
	}
	w.stop(true)
}

// TestMovedLogIsHeard: whoever appends as soon as a copy is in use hears of its sync.
func TestMovedLogIsHeard(t *testing.T) {
	w := newMovingWorld(t)
	defer w.stop(true)
	w.rate.SetRate(0)
	p := w.lead("t")
	w.append(p, 1)
	to := w.elsewhere(p)
	w.must(<-w.set.Move(p.tp, to))
	w.store.Run(p.tp, func() {
		_, err := p.promote(p.future.Load())
		w.must(err)
		_, waiter, err := p.Append(records(2, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
		w.must(err)
		if waiter == nil {
			return
		}
		select {
		case <-waiter.Done():
			w.must(waiter.Err())
		case <-time.After(time.Minute):
			t.Error("the sync of a log that was just put in use was not heard of")
		}
	})
	w.settle(p.tp)
}

// TestMoveRefusals: what cannot move says why, as Apache Kafka does.
func TestMoveRefusals(t *testing.T) {
	w := newMovingWorld(t)
	defer w.stop(false)
	p := w.lead("t")
	long := strings.Repeat("x", 215)
	w.lead(long)
	w.apply(&metadata.TopicRecord{Name: "away", TopicID: topicID("away")}, partitionRecord("away", 0, 2, []kafka.NodeID{2}))
	to := w.elsewhere(p)
	for name, want := range map[string]error{"none": kerr.UnknownTopicOrPartition, "away": kerr.NotLeaderForPartition, long: kerr.InvalidTopicException} {
		if err := <-w.set.Move(kafka.TopicPartition{Topic: name}, to); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	// What was wanted of one that is not here yet counts when it comes.
	w.apply(&metadata.PartitionChangeRecord{TopicID: topicID("away"), Replicas: []kafka.NodeID{self}, ISR: []kafka.NodeID{self}, Leader: self, Directories: []kafka.DirID{{}}})
	if q, err := w.set.Partition(kafka.TopicPartition{Topic: "away"}); err != nil || q.Dir() != to {
		t.Errorf("it came to another directory than was wanted: %v", err)
	}
	w.fs.SetRules(func(op vfs.Op) error {
		if strings.HasPrefix(op.Path, to.Path()) {
			return syscall.EIO
		}
		return nil
	})
	for range 2 {
		if err := <-w.set.Move(p.tp, to); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("to a directory that has failed: %v", err)
		}
	}
	w.append(p, 3)
	w.fs.SetRules()
	if to.Online() || p.Dir() == to {
		t.Errorf("it lies in %s", p.Dir().Path())
	}
}

// TestMoveOfATopicThatGoes: the copy goes with the topic, the one of an earlier run too.
func TestMoveOfATopicThatGoes(t *testing.T) {
	for _, restart := range []bool{false, true} {
		w := newMovingWorld(t)
		w.rate.SetRate(0)
		p := w.lead("t")
		w.append(p, 3)
		to := w.elsewhere(p)
		w.must(<-w.set.Move(p.tp, to))
		if futures := w.store.Futures(); len(futures) != 1 {
			t.Fatalf("%d copies", len(futures))
		}
		if restart {
			w.stop(true)
			w.start()
			w.must(w.set.SetAsideStrays(metadata.EmptyImage()))
		} else {
			w.apply(&metadata.RemoveTopicRecord{TopicID: p.id})
			w.settle(p.tp)
		}
		entries, err := w.disk.List(to.Path())
		w.must(err)
		for _, e := range entries {
			if strings.HasSuffix(e.Name, "-future") {
				t.Errorf("restart %v: %s is left", restart, e.Name)
			}
		}
		w.stop(true)
	}
}

// TestMoveAcrossDeletedRecords: a log that starts inside of a batch, and whose start moves on while it is copied, arrives with
// that start.
func TestMoveAcrossDeletedRecords(t *testing.T) {
	w := newMovingWorld(t)
	defer w.stop(true)
	w.rate.SetRate(0)
	p := w.lead("t")
	w.append(p, 10)
	remove := func(to kafka.Offset) {
		t.Helper()
		_, waiter, err := p.DeleteRecords(to)
		w.must(err)
		if waiter != nil {
			<-waiter.Done()
		}
	}
	remove(5)
	to := w.elsewhere(p)
	w.must(<-w.set.Move(p.tp, to))
	future := p.future.Load()
	w.store.Run(p.tp, func() {
		p.role.RLock()
		defer p.role.RUnlock()
		if _, err := p.copyPiece(future); err != nil {
			t.Error(err)
		}
	})
	w.settle(p.tp)
	if future.LogStart() != 5 || future.LogEnd() != 20 {
		t.Errorf("the copy is [%d, %d)", future.LogStart(), future.LogEnd())
	}
	remove(9)
	w.append(p, 1)
	w.rate.SetRate(quota.Unlimited)
	w.set.copy(p)
	w.arrived(p, to)
	if p.LogStart() != 9 || p.LogEnd() != 22 {
		t.Errorf("it arrives as [%d, %d)", p.LogStart(), p.LogEnd())
	}
}

// TestProducersOfAFollower: a follower tells of producers too, as in Apache Kafka.
func TestProducersOfAFollower(t *testing.T) {
	w := newMovingWorld(t)
	defer w.stop(true)
	p := w.lead("t")
	w.apply(&metadata.RegisterBrokerRecord{BrokerID: 2}, partitionRecord("t", 1, 2, []kafka.NodeID{2}, self))
	if _, follows := p.Follows(); !follows {
		t.Fatal("it does not follow")
	}
	if _, err := p.Producers(); err != nil {
		t.Error(err)
	}
}

// TestMovedOutOfAFailedDirectory: a replica that has moved, and whose old directory fails before the controller has heard of it, says
// where it is: the records have come along.
func TestMovedOutOfAFailedDirectory(t *testing.T) {
	w := newMovingWorld(t)
	defer w.stop(false)
	p := w.lead("t")
	from := p.Dir()
	r := partitionRecord("t", 0, self, []kafka.NodeID{self})
	r.PartitionEpoch, r.Directories = 1, []kafka.DirID{from.ID()}
	w.apply(r)
	w.append(p, 3)
	to, left := w.elsewhere(p), p.acting.Load().log
	w.must(<-w.set.Move(p.tp, to))
	w.arrived(p, to)
	left.Fail(errors.New("the disk is gone"))
	for range 2 {
		if got := w.set.Placements(); len(got) != 1 || got[0] != (Placement{p.tp, p.id, to.ID()}) {
			t.Fatalf("it lies in %s and says %v", to.Path(), got)
		}
		// The controller takes the old directory for the replica's, until it is told: nobody leads.
		w.apply(&metadata.PartitionChangeRecord{TopicID: p.id, Leader: kafka.NoNode})
	}
	w.apply(&metadata.PartitionChangeRecord{TopicID: p.id, Leader: self, Directories: []kafka.DirID{to.ID()}})
	if got := w.set.Placements(); len(got) != 0 {
		t.Fatalf("the metadata know it, and it says %v", got)
	}
	w.append(p, 1)
	if p.LogEnd() != 8 {
		t.Errorf("log end %d", p.LogEnd())
	}
}
