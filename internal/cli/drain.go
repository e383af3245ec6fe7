package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"moldau/internal/kafka"
)

// drainFlags are those of drain.
type drainFlags struct {
	node     int32
	dryRun   bool
	fewer    bool
	throttle int64
	atOnce   int
}

// drainCommand moves everything off a broker. Kafka has no such tool.
func (a *app) drainCommand() *cobra.Command {
	var f drainFlags
	cmd, c := a.tool("drain NODE", "Move all replicas and leaders off a broker",
		"  moldau drain 3 --dry-run\n  moldau drain 3 --throttle 50000000", nil)
	cmd.Long = `Move all replicas and leaders off a broker, for example before it is taken out.

Every replica on the broker gets a place on another one, in another rack than the partition's other replicas where there is
one, and where there is least to do. It waits until all is copied. Interrupted, the copying goes on; the same command again
takes it up where it is. Afterwards the broker can be stopped, and taken out with "moldau cluster unregister".`
	flags := cmd.Flags()
	flags.BoolVar(&f.dryRun, "dry-run", false, "print what would be moved, and move nothing")
	flags.Int64Var(&f.throttle, "throttle", -1, "copy at most so many `bytes` a second from and to each broker; removed at the end")
	flags.IntVar(&f.atOnce, "at-once", 100, "move so many `partitions` at a time")
	flags.BoolVar(&f.fewer, "fewer-replicas", false, "where no other broker is left, take the replica away without a new one")
	cmd.Args = usage(cobra.ExactArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		n, err := strconv.ParseInt(args[0], 10, 32)
		switch {
		case err != nil || n < 0:
			return &failure{exitUsage, fmt.Errorf("%q is no node id", args[0])}
		case f.throttle >= 0 && f.throttle < 1024:
			return &failure{exitUsage, errors.New("--throttle: at least 1024 bytes a second, or nothing would ever be done")}
		case f.atOnce < 1:
			return &failure{exitUsage, errors.New("--at-once: at least 1")}
		}
		f.node = int32(n)
		return a.on(cmd.Context(), c, func(ctx context.Context, cl *client) error { return a.drain(ctx, cl, c, f) })
	}
	return cmd
}

// drainPlan is what is to be done to empty a broker.
type drainPlan struct {
	from, to assignment // partitions that have to be moved
	under    assignment // partitions that are on their way already, and where to
	stuck    []kafka.TopicPartition
}

// planDrain finds a new place for every replica on a broker.
func planDrain(node int32, current assignment, under map[kafka.TopicPartition]move, brokers []brokerAt, fewer bool) drainPlan {
	plan := drainPlan{assignment{}, assignment{}, assignment{}, nil}
	var others []brokerAt
	for _, b := range brokers {
		if b.id != node {
			others = append(others, b)
		}
	}
	on := newPlaced(others)
	for _, b := range brokers {
		on.rackOf[b.id] = b.rack
	}
	target := func(tp kafka.TopicPartition) []int32 {
		if m, moving := under[tp]; moving {
			return m.target()
		}
		return current[tp]
	}
	for _, tp := range current.sorted() {
		on.count(target(tp), 1)
	}
	for _, tp := range current.sorted() {
		replicas := target(tp)
		at := slices.Index(replicas, node)
		if at < 0 {
			if slices.Contains(current[tp], node) {
				plan.under[tp] = replicas
			}
			continue
		}
		on.count(replicas, -1)
		rest := lacking(replicas, []int32{node})
		id, ok := on.choose(rest, at == 0)
		switch {
		case ok:
			replicas = slices.Insert(slices.Clone(rest), at, id)
		case fewer && len(rest) > 0:
			replicas = rest
		default:
			plan.stuck = append(plan.stuck, tp)
			on.count(replicas, 1)
			continue
		}
		on.count(replicas, 1)
		plan.from[tp], plan.to[tp] = current[tp], replicas
	}
	return plan
}

