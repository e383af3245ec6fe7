package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// electionFlags are those of LeaderElectionCommand.
type electionFlags struct {
	kind, topic, file string
	partition         int32
	all               bool
}

// leaderElectionCommand is Kafka's kafka-leader-election.sh (LeaderElectionCommand).
func (a *app) leaderElectionCommand() *cobra.Command {
	var f electionFlags
	cmd, c := a.tool("leader-election", "Elect leaders: the preferred ones, or any where none is left",
		"  moldau leader-election --election-type preferred --all-topic-partitions\n"+
			"  moldau leader-election --election-type unclean --topic orders --partition 0", map[string]string{"admin.config": "command-config"})
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "election-type", "", "`preferred`: the first replica, where it is in sync; unclean: any replica that is up, where there is no leader; records may be lost")
	flags.StringVar(&f.topic, "topic", "", "elect for a partition of this `topic`")
	flags.Int32Var(&f.partition, "partition", -1, "the `partition` of --topic")
	flags.StringVar(&f.file, "path-to-json-file", "", "elect for the partitions in this `file`")
	flags.BoolVar(&f.all, "all-topic-partitions", false, "elect for all partitions that need it")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		req, err := f.request(cmd.Flags().Changed)
		if err != nil {
			return &failure{exitUsage, err}
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.electLeaders(ctx, cl, c, f, req) })
	}
	return cmd
}

// request is what the flags ask for.
func (f *electionFlags) request(changed func(string) bool) (*kmsg.ElectLeadersRequest, error) {
	req := kmsg.NewPtrElectLeadersRequest()
	switch f.kind = strings.ToUpper(f.kind); f.kind {
	case "PREFERRED":
	case "UNCLEAN":
		req.ElectionType = 1
	case "":
		return nil, errors.New("--election-type is required")
	default:
		return nil, fmt.Errorf("--election-type %s: want preferred or unclean", strings.ToLower(f.kind))
	}
	ways := 0
	for _, name := range []string{"topic", "path-to-json-file", "all-topic-partitions"} {
		if changed(name) {
			ways++
		}
	}
	switch {
	case ways != 1:
		return nil, errors.New("one and only one of the following options is required: topic, all-topic-partitions, path-to-json-file")
	case changed("topic") != changed("partition"):
		return nil, errors.New("--topic and --partition go together")
	case f.topic != "":
		req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: f.topic, Partitions: []int32{f.partition}}}
	case f.file != "":
		parts, err := readPartitionFile(f.file)
		if err != nil {
			return nil, ofFile("path-to-json-file", f.file, err)
		}
		for _, tp := range parts.sorted() {
			if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != tp.Topic {
				req.Topics = append(req.Topics, kmsg.ElectLeadersRequestTopic{Topic: tp.Topic})
			}
			t := &req.Topics[len(req.Topics)-1]
			t.Partitions = append(t.Partitions, tp.Partition)
		}
	}
	return req, nil
}

// readPartitionFile reads {"partitions": [{"topic": …, "partition": …}]}.
func readPartitionFile(file string) (assignment, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Partitions []struct {
			Topic     *string `json:"topic"`
			Partition *int32  `json:"partition"`
		} `json:"partitions"`
	}
	if err := parseJSON(text, &doc, `{"partitions": [{"topic": "orders", "partition": 0}]}`); err != nil {
		return nil, err
	}
	if len(doc.Partitions) == 0 {
		return nil, errors.New(`replica election data is missing "partitions" field`)
	}
	parts := assignment{}
	for i, p := range doc.Partitions {
		if p.Topic == nil || p.Partition == nil {
			return nil, fmt.Errorf("entry %d lacks topic or partition", i+1)
		}
		tp := kafka.TopicPartition{Topic: *p.Topic, Partition: *p.Partition}
		if _, twice := parts[tp]; twice {
			return nil, fmt.Errorf("replica election data contains duplicate partitions: %v", tp)
		}
		parts[tp] = nil
	}
	return parts, nil
}

// electedPartition is the outcome for one partition, as --output json has it.
type electedPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Result    string `json:"result"` // elected, not needed, failed
	Error     string `json:"error,omitempty"`
}

func (a *app) electLeaders(ctx context.Context, cl *client, c *clusterFlags, f electionFlags, req *kmsg.ElectLeadersRequest) error {
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = refused("elect leaders", kerr.ErrorForCode(resp.ErrorCode), "")
	}
	if err != nil {
		return err
	}
	outcomes := []electedPartition{}
	byResult := map[string][]kafka.TopicPartition{}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			o := electedPartition{t.Topic, p.Partition, "elected", ""}
			switch {
			case p.ErrorCode == kerr.ElectionNotNeeded.Code:
				o.Result = "not needed"
			case p.ErrorCode != 0:
				o.Result = "failed"
				o.Error = text(p.ErrorMessage)
				if o.Error == "" {
					o.Error = kerr.ErrorForCode(p.ErrorCode).Error()
				}
			}
			outcomes = append(outcomes, o)
			byResult[o.Result] = append(byResult[o.Result], kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition})
		}
	}
	names := func(result string) string { return strings.ReplaceAll(partitionNames(byResult[result]), ",", ", ") }
	err = a.result(c, outcomes, func(w io.Writer) {
		if len(byResult["elected"]) > 0 {
			fmt.Fprintf(w, "Successfully completed leader election (%s) for partitions %s\n", f.kind, names("elected"))
		}
		if len(byResult["not needed"]) > 0 {
			fmt.Fprintf(w, "Valid replica already elected for partitions %s\n", names("not needed"))
		}
		for _, o := range outcomes {
			if o.Result == "failed" {
				fmt.Fprintf(w, "Error completing leader election (%s) for partition: %s-%d: %s\n", f.kind, o.Topic, o.Partition, o.Error)
			}
		}
	})
	if n := len(byResult["failed"]); err == nil && n > 0 {
		err = fmt.Errorf("%d replica(s) could not be elected", n)
	}
	return err
}
