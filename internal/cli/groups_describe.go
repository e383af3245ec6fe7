package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// describedGroup is a group as --describe shows it.
type describedGroup struct {
	Group       string           `json:"group"`
	State       string           `json:"state"`
	Coordinator coordinator      `json:"coordinator"`
	Strategy    string           `json:"assignmentStrategy"`
	Epoch       *int32           `json:"groupEpoch,omitempty"` // of groups of the new protocol (KIP-848), as all that is a pointer below
	TargetEpoch *int32           `json:"targetAssignmentEpoch,omitempty"`
	Offsets     []groupPartition `json:"offsets,omitempty"`
	Members     []groupMember    `json:"members"`
}

// coordinator is the broker that a group lives on.
type coordinator struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

func (c coordinator) String() string { return fmt.Sprintf("%s:%d  (%d)", c.Host, c.Port, c.ID) }

// groupPartition is a partition that a member has or the group has an offset for. Null is unknown.
type groupPartition struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Epoch     *int32  `json:"leaderEpoch"`
	Current   *int64  `json:"currentOffset"`
	LogEnd    *int64  `json:"logEndOffset"`
	Lag       *int64  `json:"lag"`
	Consumer  *string `json:"consumerId"`
	Host      *string `json:"host"`
	Client    *string `json:"clientId"`
}

type groupMember struct {
	ID       string             `json:"consumerId"`
	Instance string             `json:"groupInstanceId,omitempty"`
	Host     string             `json:"host"`
	Client   string             `json:"clientId"`
	Count    int                `json:"partitions"`
	Assigned map[string][]int32 `json:"assignment"`
	Epoch    *int32             `json:"memberEpoch,omitempty"`
	Target   map[string][]int32 `json:"targetAssignment,omitempty"`
}

func (a *app) describeGroups(ctx context.Context, cl *client, c *clusterFlags, f groupFlags) error {
	names, err := cl.selected(ctx, f)
	if err != nil || len(names) == 0 {
		return err
	}
	slices.Sort(names)
	groups := make([]describedGroup, 0, len(names))
	var failed error
	a.waiting = a.progress(c.json(), "groups", int64(len(names)), countUnit)
	for _, name := range names {
		g, err := cl.describeGroup(ctx, name)
		a.waiting.add(1)
		if err == nil && !f.members && f.state == "" {
			err = cl.addOffsets(ctx, &g)
		}
		if err != nil {
			if !known(err) {
				return err
			}
			failed = errors.Join(failed, err)
			continue
		}
		groups = append(groups, g)
	}
	err = a.result(c, groups, func(w io.Writer) {
		for _, g := range groups {
			switch g.State {
			case "Empty":
				fmt.Fprintf(a.stderr, "\nConsumer group '%s' has no active members.\n", g.Group)
			case "PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling":
				fmt.Fprintf(a.stderr, "\nWarning: Consumer group '%s' is rebalancing.\n", g.Group)
			}
			switch {
			case f.members:
				g.printMembers(w, f.verbose)
			case f.state != "":
				g.printState(w, f.verbose)
			case len(g.Offsets) > 0:
				g.printOffsets(w, f.verbose)
			}
		}
	})
	return errors.Join(err, failed)
}

// known tells whether an error says something about one group and nothing about the rest.
func known(err error) bool {
	return errors.Is(err, kerr.GroupIDNotFound) || errors.Is(err, kerr.InvalidGroupID) || errors.Is(err, kerr.GroupAuthorizationFailed)
}

