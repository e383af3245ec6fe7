package sim

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
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
	Broken  []Broken
	Sum     uint64 // hash of all that happened
	Acked   int    // records
	Commits int    // of a group that were acked
	Checked int    // requests of clients that were answered, the answer verified
	Struck  [faultKinds]int
	Hit     [faultKinds]int // of those, with something under way where they struck
	Rounds  int             // that were begun
	Tail    string          // the events before the first broken promise was noticed
	Trace   []string        // every event, if it was asked for
}

func (o *Outcome) count(f Fault, busy bool) {
	o.Struck[f]++
	if busy {
		o.Hit[f]++
	}
}

// Effective is the number of faults that struck where something was under way.
func (o *Outcome) Effective() int {
	n := 0
	for _, hit := range o.Hit {
		n += hit
	}
	return n
}

// Void tells why a run says nothing, "" if it does.
func (o *Outcome) Void() string {
	switch {
	case o.Acked == 0:
		return "nothing was acked"
	case o.Effective() == 0:
		return "no fault hit anything"
	case o.Plan.Nodes > 1 && o.Struck[Kill]+o.Struck[PowerLoss]+o.Struck[CleanStop]+o.Struck[Blackout]+o.Struck[Majority]+o.Struck[Rolling]+o.Struck[Isolation] == 0:
		return "no leader had to be replaced"
	}
	return ""
}

// course is one run: a node or a cluster, clients, faults, and at the end a quiet time in which everything must work and all that was
// promised must be there.
type course struct {
	plan        Plan
	options     Options
	world       *World
	network     *Network
	hosts       []*Host
	topics      *catalogue
	history     *History
	rng         *rand.Rand // of this round
	clients     *crew
	controllers *controllers
	calm        bool          // nothing is to go wrong now
	swung       chan struct{} // closed when the last swing is over; nil: there was none
	out         Outcome

	images     images
	watermarks watermarks
	committed  committed
	rotten     *rotten // nil: no disk changes bytes
	disks      []*disk // of the nodes that stopped last
}

// Options say what is special about a run.
type Options struct {
	Logger  *slog.Logger        // of the nodes
	Whole   bool                // keep the whole trace
	Wrap    func(vfs.FS) vfs.FS // a planted bug between node and disk; nil: none
	Alter   func(*Plan)         // what the node is told, and the checkers are not; nil: nothing
	Rounds  int                 // at most so many; 0: as many as the plan has
	Skip    []int               // rounds without a fault
	Without []string            // features of the plan that are left out, as they are named in features
}

// features are the parts of a plan that a run can do without.
var features = []struct {
	name string
	drop func(*Plan)
}{
	{"idempotent", func(p *Plan) { p.Idempotent = false }},
	{"recreate", func(p *Plan) { p.Recreate = false }},
	{"race", func(p *Plan) { p.Race = false }},
	{"delete-records", func(p *Plan) { p.DeleteRecords = false }},
	{"compact", func(p *Plan) { p.Compact = false }},
	{"retain", func(p *Plan) { p.RetainBytes = 0 }},
	{"snapshots", func(p *Plan) { p.Snapshots = false }},
	{"large", func(p *Plan) { p.Large = false }},
	{"group", func(p *Plan) { p.Group = false }},
	{"zookeeper", func(p *Plan) { p.ZooKeeper = false }},
	{"move", func(p *Plan) { p.Move = false }},
	{"configure", func(p *Plan) { p.Configure = false }},
	{"idle", func(p *Plan) { p.Idle = false }},
	{"late", func(p *Plan) { p.Late = false }},
	{"cooperative", func(p *Plan) { p.Cooperative = false }},
	{"voting", func(p *Plan) { p.Voting = false }},
	{"auto-join", func(p *Plan) { p.AutoJoin = false }},
	{"topic-ids", func(p *Plan) { p.TopicIDs = false }},
	{"lull", func(p *Plan) { p.Lull = 0 }},
	{"dirs", func(p *Plan) { p.Dirs = 1 }},
	{"observers", func(p *Plan) { p.Nodes = max(p.Voters, p.Replicas) }},
}

