package sim

import (
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
	faultKinds
)

func (f Fault) String() string {
	return [...]string{"clean stop", "kill", "power loss", "reset", "slow peer", "slow disk", "full disk", "disk error"}[f]
}

// Draw makes a plan.
func Draw(rng *rand.Rand) Plan {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	p := Plan{
		Lazy: one(6), Dirs: 1, Idempotent: !one(3), Recreate: one(4), DeleteRecords: one(4),
	}
	if one(4) {
		p.Dirs = 2 + rng.IntN(2)
	}
	if one(4) {
		p.RetainBytes = 8192 << rng.IntN(3)
	}
	p.Large, p.Snapshots = one(4), one(4)
	for f := range faultKinds {
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

// deadly tells whether nodes die.
func (p Plan) deadly() bool {
	return slices.Contains(p.Faults, Kill) || slices.Contains(p.Faults, PowerLoss)
}

// has tells whether a kind of fault is in the plan.
func (p Plan) has(f Fault) bool { return slices.Contains(p.Faults, f) }

// properties is the node's configuration.
func (p Plan) properties() string {
	s := `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://n1:9092,CONTROLLER://n1:9093
controller.listener.names=CONTROLLER
controller.quorum.voters=1@n1:9093
http.listeners=
log.index.interval.bytes=256
log.retention.ms=-1
log.retention.check.interval.ms=500
log.dirs=` + strings.Join(p.dirs(), ",") + "\n"
	if p.Snapshots {
		s += "internal.metadata.log.segment.bytes=2000\nmetadata.log.max.record.bytes.between.snapshots=1000\nmetadata.max.retention.bytes=5000\n"
	}
	if p.Group {
		s += groupProperties
	}
	if p.Lazy {
		s += "log.flush.before.ack=false\n"
	}
	return s
}

func (p Plan) dirs() []string { return []string{"/disk0", "/disk1", "/disk2"}[:p.Dirs] }

// strike does one kind of harm to the running node.
func (c *course) strike(f Fault) {
	rng := c.rng
	switch f {
	case CleanStop:
		if err := c.host.Stop(); err != nil && !c.harmed() && !c.full {
			c.fail("clean stop: %v", err)
		}
		c.start()
	case Kill, PowerLoss:
		c.die(f == PowerLoss)
		c.start()
	case Reset:
		for range 1 + rng.IntN(3) {
			c.network.Reset(rng)
		}
	case SlowPeer:
		peers := []string{"producer0>n1", "producer1>n1", "consumer0>n1", "consumer1>n1", "admin>n1"}
		if c.plan.Group {
			peers = append(peers, "member0>n1", "member1>n1")
		}
		c.world.Hold(peers[rng.IntN(len(peers))], c.while())
	case SlowDisk:
		parts := []string{"/orders-0/", "/orders-1/", "/__cluster_metadata-0/", "/moldau.journal", " sync", " rename", ".index"}
		if c.plan.Group {
			parts = append(parts, "/__consumer_offsets-")
		}
		c.world.Hold(parts[rng.IntN(len(parts))], c.while())
	case FullDisk:
		usage, err := c.host.mem.Usage("/")
		if err != nil {
			c.fail("%v", err)
			return
		}
		c.world.Note("the disk is full")
		c.host.mem.SetCapacity(usage.Total - usage.Free + rng.Int64N(64<<10))
		c.full = true
	case DiskError:
		c.host.life.disk.expect(c.trouble())
	}
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
func (c *course) relieve() {
	if c.full {
		c.world.Note("the disk has space")
		c.host.mem.SetCapacity(math.MaxInt64)
		c.full = false
	}
}

// heal ends every fault.
func (c *course) heal() {
	c.calm = true
	c.relieve()
	c.world.LetGo()
	if c.harmed() {
		c.repair()
	}
	c.host.life.disk.expect(nil)
}

// harmed tells whether an operation of the disk has failed, which takes a directory or the node out until a restart.
func (c *course) harmed() bool { return c.host.life.disk.failed() }

// repair is what happens about a broken disk that works again: an operator starts the node anew, or the power fails too.
func (c *course) repair() {
	if c.plan.has(PowerLoss) && !c.calm && c.rng.IntN(2) == 0 {
		c.die(true)
	} else if err := c.host.Stop(); err != nil {
		c.world.Note("a harmed node stopped with an error")
	}
	c.start()
}
