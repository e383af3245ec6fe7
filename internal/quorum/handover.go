package quorum

import (
	"context"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// HandOver has another voter elected before this node stops, if it leads, so that the others need not find out by its silence. The
// answers of the others have to find their way to this node meanwhile. It gives up when ctx ends, or after the time that finding
// out would take. Stop does it too, for those who did not.
func (q *Quorum) HandOver(ctx context.Context) {
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
		return
	case <-q.failed:
		return
	case <-ctx.Done():
	case <-timer.C:
	}
	q.o.Logger.Warn("nobody took the leadership of the metadata quorum over in time")
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