// planned is the plan of a seed, as the options change it.
func planned(seed uint64, o Options) Plan {
	plan := PlanOf(seed)
	for _, f := range features {
		if slices.Contains(o.Without, f.name) {
			f.drop(&plan)
		}
	}
	if o.Rounds > 0 {
		plan.Rounds = min(plan.Rounds, o.Rounds)
	}
	return plan
}

// Run lets one seed take its course. It must be called inside a synctest bubble, with the global randomness seeded.
func Run(seed uint64, o Options) Outcome {
	plan := planned(seed, o)
	before := runtime.NumGoroutine()
	w := NewWorld(seed)
	w.whole = o.Whole
	c := &course{
		plan: plan, options: o, world: w, network: NewNetwork(w), topics: newCatalogue(partitions), clients: &crew{}, controllers: newControllers(plan.Nodes), out: Outcome{Plan: plan},
		images:     images{sums: make(map[kafka.Offset][sha256.Size]byte), by: make(map[kafka.Offset]string), last: make(map[*life]kafka.Offset)},
		watermarks: make(watermarks), committed: committed{to: make(map[seat]kafka.Offset)},
	}
	c.history = NewHistory(plan, c.mark)
	if o.Alter != nil {
		o.Alter(&plan)
	}
	for place := range plan.Nodes {
		properties := func() string { return plan.properties(place, c.controllers.allPorts()) }
		h := NewHost(w, c.network, kafka.NodeID(place+1), hostName(place), properties, o.Logger)
		if o.Wrap != nil {
			h.wrap = o.Wrap
		}
		c.hosts = append(c.hosts, h)
	}
	if !c.broken() {
		c.run()
	}
	if !c.broken() {
		c.checkLeaks(before)
		c.history.close()
	}
	c.out.Broken = c.history.Broken()
	c.out.Sum, c.out.Acked, c.out.Commits, c.out.Checked = w.Sum(), c.history.Acked(), c.history.Commits(), c.history.Answers()
	if o.Whole {
		c.out.Trace = w.trace
	}
	return c.out
}

func (c *course) fail(p Promise, format string, args ...any) { c.history.fault(p, format, args...) }

// mark notes a broken promise in the trace.
func (c *course) mark(broken Broken) {
	c.world.Note("BROKEN: %v", broken)
	if c.out.Tail == "" {
		c.out.Tail = c.world.Tail(120)
	}
}

func (c *course) broken() bool { return c.history.IsBroken() }

// round draws from a source of its own, so that to leave one fault out does not change what the others are.
func (c *course) round(n int) { c.rng = rand.New(rand.NewPCG(c.world.seed, uint64(1000+n))) }

func (c *course) run() {
	c.round(-1)
	for _, h := range c.hosts {
		c.start(h)
	}
	for _, h := range c.hosts {
		c.settle(h)
	}
	c.hire()
	for n := range c.plan.Rounds {
		if c.plan.Lull > 0 && n == c.plan.Lull {
			c.lull()
		}
		if c.broken() {
			break
		}
		c.round(n)
		c.out.Rounds = n + 1
		c.steps((50 + c.rng.IntN(500)) * (1 + c.plan.Nodes/2))
		c.tend()
		fault := c.plan.Faults[c.rng.IntN(len(c.plan.Faults))]
		if !c.broken() && !slices.Contains(c.options.Skip, n) {
			c.strike(fault)
		}
	}
	c.round(c.plan.Rounds)
	if !c.broken() {
		c.steps(500)
		c.tend()
		c.heal()
	}
	c.quiet()
	c.end()
}

// steps lets so many things happen, and looks into the nodes now and then.
func (c *course) steps(n int) {
	for i := range n {
		c.world.Step()
		if i%64 == 0 {
			c.checkImages()
			c.checkWatermarks()
			c.seeControllers()
		}
	}
}

