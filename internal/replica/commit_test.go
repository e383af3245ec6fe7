package replica

import (
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestContested: whoever may be in sync may be elected without this leader's hearing of it, and commit something if enough are in sync.
func TestContested(t *testing.T) {
	const other, epoch = 2, 7
	for _, c := range []struct {
		name    string
		isr     []kafka.NodeID
		minISR  string
		joining bool
		want    bool
	}{
		{name: "two in sync", isr: []kafka.NodeID{self, other}, minISR: "1", want: true},
		{name: "two that have to be", isr: []kafka.NodeID{self, other}, minISR: "2", want: true},
		{name: "alone", isr: []kafka.NodeID{self}, minISR: "1"},
		{name: "too few", isr: []kafka.NodeID{self}, minISR: "2"},
		{name: "one that may have been let in", isr: []kafka.NodeID{self}, minISR: "1", joining: true, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, true)
			defer w.stop(false)
			record := partitionRecord("t", 0, self, []kafka.NodeID{self, other})
			record.ISR = c.isr
			w.apply(&metadata.RegisterBrokerRecord{BrokerID: other, BrokerEpoch: epoch},
				&metadata.TopicRecord{Name: "t", TopicID: topicID("t")}, record,
				&metadata.ConfigRecord{ResourceType: int8(metadata.ConfigTopic), ResourceName: "t", Name: "min.insync.replicas", Value: &c.minISR})
			p, err := w.set.Partition(kafka.TopicPartition{Topic: "t"})
			w.must(err)
			if c.joining {
				_, err := p.Read(ReadOptions{
					MaxBytes: 1, Replica: other, ReplicaEpoch: epoch, CurrentEpoch: kafka.NoEpoch, LastFetchedEpoch: kafka.NoEpoch,
				})
				w.must(err)
				if len(w.set.TakeWishes(1)) == 0 {
					t.Fatal("a follower that has everything is not to be in sync")
				}
			}
			if got := p.Contested(); got != c.want {
				t.Errorf("contested: %v", got)
			}
		})
	}
}
