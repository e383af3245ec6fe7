package sim

import "testing"

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
