package replica

import (
	"slices"
	"testing"
	"time"

	"moldau/internal/commitlog"
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
	for _, wish := range w.set.TakeWishes(1) {
		t.Fatalf("a follower that was level a moment ago is to leave: in-sync set %v", wish.ISR)
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
	wish := func() bool { return len(w.set.TakeWishes(1)) > 0 }
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

// TestFetchOfAnEarlierLife: a follower's fetch has just been let in when its broker registers anew, and the new incarnation is
// heard of first. The old one's records may be lost, and move nothing (KIP-903).
func TestFetchOfAnEarlierLife(t *testing.T) {
	const follower, before, now = 2, 7, 9
	w := newWorld(t, true)
	defer w.stop(false)
	w.apply(&metadata.RegisterBrokerRecord{BrokerID: follower, BrokerEpoch: now},
		&metadata.TopicRecord{Name: "t", TopicID: topicID("t")}, partitionRecord("t", 0, self, []kafka.NodeID{self, follower}))
	p, err := w.set.Partition(kafka.TopicPartition{Topic: "t"})
	w.must(err)
	_, waiter, err := p.Append(records(3, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
	w.must(err)
	w.must(p.syncAll())
	a := p.acting.Load()
	p.followed(a, Fetched{Replica: follower, Epoch: now, End: 1})
	p.followed(a, Fetched{Replica: follower, Epoch: before, End: 3})
	select {
	case <-waiter.Done():
		t.Fatal("committed by what an earlier incarnation had")
	default:
	}
	if got := p.HighWatermark(); got != 1 {
		t.Fatalf("high watermark %d, and the follower has one record", got)
	}
	p.followed(a, Fetched{Replica: follower, Epoch: now, End: 3})
	select {
	case <-waiter.Done():
		w.must(waiter.Err())
	default:
		t.Fatal("both have all, and it is not committed")
	}
}

// TestLaggingBesideAHungDisk: a partition whose worker hangs at its disk does not keep a late follower of another in sync.
func TestLaggingBesideAHungDisk(t *testing.T) {
	const follower = 2
	w := newWorld(t, true)
	defer w.stop(false)
	both := []kafka.NodeID{self, follower}
	w.apply(&metadata.RegisterBrokerRecord{BrokerID: follower, BrokerEpoch: 7},
		&metadata.TopicRecord{Name: "a", TopicID: topicID("a")}, partitionRecord("a", 0, self, both),
		&metadata.TopicRecord{Name: "b", TopicID: topicID("b")}, partitionRecord("b", 0, self, both))
	hung, err := w.set.Partition(kafka.TopicPartition{Topic: "a"})
	w.must(err)
	p, err := w.set.Partition(kafka.TopicPartition{Topic: "b"})
	w.must(err)
	_, _, err = p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch})
	w.must(err)
	w.now.Add(time.Hour.Milliseconds())
	hung.role.Lock()
	defer hung.role.Unlock()
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		w.set.DropLagging(time.Minute)
	}()
	select {
	case <-looked:
	case <-time.After(time.Minute):
		t.Fatal("nobody is looked at")
	}
	if wishes := w.set.TakeWishes(2); len(wishes) != 1 || wishes[0].TP.Topic != "b" || len(wishes[0].ISR) != 1 {
		t.Errorf("a follower has not come for an hour, and is wished for: %v", wishes)
	}
}

// TestIdleIsNotLate: a follower of an idle partition is level, as the fetches of its session say. It does not look late to whoever looks
// while the first append for a long time is in the log and not yet accounted for, nor because its next fetch comes then.
func TestIdleIsNotLate(t *testing.T) {
	const follower, epoch = 2, 7
	for _, fetches := range []bool{false, true} {
		w := newWorld(t, true)
		w.apply(&metadata.RegisterBrokerRecord{BrokerID: follower, BrokerEpoch: epoch},
			&metadata.TopicRecord{Name: "t", TopicID: topicID("t")}, partitionRecord("t", 0, self, []kafka.NodeID{self, follower}))
		p, err := w.set.Partition(kafka.TopicPartition{Topic: "t"})
		w.must(err)
		a, level := p.acting.Load(), Fetched{Replica: follower, Epoch: epoch, Session: NewWatch()}
		p.followed(a, level)
		w.now.Add(time.Hour.Milliseconds())
		w.set.Heard(level.Session, follower, epoch)
		_, err = a.log.Append(records(1, 1), commitlog.AppendOptions{Now: w.now.Load()}) // as Append does, which has come so far
		w.must(err)
		a.log.AppendDone()
		if fetches {
			p.followed(a, level)
		}
		w.set.DropLagging(time.Minute)
		if wishes := w.set.TakeWishes(1); len(wishes) > 0 {
			t.Errorf("fetches: %v: a follower that was level a moment ago is to leave: in-sync set %v", fetches, wishes[0].ISR)
		}
		w.now.Add(time.Hour.Milliseconds())
		p.mu.Lock()
		p.outgrownLocked()
		p.mu.Unlock()
		w.set.DropLagging(time.Minute)
		if wishes := w.set.TakeWishes(1); len(wishes) != 1 {
			t.Errorf("fetches: %v: a follower that lacks a record for an hour stays in sync", fetches)
		}
		w.stop(false)
	}
}

// TestTwoComeBack: two followers of an idle partition catch up at once, and both get into the in-sync set, the second as soon as the metadata
// answer for the first. So does one that was refused, when the metadata say something else. One that fell behind is not asked for.
func TestTwoComeBack(t *testing.T) {
	const epoch = 7
	w := newWorld(t, true)
	defer w.stop(false)
	w.apply(&metadata.RegisterBrokerRecord{BrokerID: 2, BrokerEpoch: epoch}, &metadata.RegisterBrokerRecord{BrokerID: 3, BrokerEpoch: epoch},
		&metadata.TopicRecord{Name: "t", TopicID: topicID("t")}, partitionRecord("t", 0, self, []kafka.NodeID{self}, 2, 3))
	p, err := w.set.Partition(kafka.TopicPartition{Topic: "t"})
	w.must(err)
	session := NewWatch()
	fetch := func(id kafka.NodeID, end kafka.Offset) {
		p.followed(p.acting.Load(), Fetched{Replica: id, Epoch: epoch, End: end, Session: session})
	}
	wished := func(want ...kafka.NodeID) Wish {
		t.Helper()
		wishes := w.set.TakeWishes(9)
		if len(wishes) != 1 || !slices.Equal(wishes[0].ISR, want) {
			t.Fatalf("wishes: %v, want one for %v", wishes, want)
		}
		return wishes[0]
	}
	change := func(isr ...kafka.NodeID) {
		w.apply(&metadata.PartitionChangeRecord{TopicID: p.id, Leader: metadata.LeaderUnchanged, LeaderRecoveryState: metadata.RecoveryUnchanged, ISR: isr})
	}
	fetch(2, 0)
	fetch(3, 0)
	wished(self, 2)
	change(self, 2)
	p.WishFailed(wished(self, 2, 3))
	change(self, 2) // its directory, say, is known now
	wished(self, 2, 3)
	change(self, 2, 3)
	_, _, err = p.Append(records(1, 1), AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch})
	w.must(err)
	change(self, 2)
	if wishes := w.set.TakeWishes(9); len(wishes) != 0 {
		t.Errorf("a follower that lacks a record is to be in sync again: %v", wishes)
	}
}

// TestManyWishes: a broker comes back that all partitions here are followed on. Each of them wishes for it, however many they are: an idle
// one is not fetched a second time.
func TestManyWishes(t *testing.T) {
	const follower, epoch, many = 2, 7, 5000
	w := newWorld(t, true)
	defer w.stop(false)
	change := []metadata.Record{&metadata.RegisterBrokerRecord{BrokerID: follower, BrokerEpoch: epoch}, &metadata.TopicRecord{Name: "t", TopicID: topicID("t")}}
	for i := range int32(many) {
		r := partitionRecord("t", 0, self, []kafka.NodeID{self}, follower)
		r.PartitionID = i
		change = append(change, r)
	}
	w.apply(change...)
	for _, p := range w.set.Partitions() {
		p.followed(p.acting.Load(), Fetched{Replica: follower, Epoch: epoch, Session: NewWatch()})
	}
	<-w.set.Wished()
	got := 0
	for wishes := w.set.TakeWishes(1000); len(wishes) > 0; wishes = w.set.TakeWishes(1000) {
		got += len(wishes)
	}
	if got != many {
		t.Errorf("%d wishes for %d partitions", got, many)
	}
}
