package quorum

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
)

const (
	// maxArrivalBytes bounds what has come from others and the loop has not taken yet.
	maxArrivalBytes = 16 << 20
	// maxStrangers bounds how many senders are remembered that no known voter set names.
	maxStrangers = 16
)

// arrival is a message for raft, or news of a voter.
type arrival struct {
	message  *pb.Message // nil: from has told where it listens, if neither forget nor gone
	from     Voter
	fetched  bool            // made out of an answer to Fetch or FetchSnapshot: nobody waits for what raft says to it
	snapshot *snapshot       // the file that a MsgSnap made of FetchSnapshot is about
	forget   bool            // no message: the leader that Fetch told is gone
	gone     uint64          // no message: nothing listens any more where this voter did
	done     chan<- struct{} // if not nil: gets a value when the arrival has been acted on; of capacity one
}

// grants are the votes that this node got in a term.
type grants struct {
	term uint64
	by   []uint64
}

// Receive takes the body of a request with wire.RaftKey: messages of another voter. The error is a kerr value:
// INVALID_REQUEST, INCONSISTENT_CLUSTER_ID, INVALID_VOTER_KEY if they are for somebody else, or one that says that this node
// cannot take them now.
func (q *Quorum) Receive(body []byte) error {
	l, err := readLetter(body)
	if err != nil {
		return err
	}
	switch self := raftID(q.self.DirID); {
	case l.clusterID != q.o.ClusterID:
		return fmt.Errorf("node %d is of cluster %q, this one of %q: %w", l.from.ID, l.clusterID, q.o.ClusterID, kerr.InconsistentClusterID)
	case !q.o.CanVote || l.to != self:
		return fmt.Errorf("messages for voter %x came to node %d with directory id %v: %w", l.to, q.self.ID, q.self.DirID, kerr.InvalidVoterKey)
	case raftID(l.from.DirID) == self:
		return fmt.Errorf("node %d sends messages in this node's name: %w", l.from.ID, kerr.InvalidVoterKey)
	}
	arrivals := make([]arrival, 0, len(l.messages))
	for _, m := range l.messages {
		arrivals = append(arrivals, arrival{message: m, from: l.from})
	}
	return q.enqueue(arrivals...)
}

// enqueue hands arrivals to the loop.
func (q *Quorum) enqueue(arrivals ...arrival) error {
	size := 0
	for _, a := range arrivals {
		size += messageBytes(a.message)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.err != nil:
		return q.err
	case q.stopped || !q.started:
		return ErrStopped
	case q.arrivalBytes > 0 && q.arrivalBytes+size > maxArrivalBytes:
		return ErrBusy
	}
	q.arrivals = append(q.arrivals, arrivals...)
	q.arrivalBytes += size
	signal(q.wake)
	return nil
}

// take hands one message to raft.
func (q *Quorum) take(ctx context.Context, a arrival) {
	m := a.message
	if a.done != nil {
		q.settling = append(q.settling, a.done)
	}
	switch {
	case a.forget:
		if len(q.conf) == 0 || !slices.Contains(q.conf, raftID(q.self.DirID)) {
			_ = q.raft.ForgetLeader() // never fails on a follower
		}
		return
	case a.gone != 0:
		q.vacate(a.gone, "refuses connections")
		return
	case m == nil:
		q.meet(a.from, q.raft.BasicStatus())
		return
	}
	q.quiet = q.quiet && a.fetched
	status := q.raft.BasicStatus()
	if err := q.checkArrival(m, status); err != nil {
		if q.dropped.due(q.o.Now()) {
			q.o.Logger.Warn("a message of another voter was dropped", "from", a.from.ID, "type", m.GetType(), "err", err)
		}
		return
	}
	if a.fetched {
		q.mu.Lock()
		q.guide = a.from
		q.mu.Unlock()
	} else {
		q.meet(a.from, status)
	}
	switch m.GetType() {
	case pb.MsgHeartbeat:
		// The leader tells at most what this node has acknowledged. What is in raft and not on disk yet does not count here.
		m.Commit = new(min(m.GetCommit(), q.store.lastIndex()))
	case pb.MsgPreVote, pb.MsgVote:
		q.learnCommit(m, status)
	case pb.MsgSnap:
		if !q.takeSnapshotMessage(ctx, a, status) {
			return
		}
	case pb.MsgVoteResp:
		if q.grants.term != m.GetTerm() {
			q.grants = grants{term: m.GetTerm()}
		}
		if !m.GetReject() {
			q.grants.by = append(q.grants.by, m.GetFrom())
		}
	}
	if err := q.raft.Step(m); err != nil {
		q.o.Logger.Debug("raft did not take a message", "from", a.from.ID, "type", m.GetType(), "err", err)
		return
	}
	if t := m.GetType(); (t == pb.MsgAppResp || t == pb.MsgHeartbeatResp) && m.GetTerm() == q.raft.BasicStatus().HardState.GetTerm() {
		q.noteProgress(a.from, m.GetFrom())
	}
}

// maxTermsAhead is how far a message's term may be above this node's: the terms of Kafka's protocol end at 2^31, and a voter that
// is out of its mind must not use them up at once.
const maxTermsAhead = 1 << 24

