package quorum

import (
	"cmp"
	"encoding/binary"
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

// byRaftID finds the voter that raft knows as id.
func (m *members) byRaftID(id uint64) (Voter, bool) {
	for _, v := range m.newest().voters {
		if raftID(v.DirID) == id {
			return v, true
		}
	}
	return Voter{}, false
}

func sortVoters(voters []Voter) {
	slices.SortFunc(voters, func(a, b Voter) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), slices.Compare(a.DirID[:], b.DirID[:]))
	})
}

func sameVoter(a, b Voter) bool {
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

func confState(voters []Voter) *pb.ConfState {
	state := pb.EnsureConfState(nil)
	for _, v := range voters {
		state.Voters = append(state.Voters, raftID(v.DirID))
	}
	return state
}
