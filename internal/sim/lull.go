package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"moldau/internal/kafka"
)

const (
	// lullSwings is how many leaders change in a lull.
	lullSwings = 4
	// lullSilence is long enough for one, and shorter than a follower may lag before it leaves the in-sync set.
	lullSilence = 700 * time.Millisecond
	// lullLasts is longer than that, and than it takes a leader to see it.
	lullLasts = 3500 * time.Millisecond
	// lullHaste makes that time cheap: what happens takes twice as long as otherwise.
	lullHaste = 10

	// harmSeen is how long it takes at most until what was wrong has had its effect: a node sees that its disk has space, and its
	// followers try again; a leader takes followers out of the in-sync set that had not been heard because of a dead connection.
	harmSeen = 3 * time.Second

	// swingMost is how long an operator tries to have leaders change.
	swingMost = 2 * time.Second
	// swingPause is about how long another one leads in between.
	swingPause = 150 * time.Millisecond
)

// lull heals everything in the midst of a run, with clients at work. All replicas have to get in sync, and stay so although leaders
// change: what nodes have forgotten they make good as soon as a fault makes them begin anew.
func (c *course) lull() {
	c.world.Note("a lull")
	c.rng = rand.New(rand.NewPCG(c.world.seed, 6))
	c.heal()
	c.world.haste = lullHaste
	c.world.Within(harmSeen, never)
	c.world.haste = unhurried
	if !c.broken() {
		c.checkInSync()
	}
	for range lullSwings {
		c.swing(lullSilence)
		c.checkStaysInSync(2 * lullSilence) // the next silence may be between the same two
	}
	c.world.haste = lullHaste
	c.checkStaysInSync(lullLasts)
	if c.plan.Dirs > 1 {
		c.limp()
	}
	c.world.haste = unhurried
	c.calm = false
	c.world.Note("the lull is over")
}

// swing has the leader of a partition make way for another in-sync replica, and lead again soon: nobody dies and no connection
// breaks. The one that leads in between hears nothing from it for a while. Clients and faults do not wait for the end.
func (c *course) swing(silence time.Duration) {
	away, back, found := c.swingable()
	if !found || c.swung != nil && !closed(c.swung)() {
		return
	}
	leads, follows := c.hosts[back.replicas[0]-1], c.hosts[away.replicas[0]-1]
	c.hit(Swing, leads)
	c.cut(leads, follows, silence)
	operator, over := c.client(fmt.Sprintf("swinger%d", c.world.rounds)), make(chan struct{})
	c.swung = over
	c.clients.start(func(ctx context.Context) {
		defer close(over)
		defer operator.close()
		ctx, cancel := context.WithTimeout(ctx, swingMost)
		defer cancel()
		for _, to := range []placing{away, back} {
			operator.insist(ctx, "assign", func() error { return operator.assign(ctx, to) })
			operator.insist(ctx, "elect", func() error { return operator.elect(ctx) })
			operator.pause(ctx, swingPause) // until those have heard of it whom it concerns
		}
	})
}

// swingable picks a partition of the topic that is kept, with two orders of its replicas: another in-sync one first than the leader,
// and the leader first. One that the controller leads is the last choice: who does not hear from it hears of no change at all.
func (c *course) swingable() (away, back placing, found bool) {
	image := c.newest()
	if image == nil {
		return away, back, false
	}
	topic, known := image.Topics.ByName(kept)
	if !known {
		return away, back, false
	}
	for _, i := range c.rng.Perm(partitions) {
		p, _ := topic.Partitions.Get(int32(i))
		others := slices.DeleteFunc(slices.Clone(p.ISR), func(id kafka.NodeID) bool { return id == p.Leader })
		if p.Leader == kafka.NoNode || len(others) == 0 || p.Reassigning() {
			continue
		}
		first := func(id kafka.NodeID) placing {
			rest := slices.DeleteFunc(slices.Clone(p.Replicas), func(other kafka.NodeID) bool { return other == id })
			return placing{int32(i), append([]int32{id}, rest...)}
		}
		away, back, found = first(others[c.rng.IntN(len(others))]), first(p.Leader), true
		if h := c.hosts[p.Leader-1]; !h.serves() || h.life.node.Quorum().LeaderID != h.id {
			break
		}
	}
	return away, back, found
}
