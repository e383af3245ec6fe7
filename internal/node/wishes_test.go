package node

import (
	"slices"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// TestNewestWishCounts: a wish that nobody answered and a later one of the same partition do not go into one request. The
// controller takes one change of a partition only, and would refuse the later for the sake of the one that is out of date.
func TestNewestWishCounts(t *testing.T) {
	a, b := kafka.TopicID{1}, kafka.TopicID{2}
	wish := func(id kafka.TopicID, partition, epoch int32) replica.Wish {
		return replica.Wish{TopicID: id, TP: kafka.TopicPartition{Partition: partition}, PartitionEpoch: epoch}
	}
	got := newest([]replica.Wish{wish(a, 0, 4), wish(a, 1, 9), wish(b, 0, 2), wish(a, 0, 5), wish(a, 0, 6), wish(b, 1, 1)})
	want := []replica.Wish{wish(a, 1, 9), wish(b, 0, 2), wish(a, 0, 6), wish(b, 1, 1)}
	if !slices.EqualFunc(got, want, func(x, y replica.Wish) bool {
		return x.TopicID == y.TopicID && x.TP == y.TP && x.PartitionEpoch == y.PartitionEpoch
	}) {
		t.Errorf("%+v", got)
	}
}
