package sim

import (
	"slices"
	"sync/atomic"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
)

// watermarks is how far the watermark of each partition had come when somebody looked last.
type watermarks map[reign]kafka.Offset

// committed is the highest watermark that any leader of a partition was seen to have, and the newest image that any node had then.
type committed struct {
	to     map[seat]kafka.Offset
	newest atomic.Pointer[metadata.Image] // work reads it too
}

// seat is a partition of one incarnation of a topic.
type seat struct {
	topic  kafka.TopicID
	number int32
}

func seatOf(p *replica.Partition) seat { return seat{p.TopicID(), p.TopicPartition().Partition} }

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
			c.committed.to[seatOf(p)] = max(c.committed.to[seatOf(p)], high)
			c.checkFollowers(h, p, high)
		}
	}
	c.checkComplete()
}

// checkComplete: whoever may be elected, because it is in the in-sync set or eligible without (KIP-966), has all that was ever
// committed, whoever leads now.
func (c *course) checkComplete() {
	newest := c.committed.newest.Load()
	if now := c.newest(); newest == nil || now != nil && now.Offset > newest.Offset {
		newest = now
		c.committed.newest.Store(now)
	}
	if newest == nil {
		return
	}
	for _, h := range c.hosts {
		if c.plan.Lazy || !h.serves() || h.wiped || h.harmed() || c.rots(h) {
			continue
		}
		for _, p := range h.life.node.Partitions() {
			topic, now, known := newest.Topics.Partition(p.TopicPartition())
			if !known || topic.ID != p.TopicID() || !slices.Contains(now.ISR, h.id) && !slices.Contains(now.ELR, h.id) || !closed(p.Opened())() {
				continue
			}
			if end, to := p.LogEnd(), c.committed.to[seatOf(p)]; end < to && end > 0 {
				c.fail(withinBounds, "%s may lead %v and ends at %d: up to %d was committed", h.name, p.TopicPartition(), end, to)
			}
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
		if h == leader || !h.serves() || h.wiped || c.rots(h) || !slices.Contains(now.ISR, h.id) {
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
