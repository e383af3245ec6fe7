package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// perfConsumeFlags are those of ConsumerPerformance.
type perfConsumeFlags struct {
	topic, include, group  string
	records, intervalMs    int64
	timeoutMs              int64
	fetchSize              int32
	fromLatest, hideHeader bool
	detailed               bool
}

// perfConsumerCommand is Kafka's kafka-consumer-perf-test.sh (ConsumerPerformance). Without --group it reads all
// partitions directly, where Kafka's makes up a group.
func (a *app) perfConsumerCommand() *cobra.Command {
	var f perfConsumeFlags
	cmd, c := a.tool("consumer-perf-test", "Read records as fast as they come and tell how fast that was",
		"  moldau consumer-perf-test --topic perf --num-records 1000000", map[string]string{
			"consumer.config": "command-config", "messages": "num-records", "broker-list": "bootstrap-server",
		})
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the `topic` to read")
	flags.StringVar(&f.include, "include", "", "read every topic that this `expression` matches")
	flags.Int64Var(&f.records, "num-records", 0, "how `many` records")
	flags.StringVar(&f.group, "group", "", "read as a member of this `group`")
	flags.Int32Var(&f.fetchSize, "fetch-size", 1<<20, "`bytes` of one partition in one answer, at most")
	flags.BoolVar(&f.fromLatest, "from-latest", false, "begin with the next new record where there is no committed offset")
	flags.Int64Var(&f.timeoutMs, "timeout", 10_000, "stop when no record came for this many `milliseconds`")
	flags.BoolVar(&f.hideHeader, "hide-header", false, "leave the line of names out")
	flags.BoolVar(&f.detailed, "show-detailed-stats", false, "report each interval instead of the whole")
	flags.Int64Var(&f.intervalMs, "reporting-interval", 5000, "`milliseconds` from one report to the next")
	for _, name := range []string{"socket-buffer-size", "threads", "num-fetch-threads", "date-format"} {
		flags.String(name, "", "taken for Kafka's sake")
	}
	flags.Bool("print-metrics", false, "taken for Kafka's sake")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := exactlyOne(flags, "topic", "include"); err != nil {
			return err
		}
		if f.records <= 0 || f.intervalMs <= 0 {
			return &failure{exitUsage, errors.New("--num-records and --reporting-interval have to be above 0")}
		}
		return a.perfConsume(cmd.Context(), c, f)
	}
	return cmd
}

// perfRead is how much was read, and when.
type perfRead struct {
	Start     time.Time     `json:"start"`
	End       time.Time     `json:"end"`
	Records   int64         `json:"records"`
	Bytes     int64         `json:"bytes"`
	Rebalance time.Duration `json:"rebalanceNs"` // from the start until partitions were there
}

func (a *app) perfConsume(ctx context.Context, c *clusterFlags, f perfConsumeFlags) error {
	opts := []kgo.Opt{kgo.FetchMaxPartitionBytes(f.fetchSize), kgo.ConsumeStartOffset(offsetReset(!f.fromLatest))}
	if f.topic != "" {
		opts = append(opts, kgo.ConsumeTopics(f.topic))
	} else {
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics("^(?:"+strings.ReplaceAll(f.include, ",", "|")+")$"))
	}
	var assigned atomic.Int64 // when, in ns; 0: not yet
	if f.group != "" {
		config, err := (&app{stderr: io.Discard}).javaConfig(c) // on does so again, and warns
		if err != nil {
			return err
		}
		group, err := config.groupOpts(f.group)
		if err != nil {
			return err
		}
		opts = append(append(opts, group...), kgo.OnPartitionsAssigned(func(context.Context, *kgo.Client, map[string][]int32) {
			assigned.CompareAndSwap(0, time.Now().UnixNano())
		}))
	}
	start := time.Now()
	return a.on(ctx, c, func(ctx context.Context, cl *client) error {
		if !f.hideHeader && !c.json() {
			first := "start.time, end.time"
			if f.detailed {
				first = "time, threadId"
			}
			fmt.Fprintln(a.stdout, first+", data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec")
		}
		all, err := a.perfPoll(ctx, cl, f, start, c.json())
		if err != nil {
			return err
		}
		if at := assigned.Load(); at != 0 {
			all.Rebalance = time.Unix(0, at).Sub(start)
		}
		if all.Records < f.records {
			fmt.Fprintf(a.stderr, "moldau: warning: %d of %d records came; then none did for %d ms, which --timeout sets\n", all.Records, f.records, f.timeoutMs)
		}
		if f.group != "" {
			if err := cl.CommitMarkedOffsets(ctx); err != nil {
				return err
			}
		}
		return a.result(c, all, func(w io.Writer) {
			if !f.detailed {
				fmt.Fprintln(w, all.start()+", "+all.line(perfRead{Start: start}, all.Rebalance))
			}
		})
	}, opts...)
}

// perfPoll reads until there is enough or nothing comes.
func (a *app) perfPoll(ctx context.Context, cl *client, f perfConsumeFlags, start time.Time, json bool) (perfRead, error) {
	shown := a.progress(json, cmp.Or(f.topic, f.include), f.records, countUnit)
	defer shown.done()
	cl.dialed.tell(shown.lines(a, a.stderr))
	report := shown.lines(a, a.stdout)
	all := perfRead{Start: start, End: start}
	reported := all
	for all.Records < f.records {
		wait, cancel := context.WithTimeout(ctx, time.Duration(f.timeoutMs)*time.Millisecond)
		fetches := cl.PollRecords(wait, 10_000)
		over := wait.Err() != nil
		cancel()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
				return all, unread(e)
			}
		}
		if ctx.Err() != nil {
			return all, context.Cause(ctx)
		}
		if fetches.Empty() && over {
			break
		}
		shown.add(int64(fetches.NumRecords()))
		fetches.EachRecord(func(r *kgo.Record) {
			all.Records++
			all.Bytes += int64(len(r.Key) + len(r.Value))
		})
		if f.group != "" {
			cl.MarkCommitRecords(fetches.Records()...)
		}
		all.End = time.Now()
		if f.detailed && all.End.Sub(reported.End) >= time.Duration(f.intervalMs)*time.Millisecond {
			fmt.Fprintf(report, "%s, 0, %s\n", javaTime(all.End), all.line(perfRead{Start: reported.End, Records: reported.Records, Bytes: reported.Bytes}, 0))
			reported = all
		}
	}
	return all, nil
}

func (p perfRead) start() string { return javaTime(p.Start) + ", " + javaTime(p.End) }

// line is what was read since, per second, and per second of fetching.
func (p perfRead) line(since perfRead, rebalance time.Duration) string {
	const mb = 1 << 20
	seconds := max(p.End.Sub(since.Start).Seconds(), 0.001)
	fetch := max(seconds-rebalance.Seconds(), 0.001)
	size, records := float64(p.Bytes-since.Bytes)/mb, float64(p.Records-since.Records)
	return fmt.Sprintf("%.4f, %.4f, %d, %.4f, %d, %d, %.4f, %.4f", float64(p.Bytes)/mb, size/seconds, p.Records, records/seconds,
		rebalance.Milliseconds(), int64(fetch*1000), size/fetch, records/fetch)
}

func javaTime(t time.Time) string {
	return strings.Replace(t.Format("2006-01-02 15:04:05.000"), ".", ":", 1)
}
