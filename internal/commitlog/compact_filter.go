package commitlog

import (
	"errors"
	"math"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// groupSegments cuts neighbours into groups that become one segment each: as many as fit a segment's limits. Mirrors
// Cleaner.groupSegmentsBySize.
func groupSegments(views []view, cfg *Config) (groups [][]view) {
	for len(views) > 0 {
		first := &views[0]
		size, offsets, times := first.size, first.offset.count(), first.time.count()
		n := 1
		for ; n < len(views); n++ {
			v := &views[n]
			size, offsets, times = size+v.size, offsets+v.offset.count(), times+v.time.count()
			if size > int64(cfg.SegmentBytes) || offsets > cfg.maxEntries(offsetWidth) || times > cfg.maxEntries(timeWidth) ||
				v.next-1-first.base > math.MaxInt32 {
				break
			}
		}
		groups = append(groups, views[:n])
		views = views[n:]
	}
	return groups
}

// compactGroup writes the segments of a group anew as one and swaps it in. A single segment of which everything stays is
// left alone.
func (c *compaction) compactGroup(group []view) error {
	out := &rewrite{c: c, base: group[0].base, next: group[len(group)-1].next}
	lastFull := -1
	for i := range group {
		if group[i].size > 0 {
			lastFull = i
		}
		out.left += group[i].size
	}
	err := c.fill(out, group, lastFull)
	if err == nil && out.a == nil {
		c.txns.kept = nil
		return nil
	}
	if err == nil {
		err = out.finish()
	}
	if err != nil {
		return errors.Join(err, out.discard())
	}
	c.done.SegmentsRead += len(group)
	c.done.SegmentsNew++
	return c.swap(group, out.a)
}

// fill filters all batches of the group into out.
func (c *compaction) fill(out *rewrite, group []view, lastFull int) error {
	if len(group) > 1 {
		if err := out.begin(); err != nil {
			return err
		}
	}
	for i := range group {
		v := &group[i]
		err := c.each(v, 0, func(b batch.Batch, end int64) (bool, error) {
			start := end - int64(len(b))
			left, err := c.filter(b, i == lastFull && end == v.size)
			if err != nil {
				return false, err
			}
			same := len(left) == len(b) && &left[0] == &b[0]
			if out.left -= int64(len(b)); len(left) > len(b) && out.size()+int64(len(left))+out.left > math.MaxInt32 {
				left = b // a delete horizon may make a batch longer; this file has no room for it
			}
			if out.a == nil {
				if same {
					return true, nil
				}
				if err := out.beginWith(v, start); err != nil {
					return false, err
				}
			}
			return true, out.add(left)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// filter returns what stays of a batch: itself, a shorter one, or nil. Mirrors Cleaner.cleanInto.
func (c *compaction) filter(b batch.Batch, lastOfGroup bool) (batch.Batch, error) {
	count := int64(b.Count())
	c.done.RecordsRead += count
	done, err := c.txns.pass(b)
	if err != nil {
		return c.keepUnreadable(b, err)
	}
	horizon := int64(math.MaxInt64)
	if b.DeleteHorizonSet() {
		horizon = b.BaseTimestamp()
	}
	expired := horizon <= c.nowMs
	keep := func(offset kafka.Offset, key []byte, tombstone bool) bool {
		if offset > c.latest {
			return true
		}
		// A record without a key is from before the topic was compacted.
		return key != nil && !(tombstone && expired) && !c.keys.superseded(key, offset)
	}
	switch {
	case b.Control():
		gone := done && expired && !c.lastOfProducer(b) // which without its record would say nothing
		keep = func(kafka.Offset, []byte, bool) bool { return !gone }
	case done:
		keep = func(kafka.Offset, []byte, bool) bool { return false }
	}
	o := batch.FilterOptions{Keep: keep, HorizonMs: batch.NoTimestamp}
	if b.LastOffset() <= c.latest || b.Control() && done {
		// Not a tombstone that the map does not know yet: its time runs from when nothing that it deletes is left.
		o.HorizonMs, o.Marker = addMs(c.nowMs, c.cfg.DeleteRetentionMs), b.Control() && done
	}
	left, kept, err := b.Filter(o)
	if err != nil {
		return c.keepUnreadable(b, err)
	}
	c.done.RecordsKept += int64(kept)
	if left == nil && (lastOfGroup || c.lastOfProducer(b)) {
		left = b.Empty()
	}
	return left, nil
}

func (c *compaction) keepUnreadable(b batch.Batch, err error) (batch.Batch, error) {
	if !unreadable(err) {
		return nil, err
	}
	c.l.logger.Warn("records cannot be read and stay as they are in compaction", "offset", b.BaseOffset(), "err", err)
	c.done.RecordsKept += int64(b.Count())
	return b, nil
}

// lastOfProducer tells whether a batch is all that the log has of a producer's state: its last batch, or after a change
// of epoch the marker that brought it.
func (c *compaction) lastOfProducer(b batch.Batch) bool {
	p, known := c.last[b.ProducerID()]
	if !known || b.ProducerID() < 0 {
		return false
	}
	if p.offset >= 0 {
		return b.LastOffset() == p.offset
	}
	return b.Control() && b.ProducerEpoch() == p.epoch
}

func addMs(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
