package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// perfProduceFlags are those of ProducerPerformance.
type perfProduceFlags struct {
	topic, payloadFile, delimiter string
	records                       int64
	size                          int
	throughput                    float64
	monotonic                     bool
	reportMs                      int64
}

// perfProducerCommand is Kafka's kafka-producer-perf-test.sh (ProducerPerformance).
func (a *app) perfProducerCommand() *cobra.Command {
	var f perfProduceFlags
	cmd, c := a.tool("producer-perf-test", "Send records as fast as they go, or at a rate, and tell how fast that was",
		"  moldau producer-perf-test --topic perf --num-records 1000000 --record-size 100 --throughput -1 --producer-props acks=all", map[string]string{
			"producer.config": "command-config", "producer-props": "command-property",
		})
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the `topic` to send to")
	flags.Int64Var(&f.records, "num-records", 0, "how `many` records")
	flags.IntVar(&f.size, "record-size", 0, "`bytes` of each record")
	flags.StringVar(&f.payloadFile, "payload-file", "", "a `file` of values to pick from instead")
	flags.StringVar(&f.delimiter, "payload-delimiter", `\n`, "what is `between` the values of that file")
	flags.BoolVar(&f.monotonic, "payload-monotonic", false, "values are the numbers from 0 instead")
	flags.Float64Var(&f.throughput, "throughput", -1, "records per `second`; -1: no limit")
	flags.Int64Var(&f.reportMs, "reporting-interval", 5000, "`milliseconds` from one report to the next")
	flags.Bool("print-metrics", false, "taken for Kafka's sake")
	cmd.Args = cobra.ArbitraryArgs // --producer-props takes several words
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			if !strings.Contains(arg, "=") {
				return &failure{exitUsage, fmt.Errorf("%q is neither a flag nor key=value", arg)}
			}
		}
		c.properties = append(c.properties, args...)
		return a.perfProduce(cmd.Context(), c, f)
	}
	return cmd
}

// payloads returns what gives the value of each record. The same flags give the same values.
func (f perfProduceFlags) payloads() (func(i int64) []byte, error) {
	kinds := 0
	for _, set := range []bool{f.size > 0, f.payloadFile != "", f.monotonic} {
		if set {
			kinds++
		}
	}
	if kinds != 1 {
		return nil, errors.New("want exactly one of --record-size, --payload-file, --payload-monotonic")
	}
	random := rand.New(rand.NewPCG(0, 0))
	if f.monotonic {
		return func(i int64) []byte { return strconv.AppendInt(nil, i, 10) }, nil
	}
	if f.payloadFile == "" {
		return func(int64) []byte {
			b := make([]byte, f.size)
			for i := range b {
				b[i] = byte('A' + random.IntN(26))
			}
			return b
		}, nil
	}
	text, err := os.ReadFile(f.payloadFile)
	if err != nil {
		return nil, err
	}
	delimiter := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r").Replace(f.delimiter)
	values := bytes.Split(bytes.TrimSuffix(text, []byte(delimiter)), []byte(delimiter))
	if len(text) == 0 || delimiter == "" {
		return nil, fmt.Errorf("%s holds no values", f.payloadFile)
	}
	return func(int64) []byte { return values[random.IntN(len(values))] }, nil
}

func (a *app) perfProduce(ctx context.Context, c *clusterFlags, f perfProduceFlags) error {
	if f.topic == "" || f.records <= 0 || f.reportMs <= 0 {
		return &failure{exitUsage, errors.New("--topic and --num-records are required, and --reporting-interval is above 0")}
	}
	payload, err := f.payloads()
	if err != nil {
		return &failure{exitUsage, err}
	}
	return a.on(ctx, c, func(ctx context.Context, cl *client) error {
		report := io.Writer(a.stdout)
		if c.json() {
			report = a.stderr
		}
		stats := newPerfStats(report, time.Duration(f.reportMs)*time.Millisecond)
		start := time.Now()
		for i := int64(0); i < f.records && ctx.Err() == nil && stats.failure() == nil; i++ {
			value, sent := payload(i), time.Now()
			cl.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) { stats.done(sent, len(value), err) })
			if f.throughput > 0 {
				// Sleep only once a millisecond's worth is ahead, since a sleep is rarely shorter.
				if ahead := time.Duration(float64(i+1)/f.throughput*float64(time.Second)) - time.Since(start); ahead > time.Millisecond {
					select {
					case <-time.After(ahead):
					case <-ctx.Done():
					}
				}
			}
		}
		if err := cl.Flush(ctx); err != nil {
			return err
		}
		if err := stats.failure(); err != nil {
			return err
		}
		return a.result(c, stats.total(), func(w io.Writer) { stats.printTotal(w) })
	}, kgo.DefaultProduceTopic(f.topic), kgo.AllowAutoTopicCreation())
}

