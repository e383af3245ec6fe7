package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// describedTopic is a topic as --describe shows it. The names of its JSON are those of the text.
type describedTopic struct {
	Topic             string               `json:"topic"`
	ID                string               `json:"topicId"`
	PartitionCount    int                  `json:"partitionCount"`
	ReplicationFactor int                  `json:"replicationFactor"`
	Configs           map[string]string    `json:"configs"`
	Partitions        []describedPartition `json:"partitions"`

	configOrder []string
	minISR      int
}

type describedPartition struct {
	Partition    int32   `json:"partition"`
	Leader       int32   `json:"leader"` // -1: none
	Replicas     []int32 `json:"replicas"`
	ISR          []int32 `json:"isr"`
	ELR          []int32 `json:"elr"`          // null: the cluster does not keep one
	LastKnownELR []int32 `json:"lastKnownElr"` // the same
	LeaderEpoch  int32   `json:"leaderEpoch"`

	Offsets *partitionOffsets `json:"offsets,omitempty"` // with --offsets

	Adding   []int32 `json:"addingReplicas,omitempty"`
	Removing []int32 `json:"removingReplicas,omitempty"`
}

// partitionOffsets are how far the leader's log goes.
type partitionOffsets struct {
	LogStart      int64 `json:"logStartOffset"`
	HighWatermark int64 `json:"highWatermark"`
	LogEnd        int64 `json:"logEndOffset"`
}

func (a *app) describeTopics(ctx context.Context, cl *client, c *clusterFlags, f topicFlags) error {
	names, err := cl.topicsToDescribe(ctx, f)
	if err == nil {
		names, err = a.inTree(ctx, c, names)
	}
	if err != nil || len(names) == 0 {
		return err
	}
	topics, err := cl.describe(ctx, names, f.partitionsPerResponse, c.zookeeper != "")
	if errors.Is(err, errNoController) {
		fmt.Fprintf(a.stderr, "moldau: warning: %v; what is being reassigned is not shown, and the rest may be out of date\n", err)
		err = nil
	}
	if err != nil {
		return err
	}
	live, err := cl.admin.ListBrokers(ctx)
	if err != nil {
		return err
	}
	filtered := f.underReplicated || f.unavailable || f.underMinISR || f.atMinISR
	shown := make([]describedTopic, 0, len(topics))
	for _, t := range topics {
		if f.overrides && len(t.Configs) == 0 {
			continue
		}
		if filtered {
			t.Partitions = slices.DeleteFunc(t.Partitions, func(p describedPartition) bool { return !f.shows(t, p, live.NodeIDs()) })
			if len(t.Partitions) == 0 {
				continue
			}
		}
		shown = append(shown, t)
	}
	if f.offsets {
		if err := cl.addLogOffsets(ctx, shown); err != nil {
			return err
		}
	}
	return a.result(c, shown, func(w io.Writer) {
		for _, t := range shown {
			if !filtered {
				configs := make([]string, len(t.configOrder))
				for i, key := range t.configOrder {
					configs[i] = key + "=" + t.Configs[key]
				}
				if c.zookeeper != "" {
					fmt.Fprintf(w, "Topic:%s\tPartitionCount:%d\tReplicationFactor:%d\tConfigs:%s\n", t.Topic, t.PartitionCount, t.ReplicationFactor, strings.Join(configs, ","))
				} else {
					fmt.Fprintf(w, "Topic: %s\tTopicId: %s\tPartitionCount: %d\tReplicationFactor: %d\tConfigs: %s\n",
						t.Topic, t.ID, t.PartitionCount, t.ReplicationFactor, strings.Join(configs, ","))
				}
			}
			for _, p := range t.Partitions {
				switch {
				case f.overrides:
				case c.zookeeper != "":
					fmt.Fprintf(w, "\tTopic: %s\tPartition: %d\tLeader: %d\tReplicas: %s\tIsr: %s\n", t.Topic, p.Partition, p.Leader, ids(p.Replicas), ids(p.ISR))
				default:
					p.print(w, t.Topic, f.verbose || f.offsets)
				}
			}
		}
	})
}

// shows tells whether one of the filters wants the partition.
func (f topicFlags) shows(t describedTopic, p describedPartition, live []int32) bool {
	return f.underReplicated && len(p.ISR) < len(p.Replicas)-len(p.Adding) ||
		f.unavailable && !slices.Contains(live, p.Leader) ||
		f.underMinISR && (p.Leader < 0 || len(p.ISR) < t.minISR) ||
		f.atMinISR && len(p.ISR) == t.minISR
}

