package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/kafka"
)

// reassignFlags are those of ReassignPartitionsCommand, and --wait.
type reassignFlags struct {
	verify, generate, execute, cancel, list bool

	file, topicsFile, brokers        string
	rackUnaware, additional, keep    bool
	sameFactor, wait                 bool
	throttle, dirThrottle, timeoutMs int64 // bytes/s, bytes/s, ms
}

// reassignCommand is Kafka's kafka-reassign-partitions.sh (ReassignPartitionsCommand).
func (a *app) reassignCommand() *cobra.Command {
	var f reassignFlags
	cmd, c := a.tool("reassign-partitions", "Move partitions between brokers and directories",
		"  echo '{\"topics\": [{\"topic\": \"orders\"}], \"version\": 1}' > topics.json\n"+
			"  moldau reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1,2,3\n"+
			"  moldau reassign-partitions --execute --reassignment-json-file plan.json --throttle 50000000 --wait\n"+
			"  moldau reassign-partitions --list", nil)
	flags := cmd.Flags()
	flags.BoolVar(&f.generate, "generate", false, "print a plan that puts the topics of --topics-to-move-json-file on the brokers of --broker-list")
	flags.BoolVar(&f.execute, "execute", false, "begin to do what --reassignment-json-file says")
	flags.BoolVar(&f.verify, "verify", false, "say how far that is; once all is done, throttles are removed")
	flags.BoolVar(&f.list, "list", false, "list what is being reassigned")
	flags.BoolVar(&f.cancel, "cancel", false, "take back what --reassignment-json-file began")
	flags.StringVar(&f.file, "reassignment-json-file", "", "the `file` with the plan")
	flags.StringVar(&f.topicsFile, "topics-to-move-json-file", "", "the `file` with the topics to plan for")
	flags.StringVar(&f.brokers, "broker-list", "", "the `brokers` to plan for, by comma")
	flags.BoolVar(&f.rackUnaware, "disable-rack-aware", false, "plan as if nobody knew where brokers stand")
	flags.Int64Var(&f.throttle, "throttle", -1, "copy at most so many `bytes` a second between brokers")
	flags.Int64Var(&f.dirThrottle, "replica-alter-log-dirs-throttle", -1, "copy at most so many `bytes` a second between directories of a broker")
	flags.Int64Var(&f.timeoutMs, "timeout", 10_000, "wait so many `ms` for moves between directories to begin")
	flags.BoolVar(&f.additional, "additional", false, "go on although something else is being reassigned, or change the throttle of it")
	flags.BoolVar(&f.sameFactor, "disallow-replication-factor-change", false, "refuse a plan that changes how many replicas a partition has")
	flags.BoolVar(&f.keep, "preserve-throttles", false, "leave throttles as they are")
	flags.BoolVar(&f.wait, "wait", false, "wait until all is done, and remove throttles then")
	onlyBrokers(flags)
	c.byZooKeeper(flags)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		do, err := f.action(a, c)
		if err != nil {
			return &failure{exitUsage, err}
		}
		for name, allowed := range f.allowed() {
			if flags.Changed(name) && !allowed {
				return &failure{exitUsage, fmt.Errorf("--%s cannot be used with this action", name)}
			}
		}
		return a.on(cmd.Context(), c, do)
	}
	return cmd
}

// allowed tells which flags go with the action at hand.
func (f *reassignFlags) allowed() map[string]bool {
	return map[string]bool{
		"reassignment-json-file": f.execute || f.verify || f.cancel, "topics-to-move-json-file": f.generate, "broker-list": f.generate,
		"disable-rack-aware": f.generate, "throttle": f.execute, "replica-alter-log-dirs-throttle": f.execute, "timeout": f.execute || f.cancel,
		"additional": f.execute, "disallow-replication-factor-change": f.execute, "preserve-throttles": f.verify || f.cancel || f.execute,
		"wait": f.execute || f.verify,
	}
}

