package group

import (
	"time"

	"moldau/internal/coordinator"
)

// tombstoneBatch bounds the records of one turn that nobody waits for.
const tombstoneBatch = 10_000

// scheduleExpiry looks for old offsets now and then.
func (s *shard) scheduleExpiry(t *coordinator.Turn) {
	t.After(&s.expiry, time.Duration(s.c.o.RetentionCheckMs)*time.Millisecond, func(t *coordinator.Turn) {
		s.expire(t)
		s.scheduleExpiry(t)
	})
}

// expire forgets offsets that nobody has used for the retention, and groups that have nothing left. Mirrors
// GroupCoordinatorShard.cleanupGroupMetadata; KIP-211.
func (s *shard) expire(t *coordinator.Turn) {
	var records []coordinator.Record
	var gone []*group
	for _, g := range s.sorted() {
		if len(records) >= tombstoneBatch {
			break // the rest is for the next time
		}
		left := 0
		for tp, c := range g.all() {
			if g.expired(tp.Topic, c, t.NowMs(), s.c.o.RetentionMs) {
				records = append(records, offsetRecord(g.id, tp.Topic, tp.Partition, nil))
			} else {
				left++
			}
		}
		if left == 0 && g.state == empty && len(g.pending) == 0 {
			records = append(records, groupRecord(nil, g.id))
			gone = append(gone, g)
		}
	}
	if err := t.Append(records...); err != nil {
		s.c.o.Logger.Warn("old offsets could not be removed", "partition", t.Partition(), "error", err)
		return
	}
	for _, g := range gone {
		s.drop(t, g)
	}
	if len(records) > 0 {
		s.c.o.Logger.Info("old offsets removed", "partition", t.Partition(), "records", len(records), "groups", len(gone))
	}
}

// expired reports whether an offset has been kept long enough: since it was committed or since the group lost its
// members, whichever was later. While a group has members, only topics that they are not subscribed to expire. Mirrors
// ClassicGroup.offsetExpirationCondition, which counts from the group's state alone, so that an offset that was set by
// hand in an old group is gone at the next look.
func (g *group) expired(topic string, c committed, nowMs, retentionMs int64) bool {
	from := c.at
	switch {
	case g.protocolType == "":
	case g.state == empty:
		from = max(from, g.since)
	case g.state != stable || g.subscribed == nil || g.subscribed[topic]:
		return false
	}
	if c.expires != noExpiry {
		return nowMs >= c.expires
	}
	return nowMs-from >= retentionMs
}

// forget removes the offsets of topics that have been deleted: one that is made anew under the same name begins at 0, and
// nobody may begin in its middle.
func (s *shard) forget(t *coordinator.Turn, deleted func(topic string) bool) {
	var records []coordinator.Record
	for _, g := range s.sorted() {
		for tp := range g.all() {
			if deleted(tp.Topic) {
				records = append(records, offsetRecord(g.id, tp.Topic, tp.Partition, nil))
			}
		}
	}
	if err := t.Append(records...); err != nil {
		s.c.o.Logger.Warn("offsets of deleted topics could not be removed", "partition", t.Partition(), "error", err)
	}
}
