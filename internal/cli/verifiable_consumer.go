package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/kafka"
)

// verifiableConsumeFlags are those of VerifiableConsumer.
type verifiableConsumeFlags struct {
	topic, group, instance, protocol, reset, strategy string
	maxMessages, sessionMs, closeMs                   int64
	verbose, autocommit                               bool
}

// verifiableConsumerCommand is Kafka's kafka-verifiable-consumer.sh (VerifiableConsumer).
func (a *app) verifiableConsumerCommand() *cobra.Command {
	var f verifiableConsumeFlags
	cmd, c := a.tool("verifiable-consumer", "Read as a member of a group and print as JSON what was assigned, read and committed",
		"  moldau verifiable-consumer --topic checked --group-id check --max-messages 100", map[string]string{"consumer.config": "command-config", "broker-list": "bootstrap-server"})
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the `topic` to read")
	flags.StringVar(&f.group, "group-id", "", "the `group`")
	flags.StringVar(&f.instance, "group-instance-id", "", "be this static `member` of it")
	flags.StringVar(&f.protocol, "group-protocol", "classic", "the `protocol` of the group; only classic is spoken here")
	flags.String("group-remote-assignor", "", "has a meaning in the protocol that is not spoken here")
	flags.Int64Var(&f.maxMessages, "max-messages", -1, "how `many`; -1: until a signal comes")
	flags.Int64Var(&f.sessionMs, "session-timeout", 30_000, "`milliseconds` without a heartbeat after which the member is out")
	flags.BoolVar(&f.verbose, "verbose", false, "print each record, too")
	flags.BoolVar(&f.autocommit, "enable-autocommit", false, "commit now and then, not after each batch")
	flags.Int64Var(&f.closeMs, "close-timeout", 30_000, "`milliseconds` that leaving may take")
	flags.StringVar(&f.reset, "reset-policy", "earliest", "where to begin without a committed offset: `earliest, latest or none`")
	flags.StringVar(&f.strategy, "assignment-strategy", "org.apache.kafka.clients.consumer.RangeAssignor", "the `class` that deals out partitions")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(); err != nil {
			return &failure{exitUsage, err}
		}
		return a.consumeVerifiably(cmd.Context(), c, f)
	}
	return cmd
}

func (f *verifiableConsumeFlags) check() error {
	switch {
	case f.topic == "" || f.group == "":
		return errors.New("--topic and --group-id are required")
	case !strings.EqualFold(f.protocol, "classic"):
		return fmt.Errorf("--group-protocol %s: this tool speaks the classic protocol only", f.protocol)
	case f.reset != "earliest" && f.reset != "latest" && f.reset != "none":
		return fmt.Errorf("--reset-policy %s: want earliest, latest or none", f.reset)
	}
	return nil
}

// consumeVerifiably reads until there is enough or a signal comes, which is no failure here.
func (a *app) consumeVerifiably(ctx context.Context, c *clusterFlags, f verifiableConsumeFlags) error {
	c.properties = append(c.properties, fmt.Sprintf("session.timeout.ms=%d", f.sessionMs), fmt.Sprintf("enable.auto.commit=%t", f.autocommit), "partition.assignment.strategy="+f.strategy)
	if f.instance != "" {
		c.properties = append(c.properties, "group.instance.id="+f.instance)
	}
	config, err := (&app{stderr: io.Discard}).javaConfig(c) // on does so again, and warns
	if err != nil {
		return err
	}
	opts, err := config.groupOpts(f.group)
	if err != nil {
		return err
	}
	e := &events{w: a.stdout}
	started := sync.OnceFunc(func() { e.tell("startup_complete") }) // the client joins its group as soon as it is made
	moved := func(name string) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, lists map[string][]int32) {
			started()
			e.tell(name, member{"partitions", partitionsJSON(lists, nil)})
		}
	}
	start := offsetReset(f.reset == "earliest")
	if f.reset == "none" {
		start = kgo.NoResetOffset()
	}
	opts = append(opts, kgo.ConsumeTopics(f.topic), kgo.ConsumeStartOffset(start), kgo.ConsumeResetOffset(start), kgo.OnPartitionsAssigned(moved("partitions_assigned")),
		kgo.OnPartitionsRevoked(moved("partitions_revoked")), kgo.OnPartitionsLost(moved("partitions_lost")))
	return a.on(ctx, c, func(ctx context.Context, cl *client) error {
		a.stream(cl)
		started()
		for read := int64(0); (f.maxMessages < 0 || read < f.maxMessages) && e.failure() == nil; {
			limit := 500 // as max.poll.records
			if f.maxMessages >= 0 {
				limit = int(min(500, f.maxMessages-read))
			}
			fetches := cl.PollRecords(ctx, limit)
			if ctx.Err() != nil {
				e.tell("shutdown_requested")
				break
			}
			if all := fetches.Errors(); len(all) > 0 {
				return unread(all[0])
			}
			records := fetches.Records()
			read += int64(len(records))
			f.tellRead(e, records)
			cl.MarkCommitRecords(records...)
			if !f.autocommit && len(records) > 0 {
				f.commit(ctx, cl, e, records)
			}
		}
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(f.closeMs)*time.Millisecond)
		defer cancel()
		var err error
		if f.autocommit {
			err = cl.CommitMarkedOffsets(last)
		}
		err = errors.Join(err, cl.LeaveGroupContext(last), e.failure())
		e.tell("shutdown_complete")
		return err
	}, opts...)
}

// readSpan is what was read of one partition at once.
type readSpan struct{ count, first, last int64 }

// spans are what records are of each partition, and the partitions in order.
func spans(records []*kgo.Record) (byPartition map[kafka.TopicPartition]readSpan, lists map[string][]int32) {
	byPartition, lists = make(map[kafka.TopicPartition]readSpan), make(map[string][]int32)
	for _, r := range records {
		tp := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
		s, seen := byPartition[tp]
		if !seen {
			s.first = r.Offset
			lists[r.Topic] = append(lists[r.Topic], r.Partition)
		}
		byPartition[tp] = readSpan{s.count + 1, s.first, r.Offset}
	}
	return byPartition, lists
}

func (f *verifiableConsumeFlags) tellRead(e *events, records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	if f.verbose {
		for _, r := range records {
			e.tell("record_data", member{"key", orNil(r.Key)}, member{"value", orNil(r.Value)}, member{"topic", r.Topic}, member{"partition", int64(r.Partition)}, member{"offset", r.Offset})
		}
	}
	byPartition, lists := spans(records)
	e.tell("records_consumed", member{"count", int64(len(records))}, member{"partitions", partitionsJSON(lists, func(tp kafka.TopicPartition) []member {
		s := byPartition[tp]
		return []member{{"count", s.count}, {"minOffset", s.first}, {"maxOffset", s.last}}
	})})
}

func (f *verifiableConsumeFlags) commit(ctx context.Context, cl *client, e *events, records []*kgo.Record) {
	byPartition, lists := spans(records)
	offsets := partitionsJSON(lists, func(tp kafka.TopicPartition) []member { return []member{{"offset", byPartition[tp].last + 1}} })
	told := []member{{"offsets", offsets}, {"success", true}}
	if err := cl.CommitRecords(ctx, records...); err != nil {
		told = []member{{"offsets", offsets}, {"success", false}, {"error", err.Error()}}
	}
	e.tell("offsets_committed", told...)
}