func (f *reassignFlags) action(a *app, c *clusterFlags) (func(context.Context, *client) error, error) {
	actions := 0
	for _, set := range []bool{f.verify, f.generate, f.execute, f.cancel, f.list} {
		if set {
			actions++
		}
	}
	switch {
	case actions != 1:
		return nil, errors.New("command must include exactly one action: --generate, --execute, --verify, --cancel, --list")
	case f.list:
		return func(ctx context.Context, cl *client) error { return a.listMoves(ctx, cl, c) }, nil
	case f.generate && (f.topicsFile == "" || f.brokers == ""):
		return nil, errors.New("--generate needs --topics-to-move-json-file and --broker-list")
	case f.generate:
		text, err := readNamed("topics-to-move-json-file", f.topicsFile)
		if err != nil {
			return nil, err
		}
		topics, err := parseTopicsToMove(text)
		if err != nil {
			return nil, fmt.Errorf("--topics-to-move-json-file %s: %w", f.topicsFile, err)
		}
		brokers, err := parseBrokers(f.brokers)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context, cl *client) error {
			return a.generateMoves(ctx, cl, c, topics, brokers, !f.rackUnaware)
		}, nil
	case f.file == "":
		return nil, errors.New("--reassignment-json-file is required")
	case f.throttle >= 0 && f.throttle < 1024 || f.dirThrottle >= 0 && f.dirThrottle < 1024:
		return nil, errors.New("a throttle has to be at least 1024 bytes a second, or nothing would ever be done")
	}
	text, err := readNamed("reassignment-json-file", f.file)
	if err != nil {
		return nil, err
	}
	plan, err := parseReassignment(text)
	if err != nil {
		return nil, fmt.Errorf("--reassignment-json-file %s: %w", f.file, err)
	}
	switch {
	case f.execute:
		return func(ctx context.Context, cl *client) error { return a.executeMoves(ctx, cl, c, f, plan) }, nil
	case f.cancel:
		return func(ctx context.Context, cl *client) error { return a.cancelMoves(ctx, cl, c, f, plan) }, nil
	}
	return func(ctx context.Context, cl *client) error {
		if f.wait {
			if err := a.awaitMoves(ctx, cl, c, plan); err != nil {
				return err
			}
		}
		return a.verifyMoves(ctx, cl, c, f, plan)
	}, nil
}

func parseBrokers(list string) ([]int32, error) {
	var brokers []int32
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(strings.TrimSpace(word), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("--broker-list: %q is no broker id", word)
		}
		if slices.Contains(brokers, int32(n)) {
			return nil, fmt.Errorf("broker list contains duplicate entries: %d", n)
		}
		brokers = append(brokers, int32(n))
	}
	return brokers, nil
}

// listedMove is a reassignment under way, as --output json has it.
type listedMove struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Replicas  []int32 `json:"replicas"`
	Adding    []int32 `json:"adding"`
	Removing  []int32 `json:"removing"`
}

func (a *app) listMoves(ctx context.Context, cl *client, c *clusterFlags) error {
	under, err := cl.moves(ctx)
	if err != nil {
		return err
	}
	listed := []listedMove{}
	for _, tp := range slices.SortedFunc(maps.Keys(under), comparePartitions) {
		m := under[tp]
		listed = append(listed, listedMove{tp.Topic, tp.Partition, m.replicas, m.adding, m.removing})
	}
	return a.result(c, listed, func(w io.Writer) {
		if len(listed) == 0 {
			fmt.Fprintln(w, "No partition reassignments found.")
			return
		}
		fmt.Fprintln(w, "Current partition reassignments:")
		for _, m := range listed {
			fmt.Fprintf(w, "%s-%d: replicas: %s.", m.Topic, m.Partition, ids(m.Replicas))
			if len(m.Adding) > 0 {
				fmt.Fprintf(w, " adding: %s.", ids(m.Adding))
			}
			if len(m.Removing) > 0 {
				fmt.Fprintf(w, " removing: %s.", ids(m.Removing))
			}
			fmt.Fprintln(w)
		}
	})
}

