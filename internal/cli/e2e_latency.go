package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// latencyFlags are those of EndToEndLatency.
type latencyFlags struct {
	topic, acks                                 string
	records                                     int
	size, keySize, headers, headerKey, headerSz int
}

// e2eLatencyCommand is Kafka's kafka-e2e-latency.sh (EndToEndLatency).
func (a *app) e2eLatencyCommand() *cobra.Command {
	f := latencyFlags{}
	cmd, c := a.tool("e2e-latency", "Send records one by one and tell how long each takes until it is read",
		"  moldau e2e-latency --topic latency --num-records 1000 --producer-acks all --record-size 100\n"+
			"  moldau e2e-latency 127.0.0.1:9092 latency 1000 all 100", map[string]string{"broker-list": "bootstrap-server"})
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the `topic` to send to; created with one partition if it does not exist")
	flags.IntVar(&f.records, "num-records", 0, "how `many` records")
	flags.StringVar(&f.acks, "producer-acks", "all", "who has to have a record before it is acknowledged: `1 or all`")
	flags.IntVar(&f.size, "record-size", 0, "`bytes` of each value")
	flags.IntVar(&f.keySize, "record-key-size", 0, "`bytes` of each key; 0: no keys")
	flags.IntVar(&f.headers, "num-headers", 0, "how `many` headers each record has")
	flags.IntVar(&f.headerKey, "record-header-key-size", 0, "`bytes` of a header's key")
	flags.IntVar(&f.headerSz, "record-header-size", 0, "`bytes` of a header's value; -1: null")
	cmd.Args = usage(cobra.MaximumNArgs(6))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := f.positional(c, args); err != nil {
			return &failure{exitUsage, err}
		}
		switch {
		case f.topic == "" || f.records <= 0 || f.size <= 0:
			return &failure{exitUsage, errors.New("--topic, --num-records and --record-size are required and above 0")}
		case f.acks != "1" && f.acks != "all" && f.acks != "-1":
			return &failure{exitUsage, fmt.Errorf("--producer-acks %s: want 1 or all, since a record has to be acknowledged before it is waited for", f.acks)}
		}
		c.properties = append(c.properties, "acks="+f.acks, "linger.ms=0")
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.measureLatency(ctx, cl, c, f) })
	}
	return cmd
}

// positional takes arguments without names, as Kafka's tool had them before 4.2: brokers, topic, records, acks, size, file.
func (f *latencyFlags) positional(c *clusterFlags, args []string) (err error) {
	switch {
	case len(args) == 0:
		return nil
	case len(args) < 5:
		return fmt.Errorf("%d arguments: want --topic, --num-records, --producer-acks and --record-size, or brokers, topic, records, acks, size and maybe a file", len(args))
	case len(args) == 6:
		c.configFile = args[5]
	}
	c.bootstrap, f.topic, f.acks = args[0], args[1], args[3]
	if f.records, err = strconv.Atoi(args[2]); err == nil {
		f.size, err = strconv.Atoi(args[4])
	}
	return err
}

// record is a new one, filled with letters.
func (f *latencyFlags) record(random *rand.Rand) *kgo.Record {
	letters := func(n int) []byte {
		if n < 0 {
			return nil
		}
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('A' + random.IntN(26))
		}
		return b
	}
	r := &kgo.Record{Topic: f.topic, Value: letters(f.size)}
	if f.keySize > 0 {
		r.Key = letters(f.keySize)
	}
	for range f.headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(letters(f.headerKey)), Value: letters(f.headerSz)})
	}
	return r
}

// latencies are the result, in milliseconds.
type latencies struct {
	Records int     `json:"records"`
	Avg     float64 `json:"avgLatencyMs"`
	P50     int64   `json:"p50LatencyMs"`
	P99     int64   `json:"p99LatencyMs"`
	P999    int64   `json:"p999LatencyMs"`
	Max     float64 `json:"maxLatencyMs"`
}

func (a *app) measureLatency(ctx context.Context, cl *client, c *clusterFlags, f latencyFlags) error {
	if _, err := cl.admin.CreateTopic(ctx, 1, -1, nil, f.topic); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("create topic %s: %w", f.topic, err)
	}
	ends, err := cl.admin.ListEndOffsets(ctx, f.topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return err
	}
	from := make(map[int32]kgo.Offset)
	for _, o := range ends.Offsets().Sorted() {
		from[o.Partition] = kgo.NewOffset().At(o.At)
	}
	reader, err := (&app{stderr: io.Discard}).connect(ctx, c, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{f.topic: from}))
	if err != nil {
		return err
	}
	defer reader.Close()
	shown := a.progress(c.json(), f.topic, int64(f.records), countUnit)
	defer shown.done()
	reader.dialed.tell(shown.lines(a, a.stderr))
	out := shown.lines(a, a.stdout)
	random := rand.New(rand.NewPCG(0, 0))
	took := make([]time.Duration, 0, f.records)
	var sum time.Duration
	for i := range f.records {
		record := f.record(random)
		start := time.Now()
		if err := cl.ProduceSync(ctx, record).FirstErr(); err != nil {
			return err
		}
		if err := arrives(ctx, reader, record.Value); err != nil {
			return fmt.Errorf("record %d: %w", i, err)
		}
		took = append(took, time.Since(start))
		sum += took[i]
		shown.add(1)
		if i%1000 == 0 && !c.json() {
			fmt.Fprintf(out, "%d\t%s\n", i, javaDouble(float64(took[i].Nanoseconds())/1e6))
		}
	}
	shown.done()
	slices.Sort(took)
	at := func(share float64) int64 { return took[int(float64(len(took))*share)].Milliseconds() }
	result := latencies{f.records, sum.Seconds() * 1000 / float64(f.records), at(0.5), at(0.99), at(0.999), took[len(took)-1].Seconds() * 1000}
	return a.result(c, result, func(w io.Writer) {
		fmt.Fprintf(w, "Avg latency: %.4f ms\nPercentiles: 50th = %d, 99th = %d, 99.9th = %d\n", result.Avg, result.P50, result.P99, result.P999)
	})
}

// arrives waits until the one record that is on its way is read, and makes sure that it is that one.
func arrives(ctx context.Context, reader *client, value []byte) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			if errors.Is(err, context.DeadlineExceeded) {
				err = errors.New("it was acknowledged and did not arrive within a minute")
			}
			return err
		}
		records := fetches.Records()
		switch {
		case len(records) == 0:
			continue
		case len(records) > 1:
			return fmt.Errorf("%d records came where one was sent: somebody else writes to the topic", len(records))
		case !bytes.Equal(records[0].Value, value):
			return errors.New("another record came than was sent: somebody else writes to the topic")
		}
		return nil
	}
}
