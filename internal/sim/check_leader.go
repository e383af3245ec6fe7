package sim

import "moldau/internal/kafka"

// term is the time for which one node leads a partition.
type term struct {
	partition Partition
	epoch     kafka.Epoch
}

// checkLeadersLocked: what was acked at some offset was acked by the one node that led in the epoch which the log has there.
func (h *History) checkLeadersLocked(p Partition, t *told) {
	leaders := make(map[term]string)
	for _, r := range t.final {
		by := t.ackedBy[r.offset]
		if by == "" || t.acks[r.offset] != r.value {
			continue
		}
		at := term{p, r.epoch}
		if other, known := leaders[at]; known && other != by {
			h.faultLocked(oneLeader, "%v was led by %s and by %s in epoch %d (offset %d)", p, other, by, r.epoch, r.offset)
		}
		leaders[at] = by
	}
	last := kafka.Epoch(-1)
	for _, r := range t.final {
		if r.epoch < last {
			h.faultLocked(oneLeader, "%v offset %d is of epoch %d, behind one of epoch %d", p, r.offset, r.epoch, last)
		}
		last = r.epoch
	}
}
