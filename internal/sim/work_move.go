package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// move has partitions move from node to node, and leadership back to where it is preferred, whatever comes of it.
func (c *client) move(ctx context.Context, plan Plan) {
	defer c.close()
	for ctx.Err() == nil {
		c.pause(ctx, time.Second)
		var err error
		switch n := c.rng.IntN(4); {
		case n == 0:
			err = c.elect(ctx)
		case n == 1:
			err = c.reassign(ctx, nil) // whatever is under way is called off
		default:
			err = c.reassign(ctx, places(c.rng, plan))
		}
		if err != nil {
			c.rest(ctx)
		}
	}
}

// places draws the nodes that a partition is to be on.
func places(rng *rand.Rand, plan Plan) []int32 {
	var to []int32
	for _, place := range rng.Perm(plan.Nodes)[:plan.Replicas] {
		to = append(to, int32(place+1))
	}
	return to
}

// reassign wants one partition on some nodes; nil: on those where it is.
func (c *client) reassign(ctx context.Context, to []int32) error {
	return c.assign(ctx, placing{c.rng.Int32N(partitions), to})
}

// placing is where a partition of the topic that is kept is to be.
type placing struct {
	partition int32
	replicas  []int32 // the one that is to lead first
}

func (c *client) assign(ctx context.Context, to placing) error {
	p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	p.Partition, p.Replicas = to.partition, to.replicas
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = kept
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = int32(attempt.Milliseconds())
	req.Topics = append(req.Topics, t)
	_, err := send(ctx, c, &req, func(r *kmsg.AlterPartitionAssignmentsResponse) int16 { return r.ErrorCode })
	if err == nil {
		c.world.Note("%s moves %s-%d to %v", c.name, kept, to.partition, to.replicas)
	}
	return err
}

func (c *client) elect(ctx context.Context) error {
	req := kmsg.NewElectLeadersRequest()
	req.Version, req.TimeoutMillis = 2, int32(attempt.Milliseconds())
	_, err := send(ctx, c, &req, func(r *kmsg.ElectLeadersResponse) int16 { return r.ErrorCode })
	return err
}

// configure changes settings of a topic while it is in use: how long its segments are, and how much of it is kept, if not all.
func (c *client) configure(ctx context.Context, plan Plan) {
	defer c.close()
	for ctx.Err() == nil {
		c.pause(ctx, 500*time.Millisecond)
		key, value := "internal.segment.bytes", fmt.Sprint(4096<<c.rng.IntN(5))
		if plan.RetainBytes > 0 && c.rng.IntN(2) == 0 {
			key, value = "retention.bytes", fmt.Sprint(plan.RetainBytes<<c.rng.IntN(3))
		}
		setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		setting.Name, setting.Value = key, &value
		of := kmsg.NewIncrementalAlterConfigsRequestResource()
		of.ResourceType, of.ResourceName = kmsg.ConfigResourceTypeTopic, kept
		of.Configs = append(of.Configs, setting)
		req := kmsg.NewIncrementalAlterConfigsRequest()
		req.Version = 1
		req.Resources = append(req.Resources, of)
		_, err := send(ctx, c, &req, func(r *kmsg.IncrementalAlterConfigsResponse) int16 { return r.Resources[0].ErrorCode })
		if err != nil {
			c.rest(ctx)
			continue
		}
		c.world.Note("%s set %s=%s", c.name, key, value)
	}
}