func (p describedPartition) print(w io.Writer, topic string, verbose bool) {
	leader := "none"
	if p.Leader >= 0 {
		leader = strconv.Itoa(int(p.Leader))
	}
	fmt.Fprintf(w, "\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s", topic, p.Partition, leader, ids(p.Replicas), ids(p.ISR))
	if len(p.Adding)+len(p.Removing) > 0 {
		fmt.Fprintf(w, "\tAdding Replicas: %s\tRemoving Replicas: %s", ids(p.Adding), ids(p.Removing))
	}
	for _, set := range []struct {
		name string
		ids  []int32
	}{{"Elr", p.ELR}, {"LastKnownElr", p.LastKnownELR}} {
		list := "N/A"
		if set.ids != nil {
			list = ids(set.ids)
		}
		fmt.Fprintf(w, "\t%s: %s", set.name, list)
	}
	if verbose {
		fmt.Fprintf(w, "\tLeaderEpoch: %d", p.LeaderEpoch)
	}
	if o := p.Offsets; o != nil {
		fmt.Fprintf(w, "\tLogStartOffset: %d\tHighWatermark: %d\tLogEndOffset: %d", o.LogStart, o.HighWatermark, o.LogEnd)
	}
	fmt.Fprintln(w)
}

// ids lists brokers by comma.
func ids(list []int32) string {
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(int(n))
	}
	return strings.Join(words, ",")
}

// topicsToDescribe are those that --topic-id or --topic means. An id goes before a name.
func (cl *client) topicsToDescribe(ctx context.Context, f topicFlags) ([]string, error) {
	if f.topicID == "" {
		return cl.topicsMatching(ctx, f.topic, f.excludeInternal, !f.ifExists)
	}
	wanted, err := kafka.ParseUUID(f.topicID)
	if err != nil {
		return nil, &failure{exitUsage, fmt.Errorf("--topic-id: %w", err)}
	}
	all, err := cl.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, err
	}
	for _, t := range all.Sorted() {
		if kafka.UUID(t.ID) == wanted {
			return []string{t.Topic}, nil
		}
	}
	if f.ifExists {
		return nil, nil
	}
	return nil, fmt.Errorf("no topic has the id %s", f.topicID)
}

// describe asks for partitions, settings and reassignments of topics, and returns them in the order of names. ownConfigs leaves
// out what is set for all topics. With errNoController the topics are there, without their reassignments.
func (cl *client) describe(ctx context.Context, names []string, perResponse int32, ownConfigs bool) ([]describedTopic, error) {
	topics, err := cl.describePartitions(ctx, names, perResponse)
	if err != nil {
		return nil, err
	}
	configs, err := cl.admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, err
	}
	var set kadm.TopicsSet
	for _, t := range topics {
		for _, p := range t.Partitions {
			set.Add(t.Topic, p.Partition)
		}
	}
	// A cluster that cannot move partitions has none that move.
	var moves kadm.ListPartitionReassignmentsResponses
	unknown := ofController(ctx, func(ctx context.Context) (err error) {
		moves, err = cl.admin.ListPartitionReassignments(ctx, set)
		return err
	})
	for i := range topics {
		t := &topics[i]
		config, err := configs.On(t.Topic, nil)
		if err = errors.Join(err, config.Err); err != nil {
			return nil, refused("describe the settings of "+t.Topic, err, config.ErrMessage)
		}
		t.Configs, t.minISR = make(map[string]string), 1
		for _, entry := range config.Configs {
			if entry.Key == "min.insync.replicas" {
				t.minISR, _ = strconv.Atoi(entry.MaybeValue())
			}
			if entry.Source != kmsg.ConfigSourceDefaultConfig && (!ownConfigs || entry.Source == kmsg.ConfigSourceDynamicTopicConfig) {
				t.configOrder = append(t.configOrder, entry.Key)
				t.Configs[entry.Key] = entry.MaybeValue()
			}
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			p.Adding, p.Removing = moves[t.Topic][p.Partition].AddingReplicas, moves[t.Topic][p.Partition].RemovingReplicas
		}
		if len(t.Partitions) > 0 {
			t.ReplicationFactor = len(t.Partitions[0].Replicas) - len(t.Partitions[0].Adding)
		}
	}
	if errors.Is(unknown, errNoController) {
		return topics, unknown
	}
	return topics, nil
}

