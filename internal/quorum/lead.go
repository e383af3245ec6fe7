package quorum

import (
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/kafka"
)

// observeRole acts on what raft thinks of the leadership now.
func (q *Quorum) observeRole() {
	status := q.raft.BasicStatus()
	leads := status.RaftState == raft.StateLeader
	q.mu.Lock()
	defer q.mu.Unlock()
	leader := kafka.NoNode
	if v, ok := q.members.byRaftID(status.Lead); ok {
		leader = v.ID
	}
	epoch := kafka.Epoch(status.HardState.GetTerm())
	if q.leading && (!leads || epoch != q.epoch) {
		q.resignLocked(ErrNotLeader)
	}
	if leader != q.leader || epoch != q.epoch {
		q.leader, q.epoch = leader, epoch
		q.changeLocked()
	}
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
	b := leaderChangeBatch(index, q.self.ID, set.voters, []Voter{q.self}, !set.inLog, now)
	q.next = q.store.log.LogEnd() + 1 + int64(b.Count())
	q.leading = true
	q.leaderChange = index
	q.queue = append(q.queue, proposal{data: b})
	q.events = append(q.events, event{lead: true, epoch: q.epoch, after: q.next})
}

// correctEndpointsLocked proposes a voter change if this node's listeners are others than the voter set says. Raft takes it
// only when the leader's first entries have been applied. Mirrors UpdateRaftVoter; KIP-853.
func (q *Quorum) correctEndpointsLocked() {
	voters := slices.Clone(q.members.newest().voters)
	i := slices.IndexFunc(voters, func(v Voter) bool { return v.ID == q.self.ID && v.DirID == q.self.DirID })
	if i < 0 || sameVoter(voters[i], q.self) {
		return
	}
	voters[i] = q.self
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
