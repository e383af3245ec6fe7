package quorum

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// ids are the node ids of a voter set.
func ids(voters []Voter) (found []kafka.NodeID) {
	for _, v := range voters {
		found = append(found, v.ID)
	}
	return found
}

// voters waits until everybody who runs knows that set.
func (w *world) voters(want ...kafka.NodeID) {
	w.t.Helper()
	w.await("the voters everybody knows", 10*time.Second, func() bool {
		for _, m := range w.nodes {
			if q, _ := m.running(); q != nil && !slices.Equal(ids(q.Status().VoterSet), want) {
				return false
			}
		}
		return true
	})
}

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 5*time.Second)
}

// TestVotersComeAndGo: one voter becomes three, one after the other, the new ones count, and three become one again.
func TestVotersComeAndGo(t *testing.T) {
	inWorld(t, 1, func(w *world) {
		ctx, cancel := soon()
		defer cancel()
		w.start(1)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		for id := kafka.NodeID(2); id <= 3; id++ {
			added := w.add(testVoter(id), func(o *Options) { o.Bootstrap = []string{addressOf(testVoter(1))} })
			w.start(id)
			if err := leader.q.AddVoter(ctx, added.self); err != nil {
				t.Fatalf("add voter %d: %v\n%s", id, err, w.describe())
			}
		}
		w.voters(1, 2, 3)
		w.agreed("a")
		w.kill(1)
		leader, epoch = w.leader()
		w.propose(leader, epoch, "b") // with the two that were added
		w.start(1)
		w.agreed("a", "b")

		third := w.other(leader)
		if err := leader.q.RemoveVoter(ctx, third.self); err != nil {
			t.Fatalf("remove voter %d: %v", third.self.ID, err)
		}
		w.propose(leader, epoch, "c")
		w.agreed("a", "b", "c") // who was removed follows as an observer
		rest := w.other(leader, third)
		if err := leader.q.RemoveVoter(ctx, leader.self); err != nil {
			t.Fatalf("the leader removes itself: %v\n%s", err, w.describe())
		}
		last, epoch := w.leader(leader.self.ID)
		if last != rest {
			t.Errorf("node %d leads, the only voter is node %d", last.self.ID, rest.self.ID)
		}
		w.voters(rest.self.ID)
		w.propose(last, epoch, "d")
		w.agreed("a", "b", "c", "d")
		if err := last.q.RemoveVoter(ctx, last.self); !errors.Is(err, kerr.InvalidRequest) {
			t.Errorf("remove the last voter: %v", err)
		}
	})
}

// TestVoterChangeRefused: who cannot be a voter is told why, and the set stays as it is.
func TestVoterChangeRefused(t *testing.T) {
	inWorld(t, 2, func(w *world) {
		w.start(1, 2)
		leader, epoch := w.leader()
		follower := w.other(leader)
		w.add(testVoter(7), func(o *Options) { o.Bootstrap = []string{addressOf(testVoter(1))} })
		try := func(what string, want error, f func(context.Context) error) {
			t.Helper()
			ctx, cancel := soon()
			defer cancel()
			if err := f(ctx); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		try("add on a follower", kerr.NotLeaderForPartition, func(ctx context.Context) error { return follower.q.AddVoter(ctx, testVoter(7)) })
		try("add one that is there", kerr.DuplicateVoter, func(ctx context.Context) error { return leader.q.AddVoter(ctx, testVoter(2)) })
		wiped := testVoter(2)
		wiped.DirID = kafka.DirID{1, 2, 3}
		try("add a node twice", kerr.DuplicateVoter, func(ctx context.Context) error { return leader.q.AddVoter(ctx, wiped) })
		try("add nobody", kerr.InvalidRequest, func(ctx context.Context) error { return leader.q.AddVoter(ctx, Voter{ID: 7}) })
		try("add one that is down", kerr.RequestTimedOut, func(ctx context.Context) error { return leader.q.AddVoter(ctx, testVoter(7)) })
		w.start(7)
		other := testVoter(7)
		other.DirID[3] = 1
		try("add somebody else's address", kerr.InvalidVoterKey, func(ctx context.Context) error { return leader.q.AddVoter(ctx, other) })
		try("remove one that is none", kerr.VoterNotFound, func(ctx context.Context) error { return leader.q.RemoveVoter(ctx, wiped) })
		try("update one that is none", kerr.VoterNotFound, func(ctx context.Context) error { return leader.q.UpdateVoter(ctx, testVoter(7)) })
		w.voters(1, 2)
		w.propose(leader, epoch, "a")
		w.agreed("a")
	})
}

// TestAutoJoin: a node that wants to vote asks for it by itself, also one that comes back with an empty disk, which is not
// its old self.
func TestAutoJoin(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		bootstrap := func(o *Options) {
			o.AutoJoin = true
			o.Bootstrap = []string{addressOf(testVoter(1)), addressOf(testVoter(2)), addressOf(testVoter(3))}
		}
		w.start(1, 2, 3)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		w.add(testVoter(4), bootstrap)
		w.start(4)
		w.voters(1, 2, 3, 4)

		wiped := w.other(leader)
		w.kill(wiped.self.ID)
		self := wiped.self
		self.DirID = kafka.DirID{9, 9, 9}
		w.add(self, bootstrap)
		w.start(self.ID)
		w.await("the wiped voter to be admitted anew", 10*time.Second, func() bool {
			set := leader.q.Status().VoterSet
			_, old := find(set, wiped.self)
			_, now := find(set, self)
			return !old && now && len(set) == 4
		})
		w.propose(leader, epoch, "b")
		w.agreed("a", "b")
	})
}

