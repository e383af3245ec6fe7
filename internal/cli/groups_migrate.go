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

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// movedOffset is where a group goes on in one partition, as consumers of ZooKeeper's age know it and as all others do.
type movedOffset struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	ZooKeeper *int64 `json:"zookeeper"` // nil: nowhere
	Kafka     *int64 `json:"kafka"`
}

// migrateGroup copies a group's offsets from /consumers/G/offsets to __consumer_offsets, or back, when --execute says so; it
// shows first what both have. Offsets that only the other side has stay as they are.
func (a *app) migrateGroup(ctx context.Context, cl *client, c *clusterFlags, f groupFlags) error {
	// Brokers answer version 0 of these two from the tree.
	versions := kversion.Stable()
	versions.SetMaxKeyVersion(kmsg.OffsetCommit.Int16(), 0)
	versions.SetMaxKeyVersion(kmsg.OffsetFetch.Int16(), 0)
	old, err := a.connect(ctx, c, kgo.MaxVersions(versions))
	if err != nil {
		return err
	}
	defer old.Close()

	toKafka := f.act == "migrate-from-zookeeper"
	group, from, to := f.toZooKeeper, "__consumer_offsets", "ZooKeeper's tree"
	if toKafka {
		group, from, to = f.fromZooKeeper, to, from
	}
	rows, err := bothOffsets(ctx, cl, old, group)
	if err != nil {
		return err
	}
	moving := slices.DeleteFunc(slices.Clone(rows), func(r movedOffset) bool { return r.source(toKafka) == nil })
	if len(moving) == 0 {
		return fmt.Errorf("group %s has no offsets in %s", group, from)
	}
	if err := a.result(c, rows, func(w io.Writer) { printMoved(w, rows) }); err != nil {
		return err
	}
	if !f.execute {
		if !f.dryRun {
			fmt.Fprintln(a.stderr, "moldau: nothing is changed without --execute; --dry-run says that this is meant")
		}
		return nil
	}
	if toKafka {
		commit := make(kadm.Offsets)
		for _, r := range moving {
			commit.AddOffset(r.Topic, r.Partition, *r.ZooKeeper, -1)
		}
		err = cl.admin.CommitAllOffsets(ctx, group, commit)
	} else {
		err = commitOld(ctx, old, group, moving)
	}
	if errors.Is(err, kerr.UnknownMemberID) {
		err = fmt.Errorf("the group has members; stop them first (%w)", err)
	}
	if err != nil {
		return fmt.Errorf("copy the offsets of group %s to %s: %w", group, to, err)
	}
	if !c.json() {
		fmt.Fprintf(a.stdout, "\nCopied %d offsets of group %s from %s to %s.\n", len(moving), group, from, to)
	}
	return nil
}

// source is the offset that is to be copied.
func (r movedOffset) source(toKafka bool) *int64 {
	if toKafka {
		return r.ZooKeeper
	}
	return r.Kafka
}

func printMoved(w io.Writer, rows []movedOffset) {
	shown := func(offset *int64) string {
		if offset == nil {
			return "-"
		}
		return strconv.FormatInt(*offset, 10)
	}
	table := [][]string{{"GROUP", "TOPIC", "PARTITION", "ZOOKEEPER", "KAFKA"}}
	for _, r := range rows {
		table = append(table, []string{r.Group, r.Topic, strconv.Itoa(int(r.Partition)), shown(r.ZooKeeper), shown(r.Kafka)})
	}
	printColumns(w, table, []int{15, 15, 10, 15, 0}, "")
}

// bothOffsets are the partitions in which a group has an offset on either side, by topic and number.
func bothOffsets(ctx context.Context, cl, old *client, group string) ([]movedOffset, error) {
	topics, err := cl.admin.ListTopics(ctx)
	if err != nil {
		return nil, err
	}
	committed, err := cl.admin.FetchOffsets(ctx, group)
	if err != nil {
		return nil, fmt.Errorf("fetch the offsets of group %s: %w", group, err)
	}
	inTree, err := fetchOld(ctx, old, group, topics)
	if err != nil {
		return nil, fmt.Errorf("fetch the offsets of group %s from ZooKeeper's tree: %w", group, err)
	}
	byPartition := map[string]map[int32]*movedOffset{}
	of := func(topic string, partition int32) *movedOffset {
		if byPartition[topic] == nil {
			byPartition[topic] = map[int32]*movedOffset{}
		}
		r := byPartition[topic][partition]
		if r == nil {
			r = &movedOffset{Group: group, Topic: topic, Partition: partition}
			byPartition[topic][partition] = r
		}
		return r
	}
	inTree.Each(func(o kadm.Offset) { of(o.Topic, o.Partition).ZooKeeper = &o.At })
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.At >= 0 {
			of(o.Topic, o.Partition).Kafka = &o.At
		}
	})
	var rows []movedOffset
	for _, partitions := range byPartition {
		for _, r := range partitions {
			rows = append(rows, *r)
		}
	}
	slices.SortFunc(rows, func(a, b movedOffset) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return rows, nil
}

// fetchOld asks for all partitions there are: version 0 cannot ask which a group has offsets for.
func fetchOld(ctx context.Context, old *client, group string, topics kadm.TopicDetails) (kadm.Offsets, error) {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	for _, t := range topics.Sorted() {
		topic := kmsg.NewOffsetFetchRequestTopic()
		topic.Topic, topic.Partitions = t.Topic, t.Partitions.Numbers()
		req.Topics = append(req.Topics, topic)
	}
	found := make(kadm.Offsets)
	if len(req.Topics) == 0 {
		return found, nil // no topics would mean all, which version 0 does not know
	}
	resp, err := anyBroker(ctx, old, req)
	if err != nil {
		return nil, err
	}
	for _, t := range resp.(*kmsg.OffsetFetchResponse).Topics {
		for _, p := range t.Partitions {
			err := kerr.ErrorForCode(p.ErrorCode)
			switch {
			case err == nil:
				found.AddOffset(t.Topic, p.Partition, p.Offset, -1)
			case !errors.Is(err, kerr.UnknownTopicOrPartition): // which says that there is no offset
				return nil, fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return found, nil
}

// anyBroker has some broker answer: in version 0 each of them does. The client's own way would be to ask the group's coordinator,
// and to ask it again where there is no offset, which version 0 says with an error that passes elsewhere.
func anyBroker(ctx context.Context, old *client, req kmsg.Request) (kmsg.Response, error) {
	var errs []error
	for _, b := range slices.Concat(old.DiscoveredBrokers(), old.SeedBrokers()) {
		resp, err := b.Request(ctx, req)
		if err == nil {
			return resp, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func commitOld(ctx context.Context, old *client, group string, offsets []movedOffset) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	for _, o := range offsets {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != o.Topic {
			topic := kmsg.NewOffsetCommitRequestTopic()
			topic.Topic = o.Topic
			req.Topics = append(req.Topics, topic)
		}
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = o.Partition, *o.Kafka, new(string)
		topic := &req.Topics[len(req.Topics)-1]
		topic.Partitions = append(topic.Partitions, p)
	}
	resp, err := anyBroker(ctx, old, req)
	if err != nil {
		return err
	}
	for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("%s-%d: %w", t.Topic, p.Partition, err)
			}
		}
	}
	return nil
}
