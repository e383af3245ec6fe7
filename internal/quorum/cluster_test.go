package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
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

// TestSnapshotForAVoter: a voter that was away while the log before a snapshot was deleted gets the snapshot, its listener the
// state, and goes on from there, also after a restart.
func TestSnapshotForAVoter(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		leader, epoch, away := w.leaveBehind()
		want := []string{"before"}
		for i := range 3 {
			for j := range 10 {
				want = append(want, fmt.Sprintf("record %d of %d", j, i))
				w.propose(leader, epoch, want[len(want)-1])
			}
			takeSnapshot(t, leader.q, leader.r)
		}
		w.start(away.self.ID)
		w.agreed(want...)
		// Messages that waited while it was down may bring some of the first records; the others are in no log any more.
		snapshots := 0
		for _, call := range away.r.heard() {
			if strings.HasPrefix(call, "snapshot ") {
				snapshots++
			}
		}
		if snapshots != 2 {
			t.Errorf("it heard %q, want two snapshots", away.r.heard())
		}
		w.propose(leader, epoch, "after")
		w.agreed(append(want, "after")...)
		w.kill(away.self.ID)
		w.start(away.self.ID)
		w.agreed(append(want, "after")...)
	})
}

// TestSnapshotForAFullDisk: a snapshot for which a voter has no space waits for some, and nothing need be started again.
func TestSnapshotForAFullDisk(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		leader, epoch, away := w.leaveBehind()
		want := []string{"before"}
		for i := range 30 {
			want = append(want, fmt.Sprintf("record %d", i))
			w.propose(leader, epoch, want[len(want)-1])
		}
		takeSnapshot(t, leader.q, leader.r)
		refused := 0
		disk := vfs.NewInject(away.disk, func(op vfs.Op) error {
			if op.Kind == vfs.OpWrite && strings.Contains(op.Path, "leader-epoch-checkpoint") && refused < 3 {
				refused++
				return syscall.ENOSPC
			}
			return nil
		})
		away.options = with(away.options, func(o *Options) { o.FS = disk })
		w.start(away.self.ID)
		w.agreed(want...)
		if refused < 3 {
			t.Errorf("%d writes were refused", refused)
		}
		w.propose(leader, epoch, "after")
		w.agreed(append(want, "after")...)
	})
}

// TestObserver: a node without a vote follows, tells how far it is, finds the next leader, and starts from a snapshot when the
// log no longer begins at the beginning.
func TestObserver(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.shortenLogs()
		w.start(1, 2, 3)
		leader, epoch := w.leader()
		observer := w.add(testVoter(9), func(o *Options) {
			o.Bootstrap = []string{addressOf(testVoter(1)), addressOf(testVoter(2))}
		})
		w.start(9)
		w.propose(leader, epoch, "a")
		w.agreed("a")
		if v, e, ok := observer.q.Leader(); !ok || v.ID != leader.self.ID || e != epoch || len(v.Endpoints) != 1 {
			t.Errorf("the observer says that %v leads epoch %d, %v", v, e, ok)
		}
		w.await("the leader to tell of the observer", time.Second, func() bool {
			s := leader.q.Status()
			return len(s.Observers) == 1 && s.Observers[0].ID == 9 && s.Observers[0].LogEnd == s.LogEnd && s.Observers[0].LastCaughtUpMs > 0
		})
		w.kill(leader.self.ID)
		leader, epoch = w.leader()
		want := []string{"a"}
		for i := range 20 {
			want = append(want, fmt.Sprintf("record %d", i))
			w.propose(leader, epoch, want[len(want)-1])
		}
		w.agreed(want...)
		takeSnapshot(t, leader.q, leader.r)
		w.stop(9)
		w.propose(leader, epoch, "b")
		w.start(9)
		w.agreed(append(want, "b")...)

		w.add(testVoter(10), func(o *Options) { o.Bootstrap = []string{addressOf(leader.self)} })
		w.start(10)
		w.agreed(append(want, "b")...)
		if late := w.nodes[10]; late.q.Status().LogStart == 0 {
			t.Errorf("the late observer's log begins at 0; it heard %q", late.r.heard())
		}
		for _, v := range w.nodes[9].q.Status().VoterSet {
			if v.ID > 3 {
				t.Errorf("an observer has become voter %v", v)
			}
		}
	})
}

// TestObserverAsksOn: an address where nobody is, or nobody knows the leader, does not keep an observer from asking at the next one, and
// it does not ask itself.
func TestObserverAsksOn(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.start(1)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		w.add(testVoter(9), func(o *Options) {
			o.Bootstrap = nil
			for id := range kafka.NodeID(9) {
				o.Bootstrap = append(o.Bootstrap, addressOf(testVoter(9-id))) // the leader is the last
			}
		})
		w.start(9)
		const tries = 7 // without itself, and the last one succeeds
		w.await("the observer has what there is", tries*time.Duration(w.nodes[9].q.o.RetryBackoffMs)*time.Millisecond+fetchWait/10, func() bool {
			_, state := w.nodes[9].r.snapshot()
			return len(state) == 1
		})
	})
}

