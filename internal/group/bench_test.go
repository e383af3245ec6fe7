package group

import (
	"fmt"
	"testing"

	"moldau/internal/coordinator"
)

// BenchmarkReplayOffset is the loading of a commit: 10,000 partitions of 100 groups, over and over.
func BenchmarkReplayOffset(b *testing.B) {
	var records []coordinator.Record
	for g := range 100 {
		for p := range int32(100) {
			records = append(records, offsetRecord(fmt.Sprintf("group-%d", g), "orders", p, &committed{offset: 7, leaderEpoch: 1, at: 1, expires: noExpiry}))
		}
	}
	s := &shard{c: &Coordinator{}, groups: map[string]*group{}}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := s.Replay(records[i%len(records)]); err != nil {
			b.Fatal(err)
		}
	}
}
