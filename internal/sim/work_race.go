package sim

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// mostLost is how many requests of one client may go unanswered: each doubles the orders that its history may have.
const mostLost = 6

// race makes and deletes one topic at the same time as others who do so.
func (c *client) race(ctx context.Context) {
	defer c.close()
	for lost := 0; ctx.Err() == nil && lost < mostLost; {
		c.pause(ctx, 100*time.Millisecond)
		op := topicOp{create: c.rng.IntN(2) == 0}
		began := c.history.began()
		act := c.deleteContested
		if op.create {
			act = c.createContested
		}
		err := act(ctx)
		switch {
		case err == nil:
			op.known, op.done = true, true
		case op.create && errors.Is(err, kerr.TopicAlreadyExists), !op.create && errors.Is(err, kerr.UnknownTopicOrPartition):
			op.known = true
		case errors.Is(err, kerr.UnknownServerError):
			c.history.fault(sound, "%s: %v", c.name, err)
		}
		c.history.raced(c.name, began, op)
		if !op.known {
			lost++
			c.rest(ctx)
		}
	}
}

func (c *client) createContested(ctx context.Context) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = contested, 1, 1
	req := kmsg.NewCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, int32(attempt.Milliseconds())
	req.Topics = append(req.Topics, t)
	_, err := send(ctx, c, &req, func(r *kmsg.CreateTopicsResponse) int16 { return r.Topics[0].ErrorCode })
	return err
}

func (c *client) deleteContested(ctx context.Context) error {
	name := contested
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	req := kmsg.NewDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, int32(attempt.Milliseconds())
	req.Topics = append(req.Topics, t)
	_, err := send(ctx, c, &req, func(r *kmsg.DeleteTopicsResponse) int16 { return r.Topics[0].ErrorCode })
	return err
}
