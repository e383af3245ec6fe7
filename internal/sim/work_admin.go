package sim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// Partition names one partition of one incarnation of a topic: a topic that is deleted and made again is another.
type Partition struct {
	topic  string
	id     kafka.TopicID
	number int32
}

// The topics. A topic that keeps the newest record of each key alone is compacted.
const (
	kept      = "orders"
	recreated = "events"
	byKey     = "prices"
	contested = "races" // several clients make it and delete it
	idle      = "archive"
)

func (p Partition) compacted() bool { return p.topic == byKey }

func (p Partition) String() string { return fmt.Sprintf("%s-%d (%v)", p.topic, p.number, p.id) }

// catalogue is what clients know of topics.
type catalogue struct {
	partitions int32

	mu    sync.Mutex
	names []string // all that ever were, in the order of their first creation
	ids   map[string]kafka.TopicID
}

func newCatalogue(partitions int32) *catalogue {
	return &catalogue{partitions: partitions, ids: make(map[string]kafka.TopicID)}
}

func (t *catalogue) set(name string, id kafka.TopicID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, known := t.ids[name]; !known {
		t.names = append(t.names, name)
	}
	t.ids[name] = id
}

// all returns the partitions that exist.
func (t *catalogue) all() []Partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []Partition
	for _, name := range t.names {
		if id := t.ids[name]; !id.IsZero() {
			for n := range t.partitions {
				out = append(out, Partition{topic: name, id: id, number: n})
			}
		}
	}
	return out
}

// exists tells whether nobody has begun to delete a partition.
func (t *catalogue) exists(p Partition) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ids[p.topic] == p.id
}

// create makes a topic, and tries until it is there.
func (c *client) create(ctx context.Context, topic string, configs map[string]string) {
	if id, there := c.make(ctx, topic, configs); there {
		c.topics.set(topic, id)
	}
}

// makeIdle makes a topic that no producer hears of: nothing but what nodes do by themselves brings its replicas in sync again.
func (c *client) makeIdle(ctx context.Context, configs map[string]string) {
	defer c.close()
	c.make(ctx, idle, configs)
}

// make makes a topic, and returns its id, and whether it is there now.
func (c *client) make(ctx context.Context, topic string, configs map[string]string) (id kafka.TopicID, there bool) {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, c.topics.partitions, int16(c.replicas)
	for _, name := range []string{"internal.segment.bytes", "retention.bytes", "file.delete.delay.ms", "min.insync.replicas", "cleanup.policy", "min.cleanable.dirty.ratio", "segment.ms"} {
		if value, ok := configs[name]; ok {
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: name, Value: &value})
		}
	}
	there = c.insist(ctx, "create "+topic, func() error {
		req := kmsg.NewCreateTopicsRequest()
		req.Version, req.TimeoutMillis = 7, int32(attempt.Milliseconds())
		req.Topics = append(req.Topics, t)
		resp, err := c.do(ctx, &req)
		if err != nil {
			return err
		}
		created := resp.(*kmsg.CreateTopicsResponse).Topics[0]
		id = created.TopicID
		switch created.ErrorCode {
		case kerr.TopicAlreadyExists.Code: // an earlier attempt's answer was lost
			if id, err = c.lookup(ctx, topic); err != nil {
				return err
			}
		default:
			if err := kerr.ErrorForCode(created.ErrorCode); err != nil {
				return err
			}
		}
		c.world.Note("%s created %s %v", c.name, topic, id)
		return nil
	})
	return id, there
}

// lookup asks for the id of a topic.
func (c *client) lookup(ctx context.Context, topic string) (id kafka.TopicID, err error) {
	req := kmsg.NewMetadataRequest()
	req.Version = 12
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &topic
	req.Topics = append(req.Topics, t)
	resp, err := c.do(ctx, &req)
	if err != nil {
		return id, err
	}
	found := resp.(*kmsg.MetadataResponse).Topics[0]
	return found.TopicID, kerr.ErrorForCode(found.ErrorCode)
}