// end stops every node that runs.
func (c *course) end() {
	for _, h := range c.hosts {
		switch {
		case h.life == nil:
		case c.broken():
			_ = h.Die(false, c.rng) // whatever it hangs in, it ends
		default:
			c.disks = append(c.disks, h.life.disk)
			if err := h.Stop(); err != nil {
				c.fail(sound, "last stop: %v", err)
			}
			c.checkClosed(h)
		}
	}
}

// tend sees to what has happened since the last fault.
func (c *course) tend() {
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
			c.fail(sound, "%s has failed though its disk has not: %v", h.name, h.life.node.Err())
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
			c.fail(sound, "%v", err)
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
		case errors.Is(err, syscall.ENOSPC): // it may have space again by now
			c.relieve(h)
		case !closed(h.life.settled)() && c.mendOthers(h):
			continue
		case !h.harmed():
			c.fail(inTime, "start: %v", err)
			return
		}
		h.life.disk.expect(nil)
		_ = h.Stop() // of what never started: only to wait for its end
		if err := h.Start(); err != nil {
			c.fail(sound, "%v", err)
		}
	}
}

// mendOthers starts the nodes that are down or have had an error of their disk, and gives full disks their space: one that waits may
// wait for the only voter. It tells whether there were any.
func (c *course) mendOthers(than *Host) bool {
	mended := false
	for _, h := range c.hosts {
		switch {
		case h == than:
			continue
		case h.life == nil:
			c.start(h)
		case h.harmed():
			c.repair(h)
		case h.full:
			c.relieve(h)
		default:
			continue
		}
		mended = true
	}
	return mended
}

func (c *course) die(h *Host, power bool) {
	c.checkDurable(h)
	if power && c.plan.Lazy {
		c.history.survived(durable(h.mem, c.plan.dirs()))
	}
	if err := h.Die(power, c.rng); err != nil {
		c.fail(sound, "%v", err)
	}
}

// hire lets the clients begin. Topics that stay are made first.
func (c *course) hire() {
	there := make(chan struct{})
	c.clients.start(func(ctx context.Context) {
		admin := c.client("admin")
		admin.create(ctx, kept, c.plan.topic())
		if c.plan.Compact {
			configs := c.plan.topic()
			delete(configs, "retention.bytes")
			configs["cleanup.policy"], configs["min.cleanable.dirty.ratio"] = "compact", "0.01"
			admin.create(ctx, byKey, configs)
		}
		close(there)
		if c.plan.DeleteRecords {
			admin.shorten(ctx, kept)
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
		work(func(ctx context.Context) { c.client("changer").recreate(ctx, recreated, c.plan.topic()) })
	}
	for i := range 2 {
		p := &producer{client: c.client(fmt.Sprintf("producer%d", i)), idempotent: c.plan.Idempotent && i == 0, large: c.plan.Large}
		work(p.run)
		work(c.client(fmt.Sprintf("consumer%d", i)).consume)
		if c.plan.Race {
			work(c.client(fmt.Sprintf("racer%d", i)).race)
		}
	}
	if c.plan.Group {
		for i := range 3 {
			m := &member{client: c.client(fmt.Sprintf("member%d", i)), late: c.plan.Late, cooperative: c.plan.Cooperative}
			if i == 0 {
				m.instance = m.name
			}
			work(m.run)
		}
	}
	if c.plan.ZooKeeper {
		for i := range 3 {
			work(newKeeper(c.client(fmt.Sprintf("keeper%d", i))).run)
		}
	}
	if c.plan.Move {
		work(func(ctx context.Context) { c.client("mover").move(ctx, c.plan) })
	}
	if c.plan.elects() {
		work((&registrar{c.client("operator"), c.plan, c.controllers}).run)
	}
	if c.plan.Configure {
		work(func(ctx context.Context) { c.client("tuner").configure(ctx, c.plan) })
	}
	if c.plan.Idle {
		work(func(ctx context.Context) { c.client("archivist").makeIdle(ctx, c.plan.topic()) })
	}
	if c.plan.Late && c.plan.Nodes > 1 {
		work(c.wishLate)
	}
}

func (c *course) client(name string) *client {
	return newClient(c.world, c.network, name, c.plan, c.topics, c.history)
}
