package sim

import (
	"context"
	"fmt"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// quiet is the time after the last fault: every partition takes records and can be read to its end, before long.
func (c *course) quiet() {
	if !c.clients.dismiss(c.world) {
		c.fail(inTime, "the clients do not end")
	}
	if c.broken() {
		return
	}
	end := time.Now().Add(patience)
	for i, p := range c.topics.all() {
		c.check(fmt.Sprintf("checker%d", i), end, p.String(), func(ctx context.Context, checker *client) { checker.checkAlive(ctx, p) })
	}
	if len(c.hosts) > 1 && !c.broken() {
		c.checkInSync()
		c.checkReplicas()
	}
	c.check("registrar", time.Now().Add(patience), "producer ids", func(ctx context.Context, checker *client) { checker.checkIDs(ctx) })
	if c.plan.ZooKeeper && !c.broken() {
		c.check("warden", time.Now().Add(treePatience), "the ZooKeeper tree", func(ctx context.Context, checker *client) { checker.checkTree(ctx) })
	}
	if c.plan.elects() && !c.broken() {
		c.seeControllers()
		c.check("scrutineer", time.Now().Add(patience), "the voters", func(ctx context.Context, checker *client) {
			(&registrar{checker, c.plan, c.controllers}).checkVotes(ctx)
		})
	}
	if len(c.hosts) > 1 && !c.broken() {
		c.checkVoters()
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
		c.fail(inTime, "%s: asking for it does not end", what)
	}
}

// checkAlive writes one record to a partition and reads all of it.
func (c *client) checkAlive(ctx context.Context, p Partition) {
	probe := &producer{client: c}
	write := func() error {
		value := []string{fmt.Sprintf("%s-%d", c.name, probe.next)} // another each time: the one before may have been written
		probe.next++
		c.history.sent(value)
		return probe.once(ctx, p, value)
	}
	if !c.insist(ctx, "write", write) {
		c.history.fault(inTime, "%v is not writable %v after the last fault", p, patience)
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
		c.history.fault(inTime, "%v can not be read from %d to its end %v after the last fault", p, start, patience)
		return
	}
	c.history.ended(p, start, all)
}

// checkInSync: before long every partition has a leader and all its replicas in sync, as every node knows.
func (c *course) checkInSync() {
	lacking := ""
	full := func() bool {
		for _, h := range c.hosts {
			if lacking = c.lackingIn(h.life.node.Image()); lacking != "" {
				lacking = h.name + " knows " + lacking
				return false
			}
		}
		return true
	}
	if !c.world.Within(patience, full) {
		c.fail(inTime, "not all are in sync %v after the last fault: %s", patience, lacking)
	}
}

// checkStaysInSync: as long as nothing goes wrong nobody falls behind.
func (c *course) checkStaysInSync(d time.Duration) {
	if c.broken() {
		return
	}
	var seen *metadata.Image
	lacking := ""
	c.world.Within(d, func() bool {
		if now := c.newest(); now != seen {
			seen = now
			lacking = c.lackingIn(now)
		}
		return lacking != ""
	})
	if lacking != "" {
		c.fail(inTime, "nothing goes wrong, and the newest image has %s", lacking)
	}
}

// lackingIn names a partition that has no leader, or not all its replicas in sync; "" if there is none. A topic that clients race for
// has one replica, and may have been made on a node while that got empty disks.
func (c *course) lackingIn(image *metadata.Image) string {
	for name, topic := range image.Topics.All() {
		if name == contested && c.plan.wipes() {
			continue
		}
		for number, p := range topic.Partitions.All() {
			if p.Leader == kafka.NoNode || len(p.ISR) < len(p.Replicas) || p.Reassigning() {
				return fmt.Sprintf("%s-%d with leader %d, in sync %v of %v", topic.Name, number, p.Leader, p.ISR, p.Replicas)
			}
		}
	}
	return ""
}
