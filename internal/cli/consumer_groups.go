package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupFlags are those of ConsumerGroupCommand.
type groupFlags struct {
	groups, topics                                  []string
	allGroups, allTopics                            bool
	members, offsets, verbose                       bool
	state, kind                                     string // with --list filters, by comma; " " when no value was given
	dryRun, execute, export                         bool
	toEarliest, toLatest, toCurrent                 bool
	toOffset, shiftBy                               int64
	toDatetime, byDuration, fromFile, scenario, act string
	regex                                           string
	fromZooKeeper, toZooKeeper                      string // the group
	timeoutMs                                       int64
}

// consumerGroupsCommand is Kafka's kafka-consumer-groups.sh (ConsumerGroupCommand).
func (a *app) consumerGroupsCommand() *cobra.Command {
	var f groupFlags
	cmd, c := a.tool("consumer-groups", "List and describe consumer groups, move their offsets, delete them",
		"  moldau consumer-groups --list --state\n  moldau consumer-groups --describe --group audit\n"+
			"  moldau consumer-groups --reset-offsets --group audit --topic orders --to-datetime 2026-01-31T12:00:00.000 --dry-run\n"+
			"  moldau consumer-groups --reset-offsets --group audit --all-topics --to-earliest --execute", nil)
	flags := cmd.Flags()
	flags.Bool("list", false, "list all groups")
	flags.Bool("describe", false, "tell how far groups are, or with --members or --state who and how they are")
	flags.Bool("reset-offsets", false, "move the offsets of groups without members")
	flags.Bool("delete", false, "delete groups without members")
	flags.Bool("delete-offsets", false, "delete a group's offsets for topics")
	flags.StringVar(&f.fromZooKeeper, "migrate-from-zookeeper", "", "show the offsets of a `group` whose consumers keep them in ZooKeeper, and with --execute copy them to where all others do")
	flags.StringVar(&f.toZooKeeper, "migrate-to-zookeeper", "", "the other way round, for this `group`")
	flags.StringArrayVar(&f.groups, "group", nil, "the `group`; may be repeated")
	flags.BoolVar(&f.allGroups, "all-groups", false, "every group")
	flags.StringArrayVar(&f.topics, "topic", nil, "the `topic`, or topic:0,1 for some partitions; may be repeated")
	flags.BoolVar(&f.allTopics, "all-topics", false, "every topic that the group has offsets for")
	flags.BoolVar(&f.members, "members", false, "with --describe: the members")
	flags.BoolVar(&f.offsets, "offsets", false, "with --describe: offsets and lag, as without any")
	flags.BoolVar(&f.verbose, "verbose", false, "with --members: their partitions too; with --state: more of the group")
	flags.StringVar(&f.state, "state", "", "with --describe: the group's state; with --list: show states, or only groups in one of `states`")
	flags.StringVar(&f.kind, "type", "", "with --list: show types, or only groups of one of `types`")
	flags.Lookup("state").NoOptDefVal, flags.Lookup("type").NoOptDefVal = " ", " "
	flags.BoolVar(&f.toEarliest, "to-earliest", false, "to the oldest record")
	flags.BoolVar(&f.toLatest, "to-latest", false, "to the end")
	flags.BoolVar(&f.toCurrent, "to-current", false, "to where the group is, which makes it explicit")
	flags.Int64Var(&f.toOffset, "to-offset", 0, "to this `offset`")
	flags.Int64Var(&f.shiftBy, "shift-by", 0, "by so `many` records, backwards if negative")
	flags.StringVar(&f.toDatetime, "to-datetime", "", "to the first record from then on: `YYYY-MM-DDThh:mm:ss.sss`, UTC unless a zone follows")
	flags.StringVar(&f.byDuration, "by-duration", "", "to the first record of the last `PnDTnHnMnS`")
	flags.StringVar(&f.fromFile, "from-file", "", "to what a `file` says, as --export writes it")
	flags.BoolVar(&f.dryRun, "dry-run", false, "only show what would be")
	flags.BoolVar(&f.execute, "execute", false, "do it")
	flags.BoolVar(&f.export, "export", false, "print the offsets as CSV for --from-file")
	flags.Int64Var(&f.timeoutMs, "timeout", 30_000, "how many `milliseconds` everything may take")
	flags.StringVar(&f.regex, "validate-regex", "", "only tell whether this `expression` is one that brokers take (RE2); needs no cluster")
	c.byZooKeeper(flags)
	cmd.Args = usage(cobra.MaximumNArgs(2))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if flags.Changed("validate-regex") {
			return a.validateRegex(c, f.regex)
		}
		if c.zookeeper != "" {
			if err := f.checkWithZooKeeper(flags); err != nil {
				return err
			}
			return a.groupsByZooKeeper(cmd.Context(), c, f)
		}
		if err := f.check(flags, args); err != nil {
			return err
		}
		do := map[string]func(context.Context, *client, *clusterFlags, groupFlags) error{
			"list": a.listGroups, "describe": a.describeGroups, "reset-offsets": a.resetOffsets, "delete": a.deleteGroups, "delete-offsets": a.deleteGroupOffsets,
			"migrate-from-zookeeper": a.migrateGroup, "migrate-to-zookeeper": a.migrateGroup,
		}[f.act]
		ctx, cancel := context.WithTimeout(cmd.Context(), time.Duration(f.timeoutMs)*time.Millisecond)
		defer cancel()
		return a.on(ctx, c, func(ctx context.Context, cl *client) error { return do(ctx, cl, c, f) })
	}
	return cmd
}

