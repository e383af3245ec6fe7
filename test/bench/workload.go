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
	alone bool
	full  bool // left out with -quick, unless -only names it
	run   func(ctx context.Context, t harness.T, b *broker, s scale) ([]figure, error)
}

// scale says how much a run does.
type scale struct {
	rounds  int
	warm    time.Duration // of running a workload on a JVM before the runs that count; once on anything else
	idle    time.Duration // before memory is read
	bytes   int64         // of record values in a run
	passes  int           // over the topic in a catch-up read
	timeout time.Duration // of one run
}

func fullScale() scale {
	return scale{rounds: 5, warm: 60 * time.Second, idle: 10 * time.Second, bytes: 1 << 30, passes: 4, timeout: 10 * time.Minute}
}

func quickScale() scale {
	return scale{rounds: 3, warm: 10 * time.Second, idle: 10 * time.Second, bytes: 192 << 20, passes: 4, timeout: 2 * time.Minute}
}

// allWorkloads are what -only may name, in the order in which they run.
func allWorkloads() []workload {
	list := []workload{{
		name:  "start",
		about: "from process start to the first answer to Metadata, on an empty formatted folder; then memory and CPU after an idle time",
		alone: true,
		run:   runStart,
	}}
	for _, n := range []int{1_000, 10_000} {
		list = append(list, workload{
			name:  fmt.Sprintf("recovery-%d", n),
			about: fmt.Sprintf("kill -9 under load, then from process start to a record acked with acks=all in %d partitions", n),
			alone: true,
			full:  true,
			run:   recoveryRun(n),
		})
	}
	for _, size := range []struct {
		name  string
		bytes int
	}{{"1k", 1024}, {"100b", 100}} {
		for _, client := range []string{"replay", "java"} {
			for _, acks := range []int16{-1, 1} {
				l := load{recordBytes: size.bytes, batchBytes: 16 << 10, acks: acks, connections: 1, depth: 5}
				list = append(list, workload{
					name: fmt.Sprintf("%s-produce-%s-acks-%s", client, size.name, acksName(acks)),
					about: fmt.Sprintf("%s: records of %d bytes, batch.size 16 KiB, 6 partitions, acks=%s",
						clientAbout(client), size.bytes, acksName(acks)),
					full: size.bytes != 1024,
					run:  produceRun(client, l),
				})
			}
		}
	}
	list = append(list, workload{
		name:  "replay-fetch",
		about: "catch-up read by pre-encoded requests on 2 connections: 1 KiB records, batches of 16 KiB, 6 partitions, page cache warm, 1 MiB per partition",
		run:   runFetch,
	})
	return list
}

func acksName(acks int16) string {
	if acks < 0 {
		return "all"
	}
	return fmt.Sprint(acks)
}

func clientAbout(client string) string {
	if client == "java" {
		return "Apache Kafka's ProducerPerformance"
	}
	return "pre-encoded requests on 1 connection, 5 on the way, one batch per partition in each"
}

const partitions = 6

// produceRun makes the run of a produce workload.
func produceRun(client string, l load) func(context.Context, harness.T, *broker, scale) ([]figure, error) {
	return func(ctx context.Context, t harness.T, b *broker, s scale) ([]figure, error) {
		l := l
		l.records = s.bytes / int64(l.recordBytes)
		return onTopic(ctx, b, func(to topic) ([]figure, error) {
			return b.measure(func() (outcome, error) {
				if client == "java" {
					return javaProduce(ctx, harness.ApacheKafka(t, harness.KafkaVersion), b.addr, to, l)
				}
				return replayProduce(ctx, b.addr, to, l)
			})
		})
	}
}

// runFetch fills a topic and reads it, without the filling in its figures.
func runFetch(ctx context.Context, _ harness.T, b *broker, s scale) ([]figure, error) {
	l := load{recordBytes: 1024, batchBytes: 16 << 10, records: s.bytes / 1024, acks: -1, connections: 1, depth: 5}
	return onTopic(ctx, b, func(to topic) ([]figure, error) {
		filled, err := replayProduce(ctx, b.addr, to, l)
		if err != nil {
			return nil, err
		}
		if err := settle(b.dir); err != nil {
			return nil, err
		}
		rd := reading{records: filled.records, recordBytes: l.recordBytes, connections: 2, passes: s.passes,
			maxBytes: 50 << 20, maxPartitionBytes: 1 << 20}
		return b.measure(func() (outcome, error) { return replayFetch(ctx, b.addr, to, rd) })
	})
}

// onTopic runs f with a new topic, which it deletes afterwards.
func onTopic(ctx context.Context, b *broker, f func(topic) ([]figure, error)) ([]figure, error) {
	to, err := createTopic(ctx, b.addr, fmt.Sprintf("bench-%d", time.Now().UnixNano()), partitions)
	if err != nil {
		return nil, err
	}
	if err := settle(b.dir); err != nil {
		return nil, err
	}
	figures, err := f(to)
	if err != nil {
		return nil, err
	}
	return figures, b.deleteTopic(ctx, to.name)
}

// measure runs a client against the broker and returns what both of them did.
func (b *broker) measure(client func() (outcome, error)) ([]figure, error) {
	cpu, written, err := b.usage()
	if err != nil {
		return nil, err
	}
	o, err := client()
	if err != nil {
		return nil, err
	}
	// What the broker still does for these records in the background belongs to them.
	time.Sleep(200 * time.Millisecond)
	cpuAfter, writtenAfter, err := b.usage()
	if err != nil {
		return nil, err
	}
	gigabytes := float64(o.bytes) / 1e9
	spent := (cpuAfter - cpu).Seconds()
	figures := []figure{
		{"broker CPU per GB", "s", true, spent / gigabytes},
		{"broker CPU per million records", "s", true, spent / float64(o.records) * 1e6},
		{"client CPU per GB", "s", true, o.clientCPU.Seconds() / gigabytes},
		{"throughput", "MB/s", false, o.perSecond * float64(o.bytes) / float64(o.records) / 1e6},
		{"throughput", "records/s", false, o.perSecond},
		{"latency p50", "ms", true, milliseconds(o.latency.p50)},
		{"latency p95", "ms", true, milliseconds(o.latency.p95)},
		{"latency p99", "ms", true, milliseconds(o.latency.p99)},
		{"latency p99.9", "ms", true, milliseconds(o.latency.p999)},
	}
	return append(figures, figure{"bytes written per byte", "", true, float64(writtenAfter-written) / float64(o.bytes)}), nil
}

func (b *broker) usage() (cpu time.Duration, written int64, err error) {
	if cpu, err = cpuTime(b.Pid()); err != nil {
		return 0, 0, err
	}
	written, err = bytesWritten(b.Pid())
	return cpu, written, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// runStart starts the broker, lets it idle, and looks at what it holds and uses.
func runStart(ctx context.Context, t harness.T, b *broker, s scale) ([]figure, error) {
	took, err := b.start(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := sleepUntil(ctx, time.Now().Add(s.idle/2)); err != nil {
		return nil, err
	}
	// The second half only: the first still pays for the start.
	before, err := cpuTime(b.Pid())
	if err != nil {
		return nil, err
	}
	since := time.Now()
	if err := sleepUntil(ctx, since.Add(s.idle/2)); err != nil {
		return nil, err
	}
	after, err := cpuTime(b.Pid())
	if err != nil {
		return nil, err
	}
	idle := float64(after-before) / float64(time.Since(since)) * 100
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