func (cl *client) describeGroup(ctx context.Context, name string) (describedGroup, error) {
	described, err := cl.admin.DescribeGroups(ctx, name)
	if err != nil {
		return describedGroup{}, fmt.Errorf("describe group %s: %w", name, err)
	}
	g := described[name]
	if errors.Is(g.Err, kerr.GroupIDNotFound) || g.Err == nil && g.State == "Dead" {
		// One of the new protocol is not there for those who ask for a classic one.
		if d, ok := cl.describeNewGroup(ctx, name); ok {
			return d, nil
		}
	}
	if errors.Is(g.Err, kerr.GroupIDNotFound) || g.Err == nil && g.State == "Dead" {
		return describedGroup{}, fmt.Errorf("consumer group '%s' does not exist; `moldau consumer-groups --list` shows those that do (%w)", name, &coded{kerr.GroupIDNotFound})
	}
	if g.Err != nil {
		return describedGroup{}, refused("describe group "+name, g.Err, g.ErrMessage)
	}
	d := describedGroup{
		Group: name, State: g.State, Strategy: g.Protocol, Members: []groupMember{},
		Coordinator: coordinator{g.Coordinator.NodeID, g.Coordinator.Host, g.Coordinator.Port},
	}
	for _, m := range g.Members {
		member := groupMember{ID: m.MemberID, Instance: text(m.InstanceID), Host: m.ClientHost, Client: m.ClientID, Assigned: make(map[string][]int32)}
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				member.Assigned[t.Topic] = slices.Sorted(slices.Values(t.Partitions))
				member.Count += len(t.Partitions)
			}
		}
		d.Members = append(d.Members, member)
	}
	return d, nil
}

// describeNewGroup asks for a group of the new protocol (KIP-848). ok is false where there is none, or no such protocol.
func (cl *client) describeNewGroup(ctx context.Context, name string) (d describedGroup, ok bool) {
	described, err := cl.admin.DescribeConsumerGroups(ctx, name)
	g, ok := described[name]
	if err != nil || !ok || g.Err != nil {
		return d, false
	}
	d = describedGroup{
		Group: name, State: g.State, Strategy: g.AssignorName, Epoch: &g.Epoch, TargetEpoch: &g.AssignmentEpoch, Members: []groupMember{},
		Coordinator: coordinator{g.Coordinator.NodeID, g.Coordinator.Host, g.Coordinator.Port},
	}
	lists := func(set kadm.TopicsSet) (lists map[string][]int32, count int) {
		lists = make(map[string][]int32)
		for _, t := range set.Sorted() {
			lists[t.Topic] = t.Partitions
			count += len(t.Partitions)
		}
		return lists, count
	}
	for _, m := range g.Members {
		member := groupMember{ID: m.MemberID, Instance: text(m.InstanceID), Host: m.ClientHost, Client: m.ClientID, Epoch: &m.MemberEpoch}
		member.Assigned, member.Count = lists(m.Assignment)
		member.Target, _ = lists(m.TargetAssignment)
		d.Members = append(d.Members, member)
	}
	return d, true
}

