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
	w.gate.Close() // the follower's disk is faster than the leader's
	_, waiter, err := p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
	w.must(err)
	fetch(0, nil)
	fetch(1, session)
	fetch(0, nil)
	w.gate.Open()
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

// TestLateStartIsTold: a follower comes into service whose log starts before the leader's, because retention has been at work
// since its last fetch. It is not taken into the in-sync set, and hears of the start although nothing is appended.
func TestLateStartIsTold(t *testing.T) {
	const follower, epoch, key = 2, 7, 3
	w := newWorld(t, true)
	defer w.stop(false)
	w.apply(&metadata.RegisterBrokerRecord{BrokerID: follower, BrokerEpoch: epoch, Fenced: true},
		&metadata.TopicRecord{Name: "t", TopicID: topicID("t")}, partitionRecord("t", 0, self, []kafka.NodeID{self}, follower))
	p, err := w.set.Partition(kafka.TopicPartition{Topic: "t"})
	w.must(err)
	session := NewWatch()
	p.Attach(session, key, Follower)
	fetch := func(logStart kafka.Offset) {
		t.Helper()
		_, err := p.Read(ReadOptions{
			From: 1, MaxBytes: 1, Replica: follower, ReplicaEpoch: epoch, LogStart: logStart, Session: session,
			CurrentEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch,
		})
		w.must(err)
	}
	wish := func() bool {
		select {
		case <-w.set.Wishes():
			return true
		default:
			return false
		}
	}
	_, _, err = p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch})
	w.must(err)
	w.must(p.syncAll())
	fetch(0)
	w.must(p.acting.Load().log.SetLogStart(1)) // as retention does
	session.Take(nil)
	w.apply(&metadata.BrokerRegistrationChangeRecord{BrokerID: follower, BrokerEpoch: epoch, Fenced: metadata.Unfence})
	if wish() {
		t.Fatal("a follower is to be in sync that has what is deleted")
	}
	if dirty := session.Take(nil); len(dirty) != 1 || dirty[0] != key {
		t.Fatalf("its session is told of %v", dirty)
	}
	fetch(1)
	if !wish() {
		t.Fatal("it has deleted what the leader has, and stays out of sync")
	}
}