// validateRegex tells whether a subscription by this expression would be taken. Go's expressions are RE2's.
func (a *app) validateRegex(c *clusterFlags, expression string) error {
	_, err := regexp.Compile(expression)
	type verdict struct {
		Expression string `json:"expression"`
		Valid      bool   `json:"valid"`
		Fault      string `json:"fault,omitempty"`
	}
	v := verdict{Expression: expression, Valid: err == nil}
	var fault *syntax.Error
	if errors.As(err, &fault) {
		v.Fault = string(fault.Code)
	}
	if told := a.result(c, v, func(w io.Writer) {
		if v.Valid {
			fmt.Fprintf(w, "The regular expression `%s` is valid.\n", expression)
		} else {
			fmt.Fprintf(w, "The regular expression `%s` is invalid: %s.\n", expression, v.Fault)
		}
	}); told != nil || err == nil {
		return told
	}
	return fmt.Errorf("--validate-regex: %w", err)
}

var resetScenarios = []string{"to-earliest", "to-latest", "to-current", "to-offset", "shift-by", "to-datetime", "by-duration", "from-file"}

func (f *groupFlags) check(flags *pflag.FlagSet, args []string) (err error) {
	if f.act, err = exactlyOne(flags, "list", "describe", "reset-offsets", "delete", "delete-offsets", "migrate-from-zookeeper", "migrate-to-zookeeper"); err != nil {
		return err
	}
	for _, arg := range args { // --state Stable: the value of these two may stand apart or be missing
		switch {
		case f.act == "list" && f.state == " ":
			f.state = arg
		case f.act == "list" && f.kind == " ":
			f.kind = arg
		default:
			return &failure{exitUsage, fmt.Errorf("%q is not a flag", arg)}
		}
	}
	allowed := map[string][]string{
		"all-groups": {"describe", "reset-offsets", "delete"}, "group": {"describe", "reset-offsets", "delete", "delete-offsets"},
		"topic": {"reset-offsets", "delete-offsets"}, "all-topics": {"reset-offsets"}, "members": {"describe"}, "offsets": {"describe"},
		"verbose": {"describe"}, "state": {"describe", "list"}, "type": {"list"}, "dry-run": {"reset-offsets", "migrate-from-zookeeper", "migrate-to-zookeeper"},
		"execute": {"reset-offsets", "migrate-from-zookeeper", "migrate-to-zookeeper"}, "export": {"reset-offsets"},
	}
	for _, s := range resetScenarios {
		allowed[s] = []string{"reset-offsets"}
	}
	if err := onlyWith(flags, f.act, allowed); err != nil {
		return err
	}
	bad := ""
	migrates := f.act == "migrate-from-zookeeper" || f.act == "migrate-to-zookeeper"
	switch {
	case migrates && f.fromZooKeeper+f.toZooKeeper == "":
		bad = "--" + f.act + " needs the name of a group"
	case f.act != "list" && !migrates && f.allGroups == (len(f.groups) > 0):
		bad = "--" + f.act + " needs either --group or --all-groups"
	case f.act == "delete-offsets" && (len(f.groups) != 1 || len(f.topics) == 0):
		bad = "--delete-offsets needs one --group and --topic"
	case f.act == "describe" && f.members && f.state != "" || f.act == "describe" && f.offsets && (f.members || f.state != ""):
		bad = "--members, --offsets and --state exclude each other"
	case f.timeoutMs <= 0:
		bad = "--timeout has to be above 0"
	case f.dryRun && f.execute:
		bad = "--dry-run and --execute exclude each other"
	}
	if bad == "" && f.act == "reset-offsets" {
		if f.scenario, err = exactlyOne(flags, resetScenarios...); err != nil {
			return err
		}
		if f.fromFile == "" && f.allTopics == (len(f.topics) > 0) {
			bad = "--reset-offsets needs either --topic or --all-topics"
		}
	}
	if bad == "" && f.act == "list" {
		bad = cmp.Or(
			unknownWord("--state", f.state, []string{"Assigning", "CompletingRebalance", "Dead", "Empty", "PreparingRebalance", "Reconciling", "Stable"}),
			unknownWord("--type", f.kind, []string{"Classic", "Consumer"}))
	}
	if bad != "" {
		return &failure{exitUsage, errors.New(bad)}
	}
	return nil
}

