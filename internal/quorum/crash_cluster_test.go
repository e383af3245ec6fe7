package quorum

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// The storage ring for several voters: the disk of one of three ends at every one of its operations, in a life with elections, an
// uncommitted tail that is cut, voters that come and go, and snapshots that travel.

// saga is a life of three nodes, and what of it was acknowledged.
type saga struct {
	w      *world
	acked  []string
	leads  map[string]bool // "epoch by node", from the recorders of all incarnations
	count  int
	victim kafka.NodeID
}

// note collects who led before an incarnation goes.
func (s *saga) note() {
	for id, m := range s.w.nodes {
		if m.r == nil {
			continue
		}
		for _, call := range m.r.heard() {
			if epoch, ok := strings.CutPrefix(call, "lead "); ok {
				s.leads[fmt.Sprintf("%s by %d", epoch, id)] = true
			}
		}
	}
}

// propose proposes through whoever leads now, if somebody does within a while.
func (s *saga) propose(n int) {
	for range n {
		s.count++
		v := fmt.Sprintf("record %d", s.count)
		for range 400 {
			synctest.Wait()
			if s.proposeOnce(v) {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

func (s *saga) proposeOnce(v string) bool {
	for id := kafka.NodeID(1); id <= 4; id++ {
		m, ok := s.w.nodes[id]
		if !ok {
			continue
		}
		q, _ := m.running()
		if q == nil {
			continue
		}
		epoch, leads := m.r.leading()
		if !leads {
			continue
		}
		_, done, err := q.Propose(epoch, values(v))
		if err != nil {
			continue
		}
		select {
		case err = <-done:
		case <-time.After(3 * time.Second):
			err = context.DeadlineExceeded
		}
		if err == nil {
			s.acked = append(s.acked, v)
		}
		return true
	}
	return false
}

// live is the life. Errors are what it is about, so it goes on whatever happens.
func (s *saga) live() {
	w := s.w
	for id := kafka.NodeID(1); id <= 3; id++ {
		if q, err := w.open(id); err == nil {
			q.Start()
		}
	}
	s.propose(3)
	if leader, ok := s.leader(); ok {
		// A tail that nobody else has, and that is cut later.
		epoch, _ := leader.r.leading()
		w.cut(leader.self.ID, true)
		_, _, _ = leader.q.Propose(epoch, values("lost 1", "lost 2"))
		_, _, _ = leader.q.Propose(epoch, values("lost 3"))
		time.Sleep(2500 * time.Millisecond)
		s.propose(2)
		w.cut(leader.self.ID, false)
		time.Sleep(time.Second)
	}
	s.propose(2)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if leader, ok := s.leader(); ok {
		if q, err := w.open(4); err == nil {
			q.Start()
			_ = leader.q.AddVoter(ctx, testVoter(4))
		}
		s.propose(1)
		_ = leader.q.RemoveVoter(ctx, testVoter(4))
		away := w.other(leader).self.ID
		s.note()
		if away != s.victim {
			w.kill(away)
		} else {
			w.cut(away, true)
		}
		for range 2 {
			s.propose(3)
			if q, _ := leader.running(); q != nil {
				id, state := leader.r.snapshot()
				_ = q.WriteSnapshot(id, emitAll(state))
			}
		}
		if away != s.victim {
			if q, err := w.open(away); err == nil {
				q.Start()
			}
		} else {
			w.cut(away, false)
		}
		time.Sleep(time.Second)
	}
	s.propose(2)
	time.Sleep(time.Second)
	s.note()
}

func (s *saga) leader() (*member, bool) {
	for id := kafka.NodeID(1); id <= 3; id++ {
		if q, _ := s.w.nodes[id].running(); q == nil {
			continue
		}
		if _, leads := s.w.nodes[id].r.leading(); leads {
			return s.w.nodes[id], true
		}
	}
	return nil, false
}

// inSaga runs a life whose second node has the given disk around its own, and then f.
func inSaga(t *testing.T, wrap func(vfs.FS) vfs.FS, f func(s *saga)) {
	t.Helper()
	inWorld(t, 3, func(w *world) {
		s := &saga{w: w, leads: make(map[string]bool), victim: 2}
		for _, m := range w.nodes {
			m.options = with(m.options, func(o *Options) {
				o.SegmentBytes, o.RetentionBytes = 500, 0
				if o.NodeID == s.victim {
					o.FS = wrap(o.FS)
				}
			})
		}
		w.add(testVoter(4), func(o *Options) { o.Bootstrap = []string{addressOf(testVoter(1)), addressOf(testVoter(3))} })
		s.live()
		f(s)
	})
}

// check restarts the victim from what is left of its disk and lets the three agree: all that was acked is there, once and in
// order, nothing that was not proposed, and no epoch had two leaders.
func (s *saga) check(t *testing.T, disk *vfs.Mem) {
	t.Helper()
	w := s.w
	w.kill(4)
	w.kill(s.victim)
	victim := w.nodes[s.victim]
	victim.disk = disk
	victim.options = with(victim.options, func(o *Options) { o.FS = disk })
	if _, err := w.open(s.victim); err != nil {
		t.Errorf("reopen: %v", err)
		return
	}
	victim.q.Start()
	for id := kafka.NodeID(1); id <= 3; id++ {
		if q, _ := w.nodes[id].running(); q == nil {
			w.start(id)
		}
	}
	s.propose(1)
	last := s.acked[len(s.acked)-1]
	w.await("all three have "+last, 10*time.Second, func() bool {
		for id := kafka.NodeID(1); id <= 3; id++ {
			if _, state := w.nodes[id].r.snapshot(); len(state) == 0 || string(state[len(state)-1]) != last {
				return false
			}
		}
		return true
	})
	var first []string
	for id := kafka.NodeID(1); id <= 3; id++ {
		_, state := w.nodes[id].r.snapshot()
		var got []string
		for _, v := range state {
			got = append(got, string(v))
		}
		if first == nil {
			first = got
		}
		if !slices.Equal(got, first) {
			t.Errorf("node %d has %q, node 1 %q", id, got, first)
		}
	}
	next := 0
	for _, v := range s.acked {
		i := slices.Index(first[next:], v)
		if i < 0 {
			t.Errorf("%q was acked and is gone or out of order in %q", v, first)
			return
		}
		next += i + 1
	}
	s.note()
	by := map[string]string{}
	for lead := range s.leads {
		epoch, node, _ := strings.Cut(lead, " by ")
		if other, ok := by[epoch]; ok {
			t.Errorf("nodes %s and %s both led epoch %s", other, node, epoch)
		}
		by[epoch] = node
	}
}

// TestSaga is the life without faults.
func TestSaga(t *testing.T) {
	var inject *vfs.Inject
	inSaga(t, func(disk vfs.FS) vfs.FS {
		inject = vfs.NewInject(disk)
		return inject
	}, func(s *saga) {
		if len(s.acked) < s.count-1 {
			t.Errorf("%d of %d records were acked", len(s.acked), s.count)
		}
		t.Logf("%d disk operations", inject.Count())
		s.check(t, s.w.nodes[s.victim].disk.KillClone())
	})
}

// TestCrashOfAVoterEverywhere: a voter's process is killed, or its power cut, before any one of its disk operations.
func TestCrashOfAVoterEverywhere(t *testing.T) {
	const operations = 260 // about; what comes after the last of them is the life without faults
	step := int64(3)
	if testing.Short() {
		step = 17
	}
	for at := int64(0); at < operations; at += step {
		inSaga(t, func(disk vfs.FS) vfs.FS { return vfs.NewInject(disk, vfs.FromIndex(at, syscall.EIO)) }, func(s *saga) {
			disk := s.w.nodes[s.victim].disk
			if at%2 == 0 {
				disk = disk.KillClone()
			} else {
				disk = disk.CrashClone(rand.New(rand.NewPCG(uint64(at), 1)), float64(at%5)/4)
			}
			s.check(t, disk)
		})
		if t.Failed() {
			t.Fatalf("crash at operation %d", at)
		}
	}
}

// TestErrorOfAVoterEverywhere: one disk operation of a voter fails, and it loses power later.
func TestErrorOfAVoterEverywhere(t *testing.T) {
	const operations = 260
	for at := int64(1); at < operations; at += 7 {
		inSaga(t, func(disk vfs.FS) vfs.FS { return vfs.NewInject(disk, vfs.OnIndex(at, syscall.EIO)) }, func(s *saga) {
			s.check(t, s.w.nodes[s.victim].disk.CrashClone(rand.New(rand.NewPCG(uint64(at), 2)), 0))
		})
		if t.Failed() {
			t.Fatalf("error at operation %d", at)
		}
	}
}

// TestAppliedSetIsNotForgotten: whoever worked with a voter set works with it after a power cut too, or it could be elected by
// the set before, while the others have a leader of the same term.
func TestAppliedSetIsNotForgotten(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		w.start(1)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		added := w.add(testVoter(2), func(o *Options) { o.Bootstrap = []string{addressOf(testVoter(1))} })
		w.start(2)
		ctx, cancel := soon()
		defer cancel()
		if err := leader.q.AddVoter(ctx, added.self); err != nil {
			t.Fatal(err)
		}
		disk := leader.disk.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
		w.kill(1)
		w.kill(2)
		leader.disk = disk
		w.start(1)
		time.Sleep(5 * time.Second)
		if _, leads := leader.r.leading(); leads {
			t.Fatal("one of two voters leads alone: it has forgotten the other")
		}
		w.start(2)
		leader, epoch = w.leader()
		w.propose(leader, epoch, "b")
		w.agreed("a", "b")
	})
}

// losses are what a node may lose of its memory.
func losses() map[string]func(disk *vfs.Mem, folder string) error {
	return map[string]func(disk *vfs.Mem, folder string) error{
		"quorum-state": func(disk *vfs.Mem, folder string) error { return disk.Remove(folder + "/" + stateFile) },
		"entries":      func(disk *vfs.Mem, folder string) error { return writeCommit(disk, folder, 99) },
		"all of it":    func(disk *vfs.Mem, folder string) error { return disk.RemoveAll(folder) },
	}
}

// TestLostMemory: a voter that has lost its vote or entries must not come back as who it was; under a new directory id it follows,
// and is told how to get its vote back. Once it has it, it keeps it.
func TestLostMemory(t *testing.T) {
	for name, lose := range losses() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.start(1, 2, 3)
				leader, epoch := w.leader()
				w.propose(leader, epoch, "a")
				w.agreed("a")
				m := w.other(leader)
				w.stop(m.self.ID)
				if err := lose(m.disk, "/meta/__cluster_metadata-0"); err != nil {
					t.Fatal(err)
				}
				m.options = func(o *Options) { o.Used, o.Bootstrap = true, []string{addressOf(leader.self)} }
				old := m.self
				for range 2 { // it is the same somebody else after a restart
					w.start(m.self.ID)
					if m.self.DirID == old.DirID {
						w.mu.Lock()
						m.self.DirID = m.q.self.DirID
						w.mu.Unlock()
					}
					if m.q.self.DirID == old.DirID || m.q.self.DirID != m.self.DirID {
						t.Fatalf("it came back as %v, was %v", m.q.self, old)
					}
					time.Sleep(2 * time.Second)
					w.kill(m.self.ID)
				}
				m.options = with(m.options, func(o *Options) { o.Joined, o.DirID = true, old.DirID }) // which does not take the old one's place
				w.start(m.self.ID)
				w.propose(leader, epoch, "b")
				w.agreed("a", "b")
				if s := leader.q.Status(); len(s.Observers) != 1 || s.Observers[0].DirID != m.self.DirID {
					t.Errorf("observers %v", s.Observers)
				}
				ctx, cancel := soon()
				defer cancel()
				if err := leader.q.RemoveVoter(ctx, old); err != nil {
					t.Fatal(err)
				}
				if err := leader.q.AddVoter(ctx, m.self); err != nil && !errors.Is(err, kerr.DuplicateVoter) { // it may have asked itself
					t.Fatal(err)
				}
				w.propose(leader, epoch, "c")
				w.agreed("a", "b", "c")

				w.kill(m.self.ID)
				w.start(m.self.ID)
				if m.q.self.DirID != m.self.DirID {
					w.t.Fatalf("it has lost nothing as %v, and came back as %v", m.self, m.q.self)
				}
				w.stop(leader.self.ID)
				now, epoch := w.leader()
				w.propose(now, epoch, "d")
			})
		})
	}
}