// TestNodeIDTwice: a node does not take the vote of another one that runs and has the same node id, not while that is away for a
// moment either; nor is a person told to take it.
func TestNodeIDTwice(t *testing.T) {
	for _, auto := range []bool{true, false} {
		t.Run(fmt.Sprintf("auto join %t", auto), func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.start(1, 2, 3)
				leader, epoch := w.leader()
				w.propose(leader, epoch, "a")
				rightful := w.other(leader)
				var log bytes.Buffer
				double := w.add(Voter{ID: 4, DirID: kafka.DirID{9, 9, 9}, Endpoints: testVoter(4).Endpoints}, func(o *Options) {
					o.NodeID, o.AutoJoin, o.Joined = rightful.self.ID, auto, true
					o.Bootstrap = []string{addressOf(leader.self)}
					o.Logger = slog.New(slog.NewTextHandler(&log, nil))
				})
				w.start(4)
				time.Sleep(20 * time.Second)
				w.kill(rightful.self.ID)
				time.Sleep(5 * time.Second)
				w.start(rightful.self.ID)
				time.Sleep(5 * time.Second)
				w.voters(1, 2, 3)
				if _, votes := find(leader.q.Status().VoterSet, rightful.self); !votes {
					t.Error("the vote is somebody else's")
				}
				w.kill(double.self.ID)
				if text := log.String(); !strings.Contains(text, "node.id") || !strings.Contains(text, addressOf(rightful.self)) || strings.Contains(text, "remove-controller") {
					t.Errorf("it was told:\n%s", text)
				}
			})
		})
	}
}

// TestEndpointsOfWhomAllNeed: a voter that listens elsewhere than before, and without which there is no majority, is found: it says
// where it is. Both orders of who has more entries lead to a leader, and then the voter set says it too.
func TestEndpointsOfWhomAllNeed(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		t.Run(fmt.Sprintf("ahead=%t", ahead), func(t *testing.T) {
			inWorld(t, 3, func(w *world) {
				w.start(1, 2, 3)
				leader, epoch := w.leader()
				moved := w.other(leader)
				w.propose(leader, epoch, "a")
				w.agreed("a")
				last := w.nodes[6-leader.self.ID-moved.self.ID]
				w.stop(last.self.ID)
				if ahead {
					w.propose(leader, epoch, "b")
					w.stop(leader.self.ID)
					w.start(last.self.ID)
					last = leader
				}
				w.kill(moved.self.ID)
				w.move(moved, Endpoint{Name: "CONTROLLER", Host: "elsewhere", Port: 1})
				w.start(moved.self.ID)
				w.await("the new endpoint", 20*time.Second, func() bool {
					for _, m := range w.nodes {
						if q, _ := m.running(); q != nil && m != last {
							if v, _ := find(q.Status().VoterSet, moved.self); !SameVoter(v, moved.self) {
								return false
							}
						}
					}
					return true
				})
			})
		})
	}
}

