package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// record is what a consumer gets.
type record struct {
	offset     kafka.Offset
	key, value string
	epoch      kafka.Epoch // of the leader that appended it
	batch      uint64      // sum of the bytes of its batch
}

// consume reads partitions, a while each, and records what was at which offset.
func (c *client) consume(ctx context.Context) {
	defer c.close()
	next := make(map[Partition]kafka.Offset)
	for ctx.Err() == nil {
		all := c.topics.all()
		if len(all) == 0 {
			c.rest(ctx)
			continue
		}
		p := all[c.rng.IntN(len(all))]
		for range 10 {
			known := c.history.knowledge(p)
			got, end, high, err := c.fetch(ctx, p, next[p])
			if errors.Is(err, kerr.OffsetOutOfRange) {
				var start kafka.Offset
				if start, err = c.logStart(ctx, p); err == nil {
					next[p] = start
					continue
				}
			}
			if err != nil {
				c.rest(ctx)
				break
			}
			c.history.read(p, known, c.route.epochs[place{p.topic, p.number}], got, high)
			next[p] = end
		}
		if c.rng.IntN(2) == 0 {
			c.askEnd(ctx, p)
		}
	}
}

// fetch reads from one offset and returns the records, where they end, which may be further on than the last of them, and the high
// watermark.
func (c *client) fetch(ctx context.Context, p Partition, from kafka.Offset) (got []record, end, high kafka.Offset, err error) {
	entry := kmsg.NewFetchRequestTopicPartition()
	entry.Partition, entry.FetchOffset, entry.PartitionMaxBytes, entry.CurrentLeaderEpoch = p.number, from, 4096, -1
	t := kmsg.NewFetchRequestTopic()
	t.TopicID = p.id
	t.Partitions = append(t.Partitions, entry)
	req := kmsg.NewFetchRequest()
	req.Version, req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 13, -1, 500, 1, 1<<20
	req.SessionEpoch = -1
	req.Topics = append(req.Topics, t)
	resp, err := c.do(ctx, &req)
	if err != nil {
		return nil, -1, -1, err
	}
	answer := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, -1, -1, err
	}
	if len(answer.Topics) == 0 {
		return nil, -1, -1, errors.New("an empty answer")
	}
	part := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
		return nil, -1, -1, err
	}
	got, end, err = parse(part.RecordBatches, from)
	if err != nil && c.rot { // as with Apache Kafka nobody looks at a batch between the disk and the consumer
		return got, end, -1, err
	}
	if err != nil {
		c.history.fault(sound, "%v: what was fetched from %d cannot be read: %v", p, from, err)
	}
	return got, end, part.HighWatermark, nil
}

// parse returns the records in whole batches, from an offset on, and where the batches end: the first may begin before it.
func parse(batches []byte, from kafka.Offset) (out []record, end kafka.Offset, err error) {
	end = from
	for len(batches) > 0 {
		b, rest, err := batch.Next(batches)
		if err != nil {
			return out, end, err
		}
		if err := b.VerifyCRC(); err != nil {
			return out, end, fmt.Errorf("batch at %d: %w", b.BaseOffset(), err)
		}
		sum := sumOf(b)
		err = b.Each(func(r batch.Record) error {
			if r.Offset >= from {
				out = append(out, record{r.Offset, string(r.Key), string(r.Value), b.LeaderEpoch(), sum})
			}
			return nil
		})
		if err != nil {
			return out, end, err
		}
		batches, end = rest, b.NextOffset()
	}
	return out, end, nil
}

// askEnd asks the leader that the client knows where a partition ends. A topic that others make anew may be another one by then:
// the question names no id.
func (c *client) askEnd(ctx context.Context, p Partition) {
	if p.topic == recreated {
		return
	}
	began := c.history.began()
	epoch := c.epochOf(ctx, p)
	if epoch == kafka.NoEpoch {
		return
	}
	end, err := c.listOffset(ctx, p, -1, epoch) // LATEST_TIMESTAMP
	if err == nil {
		c.history.asked(c.name, began, p, epoch, end)
	}
}

// readAll reads a partition to its high watermark.
func (c *client) readAll(ctx context.Context, p Partition, from kafka.Offset) ([]record, error) {
	var all []record
	for {
		known := c.history.knowledge(p)
		got, end, high, err := c.fetch(ctx, p, from)
		if err != nil {
			return nil, err
		}
		c.history.read(p, known, c.route.epochs[place{p.topic, p.number}], got, high)
		all = append(all, got...)
		from = end
		if from >= high {
			return all, nil
		}
	}
}