// TestLostMemoryOfAFollower: a voter set that is on its way, or lost with other entries, may name a node that its log does not name.
// So what can vote and has lost something comes back as somebody else, and what cannot vote stays who it is.
func TestLostMemoryOfAFollower(t *testing.T) {
	for name, lose := range losses() {
		if name == "all of it" {
			continue
		}
		for _, canVote := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, can vote: %t", name, canVote), func(t *testing.T) {
				inWorld(t, 1, func(w *world) {
					w.start(1)
					leader, epoch := w.leader()
					m := w.add(testVoter(2), func(o *Options) {
						o.CanVote, o.Bootstrap = canVote, []string{addressOf(leader.self)}
					})
					w.start(2)
					w.propose(leader, epoch, "a")
					w.agreed("a")
					w.stop(2)
					if err := lose(m.disk, "/meta/__cluster_metadata-0"); err != nil {
						w.t.Fatal(err)
					}
					w.start(2)
					w.propose(leader, epoch, "b")
					w.agreed("a", "b")
					first := m.q.self.DirID
					if renamed := first != m.self.DirID; renamed != canVote {
						w.t.Errorf("it came back as %v, was %v", first, m.self.DirID)
					}
					w.kill(2)
					w.start(2)
					if m.q.self.DirID != first {
						w.t.Errorf("it has lost nothing as %v, and came back as %v", first, m.q.self.DirID)
					}
				})
			})
		}
	}
}