func (a *app) generateMoves(ctx context.Context, cl *client, c *clusterFlags, topics []string, wanted []int32, racks bool) error {
	known, err := cl.brokers(ctx)
	if err != nil {
		return err
	}
	var brokers []brokerAt
	rackless := 0
	for _, id := range wanted {
		i := slices.IndexFunc(known, func(b brokerAt) bool { return b.id == id })
		if i < 0 {
			return fmt.Errorf("--broker-list: broker %d does not exist or is not up", id)
		}
		b := known[i]
		if !racks {
			b.rack = ""
		}
		if b.rack == "" {
			rackless++
		}
		brokers = append(brokers, b)
	}
	if racks && rackless > 0 && rackless < len(brokers) {
		return errors.New("not all brokers have rack information. Add --disable-rack-aware in command line to make replica assignment without rack information")
	}
	current, err := cl.assigned(ctx, topics...)
	if err != nil {
		return err
	}
	proposed, err := spreadOver(current, brokers)
	if err != nil {
		return err
	}
	if c.json() {
		_, err := fmt.Fprintln(a.stdout, proposed.json())
		return err
	}
	fmt.Fprintf(a.stdout, "Current partition replica assignment\n%s\n\nProposed partition reassignment configuration\n%s\n", current.json(), proposed.json())
	a.tellTraffic(ctx, cl, current, proposed)
	return nil
}

// tellTraffic says on standard error what a plan costs: standard output is Kafka's, word for word.
func (a *app) tellTraffic(ctx context.Context, cl *client, from, to assignment) {
	if s, err := cl.sizes(ctx, to); err == nil {
		fmt.Fprintln(a.stderr, s.work(from, to))
	}
}

func (a *app) executeMoves(ctx context.Context, cl *client, c *clusterFlags, f *reassignFlags, plan *reassignment) error {
	under, err := cl.moves(ctx)
	if err != nil {
		return err
	}
	if len(under) > 0 && !f.additional {
		return errors.New("cannot execute because there is an existing partition assignment.  Use --additional to override this and create a new partition assignment in addition to the existing one. The --additional flag can also be used to change the throttle by resubmitting the current reassignment")
	}
	known, err := cl.brokers(ctx)
	if err != nil {
		return err
	}
	for _, tp := range plan.parts.sorted() {
		for _, id := range plan.parts[tp] {
			if !slices.ContainsFunc(known, func(b brokerAt) bool { return b.id == id }) {
				return fmt.Errorf("unknown broker id %d in the plan for %v", id, tp)
			}
		}
	}
	there, err := cl.assigned(ctx, plan.parts.topics()...)
	if err != nil {
		return err
	}
	current := assignment{}
	for _, tp := range plan.parts.sorted() {
		replicas, ok := there[tp]
		if !ok {
			return fmt.Errorf("unable to find partition: %v", tp)
		}
		current[tp] = replicas
	}
	if !c.json() {
		fmt.Fprintf(a.stdout, "Current partition replica assignment\n\n%s\n\nSave this to use as the --reassignment-json-file option during rollback\n", current.json())
	}
	a.tellTraffic(ctx, cl, current, plan.parts)
	// If nothing moves in the end that did not before, no throttle stays behind for it.
	takeBack := func(err error) error {
		if len(under) > 0 || !f.throttled() || f.keep {
			return err
		}
		_, _, _, err2 := cl.unthrottle(ctx, plan.parts)
		return errors.Join(err, err2)
	}
	if err := a.slowDown(ctx, cl, c, f, under, current, plan); err != nil {
		return takeBack(err) // some brokers may have set theirs
	}
	failed, err := cl.alter(ctx, plan.parts, f.sameFactor)
	if err == nil {
		err = refusals("Error reassigning partition(s):", failed)
	}
	if len(failed) == len(plan.parts) {
		return takeBack(err)
	}
	if err != nil {
		return err
	}
	if !c.json() {
		if c.zookeeper != "" {
			fmt.Fprintln(a.stdout, "Successfully started reassignment of partitions.")
		} else {
			fmt.Fprintf(a.stdout, "Successfully started partition reassignment%s for %s\n", plural(len(plan.parts)), partitionNames(plan.parts.sorted()))
		}
	}
	if err := a.moveDirs(ctx, cl, f, plan.dirs); err != nil || !f.wait {
		return err
	}
	if err := a.awaitMoves(ctx, cl, c, plan); err != nil {
		return err
	}
	return a.verifyMoves(ctx, cl, c, f, plan)
}

func (f *reassignFlags) throttled() bool { return f.throttle >= 0 || f.dirThrottle >= 0 }

