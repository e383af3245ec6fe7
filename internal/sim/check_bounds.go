package sim

import "moldau/internal/kafka"

// knowledge is what was known of a partition when a request was sent.
type knowledge struct {
	highWatermark kafka.Offset
	cut           kafka.Offset
	cutIn         kafka.Epoch // of the leader that has confirmed it
	deleted       bool
	losses        int
}

func (h *History) knowledge(p Partition) knowledge {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.ofLocked(p)
	return knowledge{highWatermark: t.highWatermark, cut: t.cut, cutIn: t.cutIn, deleted: h.gone[p.id] == deleted, losses: h.losses}
}

// cutting records that a client has asked to delete the records below an offset.
func (h *History) cutting(p Partition, to kafka.Offset) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for other, t := range h.logs { // the request names no id: if its topic is made anew meanwhile it may strike that
		if other.topic == p.topic && other.number == p.number {
			t.cutting = max(t.cutting, to)
		}
	}
}

// cut records that the leader of an epoch has confirmed the deletion of the records below an offset.
func (h *History) cut(p Partition, to, lowWatermark kafka.Offset, epoch kafka.Epoch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.ofLocked(p)
	if lowWatermark < to {
		h.faultLocked(withinBounds, "%v was to be cut at %d and says that it starts at %d", p, to, lowWatermark)
	}
	if to >= t.cut {
		t.cut, t.cutIn = to, epoch
	}
	h.answers++
}

// checkBoundsLocked: what is deleted stays away. A topic's deletion is answered when the controller's own node knows of it: of
// several nodes another may serve it until it hears. So may a node that led once, was down while records were deleted, and is read
// from by who takes it for the leader: any replica answers a consumer (KIP-392). epoch is the one whose leader the reader has asked.
func (h *History) checkBoundsLocked(p Partition, known knowledge, epoch kafka.Epoch, got []record) {
	if known.deleted && !h.fleet {
		h.faultLocked(withinBounds, "%v is served after its deletion", p)
	}
	if len(got) > 0 && got[0].offset < known.cut && epoch >= known.cutIn {
		h.faultLocked(withinBounds, "%v offset %d was read after it was cut at %d", p, got[0].offset, known.cut)
	}
}

// unacked is more records than a leader has behind those that stay: what its producers had on the way when it was deposed, and what they
// had given up before. Retention counts them.
const unacked = 20

// allowedStart is the offset at which a log may start at the latest: what clients had deleted, and what retention may.
func (h *History) allowedStart(t *told) kafka.Offset {
	if n := len(t.final); h.retainBytes > 0 && n > 0 {
		return max(t.cutting, min(t.final[n-1].offset, t.final[n-1].offset+unacked-h.retainBytes/h.recordBytes))
	}
	return t.cutting
}

// checkStartLocked: a log starts where deletions say, not before what was confirmed and not behind what was asked for. A
// power loss under the weaker promise may take the first segments and leave later ones.
func (h *History) checkStartLocked(p Partition, t *told) {
	if t.finalStart < t.cut {
		h.faultLocked(withinBounds, "%v starts at %d and was cut at %d", p, t.finalStart, t.cut)
	}
	if allowed := h.allowedStart(t); t.finalStart > allowed && h.losses == 0 {
		h.faultLocked(withinBounds, "%v starts at %d, and nobody had records from %d on deleted", p, t.finalStart, allowed)
	}
}
