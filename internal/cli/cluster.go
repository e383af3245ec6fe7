package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// clusterCommand is Kafka's kafka-cluster.sh (ClusterTool).
func (a *app) clusterCommand() *cobra.Command {
	var broker int32
	var fenced bool
	cmd, c := a.tool("cluster {cluster-id | list-endpoints | api-versions | unregister}", "Print a cluster's id and its brokers, or take a broker out",
		"  moldau cluster cluster-id\n  moldau cluster list-endpoints --include-fenced-brokers\n  moldau cluster unregister --id 3", map[string]string{"config": "command-config"})
	cmd.Flags().Int32Var(&broker, "id", -1, "the `broker` to take out")
	cmd.Flags().BoolVar(&fenced, "include-fenced-brokers", false, "list brokers too that are registered and not up")
	cmd.Args = usage(cobra.ExactArgs(1))
	onlyBrokers(cmd.Flags())
	cmd.ValidArgs = []string{"cluster-id", "list-endpoints", "api-versions", "unregister"}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		do, ok := map[string]func(context.Context, *client) error{
			"cluster-id":     func(ctx context.Context, cl *client) error { return a.clusterID(ctx, cl, c) },
			"list-endpoints": func(ctx context.Context, cl *client) error { return a.listEndpoints(ctx, cl, c, fenced) },
			"api-versions":   func(ctx context.Context, cl *client) error { return a.apiVersions(ctx, cl, c) },
			"unregister":     func(ctx context.Context, cl *client) error { return a.unregister(ctx, cl, c, broker) },
		}[args[0]]
		switch {
		case args[0] == "unregister-controller":
			return &failure{exitUsage, errors.New("unregister-controller is not served by this version")}
		case !ok:
			return &failure{exitUsage, fmt.Errorf("%q: want cluster-id, list-endpoints, api-versions or unregister", args[0])}
		}
		if args[0] == "unregister" && broker < 0 {
			return &failure{exitUsage, errors.New("unregister needs --id")}
		}
		return a.on(cmd.Context(), c, do)
	}
	return cmd
}

func (a *app) clusterID(ctx context.Context, cl *client, c *clusterFlags) error {
	m, err := cl.admin.BrokerMetadata(ctx)
	if err != nil {
		return err
	}
	return a.result(c, map[string]string{"clusterId": m.Cluster}, func(w io.Writer) { fmt.Fprintln(w, "Cluster ID: "+m.Cluster) })
}

func (a *app) listEndpoints(ctx context.Context, cl *client, c *clusterFlags, fenced bool) error {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType, req.IncludeFencedBrokers = 1, fenced
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = refused("describe the cluster", kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
	}
	if err != nil {
		return err
	}
	type endpoint struct {
		ID    int32   `json:"id"`
		Host  string  `json:"host"`
		Port  int32   `json:"port"`
		Rack  *string `json:"rack"`
		State string  `json:"state"`
		Type  string  `json:"endpointType"`
	}
	all := []endpoint{}
	width := len("HOST")
	for _, b := range resp.Brokers {
		e := endpoint{b.NodeID, b.Host, b.Port, b.Rack, "unfenced", "broker"}
		if b.IsFenced {
			e.State = "fenced"
		}
		width = max(width, len(b.Host))
		all = append(all, e)
	}
	return a.result(c, all, func(w io.Writer) {
		row := func(cells ...any) {
			fmt.Fprintf(w, fmt.Sprintf("%%-10s %%-%ds %%-10s %%-10s %%-10s %%-15s\n", width), cells...)
		}
		row("ID", "HOST", "PORT", "RACK", "STATE", "ENDPOINT_TYPE")
		for _, e := range all {
			row(strconv.Itoa(int(e.ID)), e.Host, strconv.Itoa(int(e.Port)), orNullText(e.Rack), e.State, e.Type)
		}
	})
}

func (a *app) unregister(ctx context.Context, cl *client, c *clusterFlags, broker int32) error {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = broker
	resp, err := req.RequestWith(ctx, cl)
	if err == nil {
		err = refused(fmt.Sprintf("take out broker %d", broker), kerr.ErrorForCode(resp.ErrorCode), text(resp.ErrorMessage))
	}
	if err != nil {
		return err
	}
	return a.result(c, map[string]int32{"unregistered": broker}, func(w io.Writer) { fmt.Fprintf(w, "Broker %d is no longer registered.\n", broker) })
}
