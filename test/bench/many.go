package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
	"moldau/test/harness"
)

// manyWorkloads are those of many producers, partitions, or connections.
func manyWorkloads() []workload {
	var list []workload
	for _, n := range []int{10, 1000} {
		list = append(list, workload{
			name:  fmt.Sprintf("replay-producers-%d", n),
			about: fmt.Sprintf("%d connections, 5 requests on the way on each, one batch of up to 1 KiB per partition in each: records of 100 bytes with keys of 8, 6 partitions, acks=all", n),
			full:  true,
			nodes: 1,
			run:   produceRun("replay", load{recordBytes: 100, keyBytes: 8, batchBytes: 1 << 10, acks: -1, connections: n, depth: 5, variants: 1}),
		})
	}
	for _, n := range []int{1_000, 10_000} {
		list = append(list, workload{
			name:  fmt.Sprintf("written-partitions-%d", n),
			about: fmt.Sprintf("%d partitions written in turn: requests of 100 batches of 4 KiB, 5 on the way on each of 2 connections, records of 1024 bytes, acks=all", n),
			alone: true, asked: true, nodes: 1,
			run: writtenRun(n),
		})
	}
	return append(list, workload{
		name:  "metadata",
		about: "Metadata for all of -partitions partitions, 5 requests on the way on one connection; and what one consumer costs that waits for news from all of them in a fetch session",
		alone: true, asked: true, nodes: 1,
		run: runMetadata,
	}, workload{
		name:  "idle-partitions",
		about: "a broker with -partitions partitions and no client: memory and CPU, then a stop and a start",
		alone: true, asked: true, nodes: 1,
		run: runIdlePartitions,
	}, workload{
		name:  "idle-connections",
		about: "10,000 connections that have asked for ApiVersions and say nothing more",
		alone: true, asked: true, nodes: 1,
		run: runIdleConnections,
	})
}

// createMany makes topics of at most a thousand partitions and returns them and the time it took.
func (c *cluster) createMany(ctx context.Context, name string, n int) ([]topic, time.Duration, error) {
	var topics []topic
	began := time.Now()
	for i := 0; i < n; i += topicPartitions {
		to, err := c.createTopic(ctx, fmt.Sprintf("%s-%d", name, i), int32(min(n-i, topicPartitions)))
		if err != nil {
			return nil, 0, err
		}
		topics = append(topics, to)
	}
	return topics, time.Since(began), nil
}

// writtenRun makes the run that writes to all of n partitions.
func writtenRun(n int) func(context.Context, harness.T, *cluster, scale) ([]figure, error) {
	return func(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
		b := c.brokers[0]
		if _, err := b.start(ctx, t); err != nil {
			return nil, err
		}
		topics, created, err := c.createMany(ctx, "written", n)
		if err != nil {
			return nil, err
		}
		if err := c.settle(); err != nil {
			return nil, err
		}
		l := load{recordBytes: 1024, batchBytes: 4 << 10, acks: -1, connections: 2, depth: 5}
		write := func(bytes int64) (outcome, error) { return b.produceInTurn(ctx, topics, l, bytes) }
		if _, err := write(s.bytes / 4); err != nil { // warm
			return nil, err
		}
		figures, err := c.measure(func() (outcome, error) { return write(s.bytes) })
		if err != nil {
			return nil, err
		}
		rss, _, err := memory(b.Pid())
		if err != nil {
			return nil, err
		}
		b.Kill(t)
		return append(figures,
			figure{"RSS after it", "MB", true, float64(rss) / 1e6},
			figure{"creation of the partitions before", "ms", true, milliseconds(created)}), nil
	}
}