// checkArrival refuses what raft, as it is now, would panic on, and terms out of nothing.
func (q *Quorum) checkArrival(m *pb.Message, status raft.BasicStatus) error {
	if own := status.HardState.GetTerm(); own > 0 && m.GetTerm() > own+maxTermsAhead {
		return fmt.Errorf("it has term %d, and this node %d: nobody misses so many elections", m.GetTerm(), own)
	}
	switch m.GetType() {
	case pb.MsgAppResp:
		if m.GetTerm() != status.HardState.GetTerm() {
			return nil
		}
		if last := q.store.lastIndex(); !m.GetReject() && m.GetIndex() > last {
			return fmt.Errorf("it acknowledges entry %d, and the last is %d", m.GetIndex(), last)
		}
		// Raft would send the same once more at once, and get the same answer, for as long as the two live. A heartbeat later is
		// soon enough.
		if match := q.match(m.GetFrom()); m.GetReject() && m.GetIndex() <= match {
			return fmt.Errorf("it refuses what follows entry %d, and has acknowledged entry %d before; its log may be another one's", m.GetIndex(), match)
		}
	case pb.MsgPreVote:
		// A node that knows no term yet has none to refuse a vote with.
		last := q.store.lastIndex()
		at, err := q.store.position(last)
		if err != nil {
			return err
		}
		if behind := m.GetLogTerm() < uint64(at.epoch) || m.GetLogTerm() == uint64(at.epoch) && m.GetIndex() < last; behind && status.HardState.GetTerm() == 0 {
			return fmt.Errorf("it would lead with entries up to %d, and there are %d", m.GetIndex(), last)
		}
	case pb.MsgTimeoutNow:
		if m.GetFrom() != status.Lead || m.GetTerm() != status.HardState.GetTerm() {
			return fmt.Errorf("only the leader may ask for an election")
		}
	}
	return nil
}

// learnCommit has raft commit what a candidate knows to be committed, if this log is the candidate's up to where that ends. Who has
// the longer log, and has not heard of the voter set that it could be elected in, would wait for a leader for ever: without it
// nobody else wins. Raft takes such news from a leader only.
func (q *Quorum) learnCommit(m *pb.Message, status raft.BasicStatus) {
	// What raft holds and the store has not got yet may differ from what the store has.
	if status.Lead != 0 || m.GetCommit() <= status.HardState.GetCommit() || m.GetCommit() > m.GetIndex() || q.raft.HasReady() {
		return
	}
	if at, err := q.store.position(m.GetIndex()); err != nil || uint64(at.epoch) != m.GetLogTerm() {
		return
	}
	news := &pb.Message{Type: pb.MsgHeartbeat.Enum(), From: m.From, To: m.To, Term: new(status.HardState.GetTerm()), Commit: m.Commit}
	if err := q.raft.Step(news); err != nil {
		q.o.Logger.Debug("raft did not take what a candidate knows", "err", err)
		return
	}
	_ = q.raft.ForgetLeader() // never fails on a follower
}

// match is the last entry that a voter is known to have, if this node leads.
func (q *Quorum) match(id uint64) (index uint64) {
	q.raft.WithProgress(func(of uint64, _ raft.ProgressType, pr tracker.Progress) {
		if of == id {
			index = pr.Match
		}
	})
	return index
}

// meet remembers who sends messages, so that raft's answers find the way: a voter that was added lately may lead before its
// voter set has come here, and one that listens elsewhere than before has to be elected, or to elect, before a voter set can say so.
func (q *Quorum) meet(from Voter, status raft.BasicStatus) {
	q.mu.Lock()
	defer q.mu.Unlock()
	id := raftID(from.DirID)
	if raftID(q.guide.DirID) == id { // it was followed where it listened before
		q.guide = from
	}
	if v, ok := byRaftID(q.members.newest().voters, id); ok && SameVoter(v, from) {
		q.strangers = slices.DeleteFunc(q.strangers, func(v Voter) bool { return raftID(v.DirID) == id })
		return
	}
	for i, v := range q.strangers {
		if raftID(v.DirID) == id {
			q.strangers[i] = from
			return
		}
	}
	q.strangers = append(q.strangers, from)
	for i := 0; len(q.strangers) > maxStrangers; i++ {
		if known := raftID(q.strangers[i].DirID); known != status.HardState.GetVote() && known != status.Lead {
			q.strangers = append(q.strangers[:i:i], q.strangers[i+1:]...)
			i--
		}
	}
}

// forgetStrangersLocked drops those that the voter set names by now, as they are.
func (q *Quorum) forgetStrangersLocked() {
	kept := q.strangers[:0]
	for _, v := range q.strangers {
		if known, ok := byRaftID(q.members.newest().voters, raftID(v.DirID)); !ok || !SameVoter(known, v) {
			kept = append(kept, v)
		}
	}
	q.strangers = kept
}

// noteProgress notes how far a voter is that has just answered.
func (q *Quorum) noteProgress(from Voter, id uint64) {
	now := q.o.Now().UnixMilli()
	q.raft.WithProgress(func(of uint64, _ raft.ProgressType, pr tracker.Progress) {
		if of != id || q.raft.BasicStatus().RaftState != raft.StateLeader {
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		p, ok := q.peers[id]
		if !ok {
			p = Replica{ID: from.ID, DirID: from.DirID, LogEnd: -1, LastCaughtUpMs: -1}
		}
		p.LastFetchMs = now
		if at, err := q.store.position(pr.Match); err == nil {
			p.LogEnd = at.end
		}
		if pr.Match == q.store.lastIndex() {
			p.LastCaughtUpMs = now
		}
		q.peers[id] = p
	})
}
