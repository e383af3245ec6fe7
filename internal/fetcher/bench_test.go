package fetcher

import (
	"testing"

	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// BenchmarkReplicate measures what it takes to bring bytes from a leader to one follower and to know that they are there:
// acks=all, 16 appends of 64 KiB at a time, disks and network in memory.
func BenchmarkReplicate(b *testing.B) {
	w := newWorld(b, 1, 2)
	defer w.stop()
	both := []kafka.NodeID{1, 2}
	w.lead("t", 0, 0, both, 1, both...)
	p := w.nodes[1].partition("t", 0)
	_ = w.nodes[2].partition("t", 0)
	batch := records(64, 1000)
	b.SetBytes(16 * int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		var last *replica.Waiter
		for range 16 {
			_, waiter, err := p.Append(batch, replica.AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
			w.must(err)
			last = waiter
		}
		if last != nil {
			replica.Hurry(last)
			<-last.Done()
			w.must(last.Err())
		}
	}
}
