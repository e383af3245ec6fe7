package quorum

import (
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// handLeadershipOver has another voter elected before this one stops, so that the others need not find out by its silence. It
// gives up after the time that this would take.
func (q *Quorum) handLeadershipOver() {
	q.mu.Lock()
	if !q.started || q.stopped || q.err != nil || !q.leading || q.leaving || len(q.members.newest().voters) < 2 {
		q.mu.Unlock()
		return
	}
	q.leaving = true
	q.resignLocked(ErrStopped)
	signal(q.wake)
	q.mu.Unlock()
	timer := time.NewTimer(2 * electionTicks * q.clock.length)
	defer timer.Stop()
	select {
	case <-q.handed:
	case <-q.failed:
	case <-timer.C:
		q.o.Logger.Warn("nobody took the leadership of the metadata quorum over in time")
	}
}

// handOver asks the voter that has come furthest to stand for election, and tells Stop when this node leads no longer.
func (q *Quorum) handOver() {
	status := q.raft.BasicStatus()
	if status.RaftState != raft.StateLeader {
		select {
		case <-q.handed:
		default:
			close(q.handed)
		}
		return
	}
	if status.LeadTransferee != 0 {
		return
	}
	best, match := uint64(0), uint64(0)
	q.raft.WithProgress(func(id uint64, kind raft.ProgressType, pr tracker.Progress) {
		if id != status.ID && kind == raft.ProgressTypePeer && pr.RecentActive && (best == 0 || pr.Match > match) {
			best, match = id, pr.Match
		}
	})
	if best != 0 {
		q.raft.TransferLeader(best)
	}
}
