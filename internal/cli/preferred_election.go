package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// preferredElectionCommand is kafka-preferred-replica-election.sh of Kafka 0.8 to 2.8
// (PreferredReplicaLeaderElectionCommand); leader-election came after it.
func (a *app) preferredElectionCommand() *cobra.Command {
	var file string
	cmd, c := a.tool("preferred-replica-election", "Make the first replica of partitions their leader, as leader-election does",
		"  moldau preferred-replica-election --zookeeper localhost:2181", map[string]string{"admin.config": "command-config"})
	flags := cmd.Flags()
	flags.StringVar(&file, "path-to-json-file", "", "elect for the partitions in this `file`; all unless given")
	c.byZooKeeper(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var chosen assignment
		if file != "" {
			var err error
			if chosen, err = readPartitionFile(file); err != nil {
				return &failure{exitUsage, ofFile("path-to-json-file", file, err)}
			}
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.electPreferred(ctx, cl, c, chosen) })
	}
	return cmd
}

// electPreferred elects for some partitions, or for all that there are.
func (a *app) electPreferred(ctx context.Context, cl *client, c *clusterFlags, chosen assignment) error {
	topics, err := cl.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	there := assignment{}
	for _, t := range topics.Sorted() {
		for _, p := range t.Partitions.Sorted() {
			there[kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = nil
		}
	}
	if chosen == nil {
		chosen = there
	}
	req := kmsg.NewPtrElectLeadersRequest()
	req.TimeoutMillis = 30_000
	var names, missing []string
	for _, tp := range chosen.sorted() {
		if _, ok := there[tp]; !ok {
			missing = append(missing, tp.String())
			continue
		}
		names = append(names, tp.String())
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.Topic {
			req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: tp.Topic})
		}
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, tp.Partition)
	}
	var failed error
	outcomes := []electedPartition{}
	if len(req.Topics) > 0 {
		resp, err := req.RequestWith(ctx, cl)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if err != nil {
			return refused("elect leaders", err, "")
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				o := electedPartition{t.Topic, p.Partition, "elected", ""}
				switch err := kerr.ErrorForCode(p.ErrorCode); {
				case errors.Is(err, kerr.ElectionNotNeeded):
					o.Result = "not needed"
				case err != nil:
					err = refused(fmt.Sprintf("elect the preferred leader of %s-%d", t.Topic, p.Partition), err, text(p.ErrorMessage))
					o.Result, o.Error, failed = "failed", err.Error(), errors.Join(failed, err)
				}
				outcomes = append(outcomes, o)
			}
		}
	}
	return errors.Join(a.result(c, outcomes, func(w io.Writer) {
		fmt.Fprintf(w, "Created preferred replica election path with %s\n", strings.Join(names, ","))
		fmt.Fprintf(w, "Successfully started preferred replica election for partitions Set(%s)\n", strings.Join(names, ", "))
		for _, name := range missing {
			fmt.Fprintf(w, "Skipping preferred replica leader election for partition %s since it doesn't exist.\n", name)
		}
	}), failed)
}
