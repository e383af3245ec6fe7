package znode

import (
	"encoding/binary"
	"fmt"
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// large is an image of 10,000 topics of ten partitions.
func large(b *testing.B) *metadata.Image {
	d := metadata.NewDelta(metadata.EmptyImage())
	replicas := []kafka.NodeID{1, 2, 3}
	for i := range uint32(10_000) {
		var id kafka.TopicID
		binary.BigEndian.PutUint32(id[12:], i+1)
		records := []metadata.Record{&metadata.TopicRecord{Name: fmt.Sprintf("topic-%d", i), TopicID: id}}
		for p := range int32(10) {
			records = append(records, &metadata.PartitionRecord{TopicID: id, PartitionID: p, Replicas: replicas, ISR: replicas, Leader: 1})
		}
		for _, r := range records {
			if err := d.Replay(r); err != nil {
				b.Fatal(err)
			}
		}
	}
	return d.Image(1, 1)
}

// BenchmarkAll is what a new leader of the tree does once.
func BenchmarkAll(b *testing.B) {
	image := large(b)
	for b.Loop() {
		NewViews("c").All(Source{Image: image, Controller: 1})
	}
}

// BenchmarkChange is one partition that gets another leader.
func BenchmarkChange(b *testing.B) {
	image := large(b)
	views := NewViews("c")
	views.All(Source{Image: image, Controller: 1})
	var id kafka.TopicID
	id[15] = 7
	for b.Loop() {
		d := metadata.NewDelta(image)
		if err := d.Replay(&metadata.PartitionChangeRecord{TopicID: id, PartitionID: 3, Leader: 2, LeaderRecoveryState: metadata.RecoveryUnchanged}); err != nil {
			b.Fatal(err)
		}
		views.Changes(d, Source{Image: d.Image(2, 1), Controller: 1})
	}
}
