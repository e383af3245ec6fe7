package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// franzValues is how many different values a producer sends in turn: making random bytes should not be what is measured.
const franzValues = 512

// franzProduce sends the load with franz-go, a client that makes batches and requests as applications have them made. It runs in
// this process and, unlike a JVM, needs no warm-up.
func franzProduce(ctx context.Context, addrs []string, t topic, l load) (outcome, error) {
	client, err := kgo.NewClient(franzOptions(addrs, t, l)...)
	if err != nil {
		return outcome{}, err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return outcome{}, fmt.Errorf("franz-go: %w", err)
	}
	values := make([][]byte, franzValues)
	random := rand.NewChaCha8([32]byte{})
	for i := range values {
		values[i] = make([]byte, l.recordBytes)
		_, _ = random.Read(values[i])
	}
	cpuBefore, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	// Promises are kept one after the other, and all of them before Flush returns.
	latency := make([]time.Duration, 0, l.records)
	var failure error
	began := time.Now()
	for n := range l.records {
		due := time.Now()
		if l.rate > 0 {
			due = began.Add(time.Duration(float64(n) / l.rate * float64(time.Second)))
			if err := sleepUntil(ctx, due); err != nil {
				return outcome{}, err
			}
		}
		// Produce waits while the client holds as much as it may; that is part of the time from when the record was due.
		client.Produce(ctx, &kgo.Record{Topic: t.name, Value: values[n%franzValues]}, func(_ *kgo.Record, err error) {
			if err != nil && failure == nil {
				failure = err
			}
			latency = append(latency, time.Since(due))
		})
	}
	err = client.Flush(ctx)
	if err == nil {
		err = failure
	}
	if err != nil {
		return outcome{}, fmt.Errorf("franz-go to %s: %w", t.name, err)
	}
	took := time.Since(began)
	cpuAfter, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	return outcome{
		records:   l.records,
		bytes:     l.records * int64(l.recordBytes),
		perSecond: float64(l.records) / took.Seconds(),
		clientCPU: cpuAfter - cpuBefore,
		latency:   summarise(latency),
	}, nil
}

// franzOptions sets what ProducerPerformance has by default or is told, so that the two send alike.
func franzOptions(addrs []string, t topic, l load) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(addrs...),
		kgo.DefaultProduceTopic(t.name),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerBatchMaxBytes(max(int32(l.batchBytes), 2*int32(l.recordBytes), 512)),
		kgo.ProducerLinger(5 * time.Millisecond),
		kgo.MaxBufferedBytes(32 << 20),
		kgo.MaxBufferedRecords(1 << 20),
		kgo.RecordPartitioner(kgo.UniformBytesPartitioner(l.batchBytes, true, false, nil)),
	}
	if l.acks == 1 { // the idempotent producer, which Java's is only with acks=all, asks for all
		options = append(options, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite(),
			kgo.MaxProduceRequestsInflightPerBroker(l.depth))
	}
	return options
}

// franzConsumeWorkload is a catch-up read by franz-go.
func franzConsumeWorkload() workload {
	return workload{
		name:  "franz-consume",
		about: "catch-up read by franz-go: 1 KiB records, batches of 16 KiB, 6 partitions, page cache warm",
		full:  true,
		nodes: 1,
		run: func(ctx context.Context, _ harness.T, c *cluster, s scale) ([]figure, error) {
			return c.onFilledTopic(ctx, fullBatches(s), func(to topic, filled outcome) ([]figure, error) {
				return c.measure(func() (outcome, error) { return franzConsume(ctx, c.seeds(), to, filled) })
			})
		},
	}
}

// franzConsume reads a topic once, without a group.
func franzConsume(ctx context.Context, addrs []string, t topic, filled outcome) (outcome, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addrs...), kgo.ConsumeTopics(t.name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxBytes(50<<20), kgo.FetchMaxPartitionBytes(1<<20))
	if err != nil {
		return outcome{}, err
	}
	defer client.Close()
	cpuBefore, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	began := time.Now()
	records := int64(0)
	for records < filled.records {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return outcome{}, fmt.Errorf("franz-go from %s: %w", t.name, err)
		}
		records += int64(fetches.NumRecords())
	}
	took := time.Since(began)
	if records != filled.records {
		return outcome{}, fmt.Errorf("franz-go read %d records of %d", records, filled.records)
	}
	cpuAfter, err := ownCPU()
	if err != nil {
		return outcome{}, err
	}
	return outcome{records: records, bytes: filled.bytes, perSecond: float64(records) / took.Seconds(), clientCPU: cpuAfter - cpuBefore}, nil
}