// TestWhereLeaderListens: an observer goes to the leader where it found it, not where a voter set that is older has it. One with a vote
// hears from the leader itself where it is.
func TestWhereLeaderListens(t *testing.T) {
	moved := testVoter(1)
	moved.Endpoints = []Endpoint{{Name: "CONTROLLER", Host: "elsewhere", Port: 1}}
	q := &Quorum{guide: moved, members: members{sets: []votersAt{{voters: []Voter{testVoter(1), testVoter(2)}}}}}
	for _, follows := range []bool{true, false} {
		q.follows = follows
		want := testVoter(1)
		if follows {
			want = moved
		}
		if got, ok := q.nameLocked(raftID(moved.DirID)); !ok || !SameVoter(got, want) {
			t.Errorf("follows %t: %v", follows, got)
		}
	}
}

// TestGuideThatMoved: who was followed at one address, and sends messages from another since, is answered at the other.
func TestGuideThatMoved(t *testing.T) {
	moved := testVoter(1)
	moved.Endpoints = []Endpoint{{Name: "CONTROLLER", Host: "elsewhere", Port: 1}}
	q := &Quorum{guide: testVoter(1), follows: true, members: members{sets: []votersAt{{voters: []Voter{testVoter(1), testVoter(2)}}}}}
	q.meet(moved, raft.BasicStatus{})
	if got, ok := q.nameLocked(raftID(moved.DirID)); !ok || !SameVoter(got, moved) {
		t.Errorf("%v, want %v", got, moved)
	}
}

// TestStopHandsOver: a leader that stops is followed by another one at once, not after its silence was noticed.
func TestStopHandsOver(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		began := time.Now()
		w.stop(leader.self.ID)
		next, epoch := w.leader()
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the handover took %v", took)
		}
		w.propose(next, epoch, "b")
		w.agreed("a", "b")
		// With nobody left to hand over to, a stop takes a while and succeeds.
		w.kill(w.other(next).self.ID)
		w.stop(next.self.ID)
	})
}

// TestCutOffLeader: a leader that is cut off commits nothing, though it takes proposals for a while; the others go on, and what it
// took is gone when it is back.
func TestCutOffLeader(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		old, epoch := w.leader()
		w.propose(old, epoch, "a")
		w.agreed("a")
		w.cut(old.self.ID, true)
		var lost []<-chan error
		for range 3 {
			_, done, err := old.q.Propose(epoch, values("lost", "and gone"))
			if err != nil {
				t.Fatal(err)
			}
			lost = append(lost, done)
		}
		leader, next := w.leader(old.self.ID)
		if next <= epoch {
			t.Errorf("two leaders of epochs %d and %d", epoch, next)
		}
		w.propose(leader, next, "b")
		time.Sleep(3 * time.Second)
		if _, leads := old.r.leading(); leads {
			t.Error("the leader that was cut off still leads")
		}
		for _, done := range lost {
			if err := <-done; !errors.Is(err, ErrNotLeader) {
				t.Errorf("a proposal of the leader that was cut off ended with %v", err)
			}
		}
		if _, _, err := old.q.Propose(epoch, values("late")); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a late proposal: %v", err)
		}
		w.cut(old.self.ID, false)
		w.agreed("a", "b")
		w.propose(leader, next, "c")
		w.agreed("a", "b", "c")
		if got, want := logLines(t, old.q), logLines(t, leader.q); !slices.Equal(got, want) {
			t.Errorf("the logs differ:\n%q\n%q", got, want)
		}
	})
}

// TestRedirectsEnd: of two nodes that name each other as the leader the second is not believed at once, or an observer would go back
// and forth between them as fast as it can.
func TestRedirectsEnd(t *testing.T) {
	q := &Quorum{self: testVoter(9)}
	f := &follower{at: addressOf(testVoter(1))}
	for i, want := range []bool{true, false, true, false} {
		to := testVoter(kafka.NodeID(1 + (i+1)%2))
		err := q.redirect(f, to, true, kerr.NotLeaderForPartition)
		if believed := err == nil; believed != want {
			t.Fatalf("redirect %d: %v", i, err)
		}
		f.at = addressOf(to)
	}
}

// shortenLogs has the nodes keep only what comes after their last snapshot.
func (w *world) shortenLogs() {
	for _, m := range w.nodes {
		m.options = with(m.options, func(o *Options) { o.SegmentBytes, o.RetentionBytes = 400, 0 })
	}
}

// leaveBehind starts three nodes with short logs, of which one is away after it has got the record "before".
func (w *world) leaveBehind() (leader *member, epoch kafka.Epoch, away *member) {
	w.t.Helper()
	w.shortenLogs()
	w.start(1, 2, 3)
	leader, epoch = w.leader()
	away = w.other(leader)
	w.propose(leader, epoch, "before")
	w.agreed("before")
	w.kill(away.self.ID)
	return leader, epoch, away
}
