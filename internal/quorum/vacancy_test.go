package quorum

import (
	"fmt"
	"testing"
	"time"

	"moldau/internal/kafka"
)

// TestLeaderKilled: when the leader's process ends the others do not wait until its silence is long enough.
func TestLeaderKilled(t *testing.T) {
	for _, voters := range []int{3, 5} {
		t.Run(fmt.Sprintf("%d voters", voters), func(t *testing.T) {
			inWorld(t, voters, func(w *world) {
				for id := range w.nodes {
					w.start(id)
				}
				for range 10 {
					old, epoch := w.leader()
					w.propose(old, epoch, "a")
					time.Sleep(time.Second) // everybody is connected with everybody
					began := time.Now()
					w.kill(old.self.ID)
					if _, next := w.leader(old.self.ID); next != epoch+1 {
						t.Errorf("epoch %d comes after %d: the election had to be repeated", next, epoch)
					}
					if took := time.Since(began); took > 300*time.Millisecond {
						t.Errorf("the election took %v", took)
					}
					w.start(old.self.ID)
				}
			})
		})
	}
}

// TestLeaderRefusesOne: a voter that alone finds the leader's machine to refuse connections neither deposes it nor doubts it for long.
func TestLeaderRefusesOne(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		w.agreed("a")
		refused := w.other(leader)
		time.Sleep(time.Second)
		w.refuse(refused.self.ID, leader.self.ID)
		began := time.Now()
		doubts := 0
		for before := leader.self.ID; time.Since(began) < 5*time.Second; {
			changed := refused.q.Changed()
			now, at, known := refused.q.Leader()
			if !known {
				now.ID = kafka.NoNode
			}
			if now.ID != before && now.ID == kafka.NoNode {
				doubts++
			}
			if before = now.ID; at != epoch {
				t.Fatalf("epoch %d after %d", at, epoch)
			}
			select {
			case <-changed:
			case <-time.After(time.Second):
			}
		}
		if doubts > 1 {
			t.Errorf("the leader was forgotten %d times", doubts)
		}
		w.propose(leader, epoch, "b")
	})
}

// TestLeaderRefusesAll: a leader that commits nothing, since everybody's connections are refused, is replaced, and commits nothing then.
func TestLeaderRefusesAll(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		old, epoch := w.leader()
		w.propose(old, epoch, "a")
		w.agreed("a")
		time.Sleep(time.Second)
		for id := range w.nodes {
			w.refuse(id, old.self.ID)
		}
		next, at := w.leader(old.self.ID)
		if at <= epoch {
			t.Errorf("epoch %d after %d", at, epoch)
		}
		w.propose(next, at, "b")
		if _, done, err := old.q.Propose(epoch, values("lost")); err == nil && <-done == nil {
			t.Error("the old leader committed something")
		}
	})
}

// TestLeaderRemoved: when the leader's own vote is taken the others elect somebody at once, rather than wait until its silence is long
// enough.
func TestLeaderRemoved(t *testing.T) {
	for _, voters := range []int{2, 3, 5} {
		t.Run(fmt.Sprintf("%d voters", voters), func(t *testing.T) {
			inWorld(t, voters, func(w *world) {
				for id := range w.nodes {
					w.start(id)
				}
				old, epoch := w.leader()
				for range 10 {
					w.propose(old, epoch, "a")
					time.Sleep(time.Second) // everybody is connected with everybody
					began := time.Now()
					ctx, cancel := soon()
					if err := old.q.RemoveVoter(ctx, old.self); err != nil {
						t.Fatal(err)
					}
					next, at := w.leader(old.self.ID)
					if at != epoch+1 {
						t.Errorf("epoch %d comes after %d: the election had to be repeated", at, epoch)
					}
					if took := time.Since(began); took > 300*time.Millisecond {
						t.Errorf("the election took %v", took)
					}
					if err := next.q.AddVoter(ctx, old.self); err != nil {
						t.Fatal(err)
					}
					cancel()
					old, epoch = next, at
				}
			})
		})
	}
}
