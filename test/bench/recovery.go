package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/wire"
	"moldau/test/harness"
)

const (
	topicPartitions = 1000 // of one topic: Apache Kafka makes no more at once than 10,000 records of metadata describe
	framePartitions = 100  // in one request of the load and of the probes
)

// recoveryRun makes the run that kills a broker under load and measures how long its partitions take to be writable
// again. Its load has written a part of the scale's bytes to each of n partitions when the process is killed.
func recoveryRun(n int) func(context.Context, harness.T, *cluster, scale) ([]figure, error) {
	return func(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
		b := c.brokers[0]
		if _, err := b.start(ctx, t); err != nil {
			return nil, err
		}
		topics, created, err := c.createMany(ctx, "recovery", n)
		if err != nil {
			return nil, err
		}
		if err := b.killUnderLoad(ctx, t, topics, s.bytes); err != nil {
			return nil, err
		}
		began := time.Now()
		b.Spawn(t)
		p, err := awaitWritable(ctx, b.addr, topics)
		if err != nil {
			return nil, err
		}
		cpu, err := cpuTime(b.Pid())
		if err != nil {
			return nil, err
		}
		b.Kill(t)
		return []figure{
			{"start to first partition writable", "ms", true, milliseconds(p.first.Sub(began))},
			{"start to half of them writable", "ms", true, milliseconds(p.half.Sub(began))},
			{"start to all of them writable", "ms", true, milliseconds(p.last.Sub(began))},
			{"broker CPU until then", "s", true, cpu.Seconds()},
			{"creation of the partitions before", "ms", true, milliseconds(created)},
		}, nil
	}
}

// producedFrame is an encoded Produce request.
type producedFrame struct {
	bytes   []byte
	records int64
}

// recoveryFrames are requests that carry a batch for each of some partitions of one topic, and that topic's for all.
func recoveryFrames(topics []topic, l load) []producedFrame {
	random := rand.NewChaCha8([32]byte{1})
	value := make([]byte, l.recordBytes)
	var all []producedFrame
	for first := int32(0); ; first += framePartitions {
		some := false
		for _, t := range topics {
			if first >= t.partitions {
				continue
			}
			some = true
			var wanted []int32
			for i := first; i < min(first+framePartitions, t.partitions); i++ {
				wanted = append(wanted, i)
			}
			var f producedFrame
			f.bytes = produceFrame(t, wanted, l.acks, func() []byte {
				b := buildBatch(l, nil, value, random)
				f.records += int64(b.Count())
				return b
			})
			all = append(all, f)
		}
		if !some {
			return all
		}
	}
}

func produceFrame(t topic, partitions []int32, acks int16, records func() []byte) []byte {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(produceVersion)
	req.Acks, req.TimeoutMillis = acks, 30_000
	to := kmsg.NewProduceRequestTopic()
	to.Topic, to.TopicID = t.name, t.id
	for _, i := range partitions {
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = i, records()
		to.Partitions = append(to.Partitions, p)
	}
	req.Topics = append(req.Topics, to)
	client := "moldau-bench"
	return wire.AppendRequest(nil, 0, &client, req)
}

// killUnderLoad writes to all partitions in turn over two connections, five requests on the way on each, and kills the
// broker when so many bytes have been answered. The requests then on the way are lost, which is the point.
func (b *broker) killUnderLoad(ctx context.Context, t harness.T, topics []topic, bytes int64) error {
	const connections = 2
	l := load{recordBytes: 1024, batchBytes: 4 << 10, acks: -1, connections: connections, depth: 5}
	frames := recoveryFrames(topics, l)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	enough := make(chan struct{})
	var mu sync.Mutex
	answered := int64(0)
	loaded := make(chan error, 1)
	go func() {
		_, _, err := onConnections(ctx, slices.Repeat([]string{b.addr}, connections), func(ctx context.Context, at int, conn net.Conn, _ time.Time) ([]time.Duration, error) {
			return nil, pipeline(ctx, conn, l.depth, func(n int) []byte {
				return frames[(n*connections+at)%len(frames)].bytes
			}, func(frame int, _ time.Duration) bool {
				mu.Lock()
				defer mu.Unlock()
				before := answered
				answered += int64(len(frames[(frame*connections+at)%len(frames)].bytes))
				if before < bytes && answered >= bytes {
					close(enough)
				}
				return true // until the kill
			})
		})
		loaded <- err
	}()
	select {
	case <-enough:
	case err := <-loaded:
		return fmt.Errorf("load before the kill: %w", err)
	}
	b.Kill(t)
	cancel()
	<-loaded // with the error of a connection that the kill has cut
	return nil
}

// pipeline keeps depth Produce requests on the way until the connection ends, or until done, which is told of each answer without
// an error, and how long it took, wants no more.
func pipeline(ctx context.Context, conn net.Conn, depth int, frame func(n int) []byte, done func(n int, took time.Duration) bool) error {
	resp := kmsg.NewPtrProduceResponse()
	return pipelineOf(ctx, conn, depth, frame, func(answer []byte) error { return checkProduce(answer, resp) }, done)
}

