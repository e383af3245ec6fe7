package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

const (
	partitions = 3
	// patience is how long a healthy node may take for anything: to start, to be found writable, to be read to the end.
	patience = 10 * time.Second
)

// Outcome is what one run of a seed came to.
type Outcome struct {
	Plan    Plan
	Broken  []string // promises
	Sum     uint64   // hash of all that happened
	Acked   int      // records
	Commits int      // of a group that were acked
	Struck  [faultKinds]int
	Tail    string   // the events before the first broken promise was noticed
	Trace   []string // every event, if it was asked for
}

// course is one run: a node or a cluster, clients, faults, and at the end a quiet time in which everything must work and all that was
// promised must be there.
type course struct {
	plan    Plan
	world   *World
	network *Network
	hosts   []*Host
	topics  *catalogue
	history *History
	rng     *rand.Rand
	clients *crew
	calm    bool // nothing is to go wrong any more
	out     Outcome
}

// Options say what is special about a run.
type Options struct {
	Logger *slog.Logger        // of the node
	Whole  bool                // keep the whole trace
	Wrap   func(vfs.FS) vfs.FS // a planted bug between node and disk; nil: none
	Alter  func(*Plan)         // what the node is told, and the checkers are not; nil: nothing
	Fleet  bool                // three nodes
}

// Run lets one seed take its course. It must be called inside a synctest bubble, with the global randomness seeded.
func Run(seed uint64, o Options) Outcome {
	rng := rand.New(rand.NewPCG(seed, 2))
	draw := Draw // as planOf
	if o.Fleet {
		draw = DrawFleet
	}
	plan := draw(rng)
	w := NewWorld(seed)
	w.whole = o.Whole
	c := &course{
		plan: plan, world: w, network: NewNetwork(w), topics: newCatalogue(partitions),
		rng: rng, clients: &crew{}, out: Outcome{Plan: plan},
	}
	c.history = NewHistory(plan, c.mark)
	if o.Alter != nil {
		o.Alter(&plan)
	}
	for place := range plan.Nodes {
		h, err := NewHost(w, c.network, hostName(place), plan.properties(place), o.Logger)
		if err != nil {
			c.fail("%v", err)
			return c.out
		}
		if o.Wrap != nil {
			h.wrap = o.Wrap
		}
		c.hosts = append(c.hosts, h)
	}
	c.run()
	if !c.broken() {
		c.history.close()
	}
	c.out.Broken = append(c.out.Broken, c.history.Broken()...)
	c.out.Sum, c.out.Acked, c.out.Commits = w.Sum(), c.history.Acked(), c.history.Commits()
	if o.Whole {
		c.out.Trace = w.trace
	}
	return c.out
}

func (c *course) fail(format string, args ...any) {
	broken := fmt.Sprintf(format, args...)
	c.out.Broken = append(c.out.Broken, broken)
	c.mark(broken)
}

// mark notes a broken promise in the trace.
func (c *course) mark(broken string) {
	c.world.Note("BROKEN: %s", broken)
	if c.out.Tail == "" {
		c.out.Tail = c.world.Tail(80)
	}
}

func (c *course) broken() bool { return len(c.out.Broken) > 0 }

func (c *course) run() {
	for _, h := range c.hosts {
		c.start(h)
	}
	for _, h := range c.hosts {
		c.settle(h)
	}
	c.hire()
	for range 3 + c.rng.IntN(4) {
		if c.broken() {
			break
		}
		for range (500 + c.rng.IntN(2500)) * c.plan.Nodes {
			c.world.Step()
		}
		c.look()
		fault := c.plan.Faults[c.rng.IntN(len(c.plan.Faults))]
		c.out.Struck[fault]++
		c.strike(fault)
	}
	if !c.broken() {
		for range 500 {
			c.world.Step()
		}
		c.look()
		c.heal()
	}
	c.quiet()
	for _, h := range c.hosts {
		switch {
		case h.life == nil:
		case c.broken():
			_ = h.Die(false, c.rng) // whatever it hangs in, it ends
		default:
			if err := h.Stop(); err != nil {
				c.fail("last stop: %v", err)
			}
		}
	}
}

// look sees to what has happened since the last fault.
func (c *course) look() {
	for _, h := range c.hosts {
		if h.full && c.rng.IntN(2) == 0 {
			c.relieve(h)
		}
		switch {
		case c.broken():
			return
		case h.life == nil:
			if c.rng.IntN(2) == 0 {
				c.start(h)
			}
		case h.harmed():
			c.repair(h)
		case closed(h.life.settled)() && h.life.err != nil:
			c.settle(h)
		case h.Failed():
			c.fail("%s has failed though its disk has not: %v", h.name, h.life.node.Err())
		}
	}
}

// revive starts a node that has just ended, sooner or later: others have to do without it for a while.
func (c *course) revive(h *Host) {
	if len(c.hosts) == 1 || c.rng.IntN(3) == 0 {
		c.start(h)
	}
}

// start starts a node, whose disk may have an error and which may die again while it recovers. One that is alone is waited for;
// one of several may need the others.
func (c *course) start(h *Host) {
	for {
		if err := h.Start(); err != nil {
			c.fail("%v", err)
			return
		}
		if c.plan.has(DiskError) && !c.calm && c.rng.IntN(4) == 0 {
			h.life.disk.expect(c.trouble())
		}
		if c.plan.deadly() && !c.calm && c.rng.IntN(4) == 0 {
			for range c.rng.IntN(200) {
				c.world.Step()
			}
			c.die(h, c.plan.has(PowerLoss))
			continue
		}
		break
	}
	if len(c.hosts) == 1 {
		c.settle(h)
	}
}

