package replica

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestAwaitLead: whoever comes to the next leader before the metadata do waits for them; whoever comes to one that has led is sent on
// at once. When a wait was in vain so is everybody, whatever he writes to, until the node is given something to lead: a producer that has
// sent several requests is not to see a later one taken, or refused for its sequence numbers, when an earlier one was sent on.
func TestAwaitLead(t *testing.T) {
	const other kafka.NodeID = 2
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, true)
		defer w.stop(false)
		lead := func(epoch kafka.Epoch, leader kafka.NodeID) []metadata.Record {
			return []metadata.Record{partitionRecord("t", epoch, leader, []kafka.NodeID{other, self})}
		}
		w.apply(append([]metadata.Record{&metadata.RegisterBrokerRecord{BrokerID: other}, &metadata.TopicRecord{Name: "t", TopicID: topicID("t")}},
			lead(0, other)...)...)
		synctest.Wait()
		p, err := w.set.Partition(kafka.TopicPartition{Topic: "t"})
		w.must(err)
		w.apply(&metadata.TopicRecord{Name: "u", TopicID: topicID("u")}, partitionRecord("u", 0, other, []kafka.NodeID{other, self}))
		u, err := w.set.Partition(kafka.TopicPartition{Topic: "u"})
		w.must(err)
		waits := func(p *Partition, patience *Patience) time.Duration {
			began := time.Now()
			p.AwaitLead(context.Background(), patience)
			return time.Since(began)
		}
		wait := func(p *Partition) time.Duration {
			var patience Patience
			defer patience.End()
			return waits(p, &patience)
		}
		leads := func() bool { _, err := p.leading(kafka.NoEpoch); return err == nil }
		soon := func(epoch kafka.Epoch) { time.AfterFunc(10*time.Millisecond, func() { w.apply(lead(epoch, self)...) }) }

		soon(1)
		if waited := wait(p); waited != 10*time.Millisecond || !leads() {
			t.Errorf("the next leader: waited %v, leads %v", waited, leads())
		}
		synctest.Wait() // until who gave it the role is through
		if waited := wait(p); waited != 0 {
			t.Errorf("the leader: waited %v", waited)
		}
		w.apply(lead(2, other)...)
		synctest.Wait()
		if waited := wait(p); waited != 0 || leads() {
			t.Errorf("a leader that was deposed: waited %v", waited)
		}
		if waited := wait(u); waited != leadPatience {
			t.Errorf("a follower that stays one: waited %v", waited)
		}
		w.apply(lead(3, other)...)
		if waited := wait(u); waited != 0 {
			t.Errorf("after a wait in vain: waited %v", waited)
		}
		w.apply(lead(4, self)...)
		synctest.Wait()
		var patience Patience
		if waited := waits(u, &patience); waited != leadPatience {
			t.Errorf("with something to lead: waited %v", waited)
		}
		w.apply(lead(5, self)...)
		synctest.Wait()
		if waited := waits(u, &patience); waited != 0 {
			t.Errorf("a request without patience: waited %v", waited)
		}
	})
}
