package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kgo"
)

// consumeFlags are those of ConsoleConsumer.
type consumeFlags struct {
	topic, include, exclude, offset, group, formatter, formatterConfig, isolation, keyDecoder, valueDecoder string
	format                                                                                                  []string
	partition                                                                                               int32
	fromBeginning, skip, deleteOffsets                                                                      bool
	maxMessages                                                                                             int
	timeoutMs                                                                                               int64
}

// consoleConsumerCommand is Kafka's kafka-console-consumer.sh (ConsoleConsumer).
func (a *app) consoleConsumerCommand() *cobra.Command {
	f := consumeFlags{}
	cmd, c := a.tool("console-consumer", "Print the records of a topic",
		"  moldau console-consumer --topic greetings --from-beginning\n"+
			"  moldau console-consumer --topic orders --partition 2 --offset 100 --max-messages 5 --formatter-property print.key=true\n"+
			"  moldau console-consumer --topic orders --group audit --timeout-ms 5000\n"+
			"  moldau console-consumer --zookeeper localhost:2181 --topic first --consumer.config config/consumer.properties\n"+
			"  moldau console-consumer --topic __consumer_offsets --from-beginning --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter", map[string]string{
			"consumer.config": "command-config", "consumer-property": "command-property", "property": "formatter-property", "whitelist": "include",
		})
	flags := cmd.Flags()
	a.formerly(flags, "csv-reporter-enabled!", "metrics-dir")
	flags.StringVar(&f.topic, "topic", "", "the `topic` to read")
	flags.StringVar(&f.include, "include", "", "read every topic that this `expression` matches")
	flags.Int32Var(&f.partition, "partition", -1, "read this `partition` alone")
	flags.StringVar(&f.offset, "offset", "", "where to begin in --partition: `earliest, latest` or an offset")
	flags.BoolVar(&f.fromBeginning, "from-beginning", false, "begin with the oldest record where there is no committed offset, not with the next new one")
	flags.StringVar(&f.group, "group", "", "read as a member of this consumer `group` and commit offsets")
	flags.IntVar(&f.maxMessages, "max-messages", -1, "stop after this many `records`")
	flags.Int64Var(&f.timeoutMs, "timeout-ms", -1, "stop when no record came for this many `milliseconds`")
	flags.StringArrayVar(&f.format, "formatter-property", nil, "what is printed, as `key=value`: print.timestamp, print.partition, print.offset, print.epoch, print.headers, "+
		"print.key, print.value (true unless said otherwise), key.separator, line.separator, headers.separator, null.literal, key.deserializer, value.deserializer; may be repeated")
	flags.StringVar(&f.formatterConfig, "formatter-config", "", "a `file` of the same")
	flags.StringVar(&f.formatter, "formatter", "", "`class`: org.apache.kafka.tools.consumer.DefaultMessageFormatter, LoggingMessageFormatter, NoOpMessageFormatter; "+
		"for internal topics OffsetsMessageFormatter, GroupMetadataMessageFormatter, TransactionLogMessageFormatter, ShareGroupMessageFormatter, ShareGroupStateMessageFormatter")
	flags.StringVar(&f.isolation, "isolation-level", "", "`read_committed` leaves out records of open and aborted transactions; read_uncommitted is the default")
	flags.StringVar(&f.keyDecoder, "key-deserializer", "", "the `class` of keys")
	flags.StringVar(&f.valueDecoder, "value-deserializer", "", "the `class` of values")
	flags.BoolVar(&f.skip, "skip-message-on-error", false, "leave a record out that cannot be printed")
	flags.Bool("enable-systest-events", false, "taken for Kafka's sake")
	c.byZooKeeper(flags)
	flags.StringVar(&f.exclude, "blacklist", "", "with --zookeeper: read every topic that this `expression` does not match")
	flags.BoolVar(&f.deleteOffsets, "delete-consumer-offsets", false, "with --zookeeper: delete what the group has stored there first")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if c.zookeeper != "" {
			if err := f.checkWithZooKeeper(flags); err != nil {
				return err
			}
			return a.consumeByZooKeeper(cmd.Context(), c, f)
		}
		for _, name := range []string{"blacklist", "delete-consumer-offsets"} {
			if flags.Changed(name) {
				return &failure{exitUsage, fmt.Errorf("--%s goes with --zookeeper", name)}
			}
		}
		if err := f.check(flags); err != nil {
			return err
		}
		if f.isolation != "" {
			c.properties = append(c.properties, "isolation.level="+f.isolation)
		}
		return a.consume(cmd.Context(), c, f)
	}
	return cmd
}

