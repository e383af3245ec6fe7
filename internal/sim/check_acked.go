package sim

import (
	"maps"
	"slices"

	"moldau/internal/kafka"
)

// acked records what a producer was promised: these values from this offset on. by is the node that appended them, "" if that
// may be another one than the one that said so.
func (h *History) acked(p Partition, base kafka.Offset, values []string, by string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.ofLocked(p)
	h.ackCount += len(values)
	h.answers++
	for i, value := range values {
		offset := base + kafka.Offset(i)
		if other, taken := t.acks[offset]; taken && other != value {
			h.faultLocked(ackedStay, "%v offset %d was acked for %.30s and again for %.30s", p, offset, other, value)
		}
		if seen, read := t.reads[offset]; read && seen != value {
			h.faultLocked(ackedStay, "%v offset %d was acked for %.30s, and a consumer has read %.30s there", p, offset, value, seen)
		}
		t.acks[offset], t.ackedBy[offset] = value, by
	}
}

// read records what a consumer saw: the same place holds the same value for ever, below a watermark that never falls, and
// nothing that nobody sent. known is what was known before the request was sent, epoch the one whose leader was asked.
func (h *History) read(p Partition, known knowledge, epoch kafka.Epoch, got []record, highWatermark kafka.Offset) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.ofLocked(p)
	// A leader that has just been elected learns from its followers how far the watermark has come.
	if highWatermark < known.highWatermark && h.losses == known.losses && !h.fleet {
		h.faultLocked(withinBounds, "%v has the high watermark %d after %d", p, highWatermark, known.highWatermark)
	}
	t.highWatermark = max(t.highWatermark, highWatermark)
	h.answers++
	h.checkBoundsLocked(p, known, epoch, got)
	h.checkBytesLocked(p, t, got)
	for _, r := range got {
		if r.offset >= highWatermark {
			h.faultLocked(withinBounds, "%v offset %d was read past the high watermark %d", p, r.offset, highWatermark)
		}
		if before, again := t.reads[r.offset]; again && before != r.value {
			h.faultLocked(sameBytes, "%v offset %d was read as %.30s and then as %.30s", p, r.offset, before, r.value)
		}
		if promised, ok := t.acks[r.offset]; ok && promised != r.value {
			h.faultLocked(ackedStay, "%v offset %d was acked for %.30s and read as %.30s", p, r.offset, promised, r.value)
		}
		if !h.attempts[r.value] {
			h.faultLocked(ackedStay, "%v offset %d holds %.30q, which nobody sent", p, r.offset, r.value)
		}
		t.reads[r.offset] = r.value
		h.checkOnceLocked(p, t, r)
	}
}

// checkAckedLocked: what was acked, and what a consumer acted on, is there in the end, unless somebody had it deleted.
func (h *History) checkAckedLocked(p Partition, t *told) {
	there := make(map[kafka.Offset]string, len(t.final))
	for _, r := range t.final {
		there[r.offset] = r.value
	}
	newest := make(map[string]kafka.Offset) // by key, of a compacted topic
	for _, r := range t.final {
		newest[r.key] = r.offset
	}
	// Compaction may take a record for which there is a newer one of its key.
	overtaken := func(offset kafka.Offset, value string) bool { return p.compacted() && newest[keyOf(value)] > offset }
	for _, offset := range slices.Sorted(maps.Keys(t.acks)) {
		value := t.acks[offset]
		if there[offset] != value && offset >= h.allowedStart(t) && !overtaken(offset, value) {
			h.faultLocked(ackedStay, "%v offset %d was acked for %.30s and holds %.30q", p, offset, value, there[offset])
		}
	}
	for _, offset := range slices.Sorted(maps.Keys(t.reads)) {
		value := t.reads[offset]
		if there[offset] != value && offset >= h.allowedStart(t) && !overtaken(offset, value) {
			h.faultLocked(ackedStay, "%v offset %d was read as %.30s and holds %.30q", p, offset, value, there[offset])
		}
	}
}
