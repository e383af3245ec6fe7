package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
)

// featuresCommand is Kafka's kafka-features.sh (FeatureCommand).
func (a *app) featuresCommand() *cobra.Command {
	actions := []string{"describe", "upgrade", "downgrade", "disable", "version-mapping", "feature-dependencies"}
	var node int32
	var f featureFlags
	cmd, c := a.tool("features "+strings.Join(actions, "|"), "Tell and change which features a cluster has, and at which level",
		"  moldau features describe\n  moldau features upgrade --release-version 4.4 --dry-run\n  moldau features disable --feature eligible.leader.replicas.version\n"+
			"  moldau features version-mapping --release-version 4.0\n  moldau features feature-dependencies --feature eligible.leader.replicas.version=1", nil)
	f.add(cmd.Flags())
	cmd.Flags().Int32Var(&node, "node-id", -1, "ask this `node`, not just any")
	onlyBrokers(cmd.Flags())
	cmd.Args = usage(cobra.ExactArgs(1))
	cmd.ValidArgs = actions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch args[0] {
		case "describe":
			return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.describeFeatures(ctx, cl, c, node) })
		case "upgrade", "downgrade", "disable":
			updates, err := f.updates(args[0])
			if err != nil {
				return &failure{exitUsage, err}
			}
			return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error {
				return a.updateFeatures(ctx, cl, c, args[0], updates, f.dryRun)
			})
		case "version-mapping":
			return a.releaseFeatures(c, f.release)
		case "feature-dependencies":
			return a.featureRequirements(c, f.features)
		}
		return &failure{exitUsage, fmt.Errorf("%q: want one of %s", args[0], strings.Join(actions, ", "))}
	}
	return cmd
}

// describedFeature is one feature: what a node supports and what the cluster has settled on.
type describedFeature struct {
	Name      string `json:"feature"`
	Min       string `json:"supportedMinVersion"`
	Max       string `json:"supportedMaxVersion"`
	Finalized string `json:"finalizedVersionLevel"`
	Epoch     int64  `json:"epoch"`
}

func (a *app) describeFeatures(ctx context.Context, cl *client, c *clusterFlags, node int32) error {
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "moldau", version()
	var resp kmsg.Response
	var err error
	if node >= 0 {
		resp, err = cl.Broker(int(node)).Request(ctx, req)
	} else {
		resp, err = cl.Request(ctx, req)
	}
	if err != nil {
		return err
	}
	versions := resp.(*kmsg.ApiVersionsResponse)
	if err := kerr.ErrorForCode(versions.ErrorCode); err != nil {
		return err
	}
	level := func(feature string, n int16) string {
		if name, ok := metadata.LevelName(n); ok && feature == metadata.FeatureMetadataVersion {
			return name
		}
		return strconv.Itoa(int(n))
	}
	features := make(map[string]describedFeature)
	for _, f := range versions.SupportedFeatures {
		features[f.Name] = describedFeature{f.Name, level(f.Name, f.MinVersion), level(f.Name, f.MaxVersion), "0", versions.FinalizedFeaturesEpoch}
	}
	for _, f := range versions.FinalizedFeatures {
		one, ok := features[f.Name]
		if !ok {
			one = describedFeature{f.Name, "0", "0", "", versions.FinalizedFeaturesEpoch}
		}
		one.Finalized = level(f.Name, f.MaxVersionLevel)
		features[f.Name] = one
	}
	all := []describedFeature{}
	for _, name := range sortedKeys(features) {
		all = append(all, features[name])
	}
	return a.result(c, all, func(w io.Writer) {
		for _, f := range all {
			fmt.Fprintf(w, "Feature: %-42sSupportedMinVersion: %-17sSupportedMaxVersion: %-17sFinalizedVersionLevel: %-17sEpoch: %d\n", f.Name, f.Min, f.Max, f.Finalized, f.Epoch)
		}
	})
}
