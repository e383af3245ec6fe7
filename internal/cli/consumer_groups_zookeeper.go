package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/pflag"

	"moldau/internal/kafka"
	"moldau/internal/zkconsumer"
)

// checkWithZooKeeper is check for groups that live in ZooKeeper (ZkConsumerGroupService).
func (f *groupFlags) checkWithZooKeeper(flags *pflag.FlagSet) (err error) {
	if f.act, err = exactlyOne(flags, "list", "describe", "delete"); err != nil {
		return err
	}
	if err := onlyWith(flags, f.act, map[string][]string{"group": {"describe", "delete"}, "topic": {"delete"}}); err != nil {
		return err
	}
	for _, name := range []string{"all-groups", "all-topics", "members", "state", "type", "offsets", "verbose"} {
		if flags.Changed(name) {
			return &failure{exitUsage, fmt.Errorf("--%s does not go with --zookeeper", name)}
		}
	}
	switch {
	case f.act == "describe" && len(f.groups) != 1:
		return &failure{exitUsage, errors.New("--describe needs one --group")}
	case f.act == "delete" && len(f.groups)+len(f.topics) == 0:
		return &failure{exitUsage, errors.New("--delete needs --group, --topic or both")}
	}
	return nil
}

// groupsByZooKeeper lists, describes and deletes groups that live in ZooKeeper.
func (a *app) groupsByZooKeeper(ctx context.Context, c *clusterFlags, f groupFlags) error {
	if f.act == "describe" {
		return a.on(ctx, c, func(ctx context.Context, cl *client) error { return a.describeInZooKeeper(ctx, cl, c, f.groups[0]) })
	}
	ctx, release := a.interruptible(ctx)
	defer release()
	tree, err := a.tree(ctx, c.zookeeper)
	if err != nil {
		return err
	}
	defer tree.Close()
	if f.act == "delete" {
		return a.deleteInZooKeeper(tree, f)
	}
	groups, err := tree.Groups()
	if err != nil {
		return err
	}
	return a.result(c, append([]string{}, groups...), func(w io.Writer) {
		for _, g := range groups {
			fmt.Fprintln(w, g)
		}
	})
}

// describeInZooKeeper tells how far a group is. An offset that the group's coordinator has counts more than ZooKeeper's.
func (a *app) describeInZooKeeper(ctx context.Context, cl *client, c *clusterFlags, name string) error {
	tree, err := a.tree(ctx, c.zookeeper)
	if err != nil {
		return err
	}
	defer tree.Close()
	g, err := tree.Group(name)
	if errors.Is(err, zkconsumer.ErrNoGroup) {
		return fmt.Errorf("the consumer group '%s' does not exist in ZooKeeper; `moldau consumer-groups --zookeeper %s --list` shows those that do", name, c.zookeeper)
	}
	if err != nil {
		return err
	}
	stored, err := cl.admin.FetchOffsets(ctx, name)
	if err != nil {
		return fmt.Errorf("offsets of group %s: %w", name, err)
	}
	asked := make(map[string][]int32)
	for _, p := range g.Partitions {
		asked[p.Topic] = append(asked[p.Topic], p.Partition)
	}
	listed, err := cl.listOffsetsAs(ctx, consumerReplica, asked, timeLatest)
	if err != nil {
		return err
	}
	ends := make(map[kafka.TopicPartition]int64)
	for _, o := range listed {
		if o.err == nil {
			ends[kafka.TopicPartition{Topic: o.Topic, Partition: o.Partition}] = o.Offset
		}
	}
	rows := []groupPartition{}
	for _, p := range g.Partitions {
		row := groupPartition{Topic: p.Topic, Partition: p.Partition}
		offset := p.Offset
		if o, ok := stored.Lookup(p.Topic, p.Partition); ok && o.Err == nil && o.At >= 0 {
			offset = o.At
		}
		if offset >= 0 {
			row.Current = &offset
		}
		if end, ok := ends[p.TopicPartition]; ok {
			row.LogEnd = &end
			if row.Current != nil {
				lag := end - offset
				row.Lag = &lag
			}
		}
		if p.Owner != "" {
			row.Consumer = &p.Owner
		}
		rows = append(rows, row)
	}
	described := describedGroup{Group: name, Offsets: rows, Members: []groupMember{}}
	for _, m := range g.Members {
		described.Members = append(described.Members, groupMember{ID: m})
	}
	return a.result(c, described, func(w io.Writer) {
		table := [][]string{{"TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID"}}
		for _, r := range rows {
			table = append(table, []string{r.Topic, strconv.Itoa(int(r.Partition)), dash(r.Current), dash(r.LogEnd), dash(r.Lag), cmp.Or(text(r.Consumer), "-")})
		}
		for _, m := range g.Idle() {
			table = append(table, []string{"-", "-", "-", "-", "-", m})
		}
		printColumns(w, table, []int{15, 10, 15, 15, 15, 15}, " ")
	})
}

// deleteInZooKeeper deletes what ZooKeeper has of groups without members: all of it, or of one topic.
func (a *app) deleteInZooKeeper(tree *zkconsumer.Tree, f groupFlags) error {
	groups, everyGroup := f.groups, len(f.groups) == 0
	if everyGroup {
		var err error
		if groups, err = tree.Groups(); err != nil {
			return err
		}
	}
	var failed error
	for _, name := range groups {
		g, err := tree.Group(name)
		switch {
		case errors.Is(err, zkconsumer.ErrNoGroup):
			err = fmt.Errorf("group '%s' could not be deleted: it is not there", name)
		case err == nil && len(g.Members) > 0 && everyGroup:
			continue // only those that nobody uses
		case err == nil && len(g.Members) > 0:
			err = fmt.Errorf("group '%s' could not be deleted: it has members; stop them first", name)
		case err == nil:
			err = a.deleteOne(tree, name, g, f.topics, everyGroup)
		}
		failed = errors.Join(failed, err)
	}
	if everyGroup && failed == nil {
		for _, topic := range f.topics {
			fmt.Fprintf(a.stdout, "Deleted consumer group information for all inactive consumer groups for topic '%s' in zookeeper.\n", topic)
		}
	}
	return failed
}

func (a *app) deleteOne(tree *zkconsumer.Tree, name string, g zkconsumer.Group, topics []string, quiet bool) error {
	base := "/consumers/" + name
	if len(topics) == 0 {
		if err := tree.DeleteAll(base); err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "Deleted all consumer group information for group '%s' in zookeeper.\n", name)
		return nil
	}
	for _, topic := range topics {
		var err error
		if slices.Equal(g.Topics(), []string{topic}) {
			err = tree.DeleteAll(base)
		} else {
			err = errors.Join(tree.DeleteAll(base+"/owners/"+topic), tree.DeleteAll(base+"/offsets/"+topic))
		}
		if err != nil {
			return err
		}
		if !quiet {
			fmt.Fprintf(a.stdout, "Deleted consumer group information for group '%s' topic '%s' in zookeeper.\n", name, topic)
		}
	}
	return nil
}
