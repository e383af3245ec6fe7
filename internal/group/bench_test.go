package group

import (
	"fmt"
	"math"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

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

// BenchmarkLastToJoin is the part of a rebalance of 1,000 members that asks after each of them whether it was the last.
func BenchmarkLastToJoin(b *testing.B) {
	g := newGroup("g", new(atomic.Int64))
	for i := range 1000 {
		g.add(&member{id: fmt.Sprintf("member-%d", i)})
	}
	g.state = preparing
	answer := coordinator.NewPromise[*kmsg.JoinGroupResponse]()
	for b.Loop() {
		for _, m := range g.order {
			m.join = nil
		}
		joined := 0
		for _, m := range g.order {
			if !g.takes(m.id, math.MaxInt32) {
				b.Fatal("the group is full")
			}
			m.join = answer
			if g.allJoined() {
				joined++
			}
		}
		if joined != 1 {
			b.Fatalf("all have joined after %d of them", joined)
		}
	}
}
