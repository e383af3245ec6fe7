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
// at once, and so is everybody when a request has no patience left.
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
		wait := func(patience *Patience) time.Duration {
			began := time.Now()
			p.AwaitLead(context.Background(), patience)
			return time.Since(began)
		}
		leads := func() bool { _, err := p.leading(kafka.NoEpoch); return err == nil }

		var short Patience
		if waited := wait(&short); waited != leadPatience || leads() {
			t.Errorf("a follower that stays one: waited %v", waited)
		}
		if waited := wait(&short); waited != 0 {
			t.Errorf("without patience: waited %v", waited)
		}
		time.AfterFunc(10*time.Millisecond, func() { w.apply(lead(1, self)...) })
		var patience Patience
		if waited := wait(&patience); waited != 10*time.Millisecond || !leads() {
			t.Errorf("the next leader: waited %v, leads %v", waited, leads())
		}
		patience.End()
		if waited := wait(new(Patience)); waited != 0 {
			t.Errorf("the leader: waited %v", waited)
		}
		w.apply(lead(2, other)...)
		synctest.Wait()
		if waited := wait(new(Patience)); waited != 0 || leads() {
			t.Errorf("a leader that was deposed: waited %v", waited)
		}
	})
}