// describePartitions asks with DescribeTopicPartitions, page by page, or brokers that lack it with Metadata.
func (cl *client) describePartitions(ctx context.Context, names []string, perResponse int32) ([]describedTopic, error) {
	byName := make(map[string]*describedTopic)
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = perResponse
	for _, name := range names {
		topic := kmsg.NewDescribeTopicPartitionsRequestTopic()
		topic.Topic = name
		req.Topics = append(req.Topics, topic)
	}
	slices.SortFunc(req.Topics, func(a, b kmsg.DescribeTopicPartitionsRequestTopic) int { return strings.Compare(a.Topic, b.Topic) })
	for {
		resp, err := req.RequestWith(ctx, cl)
		if err != nil {
			return cl.describeByMetadata(ctx, names)
		}
		for _, t := range resp.Topics {
			name := text(t.Topic)
			if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
				return nil, fmt.Errorf("describe topic %s: %w", name, err)
			}
			if byName[name] == nil {
				byName[name] = &describedTopic{Topic: name, ID: id(t.TopicID)}
			}
			for _, p := range t.Partitions {
				byName[name].Partitions = append(byName[name].Partitions, describedPartition{
					Partition: p.Partition, Leader: p.LeaderID, Replicas: p.Replicas, ISR: p.ISR,
					ELR: p.EligibleLeaderReplicas, LastKnownELR: p.LastKnownELR, LeaderEpoch: p.LeaderEpoch,
				})
			}
		}
		if resp.NextCursor == nil {
			break
		}
		next := kmsg.NewDescribeTopicPartitionsRequestCursor()
		next.Topic, next.Partition = resp.NextCursor.Topic, resp.NextCursor.Partition
		req.Cursor = &next
		// Topics before the cursor are done; a broker starts again with those that are asked for.
		req.Topics = slices.DeleteFunc(req.Topics, func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic < next.Topic })
	}
	topics := make([]describedTopic, 0, len(names))
	for _, name := range names {
		if t := byName[name]; t != nil {
			slices.SortFunc(t.Partitions, func(a, b describedPartition) int { return int(a.Partition - b.Partition) })
			t.PartitionCount = len(t.Partitions)
			topics = append(topics, *t)
		}
	}
	return topics, nil
}

// addLogOffsets asks leaders how far their logs go. A partition without a leader has nobody to say so.
func (cl *client) addLogOffsets(ctx context.Context, topics []describedTopic) error {
	partitions := make(map[string][]int32)
	found := make(map[kafka.TopicPartition]*partitionOffsets)
	for _, t := range topics {
		for i := range t.Partitions {
			if p := &t.Partitions[i]; p.Leader >= 0 {
				partitions[t.Topic] = append(partitions[t.Topic], p.Partition)
				p.Offsets = &partitionOffsets{-1, -1, -1}
				found[kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.Offsets
			}
		}
	}
	for _, asked := range []struct {
		replica int32
		time    int64
		into    func(o *partitionOffsets) *int64
	}{
		{consumerReplica, timeEarliest, func(o *partitionOffsets) *int64 { return &o.LogStart }},
		{consumerReplica, timeLatest, func(o *partitionOffsets) *int64 { return &o.HighWatermark }},
		{debuggingReplica, timeLatest, func(o *partitionOffsets) *int64 { return &o.LogEnd }},
	} {
		listed, err := cl.listOffsetsAs(ctx, asked.replica, partitions, asked.time)
		if err != nil {
			return err
		}
		for _, o := range listed {
			if into := found[kafka.TopicPartition{Topic: o.Topic, Partition: o.Partition}]; into != nil && o.err == nil {
				*asked.into(into) = o.Offset
			}
		}
	}
	return nil
}

func (cl *client) describeByMetadata(ctx context.Context, names []string) ([]describedTopic, error) {
	all, err := cl.admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	var topics []describedTopic
	for _, name := range names {
		t := all[name]
		if t.Err != nil {
			return nil, fmt.Errorf("describe topic %s: %w", name, t.Err)
		}
		described := describedTopic{Topic: name, ID: id(t.ID), PartitionCount: len(t.Partitions)}
		for _, p := range t.Partitions.Sorted() {
			described.Partitions = append(described.Partitions, describedPartition{Partition: p.Partition, Leader: p.Leader, Replicas: p.Replicas, ISR: p.ISR, LeaderEpoch: p.LeaderEpoch})
		}
		topics = append(topics, described)
	}
	return topics, nil
}
