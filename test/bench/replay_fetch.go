package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/wire"
)

// reading describes a catch-up read of a topic: every partition from its first record to the last that was written.
type reading struct {
	records           int64 // in the topic
	recordBytes       int   // of each value
	connections       int   // among which the partitions are dealt out
	passes            int   // how often to read all
	maxBytes          int32 // of a response (fetch.max.bytes)
	maxPartitionBytes int32 // of a partition in it (max.partition.fetch.bytes)
	old               bool  // by oldFetchVersion, which is answered in format 1
}

// replayFetch reads a topic with Fetch requests over plain TCP. It looks at the headers of batches, never at records.
func replayFetch(ctx context.Context, addr string, t topic, rd reading) (outcome, error) {
	cpuBefore, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	var records atomic.Int64
	latency, took, err := onConnections(ctx, slices.Repeat([]string{addr}, rd.connections), func(ctx context.Context, i int, conn net.Conn, _ time.Time) ([]time.Duration, error) {
		r := &fetchReplay{reading: rd, topic: t, conn: conn, answers: newFrameReader(conn)}
		for p := int32(i); p < t.partitions; p += int32(rd.connections) {
			r.partitions = append(r.partitions, p)
		}
		for range rd.passes {
			n, err := r.pass()
			if err != nil {
				return nil, err
			}
			records.Add(n)
		}
		return r.latency, nil
	})
	if err != nil {
		return outcome{}, fmt.Errorf("read %s: %w", t.name, err)
	}
	if want := rd.records * int64(rd.passes); records.Load() != want {
		return outcome{}, fmt.Errorf("read %s: %d records, %d were written", t.name, records.Load(), want)
	}
	cpuAfter, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	return outcome{
		records:   records.Load(),
		requests:  int64(len(latency)),
		bytes:     records.Load() * int64(rd.recordBytes),
		perSecond: float64(records.Load()) / took.Seconds(),
		clientCPU: cpuAfter - cpuBefore,
		latency:   summarise(latency),
	}, nil
}

type fetchReplay struct {
	reading
	topic
	conn        net.Conn
	answers     *frameReader
	partitions  []int32
	correlation int32
	request     []byte
	latency     []time.Duration
}

// pass reads the connection's partitions from offset 0 until each is at its high watermark, and returns the number of
// records.
func (r *fetchReplay) pass() (records int64, err error) {
	next := make(map[int32]int64, len(r.partitions))
	atEnd := make(map[int32]bool, len(r.partitions))
	for len(atEnd) < len(r.partitions) {
		req := r.fetch(next, atEnd)
		sent := time.Now()
		r.request = wire.AppendRequest(r.request[:0], r.correlation, nil, req)
		r.correlation++
		if _, err := r.conn.Write(r.request); err != nil {
			return 0, err
		}
		frame, err := r.answers.next()
		if err != nil {
			return 0, err
		}
		r.latency = append(r.latency, time.Since(sent))
		resp := req.ResponseKind().(*kmsg.FetchResponse)
		if _, err := wire.ReadResponse(frame, resp); err != nil {
			return 0, err
		}
		if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
			return 0, err
		}
		moved := false
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return 0, fmt.Errorf("partition %d at offset %d: %w", p.Partition, next[p.Partition], err)
				}
				see := skim
				if r.old {
					see = skimMessages
				}
				n, to, err := see(p.RecordBatches, next[p.Partition])
				if err != nil {
					return 0, fmt.Errorf("partition %d at offset %d: %w", p.Partition, next[p.Partition], err)
				}
				records += n
				next[p.Partition] = to
				if to >= p.HighWatermark {
					atEnd[p.Partition] = true
				}
				moved = moved || n > 0 || to >= p.HighWatermark
			}
		}
		if !moved {
			return 0, errors.New("an answer without a record although not all are read")
		}
	}
	return records, nil
}

// fetch makes a request without a session. It begins with another partition each time, as brokers fill an answer in the
// order of the request.
func (r *fetchReplay) fetch(next map[int32]int64, atEnd map[int32]bool) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(fetchVersion)
	if r.old {
		req.SetVersion(oldFetchVersion)
	}
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, r.maxBytes
	from := kmsg.NewFetchRequestTopic()
	from.Topic, from.TopicID = r.name, r.id
	for i := range r.partitions {
		id := r.partitions[(i+int(r.correlation))%len(r.partitions)]
		if atEnd[id] {
			continue
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = id, next[id], r.maxPartitionBytes
		from.Partitions = append(from.Partitions, p)
	}
	req.Topics = append(req.Topics, from)
	return req
}

// skim counts the records of the whole batches of b and returns the offset after them. A last batch that is cut off is
// left for the next request.
func skim(b []byte, from int64) (records, next int64, err error) {
	next = from
	for len(b) > 0 {
		whole, rest, err := batch.Next(b)
		if errors.Is(err, batch.ErrShort) {
			break
		}
		if err != nil {
			return 0, 0, err
		}
		if whole.BaseOffset() != next {
			return 0, 0, fmt.Errorf("a batch begins at offset %d, the one before ended at %d", whole.BaseOffset(), next)
		}
		records += int64(whole.Count())
		next = whole.NextOffset()
		b = rest
	}
	return records, next, nil
}

// skimMessages does so for a message set. The offset of a compressed set is that of its last record.
func skimMessages(b []byte, from int64) (records, next int64, err error) {
	next = from
	for {
		size, offset, magic, err := batch.PeekHeader(b)
		if errors.Is(err, batch.ErrShort) || err == nil && size > len(b) || offset < 0 {
			return next - from, next, nil
		}
		if err != nil {
			return 0, 0, err
		}
		if magic != 1 || offset < next {
			return 0, 0, fmt.Errorf("a message of format %d at offset %d, where %d is next", magic, offset, next)
		}
		next = offset + 1
		b = b[size:]
	}
}
