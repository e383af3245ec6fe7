package sim

import (
	"fmt"
	"slices"

	"moldau/internal/kafka"
)

// acked records what a producer was promised: these values from this offset on.
func (h *History) acked(tp kafka.TopicPartition, base kafka.Offset, values []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, value := range values {
		at := place{tp, base + kafka.Offset(i)}
		if other, taken := h.acks[at]; taken {
			h.faultLocked("%s offset %d was acked for %s and again for %s", tp, at.offset, other, value)
		}
		if seen, read := h.reads[at]; read && seen != value {
			h.faultLocked("%s offset %d was acked for %s, and a consumer has read %s there", tp, at.offset, value, seen)
		}
		h.acks[at] = value
	}
}

// read records what a consumer saw: the same place holds the same value for ever, below the watermark, and nothing that
// nobody sent.
func (h *History) read(tp kafka.TopicPartition, offset kafka.Offset, value string, highWatermark kafka.Offset) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at := place{tp, offset}
	if offset >= highWatermark {
		h.faultLocked("%s offset %d was read past the high watermark %d", tp, offset, highWatermark)
	}
	if before, again := h.reads[at]; again && before != value {
		h.faultLocked("%s offset %d was read as %s and then as %s", tp, offset, before, value)
	}
	if promised, ok := h.acks[at]; ok && promised != value {
		h.faultLocked("%s offset %d was acked for %s and read as %s", tp, offset, promised, value)
	}
	if !h.attempts[value] {
		h.faultLocked("%s offset %d holds %q, which nobody sent", tp, offset, value)
	}
	h.reads[at] = value
}

func (h *History) faultLocked(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// Missing returns the promises that were broken, once everything has been read to its end: an acked record that no
// reader found is one.
func (h *History) Missing() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := slices.Clone(h.faults)
	for at, value := range h.acks {
		if _, ok := h.reads[at]; !ok {
			out = append(out, fmt.Sprintf("%s offset %d was acked for %s and is not there", at.tp, at.offset, value))
		}
	}
	slices.Sort(out)
	return out
}
