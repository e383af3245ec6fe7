package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// metadataQuorumCommand is Kafka's kafka-metadata-quorum.sh (MetadataQuorumCommand).
func (a *app) metadataQuorumCommand() *cobra.Command {
	var status, replication, human bool
	var controllers string
	var voter voterFlags
	cmd, c := a.tool("metadata-quorum {describe|add-controller|remove-controller}", "Tell how the controllers of a cluster are, and change which vote",
		"  moldau metadata-quorum describe --status\n  moldau metadata-quorum describe --replication --human-readable\n"+
			"  moldau metadata-quorum add-controller --command-config server.properties\n"+
			"  moldau metadata-quorum remove-controller --controller-id 3 --controller-directory-id J8aAPcfLQt2bqs1JT_rMgQ", nil)
	cmd.Flags().StringVar(&controllers, "bootstrap-controller", "", "controllers to ask instead of brokers, as `host:port,...`")
	cmd.Flags().BoolVar(&status, "status", false, "describe: leader, epoch, voters and observers")
	cmd.Flags().BoolVar(&replication, "replication", false, "describe: how far each of them is")
	cmd.Flags().BoolVar(&human, "human-readable", false, "describe: times as distances from now")
	cmd.Flags().Int32VarP(&voter.id, "controller-id", "i", -1, "remove-controller: the node `id` of the voter")
	cmd.Flags().StringVarP(&voter.directory, "controller-directory-id", "d", "", "remove-controller: the directory `id` of the voter")
	cmd.Flags().BoolVar(&voter.dryRun, "dry-run", false, "add-controller, remove-controller: say what would be done and do nothing")
	cmd.Args = usage(cobra.ExactArgs(1))
	cmd.ValidArgs = []string{"describe", "add-controller", "remove-controller"}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx := cmd.Context()
		switch {
		case args[0] == "add-controller":
			return a.addController(ctx, c, controllers, voter)
		case args[0] == "remove-controller":
			return a.removeController(ctx, c, controllers, voter)
		case args[0] != "describe":
			return &failure{exitUsage, fmt.Errorf("%q: want describe, add-controller or remove-controller", args[0])}
		case status == replication:
			return &failure{exitUsage, errors.New("want one of --status and --replication")}
		case human && status:
			return &failure{exitUsage, errors.New("--human-readable goes with --replication")}
		}
		return a.atQuorum(ctx, c, controllers, func(ctx context.Context, door quorumDoor) error { return a.describeQuorum(ctx, door, c, status, human) })
	}
	return cmd
}

// quorumReplica is one controller or observer.
type quorumReplica struct {
	ID           int32    `json:"id"`
	Directory    string   `json:"directoryId"`
	Endpoints    []string `json:"endpoints,omitempty"`
	LogEnd       int64    `json:"logEndOffset"`
	Lag          int64    `json:"lag"`
	LastFetch    int64    `json:"lastFetchTimestamp"`
	LastCaughtUp int64    `json:"lastCaughtUpTimestamp"`
	Status       string   `json:"status"`
}

type quorumState struct {
	ClusterID     string          `json:"clusterId"`
	Leader        int32           `json:"leaderId"`
	Epoch         int32           `json:"leaderEpoch"`
	HighWatermark int64           `json:"highWatermark"`
	MaxLag        int64           `json:"maxFollowerLag"`
	MaxLagMs      int64           `json:"maxFollowerLagTimeMs"`
	Voters        []quorumReplica `json:"voters"`
	Observers     []quorumReplica `json:"observers"`
}

func (a *app) describeQuorum(ctx context.Context, door quorumDoor, c *clusterFlags, status, human bool) error {
	s, err := door.state(ctx)
	if err != nil {
		return err
	}
	return a.result(c, s, func(w io.Writer) {
		if !status {
			s.table(w, human)
			return
		}
		fmt.Fprintf(w, "ClusterId:              %s\nLeaderId:               %d\nLeaderEpoch:            %d\nHighWatermark:          %d\n"+
			"MaxFollowerLag:         %d\nMaxFollowerLagTimeMs:   %d\nCurrentVoters:          %s\nCurrentObservers:       %s\n",
			s.ClusterID, s.Leader, s.Epoch, s.HighWatermark, s.MaxLag, s.MaxLagMs, replicaList(s.Voters), replicaList(s.Observers))
	})
}

