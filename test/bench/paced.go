package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"moldau/test/harness"
)

// pacedBytesPerSecond is the pace of the loads whose latencies are measured: what a broker on two cores carries with ease.
const pacedBytesPerSecond = 10_000_000

// pacedWorkloads are latencies at a pace, from when each record or request was due.
func pacedWorkloads() []workload {
	var list []workload
	for _, client := range []string{"replay", "java", "franz"} {
		list = append(list, workload{
			name: client + "-paced-1k",
			about: fmt.Sprintf("%s, at 10 MB/s: records of 1024 bytes, batch.size 16 KiB, 6 partitions, acks=all",
				clientAbout(client)),
			full:  client == "franz",
			nodes: 1,
			run: func(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
				return c.onTopic(ctx, func(to topic) ([]figure, error) {
					return c.measure(func() (outcome, error) { return producer(ctx, t, c, client, to, pacedLoad(s.paced)) })
				})
			},
		})
	}
	return append(list, workload{
		name:  "java-end-to-end",
		about: "Apache Kafka's EndToEndLatency: one record of 1024 bytes at a time is sent with acks=all and waited for at a consumer",
		nodes: 1,
		run: func(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
			return c.onTopicOf(ctx, 1, func(to topic) ([]figure, error) {
				return javaEndToEnd(ctx, harness.ApacheKafka(t, harness.KafkaVersion), c.addrs(), to, s.roundTrips)
			})
		},
	}, workload{
		name:  "cold-read",
		about: "a paced load as in replay-paced-1k, alone and while a topic that is not in the page cache is read on one connection, again and again",
		full:  true,
		nodes: 1,
		run:   runColdRead,
	})
}

// pacedLoad is records at the pace for a while.
func pacedLoad(d time.Duration) load {
	l := load{recordBytes: 1024, batchBytes: 16 << 10, acks: -1, connections: 1, depth: 5}
	l.rate = pacedBytesPerSecond / float64(l.recordBytes)
	l.records = int64(l.rate * d.Seconds())
	return l
}

// producer runs one of the clients.
func producer(ctx context.Context, t harness.T, c *cluster, client string, to topic, l load) (outcome, error) {
	switch client {
	case "java":
		return javaProduce(ctx, harness.ApacheKafka(t, harness.KafkaVersion), c.addrs(), to, l)
	case "franz":
		return franzProduce(ctx, c.seeds(), to, l)
	}
	return replayProduce(ctx, to, l)
}

// runColdRead measures what reading from the disk does to producers.
func runColdRead(ctx context.Context, _ harness.T, c *cluster, s scale) ([]figure, error) {
	return c.onTopic(ctx, func(old topic) ([]figure, error) {
		l := fullBatches(s)
		filled, err := replayProduce(ctx, old, l)
		if err != nil {
			return nil, err
		}
		return c.onTopic(ctx, func(to topic) ([]figure, error) {
			alone, err := replayProduce(ctx, to, pacedLoad(s.paced))
			if err != nil {
				return nil, err
			}
			rd := reading{records: filled.records, recordBytes: l.recordBytes, connections: 1, passes: 1,
				maxBytes: 50 << 20, maxPartitionBytes: 1 << 20}
			var (
				reader  sync.WaitGroup
				readErr error
				bytes   int64
				took    time.Duration
			)
			stop := make(chan struct{})
			reader.Go(func() { bytes, took, readErr = c.readCold(ctx, old, rd, stop) })
			beside, err := replayProduce(ctx, to, pacedLoad(s.paced))
			close(stop)
			reader.Wait()
			if err := firstCause([]error{err, readErr}); err != nil {
				return nil, err
			}
			return []figure{
				{"producers' p99 beside the reader", "ms", true, milliseconds(beside.latency.p99)},
				{"producers' p99 alone", "ms", true, milliseconds(alone.latency.p99)},
				{"producers' p99 beside the reader by that alone", "", true, float64(beside.latency.p99) / float64(alone.latency.p99)},
				{"producers' p50 beside the reader", "ms", true, milliseconds(beside.latency.p50)},
				{"producers' p50 alone", "ms", true, milliseconds(alone.latency.p50)},
				{"read from the disk", "MB/s", false, float64(bytes) / 1e6 / took.Seconds()},
			}, nil
		})
	})
}

// readCold reads a topic whose pages it drops from the cache before each pass, until it is told to stop. It returns the bytes of
// values and the time of reading them.
func (c *cluster) readCold(ctx context.Context, t topic, rd reading, stop <-chan struct{}) (bytes int64, took time.Duration, err error) {
	for {
		if err := c.brokers[0].dropPages(t.name); err != nil {
			return 0, 0, err
		}
		began := time.Now()
		o, err := replayFetch(ctx, c.brokers[0].addr, t, rd)
		if err != nil {
			return 0, 0, err
		}
		bytes, took = bytes+o.bytes, took+time.Since(began)
		select {
		case <-stop:
			return bytes, took, nil
		default:
		}
	}
}

// dropPages makes the kernel forget the pages of a topic's segments. They must have been written to the disk.
func (b *broker) dropPages(topic string) error {
	if err := settle(b.dir); err != nil {
		return err
	}
	segments, err := filepath.Glob(filepath.Join(b.dir, topic+"-*", "*.log"))
	if err != nil {
		return err
	}
	if len(segments) == 0 {
		return fmt.Errorf("no segments of %s in %s", topic, b.dir)
	}
	for _, path := range segments {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		err = forgetPages(f)
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return fmt.Errorf("drop pages of %s: %w", path, err)
		}
	}
	return nil
}
