package sim

import (
	"testing"

	"moldau/internal/kafka"
)

// TestDeletedRecordsAreRead: a leader that was deposed before they were deleted may not have heard of it; no later one may show them.
func TestDeletedRecordsAreRead(t *testing.T) {
	for _, c := range []struct {
		asked  int32 // the epoch whose leader the reader has asked
		broken bool
	}{{3, false}, {4, true}, {5, true}} {
		h := NewHistory(Plan{Nodes: 3}, func(Broken) {})
		p := Partition{topic: kept}
		h.sent([]string{"value"})
		h.cut(p, 10, 10, 4)
		h.read(p, h.knowledge(p), c.asked, []record{{offset: 7, value: "value"}}, 20)
		if h.IsBroken() != c.broken {
			t.Errorf("cut in epoch 4, read in epoch %d: %v", c.asked, h.Broken())
		}
	}
}

// TestRetentionCountsWhatIsCutLater: the leader's retention may have gone by records that were cut off afterwards, but not by more of them
// than there can be.
func TestRetentionCountsWhatIsCutLater(t *testing.T) {
	h := NewHistory(Plan{Nodes: 3, RetainBytes: 12_000}, func(Broken) {}) // 100 records
	for start, broken := range map[kafka.Offset]bool{900: false, 920: false, 921: true, 1000: true} {
		log := &told{finalStart: start, final: []record{{offset: 1000}}}
		if got := start > h.allowedStart(log); got != broken {
			t.Errorf("a log of 12,000 bytes that ends at 1000 and starts at %d: %t", start, got)
		}
	}
}