// slowDown sets the throttles that are asked for.
func (a *app) slowDown(ctx context.Context, cl *client, c *clusterFlags, f *reassignFlags, under map[kafka.TopicPartition]move, current assignment, plan *reassignment) error {
	if !f.throttled() || f.keep {
		return nil
	}
	say := func(format string, args ...any) {
		if !c.json() {
			fmt.Fprintf(a.stdout, format, args...)
		}
	}
	if !f.wait {
		say("Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is removed.\n")
	}
	if f.throttle >= 0 {
		if err := cl.throttle(ctx, under, current, plan.parts, f.throttle); err != nil {
			return err
		}
		say("The inter-broker throttle limit was set to %d B/s\n", f.throttle)
	}
	if f.dirThrottle >= 0 {
		if err := cl.throttleDirs(ctx, plan.dirs, f.dirThrottle); err != nil {
			return err
		}
		say("The replica-alter-dir throttle limit was set to %d B/s\n", f.dirThrottle)
	}
	return nil
}

func (a *app) cancelMoves(ctx context.Context, cl *client, c *clusterFlags, f *reassignFlags, plan *reassignment) error {
	under, err := cl.moves(ctx)
	if err != nil {
		return err
	}
	back := assignment{}
	for tp := range plan.parts {
		if _, moving := under[tp]; moving {
			back[tp] = nil
		}
	}
	if len(back) == 0 {
		fmt.Fprintln(a.stdout, "None of the specified partition reassignments are active.")
	} else {
		failed, err := cl.alter(ctx, back, false)
		if err == nil {
			err = refusals(fmt.Sprintf("Error cancelling partition reassignment%s for:", plural(len(failed))), failed)
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "Successfully cancelled partition reassignment%s for: %s\n", plural(len(back)), partitionNames(back.sorted()))
	}
	active, err := cl.dirMoves(ctx, plan.dirs)
	if err != nil {
		return err
	}
	stay := map[replicaOf]string{}
	for r, m := range active {
		if m.future != "" {
			stay[r] = m.current
		}
	}
	if len(stay) == 0 {
		fmt.Fprintln(a.stdout, "None of the specified partition moves are active.")
	} else if err := a.moveDirs(ctx, cl, f, stay); err != nil {
		return err
	}
	if f.keep {
		return nil
	}
	return a.clearThrottles(ctx, cl, c, plan.parts)
}

func (a *app) clearThrottles(ctx context.Context, cl *client, c *clusterFlags, parts assignment) error {
	brokers, away, topics, err := cl.unthrottle(ctx, parts)
	if err != nil {
		return err
	}
	if len(away) > 0 {
		fmt.Fprintf(a.stderr, "Not up, and still throttled if it was: broker%s %s. Once back: --verify again.\n", plural(len(away)), ids(away))
	}
	if c.zookeeper != "" { // tools of that time said so only of throttles that were there
		return nil
	}
	fmt.Fprintf(a.stdout, "Clearing broker-level throttles on broker%s %s\n", plural(len(brokers)), ids(brokers))
	fmt.Fprintf(a.stdout, "Clearing topic-level throttles on topic%s %s\n", plural(len(topics)), strings.Join(topics, ","))
	return nil
}

// verifiedMove is how far one partition is, as --output json has it.
type verifiedMove struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Current   []int32 `json:"currentReplicas"`
	Target    []int32 `json:"targetReplicas"`
	Done      bool    `json:"done"`
}