func (f *consumeFlags) check(flags *pflag.FlagSet) error {
	if _, err := exactlyOne(flags, "topic", "include"); err != nil {
		return err
	}
	bad := ""
	switch {
	case f.partition >= 0 && f.topic == "":
		bad = "--partition goes with --topic"
	case f.partition < 0 && flags.Changed("partition"):
		bad = "--partition: partitions count from 0"
	case f.partition < 0 && f.offset != "":
		bad = "--offset goes with --partition"
	case f.offset != "" && f.fromBeginning:
		bad = "--from-beginning and --offset exclude each other"
	case f.maxMessages < -1:
		bad = fmt.Sprintf("--max-messages %d: want a number from 0, or -1 for all that come", f.maxMessages)
	case f.partition >= 0 && f.group != "":
		bad = "--group and --partition exclude each other: a group deals out partitions by itself"
	}
	if bad != "" {
		return &failure{exitUsage, errors.New(bad)}
	}
	return nil
}

// start is where reading begins without a committed offset.
func (f *consumeFlags) start() (kgo.Offset, error) {
	switch f.offset {
	case "":
		return offsetReset(f.fromBeginning), nil
	case "earliest", "latest":
		return offsetReset(f.offset == "earliest"), nil
	}
	n, err := strconv.ParseInt(f.offset, 10, 64)
	if err != nil || n < 0 {
		return kgo.Offset{}, &failure{exitUsage, fmt.Errorf("--offset %s: want earliest, latest or an offset from 0", f.offset)}
	}
	return kgo.NewOffset().At(n), nil
}

func (a *app) consume(ctx context.Context, c *clusterFlags, f consumeFlags) error {
	write, err := a.recordWriter(c, f)
	if err != nil {
		return err
	}
	start, err := f.start()
	if err != nil {
		return err
	}
	config, err := (&app{stderr: io.Discard}).javaConfig(c) // on does so again, and warns
	if err != nil {
		return err
	}
	fallback := offsetReset(f.fromBeginning)
	if reset, ok := config.has("auto.offset.reset"); ok && !f.fromBeginning && f.offset == "" {
		start = offsetReset(reset == "earliest")
		fallback = start
	}
	opts := []kgo.Opt{kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(fallback), kgo.AllowAutoTopicCreation()}
	group := f.group
	if own, ok := config.has("group.id"); ok && group == "" && f.partition < 0 {
		group = own
	}
	if group != "" {
		more, err := config.groupOpts(group)
		if err != nil {
			return err
		}
		opts = append(opts, more...)
	}
	switch {
	case f.partition >= 0:
		opts = append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{f.topic: {f.partition: start}}))
	case f.include != "":
		if _, err := includeList(f.include); err != nil {
			return &failure{exitUsage, fmt.Errorf("--include: %w", err)}
		}
		opts = append(opts, kgo.ConsumeRegex(), kgo.ConsumeTopics("^(?:"+strings.ReplaceAll(f.include, ",", "|")+")$"))
	default:
		opts = append(opts, kgo.ConsumeTopics(f.topic))
	}
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	return a.on(ctx, c, func(ctx context.Context, cl *client) error {
		if f.partition >= 0 {
			if err := cl.partitionExists(ctx, f.topic, f.partition); err != nil {
				return err
			}
		}
		a.stream(cl)
		ctx, release := a.whileRead(ctx)
		defer release()
		return a.printRecords(ctx, cl, f, group != "", out, write)
	}, opts...)
}

// recordWriter is how records are printed.
func (a *app) recordWriter(c *clusterFlags, f consumeFlags) (func(io.Writer, *kgo.Record) error, error) {
	if c.json() {
		return func(w io.Writer, r *kgo.Record) error {
			enc := json.NewEncoder(w)
			enc.SetEscapeHTML(false)
			return enc.Encode(newRecordJSON(r))
		}, nil
	}
	props, err := a.keyValues(f.formatterConfig, f.format)
	if err != nil {
		return nil, err
	}
	if f.keyDecoder != "" {
		props["key.deserializer"] = f.keyDecoder
	}
	if f.valueDecoder != "" {
		props["value.deserializer"] = f.valueDecoder
	}
	formatter, err := newRecordFormatter(props)
	if err != nil {
		return nil, &failure{exitUsage, fmt.Errorf("--formatter-property: %w", err)}
	}
	// Classes of today, and under their names of before 4.0: kafka.tools.…, kafka.coordinator.group.GroupMetadataManager$….
	switch f.formatter[strings.LastIndexAny(f.formatter, ".$")+1:] {
	case "", "DefaultMessageFormatter":
		return formatter.write, nil
	case "NoOpMessageFormatter":
		return func(io.Writer, *kgo.Record) error { return nil }, nil
	case "LoggingMessageFormatter":
		return func(w io.Writer, r *kgo.Record) error {
			fmt.Fprintf(a.stderr, "%skey:%s, value:%s\n", timestampColumn(r, ", "), orNull(r.Key), orNull(r.Value))
			return formatter.write(w, r)
		}, nil
	case "OffsetsMessageFormatter":
		return internalFormatter("group", func(kind int16) bool { return kind <= 1 }), nil
	case "GroupMetadataMessageFormatter":
		return internalFormatter("group", func(kind int16) bool { return kind == 2 }), nil
	case "ShareGroupMessageFormatter":
		return internalFormatter("group", func(kind int16) bool { return kind >= 10 && kind <= 15 }), nil
	case "TransactionLogMessageFormatter":
		return internalFormatter("transaction", func(int16) bool { return true }), nil
	case "ShareGroupStateMessageFormatter":
		return internalFormatter("share", func(int16) bool { return true }), nil
	}
	return nil, &failure{exitUsage, fmt.Errorf("--formatter %s: Java's classes cannot be loaded here, only those that come with Apache Kafka are known", f.formatter)}
}