// pipelineOf is pipeline for requests of any kind, whose answers check judges.
func pipelineOf(ctx context.Context, conn net.Conn, depth int, frame func(n int) []byte, check func(answer []byte) error, done func(n int, took time.Duration) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	slots := make(chan struct{}, depth)
	since := make(chan time.Time, depth)
	sent := make(chan error, 1)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				sent <- ctx.Err()
				return
			case slots <- struct{}{}:
			}
			since <- time.Now() // has as much room as there are slots
			if _, err := conn.Write(frame(n)); err != nil {
				sent <- err
				return
			}
		}
	}()
	answers := newFrameReader(conn)
	enough := false
	err := func() error {
		for n := 0; ; n++ {
			answer, err := answers.next()
			if err != nil {
				return err
			}
			took := time.Since(<-since)
			if err := check(answer); err != nil {
				return err
			}
			if enough = !done(n, took); enough {
				return nil
			}
			<-slots
		}
	}()
	cancel()
	conn.Close()
	sendErr := <-sent
	if enough {
		return nil // what was on the way is cut off
	}
	return firstCause([]error{err, sendErr})
}

// checkProduce returns what a Produce answer tells.
func checkProduce(answer []byte, resp *kmsg.ProduceResponse) error {
	resp.SetVersion(produceVersion)
	if _, err := wire.ReadResponse(answer, resp); err != nil {
		return err
	}
	return produceError(resp)
}

func readProduce(answers *frameReader, resp *kmsg.ProduceResponse) error {
	frame, err := answers.next()
	if err != nil {
		return err
	}
	resp.SetVersion(produceVersion)
	_, err = wire.ReadResponse(frame, resp)
	return err
}

// progress is when partitions became writable.
type progress struct {
	mu                sync.Mutex
	done, all         int
	first, half, last time.Time
}

func (p *progress) add(n int) {
	if n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.done == 0 {
		p.first = now
	}
	if before := p.done; before < (p.all+1)/2 && before+n >= (p.all+1)/2 {
		p.half = now
	}
	if p.done += n; p.done == p.all {
		p.last = now
	}
}

// awaitWritable writes a record to every partition, with acks=all, as soon as that works.
func awaitWritable(ctx context.Context, addr string, topics []topic) (*progress, error) {
	p := &progress{}
	var errs = make([]error, len(topics))
	for _, t := range topics {
		p.all += int(t.partitions)
	}
	var wg sync.WaitGroup
	for i, t := range topics {
		wg.Go(func() { errs[i] = awaitTopicWritable(ctx, addr, t, p) })
	}
	wg.Wait()
	return p, errors.Join(errs...)
}

// probePause is between two tries: a client's retry.backoff.ms would be longer.
const probePause = 20 * time.Millisecond

func awaitTopicWritable(ctx context.Context, addr string, t topic, p *progress) error {
	left := make([]int32, t.partitions)
	for i := range left {
		left[i] = int32(i)
	}
	record := func() []byte {
		b := batch.NewBuilder(batch.BuildOptions{})
		b.Add(batch.Record{Timestamp: time.Now().UnixMilli(), Value: []byte("probe")})
		return b.Build()
	}
	var conn net.Conn
	var answers *frameReader
	resp := kmsg.NewPtrProduceResponse()
	var last error
	for len(left) > 0 {
		if conn == nil {
			if conn, last = dial(ctx, addr); last == nil {
				answers = newFrameReader(conn)
			}
		}
		if conn != nil {
			left, last = probe(conn, answers, resp, t, left, record, p)
			if last != nil {
				conn.Close()
				conn = nil
			}
		}
		if len(left) == 0 {
			break
		}
		if err := sleepUntil(ctx, time.Now().Add(probePause)); err != nil {
			return fmt.Errorf("%d partitions of %s are not writable: %w", len(left), t.name, errors.Join(err, last))
		}
	}
	return conn.Close()
}

// probe writes to the partitions that are left, all requests on the way at once, and returns those that still are.
func probe(conn net.Conn, answers *frameReader, resp *kmsg.ProduceResponse, t topic, left []int32, record func() []byte, p *progress) ([]int32, error) {
	requests := 0
	for at := 0; at < len(left); at += framePartitions {
		frame := produceFrame(t, left[at:min(at+framePartitions, len(left))], -1, record)
		binary.BigEndian.PutUint32(frame[correlationAt:], uint32(at))
		if _, err := conn.Write(frame); err != nil {
			return left, err
		}
		requests++
	}
	var still []int32
	for i := range requests {
		if err := readProduce(answers, resp); err != nil {
			return append(still, left[i*framePartitions:]...), err
		}
		done := 0
		for _, topic := range resp.Topics {
			for _, answer := range topic.Partitions {
				if answer.ErrorCode == 0 {
					done++
				} else {
					still = append(still, answer.Partition)
				}
			}
		}
		p.add(done)
	}
	return still, nil
}