func (a *app) verifyMoves(ctx context.Context, cl *client, c *clusterFlags, f *reassignFlags, plan *reassignment) error {
	under, err := cl.moves(ctx)
	if err != nil {
		return err
	}
	there, err := cl.assigned(ctx)
	if err != nil {
		return err
	}
	states := []verifiedMove{}
	for _, tp := range plan.parts.sorted() {
		v := verifiedMove{tp.Topic, tp.Partition, []int32{}, plan.parts[tp], true}
		if m, moving := under[tp]; moving {
			v.Current, v.Done = m.replicas, false
		} else if replicas, ok := there[tp]; ok {
			v.Current = replicas
		}
		states = append(states, v)
	}
	dirs, err := cl.dirMoves(ctx, plan.dirs)
	if err != nil {
		return err
	}
	err = a.result(c, states, func(w io.Writer) {
		if c.zookeeper != "" {
			fmt.Fprintln(w, "Status of partition reassignment: ") // with a blank, as it was
		} else {
			fmt.Fprintln(w, "Status of partition reassignment:")
		}
		for _, v := range states {
			tp := kafka.TopicPartition{Topic: v.Topic, Partition: v.Partition}
			switch {
			case c.zookeeper != "" && !v.Done:
				fmt.Fprintf(w, "Reassignment of partition %v is still in progress\n", tp)
			case c.zookeeper != "" && slices.Equal(v.Current, v.Target):
				fmt.Fprintf(w, "Reassignment of partition %v completed successfully\n", tp)
			case !v.Done:
				fmt.Fprintf(w, "Reassignment of partition %v is still in progress.\n", tp)
			case slices.Equal(v.Current, v.Target):
				fmt.Fprintf(w, "Reassignment of partition %v is completed.\n", tp)
			default:
				fmt.Fprintf(w, "There is no active reassignment of partition %v, but replica set is %s rather than %s.\n", tp, ids(v.Current), ids(v.Target))
			}
		}
		for _, r := range slices.SortedFunc(maps.Keys(plan.dirs), compareReplicas) {
			fmt.Fprintln(w, dirs[r].state(r, plan.dirs[r]))
		}
	})
	if err != nil || len(under) > 0 || f.keep || c.json() && !f.wait {
		return err
	}
	for _, m := range dirs {
		if m.future != "" {
			return nil
		}
	}
	if c.json() {
		_, _, _, err = cl.unthrottle(ctx, plan.parts)
		return err
	}
	return a.clearThrottles(ctx, cl, c, plan.parts)
}

// A tool that waits looks again soon at first, and then less and less often.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = time.Second
)

// awaitMoves waits until nothing of a plan is under way, and shows how much has been copied.
func (a *app) awaitMoves(ctx context.Context, cl *client, c *clusterFlags, plan *reassignment) error {
	watch := a.watchCopies(ctx, cl, c.json(), "copying", plan.parts)
	defer watch.done()
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		under, err := cl.moves(ctx)
		if err != nil {
			return err
		}
		dirs, err := cl.dirMoves(ctx, plan.dirs)
		if err != nil {
			return err
		}
		left := assignment{}
		for tp := range plan.parts {
			if m, moving := under[tp]; moving {
				left[tp] = m.target()
			}
		}
		moving := len(left) > 0
		for _, m := range dirs {
			moving = moving || m.future != ""
		}
		if !moving {
			return nil
		}
		watch.look(ctx, cl, left)
		if err := pause(ctx, wait); err != nil {
			fmt.Fprintln(a.stderr, "The reassignment goes on. To see it to its end, and to remove its throttle: --verify --wait")
			return err
		}
	}
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// copies shows how much of a plan has been copied.
type copies struct {
	*progress
	parts assignment
	total int64
	shown int64
}

// watchCopies begins to watch what is copied for the partitions, whose new replicas are known only while they are added.
func (a *app) watchCopies(ctx context.Context, cl *client, json bool, name string, parts assignment) *copies {
	w := &copies{parts: parts}
	if a.watched && !json { // to ask all brokers for sizes is too much where nobody looks
		if s, err := cl.sizes(ctx, parts); err == nil {
			for tp, replicas := range parts {
				var holders []int32
				for r := range s {
					if r.TopicPartition == tp {
						holders = append(holders, r.Broker)
					}
				}
				w.total += s.of(tp, holders) * int64(len(replicas))
			}
		}
	}
	w.progress = a.progress(json, name, w.total, byteUnit)
	return w
}

// look counts what lies where it shall. left is what is still under way; the rest is done.
func (w *copies) look(ctx context.Context, cl *client, left assignment) {
	if w.progress == nil {
		return
	}
	s, err := cl.sizes(ctx, left)
	if err != nil {
		return // the next look may tell
	}
	missing := int64(0)
	for tp, replicas := range left {
		var holders []int32
		for r := range s {
			if r.TopicPartition == tp {
				holders = append(holders, r.Broker)
			}
		}
		size := s.of(tp, holders)
		for _, id := range replicas {
			missing += size - min(size, s[replicaOf{tp, id}])
		}
	}
	if done := w.total - missing; done > w.shown {
		w.add(done - w.shown)
		w.shown = done
	}
}
