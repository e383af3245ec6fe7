package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// perfProduceFlags are those of ProducerPerformance.
type perfProduceFlags struct {
	topic, payloadFile, delimiter, keys, transaction string
	records, warmup, keyRange, seed                  int64
	size                                             int
	throughput                                       float64
	monotonic                                        bool
	reportMs, commitMs                               int64
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
	flags.Int64Var(&f.warmup, "warmup-records", 0, "how `many` of the first records a second summary leaves out")
	flags.StringVar(&f.keys, "key-distribution", "none", "keys: `none`, range (one after the other) or random, of the numbers below --record-key-range")
	flags.Int64Var(&f.keyRange, "record-key-range", 0, "how `many` keys there are")
	flags.Int64Var(&f.seed, "random-seed", 0, "another `number` gives other random keys and values")
	flags.StringVar(&f.transaction, "transactional-id", "", "send in transactions of this `id`")
	flags.Int64Var(&f.commitMs, "transaction-duration-ms", 3000, "`milliseconds` that each transaction lasts; alone, of an id that is made up")
	flags.Bool("print-metrics", false, "has no effect: what a Java producer measures is not measured here")
	cmd.Args = cobra.ArbitraryArgs // --producer-props takes several words
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, arg := range args {
			if !strings.Contains(arg, "=") {
				return &failure{exitUsage, fmt.Errorf("%q is neither a flag nor key=value", arg)}
			}
		}
		c.properties = append(c.properties, args...)
		if f.transaction == "" && flags.Changed("transaction-duration-ms") {
			f.transaction = fmt.Sprintf("performance-producer-%d-%d", os.Getpid(), time.Now().UnixNano())
		}
		if flags.Changed("print-metrics") {
			fmt.Fprintln(a.stderr, "moldau: warning: --print-metrics has no effect: what a Java producer measures is not measured here")
		}
		return a.perfProduce(cmd.Context(), c, f)
	}
	return cmd
}

func (f *perfProduceFlags) check() error {
	bad := ""
	switch {
	case f.topic == "" || f.records <= 0 || f.reportMs <= 0:
		bad = "--topic and --num-records are required, and --reporting-interval is above 0"
	case f.warmup < 0 || f.warmup >= f.records:
		bad = "--warmup-records has to be below --num-records"
	case f.keys != "none" && f.keys != "range" && f.keys != "random":
		bad = "--key-distribution " + f.keys + ": want none, range or random"
	case f.keys != "none" && f.keyRange <= 0:
		bad = "--key-distribution " + f.keys + " needs --record-key-range above 0"
	case f.keys == "none" && f.keyRange != 0:
		bad = "--record-key-range needs --key-distribution range or random"
	case f.commitMs <= 0:
		bad = "--transaction-duration-ms has to be above 0"
	}
	if bad == "" {
		return nil
	}
	return &failure{exitUsage, errors.New(bad)}
}

// keyOf returns what gives the key of each record; nil is none.
func (f *perfProduceFlags) keyOf() func(i int64) []byte {
	random := rand.New(rand.NewPCG(uint64(f.seed), 1))
	switch f.keys {
	case "range":
		return func(i int64) []byte { return strconv.AppendInt(nil, i%f.keyRange, 10) }
	case "random":
		return func(int64) []byte { return strconv.AppendInt(nil, random.Int64N(f.keyRange), 10) }
	}
	return func(int64) []byte { return nil }
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
	random := rand.New(rand.NewPCG(uint64(f.seed), 0))
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
	text, err := readNamed("payload-file", f.payloadFile)
	if err != nil {
		return nil, err
	}
	delimiter := strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r").Replace(f.delimiter)
	values := bytes.Split(bytes.TrimSuffix(text, []byte(delimiter)), []byte(delimiter))
	if len(text) == 0 || delimiter == "" {
		return nil, fmt.Errorf("--payload-file %s holds no values", f.payloadFile)
	}
	return func(int64) []byte { return values[random.IntN(len(values))] }, nil
}

func (a *app) perfProduce(ctx context.Context, c *clusterFlags, f perfProduceFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	payload, err := f.payloads()
	if err != nil {
		return &failure{exitUsage, err}
	}
	opts := []kgo.Opt{kgo.DefaultProduceTopic(f.topic), kgo.AllowAutoTopicCreation()}
	if f.transaction != "" {
		opts = append(opts, kgo.TransactionalID(f.transaction))
	}
	return a.on(ctx, c, func(ctx context.Context, cl *client) error {
		shown := a.progress(c.json(), f.topic, f.records, countUnit)
		defer shown.done()
		cl.dialed.tell(shown.lines(a, a.stderr))
		report := shown.lines(a, a.stdout)
		if c.json() {
			report = a.stderr
		}
		if f.warmup > 0 {
			fmt.Fprintf(report, "Warmup first %d records. Steady state results will print after the complete test summary.\n", f.warmup)
		}
		stats := newPerfStats(report, time.Duration(f.reportMs)*time.Millisecond, f.warmup, shown)
		if err := f.send(ctx, cl, stats, payload, f.keyOf()); err != nil {
			return err
		}
		total := stats.total()
		shown.done()
		return a.result(c, total, func(w io.Writer) {
			total.print(w, "")
			if total.Steady != nil {
				total.Steady.print(w, "steady state ")
			}
		})
	}, opts...)
}

// send sends all records, in transactions if that was asked for, and waits for their acknowledgements.
func (f *perfProduceFlags) send(ctx context.Context, cl *client, stats *perfStats, payload, key func(i int64) []byte) error {
	start := time.Now()
	var begun time.Time // of the open transaction
	commit := func() error {
		if err := cl.Flush(ctx); err != nil || f.transaction == "" {
			return err
		}
		if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(stats.failure() == nil)); err != nil {
			return fmt.Errorf("end a transaction of %s: %w", f.transaction, err)
		}
		return nil
	}
	for i := int64(0); i < f.records && ctx.Err() == nil && stats.failure() == nil; i++ {
		if f.transaction != "" && time.Since(begun) >= time.Duration(f.commitMs)*time.Millisecond {
			if i > 0 {
				if err := commit(); err != nil {
					return err
				}
			}
			if err := cl.BeginTransaction(); err != nil {
				return err
			}
			begun = time.Now()
		}
		value, sent := payload(i), time.Now()
		cl.Produce(ctx, &kgo.Record{Key: key(i), Value: value}, func(_ *kgo.Record, err error) { stats.done(i, sent, len(value), err) })
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
	if err := commit(); err != nil {
		return err
	}
	return stats.failure()
}