// produceInTurn writes to all partitions in turn until so many bytes of values have been answered.
func (b *broker) produceInTurn(ctx context.Context, topics []topic, l load, bytes int64) (outcome, error) {
	frames := recoveryFrames(topics, l)
	perFrame := int64(l.batchBytes) / int64(l.recordBytes) // at most; what the frames really hold is counted below
	for _, f := range frames {
		perFrame = min(perFrame, f.records)
	}
	cpuBefore, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	var records, requests atomic.Int64
	latency, took, err := onConnections(ctx, slices.Repeat([]string{b.addr}, l.connections), func(ctx context.Context, at int, conn net.Conn, _ time.Time) ([]time.Duration, error) {
		frame := func(n int) producedFrame { return frames[(n*l.connections+at)%len(frames)] }
		var times []time.Duration
		err := pipeline(ctx, conn, l.depth, func(n int) []byte { return frame(n).bytes }, func(n int, took time.Duration) bool {
			times = append(times, took)
			requests.Add(1)
			return records.Add(frame(n).records)*int64(l.recordBytes) < bytes
		})
		return times, err
	})
	if err != nil {
		return outcome{}, err
	}
	cpuAfter, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	n := records.Load()
	return outcome{records: n, bytes: n * int64(l.recordBytes), perSecond: float64(n) / took.Seconds(),
		requests: requests.Load(), clientCPU: cpuAfter - cpuBefore, latency: summarise(latency)}, nil
}

// runMetadata asks for all there is.
func runMetadata(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
	b := c.brokers[0]
	if _, err := b.start(ctx, t); err != nil {
		return nil, err
	}
	topics, _, err := c.createMany(ctx, "metadata", int(s.partitions))
	if err != nil {
		return nil, err
	}
	ask := func(d time.Duration) (rate, cpuMs float64, latency []time.Duration, err error) {
		before, err := cpuTime(b.Pid())
		if err != nil {
			return 0, 0, nil, err
		}
		latency, took, err := onConnections(ctx, []string{b.addr}, func(ctx context.Context, _ int, conn net.Conn, _ time.Time) ([]time.Duration, error) {
			return askInTurn(ctx, conn, d)
		})
		if err != nil {
			return 0, 0, nil, err
		}
		after, err := cpuTime(b.Pid())
		n := float64(len(latency))
		return n / took.Seconds(), milliseconds(after-before) / n, latency, err
	}
	if _, _, _, err := ask(s.idle); err != nil { // warm
		return nil, err
	}
	rate, cpu, latency, err := ask(s.idle)
	if err != nil {
		return nil, err
	}
	idle, err := c.waitingConsumer(ctx, topics, s.idle)
	if err != nil {
		return nil, err
	}
	sum := summarise(latency)
	return []figure{
		{"requests", "/s", false, rate},
		{"broker CPU per request", "ms", true, cpu},
		{"latency p50, 5 on the way", "ms", true, milliseconds(sum.p50)},
		{"latency p99, 5 on the way", "ms", true, milliseconds(sum.p99)},
		{"broker CPU with a consumer that waits", "% of a core", true, idle},
	}, nil
}

// askInTurn asks for the metadata of all topics for a while, with five requests on the way.
func askInTurn(ctx context.Context, conn net.Conn, d time.Duration) ([]time.Duration, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.SetVersion(12)
	req.Topics = nil // all
	frame := wire.AppendRequest(nil, 0, nil, req)
	end := time.Now().Add(d)
	var times []time.Duration
	resp := kmsg.NewPtrMetadataResponse()
	checked := false
	err := pipelineOf(ctx, conn, 5, func(n int) []byte {
		binary.BigEndian.PutUint32(frame[correlationAt:], uint32(n))
		return frame
	}, func(answer []byte) error {
		if checked {
			return nil // decoding all would measure the client
		}
		checked = true
		resp.SetVersion(12)
		if _, err := wire.ReadResponse(answer, resp); err != nil {
			return err
		}
		if len(resp.Topics) == 0 {
			return errors.New("an answer without topics")
		}
		return nil
	}, func(_ int, took time.Duration) bool {
		times = append(times, took)
		return time.Now().Before(end)
	})
	return times, err
}

// waitingConsumer opens a fetch session over all partitions, waits in it for a while, and returns the CPU of the broker in
// percent of a core.
func (c *cluster) waitingConsumer(ctx context.Context, topics []topic, d time.Duration) (float64, error) {
	b := c.brokers[0]
	var idle float64
	_, _, err := onConnections(ctx, []string{b.addr}, func(ctx context.Context, _ int, conn net.Conn, _ time.Time) ([]time.Duration, error) {
		session := &waiting{conn: conn, answers: newFrameReader(conn)}
		if err := session.fetch(topics); err != nil {
			return nil, err
		}
		before, err := cpuTime(b.Pid())
		if err != nil {
			return nil, err
		}
		began := time.Now()
		for time.Since(began) < d {
			if err := session.fetch(nil); err != nil {
				return nil, err
			}
		}
		after, err := cpuTime(b.Pid())
		idle = float64(after-before) / float64(time.Since(began)) * 100
		return nil, err
	})
	return idle, err
}

