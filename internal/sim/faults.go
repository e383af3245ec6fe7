package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"moldau/internal/vfs"
)

// Plan is what a run has: each seed draws its own few features and faults, because a fault that is always there hides
// what happens without it (swarm testing; Groce and others, 2012).
type Plan struct {
	Nodes         int  // 1, or 3 of one cluster with every partition on each
	MinISR        int  // min.insync.replicas of topics
	Lazy          bool // log.flush.before.ack=false
	Dirs          int  // log.dirs
	Idempotent    bool // one of the producers is
	Recreate      bool // a topic that is deleted and made again
	DeleteRecords bool
	RetainBytes   int64 // retention.bytes of topics, 0 for none
	Snapshots     bool  // the metadata log is cut into small segments, snapshots and deletions of both
	Large         bool  // records of up to 3 kB, so that a batch is on several pages
	Group         bool  // members of a group commit offsets
	Faults        []Fault
}

// Fault is one kind of harm.
type Fault int

// The kinds of harm.
const (
	CleanStop Fault = iota
	Kill
	PowerLoss
	Reset     // a connection breaks
	SlowPeer  // nothing arrives from or at one client for a while
	SlowDisk  // some operations of the disk do not end for a while
	FullDisk  // and has space again later
	DiskError // an operation fails; the node is started again
	Cut       // one node does not hear another for a while, or neither does the other
	Isolation // one node and all others do not hear each other for a while
	Blackout  // every node loses power
	faultKinds
)

// soleFaults is how many kinds there are for one node alone.
const soleFaults = int(Cut)

func (f Fault) String() string {
	return [...]string{"clean stop", "kill", "power loss", "reset", "slow peer", "slow disk", "full disk", "disk error",
		"cut", "isolation", "blackout"}[f]
}

// Draw makes a plan.
func Draw(rng *rand.Rand) Plan {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	p := Plan{
		Nodes: 1, MinISR: 1,
		Lazy: one(6), Dirs: 1, Idempotent: !one(3), Recreate: one(4), DeleteRecords: one(4),
	}
	if one(4) {
		p.Dirs = 2 + rng.IntN(2)
	}
	if one(4) {
		p.RetainBytes = 8192 << rng.IntN(3)
	}
	p.Large, p.Snapshots = one(4), one(4)
	for f := range Fault(soleFaults) {
		if one(3) {
			p.Faults = append(p.Faults, f)
		}
	}
	if !p.deadly() {
		p.Faults = append(p.Faults, Kill+Fault(rng.IntN(2)))
	}
	p.Group = one(2)
	return p
}

// DrawFleet makes a plan for a cluster of three.
func DrawFleet(rng *rand.Rand) Plan {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	p := Plan{
		Nodes: 3, MinISR: 1 + rng.IntN(2), Dirs: 1, Idempotent: !one(3), Recreate: one(4), Large: one(4), Snapshots: one(4), Group: one(2),
	}
	for f := range faultKinds {
		if f != FullDisk && one(3) {
			p.Faults = append(p.Faults, f)
		}
	}
	if !p.deadly() {
		p.Faults = append(p.Faults, Kill+Fault(rng.IntN(2)))
	}
	return p
}

// deadly tells whether nodes die.
func (p Plan) deadly() bool {
	return slices.Contains(p.Faults, Kill) || slices.Contains(p.Faults, PowerLoss)
}

// has tells whether a kind of fault is in the plan.
func (p Plan) has(f Fault) bool { return slices.Contains(p.Faults, f) }

// hostName is the machine of the node with an id, which is its place plus one.
func hostName(place int) string { return fmt.Sprintf("n%d", place+1) }

// brokers are the addresses that clients know.
func (p Plan) brokers() []string {
	var all []string
	for place := range p.Nodes {
		all = append(all, hostName(place)+":9092")
	}
	return all
}

// properties is the configuration of one node.
func (p Plan) properties(place int) string {
	host := hostName(place)
	s := fmt.Sprintf(`process.roles=broker,controller
node.id=%[2]d
listeners=PLAINTEXT://%[1]s:9092,CONTROLLER://%[1]s:9093
controller.listener.names=CONTROLLER
http.listeners=
log.index.interval.bytes=256
log.retention.ms=-1
log.retention.check.interval.ms=500
log.dirs=%[3]s
`, host, place+1, strings.Join(p.dirs(), ","))
	var voters []string
	for other := range p.Nodes {
		voters = append(voters, fmt.Sprintf("%d@%s:9093", other+1, hostName(other)))
	}
	s += "controller.quorum.voters=" + strings.Join(voters, ",") + "\n"
	if p.Nodes > 1 {
		s += "replica.lag.time.max.ms=2000\nbroker.session.timeout.ms=3000\nbroker.heartbeat.interval.ms=500\n"
		s += "initial.broker.registration.timeout.ms=3600000\n" // the others may be down for as long as the seed likes
	}
	if p.Snapshots {
		s += "internal.metadata.log.segment.bytes=2000\nmetadata.log.max.record.bytes.between.snapshots=1000\nmetadata.max.retention.bytes=5000\n"
	}
	if p.Group {
		s += fmt.Sprintf("group.initial.rebalance.delay.ms=200\noffsets.topic.num.partitions=2\noffsets.topic.replication.factor=%d\n", p.Nodes)
	}
	if p.Lazy {
		s += "log.flush.before.ack=false\n"
	}
	return s
}

func (p Plan) dirs() []string { return []string{"/disk0", "/disk1", "/disk2"}[:p.Dirs] }

