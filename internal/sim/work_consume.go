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
	offset kafka.Offset
	value  string
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
			got, high, err := c.fetch(ctx, p, next[p])
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
			c.history.read(p, known, got, high)
			if n := len(got); n > 0 {
				next[p] = got[n-1].offset + 1
			}
		}
	}
}

// fetch reads from one offset and returns the records and the high watermark.
func (c *client) fetch(ctx context.Context, p Partition, from kafka.Offset) ([]record, kafka.Offset, error) {
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
		return nil, -1, err
	}
	answer := resp.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return nil, -1, err
	}
	if len(answer.Topics) == 0 {
		return nil, -1, errors.New("an empty answer")
	}
	part := answer.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
		return nil, -1, err
	}
	got, err := parse(part.RecordBatches, from)
	if err != nil {
		c.history.fault("%v: what was fetched from %d cannot be read: %v", p, from, err)
	}
	return got, part.HighWatermark, nil
}

// parse returns the records in whole batches, from an offset on: the first batch may begin before it.
func parse(batches []byte, from kafka.Offset) ([]record, error) {
	var out []record
	for len(batches) > 0 {
		b, rest, err := batch.Next(batches)
		if err != nil {
			return out, err
		}
		if err := b.VerifyCRC(); err != nil {
			return out, fmt.Errorf("batch at %d: %w", b.BaseOffset(), err)
		}
		err = b.Each(func(r batch.Record) error {
			if r.Offset >= from {
				out = append(out, record{r.Offset, string(r.Value)})
			}
			return nil
		})
		if err != nil {
			return out, err
		}
		batches = rest
	}
	return out, nil
}
