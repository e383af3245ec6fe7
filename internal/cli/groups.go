package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// groupsCommand is Kafka's kafka-groups.sh (GroupsCommand).
func (a *app) groupsCommand() *cobra.Command {
	var kind, protocol string
	var consumer, share, streams bool
	cmd, c := a.tool("groups", "List the groups of every kind", "  moldau groups --list\n  moldau groups --list --group-type consumer", nil)
	flags := cmd.Flags()
	flags.Bool("list", false, "list groups; the only thing to do here")
	flags.StringVar(&kind, "group-type", "", "only groups of this `type`: classic, consumer, share or streams")
	flags.StringVar(&protocol, "protocol", "", "only groups whose members agree on this `protocol`, such as consumer or connect")
	flags.BoolVar(&consumer, "consumer", false, "only groups of consumers, of both protocols")
	flags.BoolVar(&share, "share", false, "only share groups")
	flags.BoolVar(&streams, "streams", false, "only streams groups")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := exactlyOne(flags, "list"); err != nil {
			return err
		}
		filters := 0
		for _, set := range []bool{kind != "" || protocol != "", consumer, share, streams} {
			if set {
				filters++
			}
		}
		if filters > 1 {
			return &failure{exitUsage, fmt.Errorf("--consumer, --share, --streams, and --group-type with --protocol exclude each other")}
		}
		if bad := unknownWord("--group-type", kind, []string{"classic", "consumer", "share", "streams"}); bad != "" {
			return &failure{exitUsage, fmt.Errorf("%s", bad)}
		}
		switch {
		case share:
			kind = "share"
		case streams:
			kind = "streams"
		}
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error {
			return a.listAllGroups(ctx, cl, c, func(g listedGroup) bool {
				return (kind == "" || strings.EqualFold(kind, g.Type)) && (protocol == "" || protocol == g.Protocol) && (!consumer || g.ofConsumers())
			})
		})
	}
	return cmd
}

// listedGroup is a group of any kind.
type listedGroup struct {
	Group    string `json:"group"`
	Type     string `json:"type"`
	Protocol string `json:"protocol"`
	State    string `json:"state"`
}

// ofConsumers tells whether consumers are, or were, its members: groups of the new protocol, classic ones of that protocol
// type, and those that only hold offsets.
func (g listedGroup) ofConsumers() bool {
	return g.Type == "Consumer" || g.Type == "Classic" && (g.Protocol == "consumer" || g.Protocol == "")
}

func (a *app) listAllGroups(ctx context.Context, cl *client, c *clusterFlags, wanted func(listedGroup) bool) error {
	listed, err := cl.admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	all := []listedGroup{}
	width := 20
	for _, g := range listed.Sorted() {
		if one := (listedGroup{g.Group, javaGroupType(g.GroupType), g.ProtocolType, g.State}); wanted(one) {
			all = append(all, one)
			width = max(width, len(one.Group))
		}
	}
	return a.result(c, all, func(w io.Writer) {
		fmt.Fprintf(w, "%-*s %-*s %-*s\n", width, "GROUP", width, "TYPE", width, "PROTOCOL")
		for _, g := range all {
			fmt.Fprintf(w, "%-*s %-*s %-*s \n", width, g.Group, width, g.Type, width, g.Protocol)
		}
	})
}