// addOffsets fills in how far the group is in each partition that it has an offset for or a member has.
func (cl *client) addOffsets(ctx context.Context, g *describedGroup) error {
	committed, err := cl.admin.FetchOffsets(ctx, g.Group)
	if err != nil {
		return fmt.Errorf("offsets of group %s: %w", g.Group, err)
	}
	rows := make(map[string]map[int32]*groupPartition)
	partitions := make(map[string][]int32)
	row := func(topic string, p int32) *groupPartition {
		if rows[topic] == nil {
			rows[topic] = make(map[int32]*groupPartition)
		}
		if rows[topic][p] == nil {
			rows[topic][p] = &groupPartition{Topic: topic, Partition: p}
			partitions[topic] = append(partitions[topic], p)
		}
		return rows[topic][p]
	}
	for i := range g.Members {
		m := &g.Members[i]
		for topic, list := range m.Assigned {
			for _, p := range list {
				r := row(topic, p)
				r.Consumer, r.Host, r.Client = &m.ID, &m.Host, &m.Client
			}
		}
	}
	committed.Each(func(o kadm.OffsetResponse) {
		if o.Err == nil && o.At >= 0 {
			r := row(o.Topic, o.Partition)
			if r.Current = &o.At; o.LeaderEpoch >= 0 {
				r.Epoch = &o.LeaderEpoch
			}
		}
	})
	ends, err := cl.listOffsets(ctx, partitions, timeLatest)
	if err != nil {
		return err
	}
	for _, end := range ends {
		if r := row(end.Topic, end.Partition); end.err == nil && end.Offset >= 0 {
			r.LogEnd = &end.Offset
			if r.Current != nil {
				lag := max(0, end.Offset-*r.Current)
				r.Lag = &lag
			}
		}
	}
	for _, topic := range sortedKeys(rows) {
		for _, r := range rows[topic] {
			g.Offsets = append(g.Offsets, *r)
		}
	}
	slices.SortFunc(g.Offsets, func(a, b groupPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return nil
}

// dash is a number, or "-" where it is unknown.
func dash[N int32 | int64](n *N) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(int64(*n), 10)
}

func (g *describedGroup) printOffsets(w io.Writer, verbose bool) {
	word := func(s *string) string {
		if s == nil {
			return "-"
		}
		return *s
	}
	rows := [][]string{{"GROUP", "TOPIC", "PARTITION", "LEADER-EPOCH", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"}}
	for _, p := range g.Offsets {
		rows = append(rows, []string{g.Group, p.Topic, strconv.Itoa(int(p.Partition)), dash(p.Epoch), dash(p.Current), dash(p.LogEnd), dash(p.Lag), word(p.Consumer), word(p.Host), word(p.Client)})
	}
	for _, m := range g.Members {
		if m.Count == 0 {
			rows = append(rows, []string{g.Group, "-", "-", "-", "-", "-", "-", m.ID, m.Host, m.Client})
		}
	}
	widths := []int{15, 15, 10, 15, 15, 15, 15, 15, 15, 0}
	if !verbose {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 3, 4)
		}
		widths = slices.Delete(widths, 3, 4)
	}
	printColumns(w, rows, widths, "")
}

func (g *describedGroup) printMembers(w io.Writer, verbose bool) {
	static := slices.ContainsFunc(g.Members, func(m groupMember) bool { return m.Instance != "" })
	row := func(id, instance, host, client, count string, more ...string) []string {
		cells := []string{g.Group, id}
		if static {
			cells = append(cells, instance)
		}
		cells = append(cells, host, client, count)
		if verbose {
			cells = append(cells, more...)
		}
		return cells
	}
	head := row("CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT")
	head[0] = "GROUP"
	rows := [][]string{head}
	for _, m := range g.Members {
		targetEpoch, target := "-", "-"
		if m.Epoch != nil {
			targetEpoch, target = dash(g.TargetEpoch), partitionLists(m.Target)
		}
		rows = append(rows, row(m.ID, m.Instance, m.Host, m.Client, strconv.Itoa(m.Count), dash(m.Epoch), partitionLists(m.Assigned), targetEpoch, target))
	}
	widths := []int{15, 15}
	if static {
		widths = append(widths, 17)
	}
	widths = append(widths, 15, 15, 15)
	end := " " // as Kafka has it
	if verbose {
		widths = append(widths, 15, 20, 15, 20)
		end = ""
	}
	printColumns(w, rows, widths, end)
}

// partitionLists shows topic:0,1;other:2, or "-" for nothing.
func partitionLists(lists map[string][]int32) string {
	var words []string
	for _, topic := range sortedKeys(lists) {
		words = append(words, topic+":"+ids(lists[topic]))
	}
	return cmp.Or(strings.Join(words, ";"), "-")
}

func (g *describedGroup) printState(w io.Writer, verbose bool) {
	rows := [][]string{
		{"GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH", "#MEMBERS"},
		{g.Group, g.Coordinator.String(), cmp.Or(g.Strategy, "-"), g.State, dash(g.Epoch), dash(g.TargetEpoch), strconv.Itoa(len(g.Members))},
	}
	widths := []int{15, 25, 20, 20, 15, 25, 0}
	if !verbose {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 4, 6)
		}
		widths = slices.Delete(widths, 4, 6)
	}
	printColumns(w, rows, widths, "")
}

// printColumns writes rows below an empty line, cells one blank apart; widths are the least ones, 0 for a column that is not
// filled up. end follows the last cell.
func printColumns(w io.Writer, rows [][]string, widths []int, end string) {
	widths = slices.Clone(widths)
	for _, row := range rows {
		for i, cell := range row {
			if widths[i] > 0 {
				widths[i] = max(widths[i], len(cell))
			}
		}
	}
	fmt.Fprintln(w)
	for _, row := range rows {
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, " ")
			}
			fmt.Fprintf(w, "%-*s", widths[i], cell)
		}
		fmt.Fprintln(w, end)
	}
}
