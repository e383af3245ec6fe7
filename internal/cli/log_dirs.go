package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// The JSON of LogDirsCommand, key for key.
type logDirsJSON struct {
	Brokers []logDirsBroker `json:"brokers"`
	Version int             `json:"version"`
}

type logDirsBroker struct {
	Broker  int32    `json:"broker"`
	LogDirs []logDir `json:"logDirs"`
}

type logDir struct {
	Partitions []logDirPartition `json:"partitions"`
	Error      *string           `json:"error"`
	LogDir     string            `json:"logDir"`
}

type logDirPartition struct {
	Partition string `json:"partition"`
	Size      int64  `json:"size"`
	OffsetLag int64  `json:"offsetLag"`
	IsFuture  bool   `json:"isFuture"`
}

// logDirsCommand is Kafka's kafka-log-dirs.sh (LogDirsCommand). Its answer is JSON either way; --output json leaves out
// the lines before it.
func (a *app) logDirsCommand() *cobra.Command {
	var describe bool
	var brokers, topics string
	cmd, c := a.tool("log-dirs", "Print what lies in the data directories of brokers, as JSON",
		"  moldau log-dirs --describe\n  moldau log-dirs --describe --topic-list orders,logs --broker-list 1", nil)
	cmd.Flags().BoolVar(&describe, "describe", false, "describe data directories; the only thing to do here")
	cmd.Flags().StringVar(&topics, "topic-list", "", "only these `topics`, by comma")
	cmd.Flags().StringVar(&brokers, "broker-list", "", "only these `brokers`, by comma")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !describe {
			return &failure{exitUsage, errors.New("--describe is required")}
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.logDirs(ctx, cl, c, brokers, topics) })
	}
	return cmd
}

func (a *app) logDirs(ctx context.Context, cl *client, c *clusterFlags, brokers, topics string) error {
	known, err := cl.admin.ListBrokers(ctx)
	if err != nil {
		return err
	}
	wanted := known.NodeIDs()
	if brokers != "" {
		wanted = nil
		for word := range strings.SplitSeq(brokers, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
			if err != nil || !slices.Contains(known.NodeIDs(), int32(n)) {
				return fmt.Errorf("--broker-list: broker %s does not exist; there are %s", word, ids(known.NodeIDs()))
			}
			wanted = append(wanted, int32(n))
		}
	}
	slices.Sort(wanted)
	wanted = slices.Compact(wanted)
	var only []string
	if topics != "" {
		only = strings.Split(topics, ",")
	}
	if !c.json() {
		fmt.Fprintf(a.stdout, "Querying brokers for log directories information\nReceived log directory information from brokers %s\n", ids(wanted))
	}
	doc := logDirsJSON{Version: 1}
	shown := a.progress(c.json(), "asking brokers", int64(len(wanted)), countUnit)
	defer shown.done()
	for _, id := range wanted {
		dirs, err := cl.admin.DescribeBrokerLogDirs(ctx, id, nil)
		if err != nil {
			return fmt.Errorf("broker %d: %w", id, err)
		}
		doc.Brokers = append(doc.Brokers, logDirsBroker{id, describedDirs(dirs, only)})
		shown.add(1)
	}
	shown.done()
	return json.NewEncoder(a.stdout).Encode(doc)
}

func describedDirs(dirs kadm.DescribedLogDirs, only []string) []logDir {
	all := []logDir{}
	for _, d := range dirs.Sorted() {
		dir := logDir{Partitions: []logDirPartition{}, LogDir: d.Dir}
		if d.Err != nil {
			text := d.Err.Error()
			dir.Error = &text
		}
		for _, p := range d.Topics.Sorted() {
			if only == nil || slices.Contains(only, p.Topic) {
				dir.Partitions = append(dir.Partitions, logDirPartition{fmt.Sprintf("%s-%d", p.Topic, p.Partition), p.Size, p.OffsetLag, p.IsFuture})
			}
		}
		all = append(all, dir)
	}
	return all
}
