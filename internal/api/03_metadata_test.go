package api

import (
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestVersion0NamesOnlyListedBrokers: clients before 0.10 look each replica up among the brokers of the answer and give up when
// one is not there, and a fenced broker is not.
func TestVersion0NamesOnlyListedBrokers(t *testing.T) {
	delta := metadata.NewDelta(metadata.EmptyImage())
	for _, id := range []kafka.NodeID{1, 2} {
		err := delta.Replay(&metadata.RegisterBrokerRecord{BrokerID: id, Fenced: id == 2, Endpoints: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	partition := &metadata.PartitionRegistration{Replicas: []kafka.NodeID{1, 2, 3}, ISR: []kafka.NodeID{1, 2}, Directories: make([]kafka.DirID, 3), Leader: 1}
	for version, want := range map[int16][]kafka.NodeID{0: {1}, 1: {1, 2, 3}} {
		got := view{image: delta.Image(1, 1), listener: "PLAINTEXT", version: version}.partition(0, partition)
		if !slices.Equal(got.Replicas, want) || version == 0 && (!slices.Equal(got.ISR, want) || got.ErrorCode != kerr.ReplicaNotAvailable.Code) || got.Leader != 1 {
			t.Errorf("version %d: %+v", version, got)
		}
	}
}
