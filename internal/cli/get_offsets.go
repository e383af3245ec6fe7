package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Timestamps with a meaning of their own in ListOffsets.
const (
	timeLatest   = -1
	timeEarliest = -2
)

// listedOffset is the answer for one partition. Offset is -1 where there is none.
type listedOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	err       error
}

// Who asks, where it is not a broker. The latest offset is the high watermark for a consumer and the log end for somebody
// who looks for faults.
const (
	consumerReplica  = -1
	debuggingReplica = -2
)

// listOffsets asks for the offset that a timestamp means in each partition, sorted by topic and partition.
func (cl *client) listOffsets(ctx context.Context, partitions map[string][]int32, timestamp int64) ([]listedOffset, error) {
	return cl.listOffsetsAs(ctx, consumerReplica, partitions, timestamp)
}

func (cl *client) listOffsetsAs(ctx context.Context, replica int32, partitions map[string][]int32, timestamp int64) ([]listedOffset, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = replica
	if cl.config.values["isolation.level"] == "read_committed" {
		req.IsolationLevel = 1
	}
	for _, name := range sortedKeys(partitions) {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = name
		for _, p := range partitions[name] {
			one := kmsg.NewListOffsetsRequestTopicPartition()
			one.Partition, one.Timestamp, one.CurrentLeaderEpoch = p, timestamp, -1
			topic.Partitions = append(topic.Partitions, one)
		}
		req.Topics = append(req.Topics, topic)
	}
	if len(req.Topics) == 0 {
		return nil, nil
	}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return nil, err
	}
	var listed []listedOffset
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			listed = append(listed, listedOffset{t.Topic, p.Partition, p.Offset, p.Timestamp, kerr.ErrorForCode(p.ErrorCode)})
		}
	}
	slices.SortFunc(listed, func(a, b listedOffset) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return listed, nil
}

// offsetFlags are those of GetOffsetShell.
type offsetFlags struct {
	topic, partitions, rules, time string
	excludeInternal                bool
}

// getOffsetsCommand is Kafka's kafka-get-offsets.sh (GetOffsetShell).
func (a *app) getOffsetsCommand() *cobra.Command {
	var f offsetFlags
	cmd, c := a.tool("get-offsets", "Print offsets of partitions: the end, the beginning, or those of a time",
		"  moldau get-offsets --topic orders\n  moldau get-offsets --topic-partitions 'orders:0-2,logs.*' --time earliest", map[string]string{"broker-list": "bootstrap-server"})
	flags := cmd.Flags()
	a.formerly(flags, "offsets", "max-wait-ms")
	flags.StringVar(&f.topic, "topic", "", "the topics, as a regular `expression`; all unless given")
	flags.StringVar(&f.partitions, "partitions", "", "the partitions, as a `list` by comma; all unless given")
	flags.StringVar(&f.rules, "topic-partitions", "", "`rules` by comma instead of the two above: topic, topic:3, topic:1-3 (3 not included), topic:-3, topic:3-")
	flags.StringVar(&f.time, "time", "latest", "`which` offset: "+strings.Join(offsetTimes(), ", ")+", or the first one from a time on, in ms since 1970")
	flags.BoolVar(&f.excludeInternal, "exclude-internal-topics", false, "leave internal topics out")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		timestamp, err := parseOffsetTime(f.time)
		if err != nil {
			return err
		}
		wanted, err := f.filter()
		if err != nil {
			return &failure{exitUsage, err}
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.getOffsets(ctx, cl, c, f, wanted, timestamp) })
	}
	return cmd
}

// offsetTimes are the words of --time, in the order of the numbers that stand for them from -1 downwards.
func offsetTimes() []string {
	return []string{"latest", "earliest", "max-timestamp", "earliest-local", "latest-tiered", "earliest-pending-upload"}
}

// parseOffsetTime reads --time: a word, its negative number, or ms since 1970.
func parseOffsetTime(text string) (int64, error) {
	if i := slices.Index(offsetTimes(), text); i >= 0 {
		return -1 - int64(i), nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < -int64(len(offsetTimes())) {
		return 0, &failure{exitUsage, fmt.Errorf("--time %s: want %s, or ms since 1970", text, strings.Join(offsetTimes(), ", "))}
	}
	return n, nil
}

// filter is which partitions are asked for.
func (f offsetFlags) filter() (func(topic string, partition int32) bool, error) {
	if f.rules != "" {
		if f.topic != "" || f.partitions != "" {
			return nil, errors.New("--topic-partitions cannot be used with --topic or --partitions")
		}
		rules, err := parsePartitionRules(f.rules)
		if err != nil {
			return nil, fmt.Errorf("--topic-partitions: %w", err)
		}
		return func(topic string, p int32) bool {
			return slices.ContainsFunc(rules, func(r partitionRange) bool { return r.topic(topic) && p >= r.from && p < r.to })
		}, nil
	}
	match := func(string) bool { return true }
	if f.topic != "" {
		var err error
		if match, err = includeList(f.topic); err != nil {
			return nil, fmt.Errorf("--topic: %w", err)
		}
	}
	var only []int32
	for word := range strings.SplitSeq(f.partitions, ",") {
		if f.partitions == "" {
			break
		}
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("--partitions %s: %q is no partition", f.partitions, word)
		}
		only = append(only, int32(n))
	}
	return func(topic string, p int32) bool { return match(topic) && (only == nil || slices.Contains(only, p)) }, nil
}

func (a *app) getOffsets(ctx context.Context, cl *client, c *clusterFlags, f offsetFlags, wanted func(string, int32) bool, timestamp int64) error {
	all, err := cl.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	partitions := make(map[string][]int32)
	for _, t := range all.Sorted() {
		for _, p := range t.Partitions.Numbers() {
			if wanted(t.Topic, p) && (!t.IsInternal || !f.excludeInternal) {
				partitions[t.Topic] = append(partitions[t.Topic], p)
			}
		}
	}
	if len(partitions) == 0 {
		return errors.New("no topic-partition matches; `moldau topics --describe` shows what there is")
	}
	listed, err := cl.listOffsets(ctx, partitions, timestamp)
	if err != nil {
		return err
	}
	found := make([]listedOffset, 0, len(listed))
	for _, o := range listed {
		switch {
		case o.err != nil:
			err = errors.Join(err, fmt.Errorf("%s-%d: %w", o.Topic, o.Partition, o.err))
		case o.Offset >= 0:
			found = append(found, o)
		}
	}
	return errors.Join(a.result(c, found, func(w io.Writer) {
		for _, o := range found {
			fmt.Fprintf(w, "%s:%d:%d\n", o.Topic, o.Partition, o.Offset)
		}
	}), err)
}
