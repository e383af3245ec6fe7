package quorum

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/kafka"
)

// members is the voter set and its recent history, because a snapshot of an earlier offset needs the set of that time.
type members struct {
	sets []votersAt // by ascending index; never empty
}

// votersAt is the voter set from the entry at index on.
type votersAt struct {
	index  uint64
	voters []Voter // by node id
	// inLog says that a KRaftVoters record of the log, or of a later snapshot, told it: not only the snapshot 0-0.
	inLog bool
}

func (m *members) newest() votersAt { return m.sets[len(m.sets)-1] }

// at returns the set that was in force after the entry at index.
func (m *members) at(index uint64) votersAt {
	for i := len(m.sets) - 1; i > 0; i-- {
		if m.sets[i].index <= index {
			return m.sets[i]
		}
	}
	return m.sets[0]
}

func (m *members) add(index uint64, voters []Voter) {
	m.sets = append(m.sets, votersAt{index: index, voters: voters, inLog: true})
}

// forget drops the sets that no snapshot at index or later needs.
func (m *members) forget(index uint64) {
	for len(m.sets) > 1 && m.sets[1].index <= index {
		m.sets = m.sets[1:]
	}
}

// find returns the voter that is the same node with the same directory.
func find(voters []Voter, who Voter) (Voter, bool) {
	i := slices.IndexFunc(voters, func(v Voter) bool { return v.ID == who.ID && v.DirID == who.DirID })
	if i < 0 {
		return Voter{}, false
	}
	return voters[i], true
}

// byRaftID returns the voter that raft knows as id.
func byRaftID(voters []Voter, id uint64) (Voter, bool) {
	for _, v := range voters {
		if raftID(v.DirID) == id {
			return v, true
		}
	}
	return Voter{}, false
}

// nameLocked returns who raft's id is: a voter, or somebody that a newer voter set than ours may name. Where one listens it knows
// best itself.
func (q *Quorum) nameLocked(id uint64) (Voter, bool) {
	if id == 0 {
		return Voter{}, false
	}
	guides := q.guide.ID != kafka.NoNode && raftID(q.guide.DirID) == id
	if guides && q.follows { // where it is followed, there it listens
		return q.guide, true
	}
	if v, ok := byRaftID(q.strangers, id); ok {
		return v, true
	}
	if v, ok := byRaftID(q.members.newest().voters, id); ok {
		return v, true
	}
	return q.guide, guides
}

// votesLocked reports whether the newest voter set names this node.
func (q *Quorum) votesLocked() bool {
	_, mine := find(q.members.newest().voters, q.self)
	return mine
}

// leadsLocked reports whether raft holds this node for the leader.
func (q *Quorum) leadsLocked() bool {
	return q.leader.ID == q.self.ID && q.leader.DirID == q.self.DirID
}

// Double returns an error if somebody answers in this voter's name where the voter set has it listen, and that is not here: one of the
// two disks is a copy of the other, and together they could vote twice. Call it before Start.
func (q *Quorum) Double(ctx context.Context) error {
	q.mu.Lock()
	voters := q.members.newest().voters
	q.mu.Unlock()
	mine, votes := find(voters, q.self)
	address, known := q.address(mine)
	if !votes || len(voters) < 2 || !known || q.o.Dial == nil || q.self.listensAt(address) {
		return nil
	}
	info, err := q.ask(ctx, address)
	if err != nil || info.clusterID != q.o.ClusterID || info.node.ID != q.self.ID || info.node.DirID != q.self.DirID {
		return nil // it has moved from there
	}
	return fmt.Errorf("node %d with directory id %v runs at %s already, so %s is a copy of its disk: stop that node, or give this one an id and directories of its own",
		q.self.ID, q.self.DirID, address, q.o.Dir)
}

// checkVoters refuses a set in which a node, or one of raft's ids, is there twice. Sets from outside may be large.
func checkVoters(voters []Voter) error {
	byID := make(map[kafka.NodeID]Voter, len(voters))
	byRaft := make(map[uint64]Voter, len(voters))
	for _, v := range voters {
		w, twice := byID[v.ID]
		if !twice {
			w, twice = byRaft[raftID(v.DirID)]
		}
		if twice {
			return fmt.Errorf("voter %d with directory id %v and voter %d with directory id %v are one", v.ID, v.DirID, w.ID, w.DirID)
		}
		byID[v.ID], byRaft[raftID(v.DirID)] = v, v
	}
	return nil
}

func sortVoters(voters []Voter) {
	slices.SortFunc(voters, func(a, b Voter) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), slices.Compare(a.DirID[:], b.DirID[:]))
	})
}

// SameVoter reports whether two are one voter, as itself and where it listens.
func SameVoter(a, b Voter) bool {
	return a.ID == b.ID && a.DirID == b.DirID && slices.Equal(a.Endpoints, b.Endpoints)
}

// raftID makes raft's 64-bit id of a voter out of its directory id, so that a wiped disk comes back as somebody new. Raft
// keeps 0 and the two highest values to itself.
func raftID(dir kafka.DirID) uint64 {
	id := binary.BigEndian.Uint64(dir[:8]) ^ binary.BigEndian.Uint64(dir[8:])
	if id == 0 || id >= math.MaxUint64-1 {
		return 1
	}
	return id
}

// confState is what raft on the node self works with. A node that has no vote is a learner, for itself alone: raft takes
// entries and snapshots only for those it knows. Nobody else hears of it.
func confState(voters []Voter, self kafka.DirID) *pb.ConfState {
	state := pb.EnsureConfState(nil)
	mine := false
	for _, v := range voters {
		state.Voters = append(state.Voters, raftID(v.DirID))
		mine = mine || v.DirID == self
	}
	if !mine && len(voters) > 0 {
		state.Learners = append(state.Learners, raftID(self))
	}
	return state
}
