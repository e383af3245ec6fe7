package replica

import (
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestLateFetchTakesNothingBack: a follower has two requests under way for a partition, one in its session and an earlier one
// without. What the earlier one says, whenever the leader gets to read for it, is old: nothing waits because of it, and the
// session still vouches for the follower.
func TestLateFetchTakesNothingBack(t *testing.T) {
	const follower, epoch = 2, 7
	w := newWorld(t, true)
	defer w.stop(false)
	w.apply(&metadata.RegisterBrokerRecord{BrokerID: follower, BrokerEpoch: epoch},
		&metadata.TopicRecord{Name: "t", TopicID: topicID("t")}, partitionRecord("t", 0, self, []kafka.NodeID{self, follower}))
	p, err := w.set.Partition(kafka.TopicPartition{Topic: "t"})
	w.must(err)
	session := NewWatch()
	fetch := func(from kafka.Offset, session *Watch) {
		t.Helper()
		r, err := p.Read(ReadOptions{
			From: from, MaxBytes: 1, Replica: follower, ReplicaEpoch: epoch, Session: session,
			CurrentEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch,
		})
		w.must(err)
		if r.Region != nil {
			r.Region.Release()
		}
	}
	w.gate.close() // the follower's disk is faster than the leader's
	_, waiter, err := p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
	w.must(err)
	fetch(0, nil)
	fetch(1, session)
	fetch(0, nil)
	w.gate.open()
	w.must(p.syncAll())
	select {
	case <-waiter.Done():
		w.must(waiter.Err())
	default:
		t.Fatalf("both have the record, and the watermark is %d", p.HighWatermark())
	}

	w.now.Add(time.Hour.Milliseconds())
	w.set.Heard(session, follower, epoch)
	_, _, err = p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch})
	w.must(err)
	w.set.DropLagging(time.Minute)
	select {
	case wish := <-w.set.Wishes():
		t.Fatalf("a follower that was level a moment ago is to leave: in-sync set %v", wish.ISR)
	default:
	}

	fetch(2, nil) // and more is welcome from wherever it comes
	w.must(p.syncAll())
	if p.HighWatermark() != 2 {
		t.Fatalf("both have two records, and the watermark is %d", p.HighWatermark())
	}
}
