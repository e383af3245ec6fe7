package sim

import (
	"fmt"
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// limp takes a directory from one node, in the midst of a lull. The node goes on without it, for longer than it takes to tell the
// controller: what lies there is led by others before long, and all else stays in sync. Then an operator starts the node anew.
func (c *course) limp() {
	if c.broken() {
		return
	}
	h := c.victim()
	c.hit(DiskError, h)
	h.life.disk.lose(c.plan.dirs()[1+c.rng.IntN(c.plan.Dirs-1)]) // without the first, that of the metadata log, it would end
	if !c.world.Within(harmSeen, h.harmed) {
		return // nobody has used it
	}
	left := "a node that says nothing"
	goesOn := func() bool {
		if now := c.newest(); now != nil {
			left = c.leftBehind(now, h)
		}
		return left == ""
	}
	if !c.world.Within(patience, goesOn) {
		c.fail(inTime, "%v after a directory of %s has failed the newest image has %s", patience, h.name, left)
		return
	}
	c.repair(h)
	c.settle(h)
	if !c.broken() {
		c.checkInSync()
	}
}

// leftBehind names what the cluster has not made of the failure of a node's directory yet; "" if it has made everything of it.
func (c *course) leftBehind(image *metadata.Image, h *Host) string {
	broker, registered := image.Cluster.Broker(h.id)
	if !registered || len(broker.LogDirs) >= c.plan.Dirs {
		return fmt.Sprintf("%s with all its directories", h.name)
	}
	for name, topic := range image.Topics.All() {
		for number, p := range topic.Partitions.All() {
			want := slices.DeleteFunc(slices.Clone(p.Replicas), func(id kafka.NodeID) bool {
				return id == h.id && !slices.Contains(broker.LogDirs, p.Directory(id))
			})
			if len(want) > 0 && (p.Leader == kafka.NoNode || !slices.Contains(want, p.Leader) || len(p.ISR) < len(want)) {
				return fmt.Sprintf("%s-%d with leader %d, in sync %v of %v", name, number, p.Leader, p.ISR, want)
			}
		}
	}
	return ""
}
