package main

import (
	"context"

	"moldau/internal/batch"
	"moldau/test/harness"
)

// oldWorkloads are what clients older than Kafka 0.11 make a broker do: records come in and go out in format 1, and lie on
// disk in format 2. Apache Kafka 4 serves no such clients.
func oldWorkloads() []workload {
	var list []workload
	for _, codec := range []batch.Codec{batch.None, batch.Gzip, batch.Snappy, batch.LZ4} {
		// acks=1, so that converting is measured, and not the disk.
		l := load{recordBytes: 100, batchBytes: 16 << 10, acks: 1, connections: 2, depth: 5, old: true, codec: codec}
		list = append(list, workload{
			name:  "old-produce-" + codec.String(),
			about: "Produce version 2 by pre-encoded requests on 2 connections: records of 100 bytes in message sets of format 1, codec " + codec.String() + ", 6 partitions, acks=1",
			asked: true, nodes: 1, beside: "kafka-3.9",
			run: produceRun("replay", l),
		}, workload{
			name:  "old-fetch-" + codec.String(),
			about: "the same read by Fetch version 3 on 2 connections, page cache warm, 1 MiB per partition",
			asked: true, nodes: 1, beside: "kafka-3.9",
			run: oldFetchRun(l),
		})
	}
	return list
}

// oldFetchRun makes a run that fills a topic, which is format 2 on disk whoever writes, and reads it in format 1.
func oldFetchRun(l load) func(context.Context, harness.T, *cluster, scale) ([]figure, error) {
	return func(ctx context.Context, _ harness.T, c *cluster, s scale) ([]figure, error) {
		l := l
		l.records = s.bytes / int64(l.recordBytes)
		l.acks = -1 // or the reader comes before the last of it is committed, and takes that for the end
		return c.onFilledTopic(ctx, l, func(to topic, filled outcome) ([]figure, error) {
			rd := reading{records: filled.records, recordBytes: l.recordBytes, connections: 2, passes: 1, maxBytes: 50 << 20, maxPartitionBytes: 1 << 20, old: true}
			return c.measure(func() (outcome, error) { return replayFetch(ctx, c.brokers[0].addr, to, rd) })
		})
	}
}
