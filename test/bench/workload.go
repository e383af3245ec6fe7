package main

import (
	"context"
	"fmt"
	"time"

	"moldau/test/harness"
)

// figure is one measured value of one run.
type figure struct {
	name  string
	unit  string
	less  bool // less is better
	value float64
}

// workload is one thing that is measured on every system.
type workload struct {
	name  string
	about string
	// alone: each run gets a new process on an empty folder, and no other broker runs meanwhile. Otherwise the brokers run
	// side by side, warm, and take turns.
	alone  bool
	full   bool     // left out with -quick, unless -only names it
	asked  bool     // left out unless -only names it: it takes minutes, or gigabytes of memory
	beside string   // the system that it compares with, "" for kafka
	nodes  int      // brokers of the cluster
	set    []string // properties of all brokers
	run    func(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error)
}

// scale says how much a run does.
type scale struct {
	rounds  int
	warm    time.Duration // of running a workload on a JVM before the runs that count; once on anything else
	idle    time.Duration // before memory is read
	bytes   int64         // of record values in a run
	passes  int           // over the topic in a catch-up read
	paced   time.Duration // of a paced load
	timeout time.Duration // of one run
	// of the workloads that need them
	partitions int32
	members    int
	roundTrips int // records of an end-to-end run
	zkRequests int // to a ZooKeeper
}

func fullScale() scale {
	return scale{rounds: 5, warm: 60 * time.Second, idle: 10 * time.Second, bytes: 1 << 30, passes: 4, paced: 30 * time.Second, roundTrips: 10_000, zkRequests: 400_000, timeout: 20 * time.Minute, partitions: 10_000, members: 1000}
}

func quickScale() scale {
	return scale{rounds: 3, warm: 10 * time.Second, idle: 10 * time.Second, bytes: 192 << 20, passes: 4, paced: 5 * time.Second, roundTrips: 3_000, zkRequests: 80_000, timeout: 10 * time.Minute, partitions: 1000, members: 1000}
}

// allWorkloads are what -only may name, in the order in which they run.
func allWorkloads() []workload {
	list := []workload{{
		name:  "start",
		about: "from process start to the first answer to Metadata, on an empty formatted folder; then memory and CPU after an idle time",
		alone: true,
		nodes: 1,
		run:   runStart,
	}}
	for _, n := range []int{1_000, 5_000, 10_000} {
		list = append(list, workload{
			name:  fmt.Sprintf("recovery-%d", n),
			about: fmt.Sprintf("kill -9 under load, then from process start to a record acked with acks=all in %d partitions", n),
			alone: true,
			full:  true,
			nodes: 1,
			run:   recoveryRun(n),
		})
	}
	for _, client := range []string{"replay", "java"} {
		l := load{recordBytes: 100, batchBytes: 1, acks: -1, connections: 1, depth: 5}
		list = append(list, workload{
			name:  client + "-produce-tiny",
			about: clientAbout(client) + ": records of 100 bytes, batch.size 1, so one record per batch, 6 partitions, acks=all; one record for 2 KiB of -mb",
			full:  true,
			nodes: 1,
			run: func(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
				s.bytes = s.bytes / 2048 * int64(l.recordBytes)
				return produceRun(client, l)(ctx, t, c, s)
			},
		})
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1k", 1024}, {"100b", 100}} {
		for _, client := range []string{"replay", "java", "franz"} {
			for _, acks := range []int16{-1, 1} {
				l := load{recordBytes: size.bytes, batchBytes: 16 << 10, acks: acks, connections: 1, depth: 5}
				list = append(list, workload{
					name: fmt.Sprintf("%s-produce-%s-acks-%s", client, size.name, acksName(acks)),
					about: fmt.Sprintf("%s: records of %d bytes, batch.size 16 KiB, 6 partitions, acks=%s",
						clientAbout(client), size.bytes, acksName(acks)),
					full:  size.bytes != 1024 || client == "franz",
					nodes: 1,
					run:   produceRun(client, l),
				})
			}
		}
	}
	list = append(list, workload{
		name:  "replay-fetch",
		about: "catch-up read by pre-encoded requests on 2 connections: 1 KiB records, batches of 16 KiB, 6 partitions, page cache warm, 1 MiB per partition",
		nodes: 1,
		run:   runFetch,
	})
	list = append(append(list, oldWorkloads()...), javaConsumeWorkload(), franzConsumeWorkload())
	list = append(append(list, pacedWorkloads()...), manyWorkloads()...)
	return append(append(append(list, clusterWorkloads()...), groupWorkload()), zookeeperWorkloads()...)
}

func acksName(acks int16) string {
	if acks < 0 {
		return "all"
	}
	return fmt.Sprint(acks)
}

func clientAbout(client string) string {
	switch client {
	case "java":
		return "Apache Kafka's ProducerPerformance"
	case "franz":
		return "franz-go's producer, set like ProducerPerformance"
	}
	return "pre-encoded requests on 1 connection, 5 on the way, one batch per partition in each"
}

const partitions = 6

// produceRun makes the run of a produce workload.
func produceRun(client string, l load) func(context.Context, harness.T, *cluster, scale) ([]figure, error) {
	return func(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
		l := l
		l.records = s.bytes / int64(l.recordBytes)
		return c.onTopic(ctx, func(to topic) ([]figure, error) {
			return c.measure(func() (outcome, error) { return producer(ctx, t, c, client, to, l) })
		})
	}
}

// fullBatches is what topics are filled with that are read afterwards.
func fullBatches(s scale) load {
	return load{recordBytes: 1024, batchBytes: 16 << 10, records: s.bytes / 1024, acks: -1, connections: 1, depth: 5}
}

// runFetch fills a topic and reads it, without the filling in its figures.
func runFetch(ctx context.Context, _ harness.T, c *cluster, s scale) ([]figure, error) {
	l := fullBatches(s)
	return c.onFilledTopic(ctx, l, func(to topic, filled outcome) ([]figure, error) {
		rd := reading{records: filled.records, recordBytes: l.recordBytes, connections: 2, passes: s.passes,
			maxBytes: 50 << 20, maxPartitionBytes: 1 << 20}
		return c.measure(func() (outcome, error) { return replayFetch(ctx, c.brokers[0].addr, to, rd) })
	})
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// runStart starts the broker, lets it idle, and looks at what it holds and uses.
func runStart(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
	b := c.brokers[0]
	took, err := b.start(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := sleepUntil(ctx, time.Now().Add(s.idle/2)); err != nil {
		return nil, err
	}
	idle, err := idleCPU(ctx, s.idle/2, b) // the second half only: the first still pays for the start
	if err != nil {
		return nil, err
	}
	rss, pss, err := memory(b.Pid())
	if err != nil {
		return nil, err
	}
	b.Stop(t)
	return []figure{
		{"start to first Metadata", "ms", true, milliseconds(took)},
		{"idle RSS", "MB", true, float64(rss) / 1e6},
		{"idle PSS", "MB", true, float64(pss) / 1e6},
		{"idle CPU", "% of a core", true, idle},
	}, nil
}