// settle waits until a node serves, and starts it again if its disk was in the way.
func (c *course) settle(h *Host) {
	for !c.broken() {
		if h.life == nil {
			c.start(h)
			continue
		}
		if h.full && !c.world.Within(2*time.Second, closed(h.life.settled)) {
			c.relieve(h) // until then it may have to wait for space
		}
		err := h.Started(2 * time.Minute)
		switch {
		case err == nil:
			return
		case h.full && errors.Is(err, syscall.ENOSPC):
			c.relieve(h)
		case !h.harmed():
			c.fail("start: %v", err)
			return
		}
		h.life.disk.expect(nil)
		_ = h.Stop() // of what never started: only to wait for its end
		if err := h.Start(); err != nil {
			c.fail("%v", err)
		}
	}
}

func (c *course) die(h *Host, power bool) {
	if power && c.plan.Lazy {
		c.history.survived(durable(h.mem, c.plan.dirs()))
	}
	if err := h.Die(power, c.rng); err != nil {
		c.fail("%v", err)
	}
}

// hire lets the clients begin. Topics that stay are made first.
func (c *course) hire() {
	configs := map[string]string{"internal.segment.bytes": "4096", "file.delete.delay.ms": "100"} // segments roll within a run
	if c.plan.MinISR > 1 {
		configs["min.insync.replicas"] = fmt.Sprint(c.plan.MinISR)
	}
	if c.plan.Large {
		configs["internal.segment.bytes"] = "65536"
	}
	if c.plan.RetainBytes > 0 {
		configs["retention.bytes"] = fmt.Sprint(c.plan.RetainBytes)
	}
	there := make(chan struct{})
	c.clients.start(func(ctx context.Context) {
		admin := c.client("admin")
		admin.create(ctx, "orders", configs)
		close(there)
		if c.plan.DeleteRecords {
			admin.shorten(ctx, "orders")
		}
		admin.close()
	})
	work := func(f func(ctx context.Context)) {
		c.clients.start(func(ctx context.Context) {
			<-there
			f(ctx)
		})
	}
	if c.plan.Recreate {
		work(func(ctx context.Context) { c.client("changer").recreate(ctx, "events", configs) })
	}
	for i := range 2 {
		p := &producer{client: c.client(fmt.Sprintf("producer%d", i)), idempotent: c.plan.Idempotent && i == 0, large: c.plan.Large}
		work(p.run)
		work(c.client(fmt.Sprintf("consumer%d", i)).consume)
	}
	if c.plan.Group {
		for i := range 3 {
			work((&member{client: c.client(fmt.Sprintf("member%d", i))}).run)
		}
	}
}

func (c *course) client(name string) *client {
	return newClient(c.world, c.network, name, c.plan.brokers(), c.topics, c.history)
}

// quiet is the time after the last fault: every partition takes records and can be read to its end, before long.
func (c *course) quiet() {
	if !c.clients.dismiss(c.world) {
		c.fail("the clients do not end")
	}
	if c.broken() {
		return
	}
	end := time.Now().Add(patience)
	for i, p := range c.topics.all() {
		c.check(fmt.Sprintf("checker%d", i), end, p.String(), func(ctx context.Context, checker *client) { checker.checkAlive(ctx, p) })
	}
	if len(c.hosts) > 1 && !c.broken() {
		c.checkReplicas()
	}
	if c.plan.Group {
		c.check("auditor", time.Now().Add(patience), "the group", func(ctx context.Context, checker *client) { checker.checkGroup(ctx) })
	}
}

// check has one client look at something.
func (c *course) check(name string, end time.Time, what string, look func(ctx context.Context, checker *client)) {
	done := make(chan struct{})
	ctx, cancel := context.WithDeadline(context.Background(), end)
	defer cancel()
	go func() {
		defer close(done)
		checker := c.client(name)
		defer checker.close()
		look(ctx, checker)
	}()
	if !c.world.Within(2*patience, closed(done)) {
		c.fail("%s: reading it back does not end", what)
	}
}

// checkAlive writes one record to a partition and reads all of it.
func (c *client) checkAlive(ctx context.Context, p Partition) {
	probe := &producer{client: c}
	value := []string{c.name + "-0"}
	c.history.sent(value)
	if !c.insist(ctx, "write", func() error { return probe.once(ctx, p, value) }) {
		c.history.fault("%v is not writable %v after the last fault", p, patience)
		return
	}
	var start kafka.Offset
	var all []record
	readable := c.insist(ctx, "read", func() (err error) {
		if start, err = c.logStart(ctx, p); err == nil {
			all, err = c.readAll(ctx, p, start) // retention may be faster: then from the start again
		}
		return err
	})
	if !readable {
		c.history.fault("%v can not be read from %d to its end %v after the last fault", p, start, patience)
		return
	}
	c.history.ended(p, start, all)
}

// readAll reads a partition to its high watermark.
func (c *client) readAll(ctx context.Context, p Partition, from kafka.Offset) ([]record, error) {
	var all []record
	for {
		known := c.history.knowledge(p)
		got, high, err := c.fetch(ctx, p, from)
		if err != nil {
			return nil, err
		}
		c.history.read(p, known, got, high)
		all = append(all, got...)
		if n := len(got); n > 0 {
			from = got[n-1].offset + 1
		}
		if from >= high {
			return all, nil
		}
	}
}