// TestVoteNotHeardOf: a voter that died before it heard that its vote is committed has the longer log, so that nobody is elected
// without it, and its log names it. It learns from the other's try to be elected that it may stand.
func TestVoteNotHeardOf(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.start(1, 2)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		added := w.add(testVoter(3), func(o *Options) { o.Bootstrap = []string{addressOf(leader.self)} })
		w.start(3)
		w.agreed("a")
		added.q.mu.Lock()
		before := added.q.commit
		added.q.mu.Unlock()
		ctx, cancel := soon()
		defer cancel()
		if err := leader.q.AddVoter(ctx, added.self); err != nil {
			w.t.Fatal(err)
		}
		w.voters(1, 2, 3)
		shorter := leader.disk.KillClone() // it sends "b" before it has it on its own disk
		w.propose(leader, epoch, "b")
		w.agreed("a", "b")
		for id := range w.nodes {
			w.kill(id)
		}
		leader.disk = shorter
		if err := writeCommit(added.disk, "/meta/__cluster_metadata-0", before); err != nil {
			w.t.Fatal(err)
		}
		w.start(leader.self.ID, added.self.ID)
		_, _ = w.leader()
		w.agreed("a", "b")
	})
}

// TestAckedIsOnTwoDisks: with two of three there, what was acked is on both disks: the follower's, cut off from power at any of its
// operations, has it when the leader is gone for good.
func TestAckedIsOnTwoDisks(t *testing.T) {
	for at := range int64(24) {
		inWorld(t, 3, func(w *world) {
			injects := make(map[kafka.NodeID]*vfs.Inject)
			for id, m := range w.nodes {
				m.options = with(m.options, func(o *Options) {
					injects[id] = vfs.NewInject(o.FS)
					o.FS = injects[id]
				})
			}
			w.start(1, 2, 3)
			leader, epoch := w.leader()
			follower := w.other(leader)
			third := w.other(leader, follower)
			w.propose(leader, epoch, "a")
			w.agreed("a")
			w.kill(third.self.ID)
			inject := injects[follower.self.ID]
			inject.SetRules(vfs.FromIndex(inject.Count()+at, syscall.EIO))
			acked := []string{"a"}
			for i := range 8 {
				v := fmt.Sprintf("record %d", i)
				_, done, err := leader.q.Propose(epoch, values(v))
				if err != nil {
					break
				}
				select {
				case err = <-done:
				case <-time.After(2 * time.Second):
					err = context.DeadlineExceeded
				}
				if err != nil {
					break
				}
				acked = append(acked, v)
			}
			if at == 0 && len(acked) > 1 {
				t.Errorf("%q were acked without the follower", acked)
			}
			disk := follower.disk.CrashClone(rand.New(rand.NewPCG(uint64(at), 3)), 0)
			w.kill(leader.self.ID)
			w.kill(follower.self.ID)
			follower.disk = disk
			w.start(follower.self.ID, third.self.ID)
			next, epoch := w.leader()
			w.propose(next, epoch, "after")
			_, state := next.r.snapshot()
			for i, v := range acked {
				if i >= len(state) || string(state[i]) != v {
					t.Fatalf("failure at operation %d: %q were acked, and %q is there", at, acked, state)
				}
			}
		})
		if t.Failed() {
			return
		}
	}
}
