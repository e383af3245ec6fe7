package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// shellFlags are those of SimpleConsumerShell.
type shellFlags struct {
	topic, formatter              string
	format                        []string
	partition, replica            int32
	fetchSize, maxWaitMs          int32
	maxMessages                   int
	offset                        int64
	printOffsets, skip, endOfLogs bool
}

// simpleConsumerShellCommand is kafka-simple-consumer-shell.sh of Kafka 0.8 to 1.1 (SimpleConsumerShell): the low-level way,
// which finds the leader itself, or goes to any replica, and keeps its own offset.
func (a *app) simpleConsumerShellCommand() *cobra.Command {
	var f shellFlags
	cmd, c := a.tool("simple-consumer-shell", "Print the records of one partition, from its leader or another replica",
		"  moldau simple-consumer-shell --broker-list localhost:9092 --topic first --partition 0 --offset -2 --no-wait-at-logend\n"+
			"  moldau simple-consumer-shell --topic first --replica 2 --print-offsets", map[string]string{"broker-list": "bootstrap-server"})
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "the `topic` to read")
	flags.Int32Var(&f.partition, "partition", 0, "the `partition` to read")
	flags.Int32Var(&f.replica, "replica", -1, "the `broker` to read from, one of the partition's replicas; -1 is the leader")
	flags.Int64Var(&f.offset, "offset", -2, "the `offset` to begin at; -2 is the oldest, -1 the end")
	flags.String("clientId", "", "taken for Kafka's sake; --command-property client.id does it")
	flags.Int32Var(&f.fetchSize, "fetchsize", 1<<20, "`bytes` to ask for at once; a larger batch comes alone")
	flags.StringVar(&f.formatter, "formatter", "", "`class`, as of console-consumer")
	flags.StringArrayVar(&f.format, "property", nil, "what is printed, as `key=value`; may be repeated")
	flags.BoolVar(&f.printOffsets, "print-offsets", false, "print the offset that follows each record")
	flags.Int32Var(&f.maxWaitMs, "max-wait-ms", 1000, "how many `milliseconds` a broker waits for records")
	flags.IntVar(&f.maxMessages, "max-messages", 1<<31-1, "stop after this many `records`")
	flags.BoolVar(&f.skip, "skip-message-on-error", false, "leave a record out that cannot be printed")
	flags.BoolVar(&f.endOfLogs, "no-wait-at-logend", false, "stop at the end of the log")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case f.topic == "":
			return &failure{exitUsage, errors.New("--topic is required")}
		case f.offset < timeEarliest:
			return &failure{exitUsage, fmt.Errorf("--offset %d: want -2, -1 or an offset from 0", f.offset)}
		}
		write, err := a.recordWriter(c, consumeFlags{formatter: f.formatter, format: f.format})
		if err != nil {
			return err
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error {
			a.stream(cl)
			return a.readReplica(ctx, cl, f, write)
		})
	}
	return cmd
}

// readReplica prints until it is enough. A signal is the usual end, so it is no failure here.
func (a *app) readReplica(ctx context.Context, cl *client, f shellFlags, write func(io.Writer, *kgo.Record) error) error {
	topics, err := cl.admin.ListTopics(ctx, f.topic)
	if err != nil {
		return err
	}
	topic := topics[f.topic]
	if topic.Err != nil {
		return noSuchTopic(f.topic, topic.Err)
	}
	p, ok := topic.Partitions[f.partition]
	broker := f.replica
	switch {
	case !ok:
		return fmt.Errorf("topic %s has no partition %d, it has 0 to %d", f.topic, f.partition, len(topic.Partitions)-1)
	case broker == -1 && p.Leader < 0:
		return fmt.Errorf("%s-%d has no leader", f.topic, f.partition)
	case broker == -1:
		broker = p.Leader
	case !slices.Contains(p.Replicas, broker):
		return fmt.Errorf("%d is no replica of %s-%d, which are %s", broker, f.topic, f.partition, ids(p.Replicas))
	}
	offset := f.offset
	if offset < 0 {
		listed, err := cl.listOffsetsAs(ctx, debuggingReplica, map[string][]int32{f.topic: {f.partition}}, offset)
		if err == nil && len(listed) == 1 {
			err = listed[0].err
		}
		if err != nil {
			return err
		}
		offset = listed[0].Offset
	}
	out := bufio.NewWriterSize(a.stdout, 64<<10)
	for count := 0; count < f.maxMessages; {
		records, next, err := cl.fetchAsDebugger(ctx, broker, topic, f, offset)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s-%d at broker %d: %w", f.topic, f.partition, broker, err)
		}
		for _, r := range records {
			if count == f.maxMessages {
				break
			}
			count++
			if f.printOffsets {
				fmt.Fprintf(out, "next offset = %d\n", r.Offset+1)
			}
			if err := write(out, r); err != nil {
				if !f.skip || errors.Is(err, io.ErrShortWrite) {
					return errors.Join(out.Flush(), err)
				}
				fmt.Fprintf(a.stderr, "moldau: left out: %v\n", err)
			}
		}
		if next == offset && f.endOfLogs {
			fmt.Fprintf(out, "Terminating. Reached the end of partition (%s, %d) at offset %d\n", f.topic, f.partition, offset)
			return out.Flush()
		}
		offset = next
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// fetchAsDebugger asks one broker for what follows an offset, as the replica -2, which may read from followers, too.
func (cl *client) fetchAsDebugger(ctx context.Context, broker int32, topic kadm.TopicDetail, f shellFlags, offset int64) (records []*kgo.Record, next int64, err error) {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.ReplicaState.ID = debuggingReplica, debuggingReplica
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = f.maxWaitMs, 1, f.fetchSize
	asked := kmsg.NewFetchRequestTopic()
	asked.Topic, asked.TopicID = f.topic, topic.ID
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = f.partition, offset, f.fetchSize
	asked.Partitions = append(asked.Partitions, p)
	req.Topics = append(req.Topics, asked)
	answer, err := cl.Broker(int(broker)).Request(ctx, req)
	if err != nil {
		return nil, offset, err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, offset, err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return nil, offset, errors.New("the broker answers without the partition")
	}
	got, last := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: f.topic, Partition: f.partition, Offset: offset}, &resp.Topics[0].Partitions[0], kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return nil, offset, got.Err
	}
	return got.Records, max(offset, last), nil
}
