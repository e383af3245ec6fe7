package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Fault is one kind of harm.
type Fault int

// The kinds of harm.
const (
	CleanStop Fault = iota
	Kill
	PowerLoss
	Reset     // a connection breaks
	HalfOpen  // one end of a connection is gone, and the other is not told
	SlowPeer  // nothing arrives from or at one client for a while
	SlowDisk  // some operations of the disk do not end for a while
	FullDisk  // and has space again later
	DiskError // an operation fails; the node is started again
	SideFile  // of a node that is down, a file that can be made anew is gone, cut or garbled
	ClockStep // a wall clock jumps, by up to a day
	Cut       // one node does not hear another for a while, or neither does the other
	Flap      // a link between two nodes is cut and whole again, several times
	Isolation // one node and all others do not hear each other for a while
	Majority  // most voters lose power
	Blackout  // every node loses power
	Rolling   // every node is stopped and started, one after the other
	Wipe      // a node that only observes the quorum comes back with empty disks
	Rot       // a byte of an old segment of one node changes
	LostVote  // a voter comes back without its term and vote, without its metadata log, or with empty disks
	OtherPort // a controller comes back and listens elsewhere
	Swing     // another replica leads a partition for a moment
	faultKinds
)

// firstLater is the first kind that Plan.add draws.
const firstLater = LostVote

func (f Fault) String() string {
	return [...]string{"clean stop", "kill", "power loss", "reset", "half-open connection", "slow peer", "slow disk", "full disk", "disk error",
		"side file", "clock step", "cut", "flap", "isolation", "majority", "blackout", "rolling restart", "wiped disk", "bit rot", "lost vote",
		"other port", "swing"}[f]
}

// fits tells whether a kind of harm means something in a plan, and leaves what was promised possible.
func (f Fault) fits(p Plan) bool {
	switch f {
	case Cut, Flap, Isolation, Rolling, Blackout:
		return p.Nodes > 1
	case Majority:
		return p.Voters > 1
	case FullDisk: // of clusters Plan.addLast draws it
		return p.Nodes == 1
	case Wipe: // what is acked is on two disks at least
		return p.Voters < p.Nodes && p.wipes()
	case Rot: // where the damage is has to be known to whoever repairs it
		return p.Replicas == 3 && !p.Compact && !p.Move
	case LostVote: // the others are a majority
		return p.Voters > 2
	case OtherPort: // who looks for controllers is told where they are by the voter set
		return p.Voting && p.Voters > 1
	case Swing:
		return p.Replicas > 1
	}
	return true
}

// strike does one kind of harm to a running node, or to what is between them.
func (c *course) strike(f Fault) {
	rng := c.rng
	h := c.victim()
	if !f.several() {
		c.hit(f, h)
	}
	switch f {
	case CleanStop:
		c.stop(h)
		c.revive(h)
	case Kill, PowerLoss:
		c.die(h, f == PowerLoss)
		c.revive(h)
	case Majority:
		for _, place := range rng.Perm(c.plan.Voters)[:c.plan.Voters/2+1] {
			if h := c.hosts[place]; h.life != nil {
				c.hit(f, h)
				c.die(h, true)
			}
		}
	case Blackout:
		for _, h := range c.hosts {
			if h.life != nil {
				c.hit(f, h)
				c.die(h, true)
			}
		}
	case Rolling:
		for _, h := range c.hosts {
			if h.life != nil && !c.broken() {
				c.hit(f, h)
				c.stop(h)
				c.start(h)
				c.world.Within(2*time.Second, closed(h.life.settled))
			}
		}
	case Wipe:
		c.wipe()
	case LostVote:
		c.loseVote()
	case OtherPort:
		c.relisten()
	case Swing:
		c.swing(min(c.while(), swingMost))
	case Reset:
		for range 1 + rng.IntN(3) {
			c.network.Reset(rng)
		}
	case HalfOpen:
		c.network.Halve(rng)
	case ClockStep:
		h.step(time.Duration(rng.Int64N(int64(2*day))) - day)
	case Cut, Flap:
		c.cutOff(h, f == Flap)
	case Isolation:
		d := c.while()
		for _, other := range c.hosts {
			if other != h {
				c.cut(h, other, d)
				c.cut(other, h, d)
			}
		}
	default:
		c.harm(h, f)
	}
}

