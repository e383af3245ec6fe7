package sim

import (
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// watermarks is how far the watermark of each partition had come when somebody looked last.
type watermarks map[reign]kafka.Offset

// reign is one process that leads one partition in one epoch.
type reign struct {
	life *life
	p    *replica.Partition
	term kafka.Epoch
}

// checkWatermarks: where a node leads, the log start is not past the watermark and that not past the end, it never falls, and
// every in-sync replica that can be asked has all that is below it.
func (c *course) checkWatermarks() {
	for _, h := range c.hosts {
		if !h.serves() {
			continue
		}
		for _, p := range h.life.node.Partitions() {
			leader, epoch := p.Leader()
			start, high, end := p.LogStart(), p.HighWatermark(), p.LogEnd()
			if leader != h.id || end == 0 || !closed(p.Opened())() {
				continue
			}
			if start > high || high > end {
				c.fail(withinBounds, "%s has log start %d, watermark %d and end %d of %v", h.name, start, high, end, p.TopicPartition())
			}
			at := reign{h.life, p, epoch}
			if before := c.watermarks[at]; high < before {
				c.fail(withinBounds, "%s had the watermark %d of %v and has %d in the same epoch %d", h.name, before, p.TopicPartition(), high, epoch)
			}
			c.watermarks[at] = high
			c.checkFollowers(h, p, high)
		}
	}
}

// checkFollowers looks at the other members of the in-sync set that run and know of the epoch.
func (c *course) checkFollowers(leader *Host, p *replica.Partition, high kafka.Offset) {
	_, now, known := leader.life.node.Image().Topics.Partition(p.TopicPartition())
	if !known || c.plan.Lazy {
		return
	}
	for _, h := range c.hosts {
		if h == leader || !h.serves() || h.wiped || !slices.Contains(now.ISR, h.id) {
			continue
		}
		for _, other := range h.life.node.Partitions() {
			_, epoch := p.Leader()
			_, its := other.Leader()
			if other.TopicID() != p.TopicID() || other.TopicPartition() != p.TopicPartition() || its != epoch || !closed(other.Opened())() {
				continue
			}
			if end := other.LogEnd(); end < high && end > 0 {
				c.fail(withinBounds, "%s has the watermark %d of %v, and %s, which is in sync, ends at %d", leader.name, high, p.TopicPartition(), h.name, end)
			}
		}
	}
}
