package quorum

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/kafka"
)

// observeRole acts on what raft thinks of the leadership now. It has to come after every step that may win an election and
// before anything is stored after it.
func (q *Quorum) observeRole() {
	status := q.raft.BasicStatus()
	leads := status.RaftState == raft.StateLeader
	q.mu.Lock()
	defer q.mu.Unlock()
	leader, known := q.nameLocked(status.Lead)
	if !known {
		leader = Voter{ID: kafka.NoNode}
	}
	epoch := kafka.Epoch(status.HardState.GetTerm())
	if q.leading && (!leads || epoch != q.epoch) {
		q.resignLocked(ErrNotLeader)
	}
	if !SameVoter(leader, q.leader) || epoch != q.epoch {
		if leader.ID != q.leader.ID {
			q.metrics.leaderChanged()
		}
		q.leader, q.epoch = leader, epoch
		q.changeLocked()
		signal(q.errandWake)
	}
	q.followLocked()
	switch {
	case q.stopped || q.err != nil:
		// Too late to lead anything.
	case leads && status.HardState.GetTerm() != q.ledTerm:
		q.ledTerm, q.endpoints = status.HardState.GetTerm(), false
		q.announceLocked()
	case leads && q.leading && !q.endpoints && status.Applied >= q.leaderChange:
		q.endpoints = true
		q.correctEndpointsLocked()
	}
}

// announceLocked proposes the LeaderChange that a leadership starts with and tells the Listener when it is committed. Raft
// has appended its empty entry, one record, and nothing else yet: the log's own end is one before the end that counts.
func (q *Quorum) announceLocked() {
	index := q.store.lastIndex() + 2
	now := q.o.Now().UnixMilli()
	set := q.members.newest()
	granting := []Voter{q.self}
	for _, v := range set.voters {
		if q.grants.term == q.ledTerm && slices.Contains(q.grants.by, raftID(v.DirID)) {
			granting = append(granting, v)
		}
	}
	b := leaderChangeBatch(index, q.self.ID, set.voters, granting, !set.inLog, now)
	q.next = q.store.log.LogEnd() + 1 + int64(b.Count())
	q.announced = q.next
	q.leading = true
	clear(q.peers)
	q.leaderChange = index
	q.queue = append(q.queue, proposal{data: b})
	q.events = append(q.events, event{lead: true, epoch: q.epoch, after: q.next})
}

// correctEndpointsLocked proposes a voter change if this node's listeners are others than the voter set says. Raft takes it
// only when the leader's first entries have been applied. Mirrors UpdateRaftVoter; KIP-853.
func (q *Quorum) correctEndpointsLocked() {
	voters, changed := withEndpoints(q.members.newest().voters, q.self)
	if !changed {
		return
	}
	change := &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{
		{Type: pb.ConfChangeUpdateNode.Enum(), NodeId: new(raftID(q.self.DirID))},
	}}
	q.next++
	q.queue = append(q.queue, proposal{change: encodeConfChange(change, voters, q.o.Now().UnixMilli())})
}

// resignLocked ends this node's leadership, if it has one: what is not committed yet may never be.
func (q *Quorum) resignLocked(reason error) {
	if !q.leading {
		return
	}
	q.leading = false
	q.queue = nil
	kept := 0
	for kept < len(q.inflight) && q.inflight[kept].last < q.highWatermark {
		kept++ // committed; the Listener is about to get it
	}
	q.releaseLocked(q.inflight[kept:], reason)
	q.inflight = q.inflight[:kept]
	if n := len(q.events); n > 0 && q.events[n-1].lead {
		q.events = q.events[:n-1] // nobody has heard of it
	} else {
		q.events = append(q.events, event{epoch: q.epoch})
	}
	signal(q.applyWake)
}