func (d quorumDoor) state(ctx context.Context) (quorumState, error) {
	cluster, err := d.clusterID(ctx)
	if err != nil {
		return quorumState{}, err
	}
	resp, p, err := d.describe(ctx)
	if err != nil {
		return quorumState{}, err
	}
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return quorumState{}, refused("describe the quorum", err, text(p.ErrorMessage))
	}
	endpoints := make(map[int32][]string)
	for _, n := range resp.Nodes {
		for _, l := range n.Listeners {
			endpoints[n.NodeID] = append(endpoints[n.NodeID], fmt.Sprintf("%s://%s:%d", l.Name, l.Host, l.Port))
		}
	}
	s := quorumState{ClusterID: cluster, Leader: p.LeaderID, Epoch: p.LeaderEpoch, HighWatermark: p.HighWatermark, Observers: []quorumReplica{}}
	states := func(list []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, status string) (all []quorumReplica) {
		for _, r := range list {
			one := quorumReplica{r.ReplicaID, id(r.ReplicaDirectoryID), endpoints[r.ReplicaID], r.LogEndOffset, 0, r.LastFetchTimestamp, r.LastCaughtUpTimestamp, status}
			if r.ReplicaID == p.LeaderID && status == "Follower" {
				one.Status = "Leader"
			}
			all = append(all, one)
		}
		return all
	}
	s.Voters = states(p.CurrentVoters, "Follower")
	s.Observers = append(s.Observers, states(p.Observers, "Observer")...)
	return s, s.lags()
}

// lags fills in how far everybody is behind the leader.
func (s *quorumState) lags() error {
	i := slices.IndexFunc(s.Voters, func(r quorumReplica) bool { return r.Status == "Leader" })
	if i < 0 {
		return fmt.Errorf("the quorum has no leader among its %d voters", len(s.Voters))
	}
	leader, last := s.Voters[i], s.Voters[i]
	for _, list := range [][]quorumReplica{s.Voters, s.Observers} {
		for j := range list {
			list[j].Lag = leader.LogEnd - list[j].LogEnd
		}
	}
	for _, v := range s.Voters {
		if v.LogEnd < last.LogEnd {
			last = v
		}
	}
	s.MaxLag = leader.LogEnd - last.LogEnd
	switch {
	case last.ID == leader.ID:
	case leader.LastCaughtUp < 0 || last.LastCaughtUp < 0:
		s.MaxLagMs = -1
	default:
		s.MaxLagMs = leader.LastCaughtUp - last.LastCaughtUp
	}
	return nil
}

func replicaList(list []quorumReplica) string {
	words := make([]string, len(list))
	for i, r := range list {
		words[i] = fmt.Sprintf("{\"id\": %d", r.ID)
		if r.Directory != (kafka.UUID{}).String() {
			words[i] += fmt.Sprintf(", \"directoryId\": %q", r.Directory)
		}
		if len(r.Endpoints) > 0 {
			words[i] += fmt.Sprintf(", \"endpoints\": [\"%s\"]", strings.Join(r.Endpoints, `", "`))
		}
		words[i] += "}"
	}
	return "[" + strings.Join(words, ", ") + "]"
}

// table is what --replication prints: the leader, the other voters, the observers.
func (s *quorumState) table(w io.Writer, human bool) {
	moment := func(ms int64) string {
		if human && ms >= 0 {
			return fmt.Sprintf("%d ms ago", max(0, time.Now().UnixMilli()-ms))
		}
		return strconv.FormatInt(ms, 10)
	}
	all := append(slices.Clone(s.Voters), s.Observers...)
	slices.SortStableFunc(all, func(a, b quorumReplica) int {
		rank := map[string]int{"Leader": 0, "Follower": 1, "Observer": 2}
		return rank[a.Status] - rank[b.Status]
	})
	rows := [][]string{{"NodeId", "DirectoryId", "LogEndOffset", "Lag", "LastFetchTimestamp", "LastCaughtUpTimestamp", "Status"}}
	for _, r := range all {
		rows = append(rows, []string{strconv.Itoa(int(r.ID)), r.Directory, strconv.FormatInt(r.LogEnd, 10), strconv.FormatInt(r.Lag, 10),
			moment(r.LastFetch), moment(r.LastCaughtUp), r.Status})
	}
	printTable(w, rows)
}

// printTable parts columns by tabs, each as wide as its widest cell.
func printTable(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len(cell))
		}
	}
	for _, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(w, "%-*s\t", widths[i], cell)
		}
		fmt.Fprintln(w)
	}
}
