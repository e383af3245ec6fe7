package quorum

import (
	"testing"
	"time"
)

// TestThreeVoters: they elect a leader, what it commits reaches all, another follows when it dies, and it comes back with all.
func TestThreeVoters(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		first, epoch := w.leader()
		w.propose(first, epoch, "a", "b")
		w.agreed("a", "b")
		w.kill(first.self.ID)
		began := time.Now()
		second, epoch := w.leader()
		if took := time.Since(began); took > 1500*time.Millisecond {
			t.Errorf("the next leader took %v", took)
		}
		w.propose(second, epoch, "c")
		w.agreed("a", "b", "c")
		w.start(first.self.ID)
		w.agreed("a", "b", "c")
		if leader, now := w.leader(); leader != second || now != epoch {
			t.Errorf("a node that came back disturbed the leader: epoch %d was %d", now, epoch)
		}
		w.propose(second, epoch, "d")
		w.agreed("a", "b", "c", "d")
	})
}