// perfStats counts acknowledged records. Latencies are kept in whole milliseconds, at most half a million of them.
type perfStats struct {
	w        io.Writer
	interval time.Duration

	mu        sync.Mutex
	err       error
	start     time.Time
	all       perfWindow
	window    perfWindow
	latencies []int32
	every     int64 // one in so many is kept
}

type perfWindow struct {
	since          time.Time
	records, bytes int64
	sum, max       int64 // ms
}

func newPerfStats(w io.Writer, interval time.Duration) *perfStats {
	now := time.Now()
	return &perfStats{w: w, interval: interval, start: now, all: perfWindow{since: now}, window: perfWindow{since: now}, every: 1}
}

func (s *perfStats) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *perfStats) done(sent time.Time, size int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.err == nil {
			s.err = err // the first one is enough to tell
		}
		return
	}
	ms := time.Since(sent).Milliseconds()
	for _, w := range []*perfWindow{&s.all, &s.window} {
		w.records++
		w.bytes += int64(size)
		w.sum += ms
		w.max = max(w.max, ms)
	}
	if s.all.records%s.every == 0 {
		if s.latencies = append(s.latencies, int32(ms)); len(s.latencies) == 500_000 {
			for i := range 250_000 {
				s.latencies[i] = s.latencies[2*i+1]
			}
			s.latencies, s.every = s.latencies[:250_000], 2*s.every
		}
	}
	if now := time.Now(); now.Sub(s.window.since) >= s.interval {
		w := s.window
		seconds := now.Sub(w.since).Seconds()
		fmt.Fprintf(s.w, "%d records sent, %.1f records/sec (%.2f MB/sec), %.1f ms avg latency, %.1f ms max latency.\n",
			w.records, float64(w.records)/seconds, float64(w.bytes)/seconds/(1<<20), float64(w.sum)/float64(w.records), float64(w.max))
		s.window = perfWindow{since: now}
	}
}

// perfTotal is the whole run.
type perfTotal struct {
	Records    int64   `json:"records"`
	PerSecond  float64 `json:"recordsPerSecond"`
	MBPerSec   float64 `json:"mebibytesPerSecond"`
	AvgMs      float64 `json:"avgLatencyMs"`
	MaxMs      int64   `json:"maxLatencyMs"`
	P50        int32   `json:"p50LatencyMs"`
	P95        int32   `json:"p95LatencyMs"`
	P99        int32   `json:"p99LatencyMs"`
	P999       int32   `json:"p999LatencyMs"`
	DurationMs int64   `json:"durationMs"`
}

func (s *perfStats) total() perfTotal {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := time.Since(s.start)
	slices.Sort(s.latencies)
	at := func(share float64) int32 {
		if len(s.latencies) == 0 {
			return 0
		}
		return s.latencies[min(len(s.latencies)-1, int(share*float64(len(s.latencies))))]
	}
	w := s.all
	return perfTotal{w.records, float64(w.records) / took.Seconds(), float64(w.bytes) / took.Seconds() / (1 << 20),
		float64(w.sum) / float64(max(1, w.records)), w.max, at(0.5), at(0.95), at(0.99), at(0.999), took.Milliseconds()}
}

func (s *perfStats) printTotal(w io.Writer) {
	t := s.total()
	fmt.Fprintf(w, "%d records sent, %.6f records/sec (%.2f MB/sec), %.2f ms avg latency, %.2f ms max latency, %d ms 50th, %d ms 95th, %d ms 99th, %d ms 99.9th.\n",
		t.Records, t.PerSecond, t.MBPerSec, t.AvgMs, float64(t.MaxMs), t.P50, t.P95, t.P99, t.P999)
}