// unknownWord finds a word by comma that is none of those there are; case does not matter. "" is none.
func unknownWord(flag, list string, known []string) string {
	for word := range strings.SplitSeq(strings.TrimSpace(list), ",") {
		word = strings.TrimSpace(word)
		if word != "" && !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, word) }) {
			return fmt.Sprintf("%s %s: want %s", flag, word, strings.Join(known, ", "))
		}
	}
	return ""
}

// selected are the groups that the flags name.
func (cl *client) selected(ctx context.Context, f groupFlags) ([]string, error) {
	if !f.allGroups {
		return f.groups, nil
	}
	listed, err := cl.admin.ListGroups(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range listed.Sorted() {
		if g.ProtocolType == "consumer" || g.ProtocolType == "" {
			names = append(names, g.Group)
		}
	}
	return names, nil
}

func (a *app) listGroups(ctx context.Context, cl *client, c *clusterFlags, f groupFlags) error {
	listed, err := cl.admin.ListGroups(ctx)
	if err != nil {
		return err
	}
	type group struct {
		Group string `json:"group"`
		State string `json:"state"`
		Type  string `json:"type"`
	}
	wanted := func(filter, value string) bool {
		return strings.TrimSpace(filter) == "" || slices.ContainsFunc(strings.Split(filter, ","), func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), value) })
	}
	all := []group{}
	width := 15
	for _, g := range listed.Sorted() {
		if (g.ProtocolType == "consumer" || g.ProtocolType == "") && wanted(f.state, g.State) && wanted(f.kind, g.GroupType) {
			all = append(all, group{g.Group, g.State, javaGroupType(g.GroupType)})
			width = max(width, len(g.Group))
		}
	}
	return a.result(c, all, func(w io.Writer) {
		if f.state == "" && f.kind == "" {
			for _, g := range all {
				fmt.Fprintln(w, g.Group)
			}
			return
		}
		row := func(g group) {
			cells := []string{fmt.Sprintf("%-*s", width+10, g.Group)}
			if f.kind != "" {
				cells = append(cells, fmt.Sprintf("%-20s", g.Type))
			}
			if f.state != "" {
				cells = append(cells, fmt.Sprintf("%-20s", g.State))
			}
			fmt.Fprintln(w, strings.Join(cells, " "))
		}
		row(group{"GROUP", "STATE", "TYPE"})
		for _, g := range all {
			row(g)
		}
	})
}

// javaGroupType is a type as Kafka's tools write it, whatever a broker's spelling is.
func javaGroupType(name string) string {
	if name == "" {
		return "Classic" // a broker that does not say has no other
	}
	return strings.ToUpper(name[:1]) + strings.ToLower(name[1:])
}

