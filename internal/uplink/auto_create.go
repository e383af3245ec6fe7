package uplink

import (
	"cmp"
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/xsync"
)

// creating holds the topics whose creation is under way, so that a thousand clients that ask at once cause one request.
type creating struct {
	mu     xsync.Mutex
	topics map[string]*creation
}

type creation struct {
	done chan struct{}
	err  error // valid after done
}

// AutoCreate creates a topic because a client used it, with the numbers that this broker was given for that or else the
// controller's, and waits for the outcome. A topic that is there already is no error (AutoTopicCreationManager). Fails with INVALID_TOPIC_EXCEPTION for a bad
// name, or whatever else the controller says of it.
func (u *Uplink) AutoCreate(ctx context.Context, topic string) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, cmp.Or(u.o.AutoPartitions, -1), cmp.Or(u.o.AutoReplicationFactor, -1)
	return u.AutoCreateAs(ctx, t)
}

// AutoCreateAs is AutoCreate of a topic with a shape of its own, such as an internal one.
func (u *Uplink) AutoCreateAs(ctx context.Context, t kmsg.CreateTopicsRequestTopic) error {
	topic := t.Topic
	u.creating.mu.Lock()
	c, underWay := u.creating.topics[topic]
	if !underWay {
		c = &creation{done: make(chan struct{})}
		u.creating.topics[topic] = c
	}
	u.creating.mu.Unlock()
	if underWay {
		select {
		case <-c.done:
			return c.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.err = u.create(ctx, t)
	u.creating.mu.Lock()
	delete(u.creating.topics, topic)
	u.creating.mu.Unlock()
	close(c.done)
	return c.err
}

func (u *Uplink) create(ctx context.Context, t kmsg.CreateTopicsRequestTopic) error {
	topic := t.Topic
	req := kmsg.NewCreateTopicsRequest()
	req.Version = 7
	req.TimeoutMillis = int32(u.o.Timeout.Milliseconds())
	req.Topics = append(req.Topics, t)
	ctx, cancel := context.WithTimeout(ctx, u.o.Timeout)
	defer cancel()
	answered, err := u.Forward(ctx, &req, itself)
	if err != nil {
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	resp, ok := answered.(*kmsg.CreateTopicsResponse)
	if !ok {
		return fmt.Errorf("create topic %s: answered with a %T", topic, answered)
	}
	for _, answer := range resp.Topics {
		err := kerr.ErrorForCode(answer.ErrorCode)
		if err == nil || answer.ErrorCode == kerr.TopicAlreadyExists.Code {
			continue
		}
		if answer.ErrorMessage != nil {
			return fmt.Errorf("create topic %s: %w (%s)", topic, err, *answer.ErrorMessage)
		}
		return fmt.Errorf("create topic %s: %w", topic, err)
	}
	return nil
}
