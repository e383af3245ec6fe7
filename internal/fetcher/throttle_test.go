package fetcher

import (
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quota"
	"moldau/internal/replica"
)

// TestThrottles (KIP-73): a follower that catches up copies no faster than the leader's or its own throttle lets it, other
// partitions and those that are in sync are not held up, and lifting the throttle counts before long.
func TestThrottles(t *testing.T) {
	const rate, batches, size = 20_000, 50, 4_000
	for name, setup := range map[string]struct {
		key   string
		rates func(w *world)
	}{
		"leader": {"leader.replication.throttled.replicas", func(w *world) {
			w.nodes[1].quota.SetRates(quota.Rates{Leader: rate, Follower: quota.Unlimited})
		}},
		"follower": {"follower.replication.throttled.replicas", func(w *world) {
			w.nodes[2].quota.SetRates(quota.Rates{Leader: quota.Unlimited, Follower: rate})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, 1, 2)
				defer w.stop()
				for _, b := range w.up() {
					b.options = func(o *Options) { o.PartitionBytes = 2 * size }
				}
				w.nodes[2].stop(true)
				w.nodes[2].start()
				both := []kafka.NodeID{1, 2}
				value := "*"
				list := func(topic string) metadata.Record {
					return &metadata.ConfigRecord{ResourceType: int8(metadata.ConfigTopic), ResourceName: topic, Name: setup.key, Value: &value}
				}
				w.lead("free", 0, 0, both, 1, both...)
				w.lead("level", 0, 0, both, 1, both...)
				w.apply(list("slow"), list("level"))
				w.nodes[2].stop(true)
				w.lead("slow", 0, 0, []kafka.NodeID{1}, 1, 1)
				for range batches {
					_, _, err := w.nodes[1].partition("slow", 0).Append(records(1, size), replica.AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch})
					w.must(err)
				}
				time.Sleep(time.Second)
				w.nodes[2].start()
				setup.rates(w)
				time.Sleep(time.Second)
				w.lead("slow", 0, 1, both, 1, 1)
				slow := w.nodes[2].partition("slow", 0)
				for second := range 4 {
					time.Sleep(time.Second)
					copied := slow.LogEnd() * size
					if most := int64((second+3)*rate + 3*size); copied > most {
						t.Fatalf("%d bytes after %d seconds at %d a second", copied, second+1, rate)
					}
					w.within(600*time.Millisecond, w.nodes[1].produce("free", 0, 1))
				}
				if copied := slow.LogEnd() * size; copied < 3*rate {
					t.Fatalf("only %d bytes after 4 seconds at %d a second", copied, rate)
				}
				for _, b := range w.up() {
					b.quota.SetRates(quota.Rates{Leader: quota.Unlimited, Follower: quota.Unlimited})
				}
				time.Sleep(3 * time.Second)
				if slow.LogEnd() != batches {
					t.Errorf("the throttle is lifted, and the follower ends at %d", slow.LogEnd())
				}
				// In sync, and the bucket in debt: what is acked does not wait for a throttle.
				setup.rates(w)
				for range 5 {
					w.within(600*time.Millisecond, w.nodes[1].produce("level", 0, 1000))
				}
			})
		})
	}
}