// recreate deletes a topic and makes it again, over and over.
func (c *client) recreate(ctx context.Context, topic string, configs map[string]string) {
	defer c.close()
	c.create(ctx, topic, configs)
	for ctx.Err() == nil {
		c.pause(ctx, 200*time.Millisecond)
		id := c.remove(ctx, topic)
		if ctx.Err() != nil {
			return
		}
		c.world.Note("%s deleted %s %v", c.name, topic, id)
		c.create(ctx, topic, configs)
	}
}

// remove deletes a topic. From its begin on nobody is promised anything of it.
func (c *client) remove(ctx context.Context, topic string) kafka.TopicID {
	c.topics.mu.Lock()
	id := c.topics.ids[topic]
	c.topics.ids[topic] = kafka.TopicID{}
	c.topics.mu.Unlock()
	if id.IsZero() {
		return id
	}
	c.history.deleting(id)
	gone := c.insist(ctx, "delete "+topic, func() error {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.TopicID = id
		req := kmsg.NewDeleteTopicsRequest()
		req.Version, req.TimeoutMillis = 6, int32(attempt.Milliseconds())
		req.Topics = append(req.Topics, t)
		resp, err := c.do(ctx, &req)
		if err != nil {
			return err
		}
		if code := resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode; code != kerr.UnknownTopicID.Code {
			return kerr.ErrorForCode(code)
		}
		return nil
	})
	if gone {
		c.history.deleted(id)
	}
	return id
}

// shorten deletes records from the start of a topic's partitions, now and then.
func (c *client) shorten(ctx context.Context, topic string) {
	defer c.close()
	for ctx.Err() == nil {
		c.pause(ctx, 100*time.Millisecond)
		for _, p := range c.topics.all() {
			if p.topic == topic && c.rng.IntN(3) == 0 {
				c.deleteRecords(ctx, p)
			}
		}
	}
}

func (c *client) deleteRecords(ctx context.Context, p Partition) {
	end := c.history.seen(p)
	if end == 0 {
		return
	}
	to := c.rng.Int64N(end + 1)
	c.history.cutting(p, to)
	entry := kmsg.NewDeleteRecordsRequestTopicPartition()
	entry.Partition, entry.Offset = p.number, to
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = p.topic
	t.Partitions = append(t.Partitions, entry)
	req := kmsg.NewDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, int32(attempt.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := c.do(ctx, &req)
	if err != nil {
		return
	}
	answer := resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
	if answer.ErrorCode != 0 {
		return
	}
	c.world.Note("%s cut %v at %d", c.name, p, answer.LowWatermark)
	c.history.cut(p, to, answer.LowWatermark, c.route.epochs[place{p.topic, p.number}])
}

// pause waits up to twice as long as said.
func (c *client) pause(ctx context.Context, mean time.Duration) {
	timer := time.NewTimer(time.Duration(c.rng.Int64N(int64(2 * mean))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// logStart asks where a partition starts.
func (c *client) logStart(ctx context.Context, p Partition) (kafka.Offset, error) {
	return c.listOffset(ctx, p, -2, kafka.NoEpoch) // EARLIEST_TIMESTAMP
}

// listOffset asks for the offset that belongs to a timestamp or to one of the numbers that mean an end of the log.
func (c *client) listOffset(ctx context.Context, p Partition, timestamp int64, epoch kafka.Epoch) (kafka.Offset, error) {
	entry := kmsg.NewListOffsetsRequestTopicPartition()
	entry.Partition, entry.Timestamp, entry.CurrentLeaderEpoch = p.number, timestamp, int32(epoch)
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = p.topic
	t.Partitions = append(t.Partitions, entry)
	req := kmsg.NewListOffsetsRequest()
	req.Version, req.ReplicaID = 7, -1
	req.Topics = append(req.Topics, t)
	resp, err := c.do(ctx, &req)
	if err != nil {
		return -1, err
	}
	answer := resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	return answer.Offset, kerr.ErrorForCode(answer.ErrorCode)
}
