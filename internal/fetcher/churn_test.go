package fetcher

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
)

// churn is a world whose leaders change and whose brokers die while producers write, under a small controller.
type churn struct {
	*world
	rng        *rand.Rand
	partitions []*led
	epochs     map[kafka.NodeID]int64
}

// led is the controller's view of one partition.
type led struct {
	leader         kafka.NodeID
	leaderEpoch    kafka.Epoch
	partitionEpoch int32
	isr            []kafka.NodeID
	acked          map[kafka.Offset]string
}

// TestAckedSurvivesChurn: leaders change, brokers are killed and come back, under load, with the loops that a node runs.
// In the end all replicas of a partition have the same log, and everything that was acked is in it where it was said to be.
func TestAckedSurvivesChurn(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &churn{
					world: newWorld(t, 1, 2, 3), rng: rand.New(rand.NewPCG(seed, 3)),
					epochs: map[kafka.NodeID]int64{1: 1, 2: 1, 3: 1},
				}
				defer c.stop()
				for i := range int32(8) {
					c.partitions = append(c.partitions, &led{leader: kafka.NodeID(1 + i%3), isr: []kafka.NodeID{1, 2, 3}, acked: map[kafka.Offset]string{}})
				}
				for i := range c.partitions {
					c.publish(i)
				}
				for step := range 150 {
					c.step(step)
				}
				for _, id := range []kafka.NodeID{1, 2, 3} {
					if !c.nodes[id].up {
						c.back(id)
					}
				}
				for range 20 {
					time.Sleep(300 * time.Millisecond)
					c.grant()
				}
				c.check()
			})
		})
	}
}

func (c *churn) step(step int) {
	for i, p := range c.partitions {
		if c.rng.IntN(3) == 0 && p.leader != kafka.NoNode {
			c.append(i, fmt.Sprintf("%d-%d", i, step))
		}
	}
	switch n := c.rng.IntN(20); {
	case n < 5: // another leader, from the in-sync set
		i := c.rng.IntN(len(c.partitions))
		p := c.partitions[i]
		if leader := p.isr[c.rng.IntN(len(p.isr))]; c.nodes[leader].up && leader != p.leader {
			p.leader, p.leaderEpoch = leader, p.leaderEpoch+1
			c.publish(i)
		}
	case n == 5 && len(c.up()) == 3:
		c.kill(kafka.NodeID(1 + c.rng.IntN(3)))
	case n < 9:
		for id := range kafka.NodeID(3) {
			if b := c.nodes[id+1]; !b.up {
				c.back(b.id)
				break
			}
		}
	}
	time.Sleep(time.Duration(c.rng.IntN(100)) * time.Millisecond)
	c.grant()
}

