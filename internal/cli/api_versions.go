package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// servedAPI is one API of one broker.
type servedAPI struct {
	Key    int16  `json:"key"`
	Name   string `json:"name"`
	Min    int16  `json:"min"`
	Max    int16  `json:"max"`
	Usable *int16 `json:"usable"` // the highest that this binary speaks, too; null: none
}

type brokerAPIs struct {
	Broker int32       `json:"broker"`
	Host   string      `json:"host"`
	Port   int32       `json:"port"`
	Rack   *string     `json:"rack"`
	APIs   []servedAPI `json:"apis"`
}

// apiVersionsCommand is Kafka's kafka-broker-api-versions.sh (BrokerApiVersionsCommand).
func (a *app) apiVersionsCommand() *cobra.Command {
	cmd, c := a.tool("broker-api-versions", "Print which requests each broker takes", "  moldau broker-api-versions", nil)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.apiVersions(ctx, cl, c) })
	}
	return cmd
}

func (a *app) apiVersions(ctx context.Context, cl *client, c *clusterFlags) error {
	brokers, err := cl.admin.ListBrokers(ctx)
	if err != nil {
		return err
	}
	versions, err := cl.admin.ApiVersions(ctx)
	if err != nil {
		return err
	}
	all := []brokerAPIs{}
	var failed error
	javaNames := strings.NewReplacer("PartitionAssignments", "PartitionReassignments", "ACLs", "Acls", "ID", "Id", "SASL", "Sasl", "SCRAM", "Scram")
	for _, b := range brokers {
		v := versions[b.NodeID]
		if v.Err != nil {
			failed = errors.Join(failed, fmt.Errorf("broker %d at %s:%d: %w", b.NodeID, b.Host, b.Port, v.Err))
			continue
		}
		one := brokerAPIs{b.NodeID, b.Host, b.Port, b.Rack, nil}
		v.EachKeySorted(func(key, lowest, highest int16) {
			api := servedAPI{Key: key, Name: "UNKNOWN", Min: lowest, Max: highest}
			if req := kmsg.RequestForKey(key); req != nil {
				api.Name = javaNames.Replace(kmsg.NameForKey(key))
				if usable := min(highest, req.MaxVersion()); usable >= lowest {
					api.Usable = &usable
				}
			}
			one.APIs = append(one.APIs, api)
		})
		all = append(all, one)
	}
	err = a.result(c, all, func(w io.Writer) {
		for _, b := range all {
			lines := make([]string, len(b.APIs))
			for i, api := range b.APIs {
				span := fmt.Sprintf("%d to %d", api.Min, api.Max)
				if api.Min == api.Max {
					span = fmt.Sprint(api.Min)
				}
				usable := "none"
				if api.Usable != nil {
					usable = fmt.Sprint(*api.Usable)
				}
				lines[i] = fmt.Sprintf("\t%s(%d): %s [usable: %s]", api.Name, api.Key, span, usable)
			}
			fmt.Fprintf(w, "%s:%d (id: %d rack: %s isFenced: false) -> (\n%s\n)\n", b.Host, b.Port, b.Broker, orNullText(b.Rack), strings.Join(lines, ",\n"))
		}
	})
	return errors.Join(err, failed)
}