// drainedJSON is the plan as --output json has it.
type drainedJSON struct {
	Node       int32                   `json:"node"`
	Bytes      int64                   `json:"bytes"`
	Replicas   int                     `json:"replicas"`
	UnderWay   int                     `json:"underWay"`
	Partitions []reassignmentPartition `json:"partitions"`
}

func (a *app) drain(ctx context.Context, cl *client, c *clusterFlags, f drainFlags) error {
	moved := assignment{} // all that a throttle may have been set for
	for round := 0; ; round++ {
		plan, s, err := cl.planDrain(ctx, f)
		if err != nil {
			return err
		}
		empty := len(plan.to)+len(plan.under) == 0
		if round == 0 || !empty && !c.json() { // a later round is about topics that were created meanwhile
			if err := a.tellDrain(c, f, plan, s); err != nil || f.dryRun {
				return err
			}
		}
		if empty {
			break
		}
		maps.Copy(moved, plan.to)
		maps.Copy(moved, plan.under)
		if err := a.drainRound(ctx, cl, c, f, plan); err != nil {
			if f.throttle >= 0 && ctx.Err() != nil {
				fmt.Fprintln(a.stderr, "What was begun goes on, throttled. The same command again sees it to its end and removes the throttle.")
			}
			return err
		}
	}
	if f.throttle >= 0 && len(moved) > 0 {
		if _, _, _, err := cl.unthrottle(ctx, moved); err != nil {
			return err
		}
	}
	if !c.json() {
		fmt.Fprintf(a.stdout, "Broker %d has no replicas left.\n", f.node)
		if directory, votes := cl.vote(ctx, f.node); votes {
			fmt.Fprintf(a.stderr, "It has a vote on the metadata, which would be missed. To take that:\n    moldau metadata-quorum remove-controller --controller-id %d --controller-directory-id %s\n", f.node, directory)
		}
		fmt.Fprintf(a.stderr, "To take it out: stop it, then\n    moldau cluster unregister --id %d\n", f.node)
	}
	return nil
}

// vote is the directory id with which a node votes on the metadata, if it does and others do too.
func (cl *client) vote(ctx context.Context, node int32) (directory string, votes bool) {
	s, err := cl.quorum().state(ctx)
	at := slices.IndexFunc(s.Voters, func(v quorumReplica) bool { return v.ID == node })
	if err != nil || at < 0 || len(s.Voters) < 2 {
		return "", false
	}
	return s.Voters[at].Directory, true
}

// planDrain plans from what the cluster looks like now.
func (cl *client) planDrain(ctx context.Context, f drainFlags) (drainPlan, sizes, error) {
	current, err := cl.assigned(ctx)
	if err != nil {
		return drainPlan{}, nil, err
	}
	under, err := cl.moves(ctx)
	if err != nil {
		return drainPlan{}, nil, err
	}
	brokers, err := cl.brokers(ctx)
	if err != nil {
		return drainPlan{}, nil, err
	}
	plan := planDrain(f.node, current, under, brokers, f.fewer)
	if n := len(plan.stuck); n > 0 {
		return plan, nil, fmt.Errorf("%d partition%s cannot leave broker %d, for example %v: every other broker that is up has a replica already. Add a broker, or take replicas away with --fewer-replicas", n, plural(n), f.node, plan.stuck[0])
	}
	if len(plan.to)+len(plan.under) == 0 && !slices.ContainsFunc(brokers, func(b brokerAt) bool { return b.id == f.node }) {
		return plan, nil, fmt.Errorf("broker %d is not up, and no partition has a replica there", f.node)
	}
	s, err := cl.sizes(ctx, current)
	return plan, s, err
}

// drainRound does what a plan says.
func (a *app) drainRound(ctx context.Context, cl *client, c *clusterFlags, f drainFlags, plan drainPlan) error {
	if f.throttle >= 0 {
		under, err := cl.moves(ctx)
		if err != nil {
			return err
		}
		if err := cl.throttle(ctx, under, plan.from, plan.to, f.throttle); err != nil {
			return err
		}
	}
	all := maps.Clone(plan.to)
	maps.Copy(all, plan.under)
	if err := a.move(ctx, cl, c, f, plan, all); err != nil {
		return err
	}
	return cl.seen(ctx, f.node, all)
}

