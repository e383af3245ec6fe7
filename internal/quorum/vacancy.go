package quorum

import (
	"slices"

	"go.etcd.io/raft/v3"
)

// A leader whose process has ended need not be missed by its silence: its connections break, and the machine refuses new ones. A
// voter that finds both forgets its leader, so that it gives its pre-vote to whoever asks, and stands for election itself when it
// is its turn. One voter that is wrong about it changes nothing: the others, who hear the leader, ignore it, and the leader's next
// heartbeat is heard here too. Only who has a majority's word that the leader is gone is elected.
//
// A leader whose vote is taken leaves as well: it resigns as soon as it knows that to be committed, and its last message says so to
// the others.

// vacancy is a leadership without a leader.
type vacancy struct {
	term  uint64 // of the leader that is gone; 0: there is none
	gone  uint64 // its raft id
	ticks int    // since it was found out
}

// turnTicks is between the turns of two voters. An election takes less, so that the second is not in the first one's way.
const turnTicks = 2

// knocks reports whether a link has to find out what became of the other side although nobody has anything to say to it.
func (q *Quorum) knocks(l *link) bool {
	if l.conn != nil || !l.worked {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.leader.ID >= 0 && raftID(q.leader.DirID) == l.to
}

// tellGone tells the loop that the leader refuses connections. It does so once for each connection that there was: a leader that
// refuses this node alone, a firewall perhaps, is forgotten once and then goes on.
func (q *Quorum) tellGone(l *link) {
	if !q.knocks(l) {
		return
	}
	l.worked = false
	_ = q.enqueue(arrival{gone: l.to}) // if it cannot be told, silence will tell
}

// vacate forgets the leader if it is the voter that is gone.
func (q *Quorum) vacate(gone uint64, why string) {
	status := q.raft.BasicStatus()
	if status.Lead != gone || status.RaftState != raft.StateFollower || !q.waits() {
		return
	}
	_ = q.raft.ForgetLeader() // never fails on a follower
	q.vacancy = vacancy{term: status.HardState.GetTerm(), gone: gone}
	q.o.Logger.Info("the leader of the metadata quorum "+why+"; looking for another", "epoch", q.vacancy.term)
}

// standEarly campaigns while there is a vacancy and it is this voter's turn. The first may come too soon, before the others know of
// the vacancy, or have too short a log; so there is a next turn, until somebody is a candidate in earnest or raft's own time is up.
func (q *Quorum) standEarly() {
	v := &q.vacancy
	if v.term == 0 {
		return
	}
	status := q.raft.BasicStatus()
	if status.HardState.GetTerm() != v.term || status.Lead != 0 || v.ticks >= electionTicks {
		*v = vacancy{}
		return
	}
	before, others := 0, 0 // voters whose turn comes before this one's, and all that may have one
	for _, id := range q.conf {
		if id == v.gone {
			continue
		}
		others++
		if id < status.ID {
			before++
		}
	}
	if turn := v.ticks % (others * turnTicks); turn == before*turnTicks && slices.Contains(q.conf, status.ID) {
		_ = q.raft.Campaign() // never fails; a node that may not campaign now does not
	}
	v.ticks++
}