// strike does one kind of harm to a running node, or to what is between them.
func (c *course) strike(f Fault) {
	rng := c.rng
	h := c.victim()
	switch f {
	case CleanStop:
		life := h.life
		if err := h.Stop(); err != nil && !life.disk.failed() && !h.full {
			c.fail("clean stop: %v", err)
		}
		c.revive(h)
	case Kill, PowerLoss:
		c.die(h, f == PowerLoss)
		c.revive(h)
	case Blackout:
		for _, h := range c.hosts {
			if h.life != nil {
				c.die(h, true)
			}
		}
	case Reset:
		for range 1 + rng.IntN(3) {
			c.network.Reset(rng)
		}
	case SlowPeer:
		peers := []string{"producer0>", "producer1>", "consumer0>", "consumer1>", "admin>"}
		if c.plan.Group {
			peers = append(peers, "member0>", "member1>")
		}
		c.world.Hold(peers[rng.IntN(len(peers))]+h.name, c.while())
	case SlowDisk:
		parts := []string{"/orders-0/", "/orders-1/", "/__cluster_metadata-0/", "/moldau.journal", " sync", " rename", ".index"}
		if c.plan.Group {
			parts = append(parts, "/__consumer_offsets-")
		}
		part := parts[rng.IntN(len(parts))]
		c.world.HoldWhere(h.name+"'s disk: "+part, c.while(), func(name string) bool {
			return strings.HasPrefix(name, "disk "+h.name+" ") && strings.Contains(name, part)
		})
	case FullDisk:
		usage, err := h.mem.Usage("/")
		if err != nil {
			c.fail("%v", err)
			return
		}
		c.world.Note("the disk is full")
		h.mem.SetCapacity(usage.Total - usage.Free + rng.Int64N(64<<10))
		h.full = true
	case DiskError:
		h.life.disk.expect(c.trouble())
	case Cut:
		other := c.hosts[(slices.Index(c.hosts, h)+1+rng.IntN(len(c.hosts)-1))%len(c.hosts)]
		d := c.while()
		c.cut(h, other, d)
		if rng.IntN(2) == 0 {
			c.cut(other, h, d)
		}
	case Isolation:
		d := c.while()
		for _, other := range c.hosts {
			if other != h {
				c.cut(h, other, d)
				c.cut(other, h, d)
			}
		}
	}
}

// victim picks a node that runs; one is started if none does.
func (c *course) victim() *Host {
	var up []*Host
	for _, h := range c.hosts {
		if h.life != nil {
			up = append(up, h)
		}
	}
	if len(up) == 0 {
		h := c.hosts[c.rng.IntN(len(c.hosts))]
		c.start(h)
		return h
	}
	return up[c.rng.IntN(len(up))]
}

// cut keeps everything back that one node sends to another.
func (c *course) cut(from, to *Host, d time.Duration) {
	out, back := fmt.Sprintf("net %s>%s ", from.name, to.name), fmt.Sprintf("net %s>%s ", to.name, from.name)
	c.world.HoldWhere(from.name+" is not heard by "+to.name, d, func(name string) bool {
		return strings.HasPrefix(name, out) && strings.Contains(name, " out ") ||
			strings.HasPrefix(name, back) && strings.Contains(name, " back ") ||
			strings.HasPrefix(name, fmt.Sprintf("dial %s>%s:", from.name, to.name))
	})
}

// trouble picks an operation that will fail. Syncs are picked most: what a node does then decides about acked records.
func (c *course) trouble() *trouble {
	kinds := []vfs.OpKind{
		vfs.OpSyncData, vfs.OpSyncData, vfs.OpSyncData, vfs.OpSyncData, vfs.OpSync, vfs.OpSyncDir, vfs.OpWrite, vfs.OpWrite,
		vfs.OpRename, vfs.OpRemove, vfs.OpCreate, vfs.OpTruncate, vfs.OpRead, vfs.OpRead, vfs.OpOpen, vfs.OpList,
	}
	paths := []string{"/", "/", "/orders-", "/orders-0/", "/__cluster_metadata-0/", "/moldau.journal", ".log"}
	if c.plan.Group {
		paths = append(paths, "/__consumer_offsets-")
	}
	return &trouble{kind: kinds[c.rng.IntN(len(kinds))], path: paths[c.rng.IntN(len(paths))], nth: 1 + c.rng.IntN(30)}
}

// while is how long something is slow: mostly short, sometimes longer than any client waits.
func (c *course) while() time.Duration {
	return time.Duration(float64(time.Millisecond) * math.Exp(c.rng.Float64()*9)) // to 8 s
}

// relieve gives a full disk its space back.
func (c *course) relieve(h *Host) {
	if h.full {
		c.world.Note("the disk has space")
		h.mem.SetCapacity(math.MaxInt64)
		h.full = false
	}
}

// heal ends every fault and has every node run.
func (c *course) heal() {
	c.calm = true
	c.world.LetGo()
	for _, h := range c.hosts { // first of all: what is expected of one disk may come true while another node starts
		if h.life != nil {
			h.life.disk.expect(nil)
		}
	}
	for _, h := range c.hosts {
		c.relieve(h)
		if h.life != nil && h.harmed() {
			c.repair(h)
		}
		if h.life == nil {
			c.start(h)
		}
	}
	for _, h := range c.hosts {
		if c.broken() {
			return
		}
		c.settle(h)
	}
}

// repair is what happens about a broken disk that works again: an operator starts the node anew, or the power fails too.
func (c *course) repair(h *Host) {
	if c.plan.has(PowerLoss) && !c.calm && c.rng.IntN(2) == 0 {
		c.die(h, true)
	} else if err := h.Stop(); err != nil {
		c.world.Note("a harmed node stopped with an error")
	}
	c.start(h)
}