// waiting is a fetch session (KIP-227) without news.
type waiting struct {
	conn    net.Conn
	answers *frameReader
	id      int32
	epoch   int32
}

func (w *waiting) fetch(topics []topic) error {
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(fetchVersion)
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 500, 1, 50<<20
	req.SessionID, req.SessionEpoch = w.id, w.epoch
	for _, t := range topics {
		of := kmsg.NewFetchRequestTopic()
		of.Topic, of.TopicID = t.name, t.id
		for i := range t.partitions {
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.PartitionMaxBytes = i, 1<<20
			of.Partitions = append(of.Partitions, p)
		}
		req.Topics = append(req.Topics, of)
	}
	if _, err := w.conn.Write(wire.AppendRequest(nil, w.epoch, nil, req)); err != nil {
		return err
	}
	frame, err := w.answers.next()
	if err != nil {
		return err
	}
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	if _, err := wire.ReadResponse(frame, resp); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	if resp.SessionID == 0 {
		return errors.New("no fetch session was opened")
	}
	w.id, w.epoch = resp.SessionID, w.epoch+1
	return nil
}

// runIdlePartitions holds many partitions and does nothing with them.
func runIdlePartitions(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
	b := c.brokers[0]
	if _, err := b.start(ctx, t); err != nil {
		return nil, err
	}
	_, created, err := c.createMany(ctx, "idle", int(s.partitions))
	if err != nil {
		return nil, err
	}
	rest := func() (cpu float64, rss int64, err error) {
		if err := sleepUntil(ctx, time.Now().Add(s.idle/2)); err != nil {
			return 0, 0, err
		}
		if cpu, err = idleCPU(ctx, s.idle/2, b); err != nil {
			return 0, 0, err
		}
		rss, _, err = memory(b.Pid())
		return cpu, rss, err
	}
	cpu, rss, err := rest()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	b.Stop(t)
	stopped := time.Since(began)
	started, err := b.start(ctx, t)
	if err != nil {
		return nil, err
	}
	cpuAgain, rssAgain, err := rest()
	if err != nil {
		return nil, err
	}
	b.Stop(t)
	return []figure{
		{"RSS", "MB", true, float64(rss) / 1e6},
		{"CPU", "% of a core", true, cpu},
		{"creation", "ms", true, milliseconds(created)},
		{"stop", "ms", true, milliseconds(stopped)},
		{"start to first Metadata", "ms", true, milliseconds(started)},
		{"RSS after the start", "MB", true, float64(rssAgain) / 1e6},
		{"CPU after the start", "% of a core", true, cpuAgain},
	}, nil
}

// idleConnections is how many connections there are; each is a descriptor here and one in the broker.
const idleConnections = 10_000

func runIdleConnections(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
	b := c.brokers[0]
	if err := raiseDescriptors(idleConnections + 1000); err != nil { // the broker's process inherits it
		return nil, err
	}
	if _, err := b.start(ctx, t); err != nil {
		return nil, err
	}
	before, _, err := memory(b.Pid())
	if err != nil {
		return nil, err
	}
	began := time.Now()
	conns, err := connect(ctx, slices.Repeat([]string{b.addr}, idleConnections))
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	took := time.Since(began)
	if err := sleepUntil(ctx, time.Now().Add(s.idle/2)); err != nil {
		return nil, err
	}
	after, _, err := memory(b.Pid())
	if err != nil {
		return nil, err
	}
	idle, err := idleCPU(ctx, s.idle/2, b)
	if err != nil {
		return nil, err
	}
	b.Kill(t)
	return []figure{
		{"memory per connection", "KiB", true, float64(after-before) / idleConnections / 1024},
		{"CPU while all are idle", "% of a core", true, idle},
		{"connecting all", "ms", true, milliseconds(took)},
	}, nil
}