func (a *app) deleteGroups(ctx context.Context, cl *client, c *clusterFlags, f groupFlags) error {
	names, err := cl.selected(ctx, f)
	if err != nil {
		return err
	}
	deleted := make(kadm.DeleteGroupResponses)
	if len(names) > 0 {
		if deleted, err = cl.admin.DeleteGroups(ctx, names...); err != nil && len(deleted) == 0 {
			return err
		}
	}
	type outcome struct {
		Group string `json:"group"`
		Error string `json:"error,omitempty"`
	}
	var failed error
	var done []string
	all := []outcome{}
	for _, g := range deleted.Sorted() {
		var err error
		switch {
		case errors.Is(g.Err, kerr.NonEmptyGroup):
			err = fmt.Errorf("group '%s' could not be deleted: it has members; stop them first (%w)", g.Group, g.Err)
		case g.Err != nil:
			err = fmt.Errorf("group '%s' could not be deleted: %w", g.Group, g.Err)
		default:
			done = append(done, "'"+g.Group+"'")
		}
		o := outcome{Group: g.Group}
		if err != nil {
			failed = errors.Join(failed, err)
			o.Error = err.Error()
		}
		all = append(all, o)
	}
	return errors.Join(a.result(c, all, func(w io.Writer) {
		if len(done) > 0 {
			fmt.Fprintf(w, "Deletion of requested consumer groups (%s) was successful.\n", strings.Join(done, ", "))
		}
	}), failed)
}

func (a *app) deleteGroupOffsets(ctx context.Context, cl *client, c *clusterFlags, f groupFlags) error {
	wanted, err := cl.partitionsOf(ctx, f.topics)
	if err != nil {
		return err
	}
	group := f.groups[0]
	set := make(kadm.TopicsSet)
	for topic, partitions := range wanted {
		set.Add(topic, partitions...)
	}
	deleted, err := cl.admin.DeleteOffsets(ctx, group, set)
	if err != nil {
		return fmt.Errorf("delete offsets of group %s: %w", group, err)
	}
	type outcome struct {
		Topic     string `json:"topic"`
		Partition int32  `json:"partition"`
		Error     string `json:"error,omitempty"`
	}
	all := []outcome{}
	width := 15
	var failed error
	for _, topic := range sortedKeys(wanted) {
		width = max(width, len(topic))
		for _, p := range wanted[topic] {
			o := outcome{Topic: topic, Partition: p}
			if err, _ := deleted.Lookup(topic, p); err != nil {
				o.Error = err.Error()
				failed = errors.Join(failed, fmt.Errorf("%s-%d: %w", topic, p, err))
			}
			all = append(all, o)
		}
	}
	return errors.Join(a.result(c, all, func(w io.Writer) {
		if failed == nil {
			fmt.Fprintf(w, "Request succeeded for deleting offsets from group %s.\n", group)
		}
		fmt.Fprintf(w, "\n%-*s %-10s %-15s\n", width, "TOPIC", "PARTITION", "STATUS")
		for _, o := range all {
			status := "Successful"
			if o.Error != "" {
				status = "Error: " + o.Error
			}
			fmt.Fprintf(w, "%-*s %-10d %-15s\n", width, o.Topic, o.Partition, status)
		}
	}), failed)
}

// partitionsOf reads --topic words: a topic means all of its partitions, topic:0,1 some.
func (cl *client) partitionsOf(ctx context.Context, words []string) (map[string][]int32, error) {
	all, err := cl.admin.ListTopicsWithInternal(ctx)
	if err != nil {
		return nil, err
	}
	wanted := make(map[string][]int32)
	for _, word := range words {
		topic, list, some := strings.Cut(word, ":")
		if !all.Has(topic) {
			return nil, fmt.Errorf("topic %q does not exist", topic)
		}
		if !some {
			wanted[topic] = all[topic].Partitions.Numbers()
			continue
		}
		for one := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(one), 10, 32)
			if err != nil || n < 0 {
				return nil, &failure{exitUsage, fmt.Errorf("--topic %s: %q is no partition", word, one)}
			}
			if int(n) >= len(all[topic].Partitions) {
				return nil, fmt.Errorf("topic %s has no partition %d", topic, n)
			}
			if !slices.Contains(wanted[topic], int32(n)) {
				wanted[topic] = append(wanted[topic], int32(n))
			}
		}
		slices.Sort(wanted[topic])
	}
	return wanted, nil
}
