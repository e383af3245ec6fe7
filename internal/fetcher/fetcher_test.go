package fetcher

import (
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
)

// TestFollowersCopy: what a leader has, its followers get, and acks=all is answered when they have it.
func TestFollowersCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		defer w.stop()
		all := []kafka.NodeID{1, 2, 3}
		w.lead("t", 0, 0, all, 1, all...)
		for range 20 {
			began := time.Now()
			waiter := w.nodes[1].produce("t", 0, 3)
			<-waiter.Done()
			w.must(waiter.Err())
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Fatalf("acks=all took %s", took)
			}
		}
		time.Sleep(time.Second)
		for _, id := range all {
			p := w.nodes[id].partition("t", 0)
			if p.LogEnd() != 60 || p.HighWatermark() != 60 {
				t.Errorf("node %d: end %d, high watermark %d", id, p.LogEnd(), p.HighWatermark())
			}
		}
	})
}

// TestFollowerRestarts: a follower that was killed gets what it missed.
func TestFollowerRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both := []kafka.NodeID{1, 2}
		w.lead("t", 0, 0, both, 1, both...)
		<-w.nodes[1].produce("t", 0, 3).Done()
		w.nodes[2].stop(false)
		w.lead("t", 0, 1, both, 1, 1)
		<-w.nodes[1].produce("t", 0, 4).Done()
		w.nodes[2].start()
		time.Sleep(time.Second)
		if p := w.nodes[2].partition("t", 0); p.LogEnd() != 7 || p.HighWatermark() != 7 {
			t.Errorf("end %d, high watermark %d", p.LogEnd(), p.HighWatermark())
		}
	})
}