func orNull(b []byte) string {
	if b == nil {
		return "null"
	}
	return string(b)
}

// partitionExists makes sure of a partition, since a client would wait for it for ever.
func (cl *client) partitionExists(ctx context.Context, topic string, partition int32) error {
	all, err := cl.admin.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	t := all[topic]
	if t.Err != nil {
		return noSuchTopic(topic, t.Err)
	}
	if _, ok := t.Partitions[partition]; !ok {
		return fmt.Errorf("topic %s has no partition %d, it has 0 to %d", topic, partition, len(t.Partitions)-1)
	}
	return nil
}

// printRecords prints until it is enough. A signal is the usual end of a consumer, so it is no failure here.
func (a *app) printRecords(ctx context.Context, cl *client, f consumeFlags, commit bool, out *bufio.Writer, write func(io.Writer, *kgo.Record) error) error {
	count := 0
	defer func() { fmt.Fprintf(a.stderr, "Processed a total of %d messages\n", count) }()
	for f.maxMessages < 0 || count < f.maxMessages {
		limit := 10_000
		if f.maxMessages >= 0 {
			limit = min(limit, f.maxMessages-count)
		}
		wait, cancel := ctx, context.CancelFunc(func() {})
		if f.timeoutMs >= 0 {
			wait, cancel = context.WithTimeout(ctx, time.Duration(f.timeoutMs)*time.Millisecond)
		}
		fetches := cl.PollRecords(wait, limit)
		over := wait.Err() != nil
		cancel()
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
				return errors.Join(out.Flush(), unread(e))
			}
		}
		records := fetches.Records()
		for _, r := range records {
			count++
			if err := write(out, r); err != nil {
				if !f.skip || errors.Is(err, io.ErrShortWrite) {
					return errors.Join(out.Flush(), err)
				}
				fmt.Fprintf(a.stderr, "moldau: left out: %v\n", err)
			}
		}
		if err := out.Flush(); err != nil {
			return err
		}
		if commit {
			cl.MarkCommitRecords(records...)
		}
		if over && len(records) == 0 {
			break
		}
	}
	if !commit {
		return nil
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := cl.CommitMarkedOffsets(last)
	if err == nil {
		err = cl.LeaveGroupContext(last)
	}
	return err
}

// groupOpts are a member's options, with what the configuration says of groups.
func (j *javaConfig) groupOpts(group string) ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.ConsumerGroup(group), kgo.AutoCommitMarks()}
	if v, _ := j.has("enable.auto.commit"); v == "false" {
		opts = []kgo.Opt{kgo.ConsumerGroup(group), kgo.DisableAutoCommit()}
	}
	for _, setting := range []struct {
		key string
		opt func(time.Duration) kgo.GroupOpt
	}{
		{"session.timeout.ms", kgo.SessionTimeout}, {"heartbeat.interval.ms", kgo.HeartbeatInterval},
		{"max.poll.interval.ms", kgo.RebalanceTimeout}, {"auto.commit.interval.ms", kgo.AutoCommitInterval},
	} {
		if _, ok := j.has(setting.key); !ok {
			continue
		}
		ms, err := j.number(setting.key, 0)
		if err != nil {
			return nil, err
		}
		opts = append(opts, setting.opt(time.Duration(ms)*time.Millisecond))
	}
	if v, ok := j.has("group.instance.id"); ok {
		opts = append(opts, kgo.InstanceID(v))
	}
	balancers := []kgo.GroupBalancer{kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()}
	if v, ok := j.has("partition.assignment.strategy"); ok {
		balancers = nil
		for class := range strings.SplitSeq(v, ",") {
			class = strings.TrimSpace(class)
			balancer, ok := map[string]kgo.GroupBalancer{
				"RangeAssignor": kgo.RangeBalancer(), "RoundRobinAssignor": kgo.RoundRobinBalancer(),
				"StickyAssignor": kgo.StickyBalancer(), "CooperativeStickyAssignor": kgo.CooperativeStickyBalancer(),
			}[class[strings.LastIndexByte(class, '.')+1:]]
			if !ok {
				return nil, &failure{exitConfig, fmt.Errorf("partition.assignment.strategy=%s: want RangeAssignor, RoundRobinAssignor, StickyAssignor or CooperativeStickyAssignor", v)}
			}
			balancers = append(balancers, balancer)
		}
	}
	return append(opts, kgo.Balancers(balancers...)), nil
}