// TestAllListenElsewhere: every voter comes back where nobody looks for it but the configuration, as a cluster does that is given other
// ports. They find each other, and the voter set says where they are.
func TestAllListenElsewhere(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		w.agreed("a")
		var addresses []string
		for id := kafka.NodeID(1); id <= 3; id++ {
			w.stop(id)
			to := Endpoint{Name: "CONTROLLER", Host: fmt.Sprintf("elsewhere%d", id), Port: 1}
			w.move(w.nodes[id], to)
			addresses = append(addresses, to.hostPort())
		}
		for _, m := range w.nodes {
			m.options = func(o *Options) { o.Bootstrap = addresses }
		}
		w.start(1, 2, 3)
		w.await("where everybody listens", 20*time.Second, func() bool {
			for _, m := range w.nodes {
				for _, other := range w.nodes {
					if v, _ := find(m.q.Status().VoterSet, other.self); !SameVoter(v, other.self) {
						return false
					}
				}
			}
			return true
		})
		leader, epoch = w.leader()
		w.propose(leader, epoch, "b")
		w.agreed("a", "b")
	})
}

// TestCopyOfAVoter: a voter's disk is copied, and the copy started elsewhere. It is found out as long as the voter is where the voter set
// says; without it, it is the voter, which has moved.
func TestCopyOfAVoter(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		leader, epoch := w.leader()
		w.propose(leader, epoch, "a")
		w.agreed("a")
		original := w.other(leader)
		ctx, cancel := soon()
		defer cancel()
		for _, runs := range []bool{true, false} {
			if !runs {
				w.stop(original.self.ID)
			}
			o := testOptions(original.disk.KillClone(), &recorder{leads: -1})
			o.NodeID, o.DirID, o.ClusterID, o.CanVote, o.Voters = original.self.ID, original.self.DirID, testCluster, true, nil
			o.Endpoints = []Endpoint{{Name: "CONTROLLER", Host: "elsewhere", Port: 1}}
			o.Dial = w.dialFrom(original.self.ID)
			q, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := q.Double(ctx); (err != nil) != runs {
				t.Errorf("the original runs: %t. The copy says %v", runs, err)
			}
			if err := q.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestAppliedSetsStayApplied: a start goes through the voter sets of the log again, and what quorum-commit says must not fall
// meanwhile: whoever dies on the way would come back with a set that was over, and think that it has no vote, or elect in it.
func TestAppliedSetsStayApplied(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		leader, epoch := w.leader()
		follower := w.other(leader)
		third := w.nodes[6-leader.self.ID-follower.self.ID]
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := leader.q.RemoveVoter(ctx, third.self); err != nil {
			t.Fatal(err)
		}
		if err := leader.q.AddVoter(ctx, third.self); err != nil {
			t.Fatal(err)
		}
		w.voters(1, 2, 3)
		w.propose(leader, epoch, "a")
		w.agreed("a")
		w.kill(follower.self.ID)
		follower.options = func(o *Options) {
			disk, inject := o.FS, vfs.NewInject(o.FS)
			inject.Hook = func(op vfs.Op) error {
				if op.Kind != vfs.OpRename || !strings.HasSuffix(op.Path, commitFile+tmpSuffix) {
					return nil
				}
				var next quorumCommit
				_, err := readJSON(disk, op.Path, &next)
				before, errBefore := readCommit(disk, filepath.Dir(op.Path))
				if err != nil || errBefore != nil || next.CommitIndex < before {
					t.Errorf("the commit index becomes %d after %d: %v, %v", next.CommitIndex, before, err, errBefore)
				}
				return nil
			}
			o.FS = inject
		}
		w.start(follower.self.ID)
		w.propose(leader, epoch, "b")
		w.agreed("a", "b")
	})
}

// TestEndpointsOfAFollower: a follower that listens elsewhere than before has the leader write it down.
func TestEndpointsOfAFollower(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		leader, epoch := w.leader()
		moved := w.other(leader)
		w.stop(moved.self.ID)
		w.move(moved, Endpoint{Name: "CONTROLLER", Host: "elsewhere", Port: 1})
		w.start(moved.self.ID)
		w.await("the new endpoint", 5*time.Second, func() bool {
			v, _ := find(leader.q.Status().VoterSet, moved.self)
			return SameVoter(v, moved.self)
		})
		w.propose(leader, epoch, "a")
		w.agreed("a")
	})
}
