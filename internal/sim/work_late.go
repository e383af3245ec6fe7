package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// A request may be on its way for so long that what it says is not true any more when it arrives. Whoever gets it has to find out.

// wish is what a leader might have asked the controller for: the in-sync set of a partition as it was once.
type wish struct {
	topic     kafka.TopicID
	partition int32
	was       *metadata.PartitionRegistration
	epochs    map[kafka.NodeID]int64 // of the brokers then
}

// wishLate has leaders' wishes for in-sync sets arrive when the set is another one.
func (c *course) wishLate(ctx context.Context) {
	voters := c.client("straggler")
	voters.seeds = nil
	for place := range c.plan.Voters {
		voters.seeds = append(voters.seeds, hostName(place)+":9093")
	}
	defer voters.close()
	var w *wish
	for ctx.Err() == nil {
		voters.pause(ctx, 200*time.Millisecond)
		switch now := c.registered(w); {
		case w == nil || now == nil || now.LeaderEpoch != w.was.LeaderEpoch:
			w = c.wished(voters.rng.Int32N(partitions))
		case now.PartitionEpoch > w.was.PartitionEpoch:
			if granted, err := voters.wish(ctx, w); err == nil {
				c.world.Note("a late wish for the in-sync set of %s-%d came", kept, w.partition)
				if granted {
					c.fail(withinBounds, "the in-sync set of %s-%d is what was wished for in partition epoch %d, after epoch %d", kept, w.partition,
						w.was.PartitionEpoch, now.PartitionEpoch)
				}
				w = nil
			}
		}
	}
}

// newest is the newest image that a node has, nil if none serves.
func (c *course) newest() (image *metadata.Image) {
	for _, h := range c.hosts {
		if h.serves() && (image == nil || h.life.node.Image().Offset > image.Offset) {
			image = h.life.node.Image()
		}
	}
	return image
}

// registered is what has become of a wish's partition, nil if nobody knows.
func (c *course) registered(w *wish) *metadata.PartitionRegistration {
	image := c.committed.newest.Load()
	if w == nil || image == nil {
		return nil
	}
	topic, now, known := image.Topics.Partition(kafka.TopicPartition{Topic: kept, Partition: w.partition})
	if !known || topic.ID != w.topic {
		return nil
	}
	return now
}

// wished is what the leader of a partition may wish for now, nil if there is none.
func (c *course) wished(partition int32) *wish {
	image := c.committed.newest.Load()
	if image == nil {
		return nil
	}
	topic, now, known := image.Topics.Partition(kafka.TopicPartition{Topic: kept, Partition: partition})
	if !known || now.Leader == kafka.NoNode {
		return nil
	}
	w := &wish{topic: topic.ID, partition: partition, was: now, epochs: make(map[kafka.NodeID]int64)}
	for id, b := range image.Cluster.Brokers() {
		w.epochs[id] = b.Epoch
	}
	return w
}

// wish asks the controller for an in-sync set. It returns whether that was granted; an error if nobody has answered who could have.
func (c *client) wish(ctx context.Context, w *wish) (granted bool, err error) {
	p := kmsg.NewAlterPartitionRequestTopicPartition()
	p.Partition, p.LeaderEpoch, p.PartitionEpoch, p.LeaderRecoveryState = w.partition, int32(w.was.LeaderEpoch), w.was.PartitionEpoch, w.was.LeaderRecoveryState
	for _, id := range w.was.ISR {
		p.NewEpochISR = append(p.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: w.epochs[id]})
	}
	t := kmsg.NewAlterPartitionRequestTopic()
	t.TopicID = w.topic
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewAlterPartitionRequest()
	req.Version, req.BrokerID, req.BrokerEpoch = 3, w.was.Leader, w.epochs[w.was.Leader]
	req.Topics = append(req.Topics, t)
	resp, err := send(ctx, c, &req, func(r *kmsg.AlterPartitionResponse) int16 { return r.ErrorCode })
	if errors.Is(err, kerr.StaleBrokerEpoch) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if len(resp.Topics) == 0 || len(resp.Topics[0].Partitions) == 0 {
		return false, fmt.Errorf("no answer for partition %d", w.partition)
	}
	switch err := kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode); {
	case err == nil:
		return true, nil
	case errors.Is(err, kerr.NotController):
		return false, err
	}
	return false, nil
}
