package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// clientMetricsFlags are those of ClientMetricsCommand.
type clientMetricsFlags struct {
	name           string
	generate       bool
	metrics, match string
	interval       int32
}

// clientMetricsCommand is Kafka's kafka-client-metrics.sh (ClientMetricsCommand): which metrics clients push to their
// brokers (KIP-714).
func (a *app) clientMetricsCommand() *cobra.Command {
	var f clientMetricsFlags
	cmd, c := a.tool("client-metrics", "Show and change which metrics clients push",
		"  moldau client-metrics --alter --name slow --metrics org.apache.kafka.producer. --interval 10000 --match client_id=billing-.*\n"+
			"  moldau client-metrics --describe\n"+
			"  moldau client-metrics --delete --name slow", nil)
	flags := cmd.Flags()
	flags.Bool("alter", false, "make a subscription, or change it")
	flags.Bool("delete", false, "delete a subscription")
	flags.Bool("describe", false, "show subscriptions: all, or that with --name")
	flags.Bool("list", false, "list the names of subscriptions")
	flags.StringVar(&f.name, "name", "", "the `name` of a subscription")
	flags.BoolVar(&f.generate, "generate-name", false, "give it a name that nobody has")
	flags.StringVar(&f.metrics, "metrics", "", "beginnings of the `names` of metrics, m1,m2; * means all, nothing takes the setting back")
	flags.Int32Var(&f.interval, "interval", 0, "how often clients push, in `ms`")
	flags.StringVar(&f.match, "match", "", "which clients: `pairs` of a property and a regular expression, k1=v1,k2=v2")
	onlyBrokers(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		action, err := exactlyOne(flags, "alter", "delete", "describe", "list")
		if err == nil {
			alter := []string{"alter"}
			err = onlyWith(flags, action, map[string][]string{"name": {"alter", "delete", "describe"}, "generate-name": alter, "metrics": alter, "interval": alter, "match": alter})
		}
		switch {
		case err != nil:
			return err
		case action == "alter" && (f.name != "") == f.generate:
			return &failure{exitUsage, errors.New("--alter needs one of --name and --generate-name")}
		case action == "delete" && f.name == "":
			return &failure{exitUsage, errors.New("--delete needs --name")}
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error {
			switch action {
			case "alter":
				if f.generate {
					f.name = kafka.NewUUID().String()
				}
				set, deleted := map[string]string{}, []string(nil)
				for _, s := range []struct{ flag, key, value string }{
					{"metrics", "metrics", f.metrics}, {"interval", "interval.ms", strconv.Itoa(int(f.interval))}, {"match", "match", f.match},
				} {
					switch {
					case !flags.Changed(s.flag):
					case s.value == "":
						deleted = append(deleted, s.key)
					default:
						set[s.key] = s.value
					}
				}
				return a.alterClientMetrics(ctx, cl, c, f.name, configChanges(set, deleted), "Altered")
			case "delete":
				return a.deleteClientMetrics(ctx, cl, c, f.name)
			case "list":
				return a.listClientMetrics(ctx, cl, c)
			}
			return a.describeClientMetrics(ctx, cl, c, f.name)
		})
	}
	return cmd
}

// clientMetricsEntity is what the subscriptions are among settings.
func clientMetricsEntity(name string) configEntity {
	return configEntity{"client-metric", kmsg.ConfigResourceTypeClientMetrics, name, name != ""}
}

// alteredClientMetrics is what was done to a subscription.
type alteredClientMetrics struct {
	Name string `json:"name"`
	Done string `json:"done"`
}

func (a *app) alterClientMetrics(ctx context.Context, cl *client, c *clusterFlags, name string, changes []kmsg.IncrementalAlterConfigsRequestResourceConfig, done string) error {
	if err := cl.alterConfigAs(ctx, "change the metrics of clients "+name, clientMetricsEntity(name), changes); err != nil {
		return err
	}
	return a.result(c, alteredClientMetrics{name, done}, func(w io.Writer) {
		fmt.Fprintf(w, "%s client metrics config for %s.\n", done, name)
	})
}

// deleteClientMetrics takes back all that is set: a subscription is there while something is.
func (a *app) deleteClientMetrics(ctx context.Context, cl *client, c *clusterFlags, name string) error {
	set, err := cl.describeConfig(ctx, clientMetricsEntity(name), name, false)
	if err != nil {
		return err
	}
	if len(set) == 0 {
		return fmt.Errorf("there is no subscription %s to metrics of clients", name)
	}
	var keys []string
	for _, s := range set {
		keys = append(keys, s.Name)
	}
	return a.alterClientMetrics(ctx, cl, c, name, configChanges(nil, keys), "Deleted")
}

func (a *app) listClientMetrics(ctx context.Context, cl *client, c *clusterFlags) error {
	names, err := cl.entityNames(ctx, clientMetricsEntity(""))
	if err != nil {
		return err
	}
	return a.result(c, names, func(w io.Writer) {
		for _, name := range names {
			fmt.Fprintln(w, name)
		}
	})
}

func (a *app) describeClientMetrics(ctx context.Context, cl *client, c *clusterFlags, name string) error {
	names, err := cl.entityNames(ctx, clientMetricsEntity(name))
	if err != nil {
		return err
	}
	entities := make([]describedEntity, 0, len(names))
	for _, name := range names {
		configs, err := cl.describeConfig(ctx, clientMetricsEntity(name), name, true)
		if err != nil {
			return err
		}
		entities = append(entities, describedEntity{"client-metric", name, configs})
	}
	return a.result(c, entities, func(w io.Writer) {
		for _, e := range entities {
			fmt.Fprintf(w, "Client metrics configs for %s are:\n", e.Name)
			for _, config := range e.Configs {
				fmt.Fprintf(w, "  %s=%s\n", config.Name, orNullText(config.Value))
			}
		}
	})
}
