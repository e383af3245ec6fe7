package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

// deletedRecords is the outcome for one partition.
type deletedRecords struct {
	Topic        string `json:"topic"`
	Partition    int32  `json:"partition"`
	LowWatermark int64  `json:"lowWatermark"`
	Error        string `json:"error,omitempty"`
}

// deleteRecordsCommand is Kafka's kafka-delete-records.sh (DeleteRecordsCommand).
func (a *app) deleteRecordsCommand() *cobra.Command {
	var file string
	cmd, c := a.tool("delete-records", "Delete the records of partitions up to an offset",
		"  echo '{\"partitions\": [{\"topic\": \"orders\", \"partition\": 0, \"offset\": 100}], \"version\": 1}' > offsets.json\n"+
			"  moldau delete-records --offset-json-file offsets.json", nil)
	cmd.Flags().StringVar(&file, "offset-json-file", "", "the `file` that says up to where (not included); offset -1 means all of a partition")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if file == "" {
			return &failure{exitUsage, errors.New("--offset-json-file is required")}
		}
		offsets, err := readOffsetFile(file)
		if err != nil {
			return &failure{exitUsage, ofFile("offset-json-file", file, err)}
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.deleteRecords(ctx, cl, c, offsets) })
	}
	return cmd
}

// readOffsetFile reads {"partitions": [{"topic": …, "partition": …, "offset": …}], "version": 1}.
func readOffsetFile(file string) (kadm.Offsets, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Version    *int `json:"version"`
		Partitions []struct {
			Topic     *string `json:"topic"`
			Partition *int32  `json:"partition"`
			Offset    *int64  `json:"offset"`
		} `json:"partitions"`
	}
	if err := parseJSON(text, &doc, `{"partitions": [{"topic": "orders", "partition": 0, "offset": 100}], "version": 1}`); err != nil {
		return nil, err
	}
	if doc.Version != nil && *doc.Version != 1 {
		return nil, fmt.Errorf("version %d is not known: want 1", *doc.Version)
	}
	offsets := make(kadm.Offsets)
	for i, p := range doc.Partitions {
		if p.Topic == nil || p.Partition == nil || p.Offset == nil {
			return nil, fmt.Errorf("entry %d lacks topic, partition or offset", i+1)
		}
		if _, twice := offsets.Lookup(*p.Topic, *p.Partition); twice {
			return nil, fmt.Errorf("%s-%d is there twice", *p.Topic, *p.Partition)
		}
		offsets.AddOffset(*p.Topic, *p.Partition, *p.Offset, -1)
	}
	if len(offsets) == 0 {
		return nil, errors.New("it names no partitions")
	}
	return offsets, nil
}

func (a *app) deleteRecords(ctx context.Context, cl *client, c *clusterFlags, offsets kadm.Offsets) error {
	if !c.json() {
		fmt.Fprintln(a.stdout, "Executing records delete operation")
	}
	// A partition that does not exist has no leader to ask, and would be asked for until the time is up.
	topics, err := cl.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return err
	}
	var done []deletedRecords
	var failed error
	there := make(kadm.Offsets)
	for _, o := range offsets.Sorted() {
		if topics.Has(o.Topic) && len(topics[o.Topic].Partitions) > int(o.Partition) && o.Partition >= 0 {
			there.Add(o)
			continue
		}
		err := fmt.Errorf("%s-%d does not exist", o.Topic, o.Partition)
		failed = errors.Join(failed, err)
		done = append(done, deletedRecords{o.Topic, o.Partition, -1, err.Error()})
	}
	if len(there) > 0 {
		shown := a.progress(c.json(), "deleting records", 0, countUnit)
		deleted, err := cl.admin.DeleteRecords(ctx, there)
		shown.done()
		if err != nil {
			return err
		}
		for _, r := range deleted.Sorted() {
			d := deletedRecords{r.Topic, r.Partition, r.LowWatermark, ""}
			if r.Err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s-%d: %w", r.Topic, r.Partition, r.Err))
				d.Error = r.Err.Error()
			}
			done = append(done, d)
		}
	}
	err = a.result(c, done, func(w io.Writer) {
		fmt.Fprintln(w, "Records delete operation completed:")
		for _, d := range done {
			if d.Error != "" {
				fmt.Fprintf(w, "partition: %s-%d\terror: %s\n", d.Topic, d.Partition, d.Error)
			} else {
				fmt.Fprintf(w, "partition: %s-%d\tlow_watermark: %d\n", d.Topic, d.Partition, d.LowWatermark)
			}
		}
	})
	return errors.Join(err, failed)
}