func (c *churn) append(i int, value string) {
	p := c.partitions[i]
	b := batch.NewBuilder(batch.BuildOptions{LeaderEpoch: kafka.NoEpoch})
	b.Add(batch.Record{Timestamp: 1000, Value: []byte(value)})
	done, w, err := c.nodes[p.leader].partition("t", int32(i)).Append(b.Build(), replica.AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
	if err != nil {
		return
	}
	if w != nil {
		replica.Hurry(w)
		select {
		case <-w.Done():
		case <-time.After(time.Duration(c.rng.IntN(200)) * time.Millisecond): // the producer has no patience
			return
		}
		if w.Err() != nil {
			return
		}
	}
	p.acked[done.First] = value
}

// publish tells all brokers of a partition.
func (c *churn) publish(i int) {
	p := c.partitions[i]
	p.partitionEpoch++
	var records []metadata.Record
	if _, ok := c.image.Load().Topics.ByName("t"); !ok {
		records = append(records, &metadata.TopicRecord{Name: "t", TopicID: topicID("t")})
	}
	c.apply(append(records, &metadata.PartitionRecord{
		TopicID: topicID("t"), PartitionID: int32(i), Replicas: []kafka.NodeID{1, 2, 3}, ISR: p.isr, Leader: p.leader,
		LeaderEpoch: p.leaderEpoch, PartitionEpoch: p.partitionEpoch, Directories: make([]kafka.DirID, 3),
	})...)
}

func (c *churn) kill(id kafka.NodeID) {
	c.nodes[id].stop(false)
	for i, p := range c.partitions {
		if len(p.isr) > 1 {
			p.isr = slices.DeleteFunc(slices.Clone(p.isr), func(member kafka.NodeID) bool { return member == id })
		}
		if p.leader == id {
			p.leader = kafka.NoNode
			if next := p.isr[c.rng.IntN(len(p.isr))]; c.nodes[next].up {
				p.leader = next
			}
			p.leaderEpoch++
		}
		c.publish(i)
	}
}

func (c *churn) back(id kafka.NodeID) {
	c.epochs[id]++
	c.apply(registration(id, c.epochs[id]))
	c.nodes[id].start()
	for i, p := range c.partitions {
		if p.leader == kafka.NoNode && slices.Contains(p.isr, id) {
			p.leader, p.leaderEpoch = id, p.leaderEpoch+1
			c.publish(i)
		}
	}
}

// grant decides on what leaders wish for.
func (c *churn) grant() {
	for _, b := range c.up() {
		for wishes := b.set.TakeWishes(1); len(wishes) > 0; wishes = b.set.TakeWishes(1) {
			w := wishes[0]
			i := int(w.TP.Partition)
			p := c.partitions[i]
			current := w.LeaderEpoch == p.leaderEpoch && w.PartitionEpoch == p.partitionEpoch
			refused := slices.ContainsFunc(w.ISR, func(id kafka.NodeID) bool { return !c.nodes[id].up }) ||
				!slices.EqualFunc(w.ISR, w.Epochs, func(id kafka.NodeID, epoch int64) bool { return c.epochs[id] == epoch })
			switch {
			case !current:
			case refused:
				b.partition("t", w.TP.Partition).WishFailed(w)
			default:
				p.isr = w.ISR
				c.publish(i)
			}
		}
	}
}

// log reads what a node has of a partition.
func (b *broker) log(partition int32) []string {
	b.w.t.Helper()
	var out []string
	p := b.partition("t", partition)
	for from := p.LogStart(); from < p.LogEnd(); {
		r, err := p.Read(replica.ReadOptions{
			From: from, MaxBytes: 1 << 20, AtLeastOne: true, Replica: kafka.DebugReplica, CurrentEpoch: kafka.NoEpoch,
			LastFetchedEpoch: kafka.NoEpoch, AnyReplica: true,
		})
		b.w.must(err)
		bytes, err := r.Region.ReadAll()
		b.w.must(err)
		r.Region.Release()
		for len(bytes) > 0 {
			bt, rest, err := batch.Next(bytes)
			b.w.must(err)
			bytes = rest
			b.w.must(bt.Each(func(record batch.Record) error {
				out = append(out, string(record.Value))
				return nil
			}))
			from = bt.NextOffset()
		}
	}
	return out
}

func (c *churn) check() {
	acked := 0
	for i, p := range c.partitions {
		want := c.nodes[p.leader].log(int32(i))
		for _, b := range c.up() {
			if got := b.log(int32(i)); !slices.Equal(got, want) {
				c.t.Errorf("partition %d: node %d has %v, leader %d %v", i, b.id, got, p.leader, want)
			}
		}
		for offset, value := range p.acked {
			acked++
			if offset >= int64(len(want)) || want[offset] != value {
				c.t.Errorf("partition %d: %s was acked at %d, the log is %v", i, value, offset, want)
			}
		}
		if len(p.isr) != 3 {
			c.t.Errorf("partition %d: in the end the in-sync set is %v", i, p.isr)
		}
	}
	if acked < 50 {
		c.t.Errorf("only %d records were acked", acked)
	}
}
