package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/peer"
)

// client is a producer and consumer of a few lines, so that it adds no scheduling of its own: one request at a time,
// one connection, every answer recorded.
type client struct {
	world   *World
	name    string
	address string
	dial    func(ctx context.Context, address string) (net.Conn, error)
	rng     *rand.Rand
	history *History

	conn *peer.Conn
	next int // number of the next record
}

func newClient(w *World, n *Network, name, address string, h *History) *client {
	c := &client{world: w, name: name, address: address, dial: n.Dial(name), history: h}
	var salt uint64
	for _, b := range []byte(name) {
		salt = salt*31 + uint64(b)
	}
	c.rng = rand.New(rand.NewPCG(w.seed, salt))
	return c
}

// attempt is how long a client waits for one answer.
const attempt = 3 * time.Second

// do sends one request, over a new connection if there is none.
func (c *client) do(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if c.conn == nil {
		conn, err := peer.Dial(ctx, c.address, peer.Options{Dial: c.dial, ClientID: c.name, SoftwareName: "sim", SoftwareVersion: "1"})
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	resp, err := c.conn.Do(ctx, req)
	if err != nil {
		c.close()
	}
	return resp, err
}

func (c *client) close() {
	if c.conn != nil {
		c.conn.Close()
		c.conn = nil
	}
}

// create makes a topic and tries until it is there.
func (c *client) create(ctx context.Context, topic string, partitions int32) error {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	small := "4096" // segments roll within a run
	t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "internal.segment.bytes", Value: &small})
	req := kmsg.NewCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, int32(attempt.Milliseconds())
	req.Topics = append(req.Topics, t)
	for ctx.Err() == nil {
		resp, err := c.do(ctx, &req)
		if err == nil {
			created := resp.(*kmsg.CreateTopicsResponse).Topics[0]
			if err = kerr.ErrorForCode(created.ErrorCode); err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
				c.world.Note("%s created %s: %v", c.name, topic, err)
				return nil
			}
		}
		c.rest(ctx)
	}
	return context.Cause(ctx)
}

// produce sends records until ctx ends, each a batch of one to five with acks=all, and records what was acked where.
func (c *client) produce(ctx context.Context, topic string, partitions int32) {
	defer c.close()
	for ctx.Err() == nil {
		partition := c.rng.Int32N(partitions)
		values := make([]string, 1+c.rng.IntN(5))
		b := batch.NewBuilder(batch.BuildOptions{})
		for i := range values {
			values[i] = fmt.Sprintf("%s-%d", c.name, c.next)
			c.next++
			b.Add(batch.Record{Timestamp: time.Now().UnixMilli(), Offset: int64(i), Value: []byte(values[i])})
		}
		c.history.sent(values)
		offset, err := c.send(ctx, topic, partition, b.Build())
		if err != nil {
			c.world.Note("%s produce to %s-%d failed", c.name, topic, partition)
			c.rest(ctx)
			continue
		}
		c.world.Note("%s produced %d to %s-%d at %d", c.name, len(values), topic, partition, offset)
		c.history.acked(kafka.TopicPartition{Topic: topic, Partition: partition}, offset, values)
	}
}

func (c *client) send(ctx context.Context, topic string, partition int32, records []byte) (kafka.Offset, error) {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, int16(kafka.AcksAll), int32(attempt.Milliseconds())
	req.Topics = append(req.Topics, t)
	resp, err := c.do(ctx, &req)
	if err != nil {
		return -1, err
	}
	answer := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	return answer.BaseOffset, kerr.ErrorForCode(answer.ErrorCode)
}

// consume reads a partition over and over and records what was at which offset.
func (c *client) consume(ctx context.Context, topic string, partition int32) {
	defer c.close()
	next := kafka.Offset(0)
	for ctx.Err() == nil {
		got, _, err := c.fetch(ctx, topic, partition, next)
		if err != nil {
			c.rest(ctx)
			continue
		}
		next += kafka.Offset(len(got))
	}
}

// fetch reads from one offset, records what came, and returns the values and the high watermark.
func (c *client) fetch(ctx context.Context, topic string, partition int32, from kafka.Offset) ([]string, kafka.Offset, error) {
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = partition, from, 4096, -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = topic
	t.Partitions = append(t.Partitions, p)
	req := kmsg.NewFetchRequest()
	req.Version, req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 12, -1, 500, 1, 1<<20
	req.SessionEpoch = -1
	req.Topics = append(req.Topics, t)
	resp, err := c.do(ctx, &req)
	if err != nil {
		return nil, -1, err
	}
	answer := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, -1, err
	}
	if len(answer.Topics) == 0 {
		return nil, -1, nil
	}
	part := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
		return nil, -1, err
	}
	var values []string
	for rest := part.RecordBatches; len(rest) > 0; {
		var b batch.Batch
		if b, rest, err = batch.Next(rest); err != nil {
			return nil, -1, err
		}
		err := b.Each(func(r batch.Record) error {
			if r.Offset < from {
				return nil // the batch begins before what was asked for
			}
			c.history.read(kafka.TopicPartition{Topic: topic, Partition: partition}, r.Offset, string(r.Value), part.HighWatermark)
			values = append(values, string(r.Value))
			return nil
		})
		if err != nil {
			return nil, -1, err
		}
	}
	return values, part.HighWatermark, nil
}

// rest waits a little, as a client does after a failure. No two clients wake at the same instant: the order in which they
// would then go on is not the driver's to choose.
func (c *client) rest(ctx context.Context) {
	timer := time.NewTimer(20*time.Millisecond + time.Duration(c.rng.Int64N(int64(80*time.Millisecond))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// History is what clients were told, for the checkers.
type History struct {
	mu       sync.Mutex
	attempts map[string]bool
	acks     map[place]string // acked values, by where
	reads    map[place]string // values seen by consumers
	faults   []string         // promises that were broken while it ran
}

type place struct {
	tp     kafka.TopicPartition
	offset kafka.Offset
}

// NewHistory returns a history of nothing.
func NewHistory() *History {
	return &History{attempts: make(map[string]bool), acks: make(map[place]string), reads: make(map[place]string)}
}

func (h *History) sent(values []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, v := range values {
		h.attempts[v] = true
	}
}

// Acked returns how many records have been acked.
func (h *History) Acked() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.acks)
}
