package metadata

import "testing"

func largeImage(b *testing.B, topics, partitions int) *Image {
	d := NewDelta(EmptyImage())
	for n := range topics {
		records := []Record{&TopicRecord{Name: "topic" + id(n).String(), TopicID: id(n)}}
		for p := range partitions {
			records = append(records, &PartitionRecord{TopicID: id(n), PartitionID: int32(p), Replicas: []int32{1}, ISR: []int32{1}, Leader: 1})
		}
		for _, r := range records {
			if err := d.Replay(r); err != nil {
				b.Fatal(err)
			}
		}
	}
	return d.Image(1, 1)
}

func BenchmarkLoad100000Partitions(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		largeImage(b, 1000, 100)
	}
}

func BenchmarkChangeOneOf100000Partitions(b *testing.B) {
	image := largeImage(b, 1000, 100)
	change := &PartitionChangeRecord{TopicID: id(500), PartitionID: 50, Leader: 1, LeaderRecoveryState: RecoveryUnchanged}
	b.ReportAllocs()
	for b.Loop() {
		d := NewDelta(image)
		if err := d.Replay(change); err != nil {
			b.Fatal(err)
		}
		image = d.Image(image.Offset+1, 1)
	}
}

func BenchmarkSnapshotOf100000Partitions(b *testing.B) {
	image := largeImage(b, 1000, 100)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		image.EncodeRecords(func(value []byte) { n += len(value) })
		if n == 0 {
			b.Fatal("nothing written")
		}
	}
}

func BenchmarkDecodePartition(b *testing.B) {
	value := Encode(nil, &PartitionRecord{Replicas: []int32{1, 2, 3}, ISR: []int32{1, 2, 3}, Leader: 1}, 2)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(value); err != nil {
			b.Fatal(err)
		}
	}
}
