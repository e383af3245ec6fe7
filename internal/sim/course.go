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
	address    = "n1:9092"
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

// course is one run: a node, clients, faults, and at the end a quiet time in which everything must work and all that was
// promised must be there.
type course struct {
	plan    Plan
	world   *World
	network *Network
	host    *Host
	topics  *catalogue
	history *History
	rng     *rand.Rand
	clients *crew
	full    bool // the disk is
	calm    bool // nothing is to go wrong any more
	out     Outcome
}

// Options say what is special about a run.
type Options struct {
	Logger *slog.Logger        // of the node
	Whole  bool                // keep the whole trace
	Wrap   func(vfs.FS) vfs.FS // a planted bug between node and disk; nil: none
	Alter  func(*Plan)         // what the node is told, and the checkers are not; nil: nothing
}

// Run lets one seed take its course. It must be called inside a synctest bubble, with the global randomness seeded.
func Run(seed uint64, o Options) Outcome {
	rng := rand.New(rand.NewPCG(seed, 2))
	plan := Draw(rng) // as planOf
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
	var err error
	if c.host, err = NewHost(w, c.network, "n1", plan.properties(), o.Logger); err != nil {
		c.fail("%v", err)
		return c.out
	}
	if o.Wrap != nil {
		c.host.wrap = o.Wrap
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
	c.start()
	c.hire()
	for range 3 + c.rng.IntN(4) {
		if c.broken() {
			break
		}
		for range 500 + c.rng.IntN(2500) {
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
	switch {
	case c.broken():
		_ = c.host.Die(false, c.rng) // whatever it hangs in, it ends
	default:
		if err := c.host.Stop(); err != nil {
			c.fail("last stop: %v", err)
		}
	}
}

// look sees to what has happened since the last fault.
func (c *course) look() {
	if c.full && c.rng.IntN(2) == 0 {
		c.relieve()
	}
	switch {
	case c.harmed():
		c.repair()
	case c.host.Failed():
		c.fail("the node has failed though its disk has not: %v", c.host.life.node.Err())
	}
}

// start starts the node, whose disk may have an error and which may die again while it recovers.
func (c *course) start() {
	for {
		if err := c.host.Start(); err != nil {
			c.fail("%v", err)
			return
		}
		if c.plan.has(DiskError) && !c.calm && c.rng.IntN(4) == 0 {
			c.host.life.disk.expect(c.trouble())
		}
		if c.plan.deadly() && !c.calm && c.rng.IntN(4) == 0 {
			for range c.rng.IntN(200) {
				c.world.Step()
			}
			c.die(c.plan.has(PowerLoss))
			continue
		}
		if c.full && !c.world.Within(2*time.Second, closed(c.host.life.settled)) {
			c.relieve() // until then it may have to wait for space
		}
		err := c.host.Started(2 * time.Minute)
		switch {
		case err == nil:
			return
		case c.full && errors.Is(err, syscall.ENOSPC):
			c.relieve()
		case !c.harmed():
			c.fail("start: %v", err)
			return
		}
		c.host.life.disk.expect(nil)
		_ = c.host.Stop() // of what never started: only to wait for its end
	}
}

func (c *course) die(power bool) {
	if power && c.plan.Lazy {
		c.history.survived(durable(c.host.mem, c.plan.dirs()))
	}
	if err := c.host.Die(power, c.rng); err != nil {
		c.fail("%v", err)
	}
}

// hire lets the clients begin. Topics that stay are made first.
func (c *course) hire() {
	configs := map[string]string{"internal.segment.bytes": "4096", "file.delete.delay.ms": "100"} // segments roll within a run
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
	return newClient(c.world, c.network, name, address, c.topics, c.history)
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