// seenPatience bounds how long a broker may lag behind the controller before what it says is taken for the truth.
const seenPatience = 10 * time.Second

// seen waits until every broker knows that the partitions have left a node: they hear of it a moment after the controller,
// and a plan from what one of them said before would move the partitions once more.
func (cl *client) seen(ctx context.Context, node int32, parts assignment) error {
	brokers, err := cl.brokers(ctx)
	if err != nil {
		return err
	}
	end := time.Now().Add(seenPatience)
	for _, b := range brokers {
		for wait := firstPoll; time.Now().Before(end); wait = min(2*wait, lastPoll) {
			m, err := cl.metadataOf(ctx, b.id)
			if err != nil {
				break // it is gone, and asked no more
			}
			current, err := assignedIn(m)
			if err == nil && !current.anyOn(node, parts) {
				break
			}
			if err := pause(ctx, wait); err != nil {
				return err
			}
		}
	}
	return nil
}

// anyOn reports whether one of the partitions has a replica on a broker.
func (as assignment) anyOn(broker int32, parts assignment) bool {
	for tp := range parts {
		if slices.Contains(as[tp], broker) {
			return true
		}
	}
	return false
}

func (a *app) tellDrain(c *clusterFlags, f drainFlags, plan drainPlan, s sizes) error {
	work := s.work(plan.from, plan.to)
	doc := drainedJSON{f.node, work.bytes, work.replicas, len(plan.under), []reassignmentPartition{}}
	for _, tp := range plan.to.sorted() {
		doc.Partitions = append(doc.Partitions, reassignmentPartition{Topic: tp.Topic, Partition: tp.Partition, Replicas: plan.to[tp]})
	}
	return a.result(c, doc, func(w io.Writer) {
		if f.dryRun {
			for _, tp := range plan.to.sorted() {
				fmt.Fprintf(w, "%v: %s -> %s (%s)\n", tp, ids(plan.from[tp]), ids(plan.to[tp]), byteText(s.of(tp, plan.from[tp])))
			}
		}
		if n := len(plan.under); n > 0 {
			fmt.Fprintf(w, "%d partition%s on the way off broker %d already.\n", n, plural(n), f.node)
		}
		fmt.Fprintf(w, "%d partition%s to move off broker %d. %v\n", len(plan.to), plural(len(plan.to)), f.node, work)
	})
}

// move begins --at-once reassignments at a time and waits for the end of all.
func (a *app) move(ctx context.Context, cl *client, c *clusterFlags, f drainFlags, plan drainPlan, all assignment) error {
	watch := a.watchCopies(ctx, cl, c.json(), fmt.Sprintf("draining broker %d", f.node), all)
	defer watch.done()
	waiting := plan.to.sorted()
	wait := firstPoll
	for {
		under, err := cl.moves(ctx)
		if err != nil {
			return err
		}
		left := assignment{}
		for tp := range all {
			if m, moving := under[tp]; moving {
				left[tp] = m.target()
			}
		}
		if n := min(f.atOnce-len(left), len(waiting)); n > 0 {
			next := assignment{}
			for _, tp := range waiting[:n] {
				next[tp] = plan.to[tp]
			}
			waiting = waiting[n:]
			failed, err := cl.alter(ctx, next, false)
			if err == nil {
				err = refusals("Partitions that could not be moved:", failed)
			}
			if err != nil {
				return err
			}
			wait = firstPoll
			continue
		}
		if len(left)+len(waiting) == 0 {
			return nil
		}
		for _, tp := range waiting {
			left[tp] = plan.to[tp]
		}
		watch.look(ctx, cl, left)
		if err := pause(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, lastPoll)
	}
}