// several tells whether a kind of harm looks for those that it strikes, each of which counts.
func (f Fault) several() bool {
	return f == Majority || f == Blackout || f == Rolling || f == LostVote || f == OtherPort || f == Swing
}

// hit counts a fault, with whether something was under way where it strikes.
func (c *course) hit(f Fault, h *Host) { c.out.count(f, c.world.Busy(h.name)) }

const day = 24 * time.Hour

// stop ends a node as an operator does.
func (c *course) stop(h *Host) {
	life := h.life
	if err := h.Stop(); err != nil && !life.disk.failed() && !h.full {
		c.fail(sound, "clean stop: %v", err)
	}
	c.checkClosed(h)
}

// wipe gives a node that has no vote empty disks. Everything that it has is also elsewhere.
func (c *course) wipe() {
	h := c.hosts[c.plan.Voters+c.rng.IntN(c.plan.Nodes-c.plan.Voters)]
	if c.plan.Voting && !c.dispensable(h) || !c.spare(h, func(string) bool { return true }) {
		return
	}
	if h.life != nil {
		c.die(h, false)
	}
	c.controllers.see(voter{id: h.id}) // an operator takes no votes from others before it is back
	known := c.newest()
	h.wipe()
	c.revive(h)
	c.untilGone(h, known)
}

// untilGone waits until the controller has seen that a node is not the one that an image knows: that it is silent, or has registered
// again. Until then the controller counts on what was on its disks, and takes those out of the in-sync set that die before it.
func (c *course) untilGone(h *Host, known *metadata.Image) {
	if known == nil {
		return
	}
	before, registered := known.Cluster.Broker(h.id)
	if !registered {
		return
	}
	c.world.Within(patience, func() bool {
		newest := c.newest()
		if newest == nil {
			return false
		}
		now, _ := newest.Cluster.Broker(h.id)
		return now == nil || now.Fenced || now.Epoch != before.Epoch
	})
}

// spare tells whether every partition of some topics has an in-sync replica that serves without a node, as the controller knows it.
// What it knows of one that does not serve is of before: it may have empty disks, and one that was killed leaves the in-sync set
// when it registers, though it has everything, in favour of those that are still in it. One whose disk changes bytes may have what
// nobody can copy.
func (c *course) spare(without *Host, of func(topic string) bool) bool {
	newest := c.newest()
	if newest == nil {
		return false
	}
	holds := func(id kafka.NodeID) bool {
		return id != without.id && c.hosts[id-1].serves() && !c.rots(c.hosts[id-1])
	}
	for name, topic := range newest.Topics.All() {
		if !of(name) {
			continue
		}
		for _, p := range topic.Partitions.All() {
			if slices.Contains(p.Replicas, without.id) && !slices.ContainsFunc(p.ISR, holds) {
				return false
			}
		}
	}
	return true
}

// cutOff keeps one or both directions between a node and another from working, once or again and again.
func (c *course) cutOff(h *Host, flap bool) {
	other := c.hosts[(slices.Index(c.hosts, h)+1+c.rng.IntN(len(c.hosts)-1))%len(c.hosts)]
	times, both := 1, c.rng.IntN(2) == 0
	if flap {
		times = 3 + c.rng.IntN(4)
	}
	for i := range times {
		d := c.while()
		if flap {
			d = min(d, 300*time.Millisecond)
		}
		c.cut(h, other, d)
		if both {
			c.cut(other, h, d)
		}
		if i+1 < times {
			c.world.Within(d+time.Duration(c.rng.Int64N(int64(200*time.Millisecond))), never)
		}
	}
}

func never() bool { return false }

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

// while is how long something is slow: mostly short, sometimes longer than any client waits.
func (c *course) while() time.Duration {
	return time.Duration(float64(time.Millisecond) * math.Exp(c.rng.Float64()*9)) // to 8 s
}
