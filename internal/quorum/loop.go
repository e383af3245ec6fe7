package quorum

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/batch"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// run is the loop around raft.
func (q *Quorum) run() {
	// Raft's answer to a failed Storage.Entries is a panic, for want of another way out. In that case the disk is broken and
	// not the program.
	defer func() {
		if err := q.store.readErr; err != nil {
			_ = recover()
			q.fail(err)
		}
	}()
	for {
		q.step()
		for q.raft.HasReady() {
			ready := q.raft.Ready()
			if err := q.handle(ready); err != nil {
				if !errors.Is(err, ErrStopped) {
					q.fail(err)
				}
				return
			}
			q.raft.Advance(ready)
			q.observeRole()
			// What was proposed while handle synced joins the next group.
			q.step()
		}
		if q.campaigns() {
			continue
		}
		select {
		case <-q.stop:
		case <-q.failed: // the Listener refused something
		case <-q.wake:
		}
		if q.over() {
			return
		}
	}
}

// campaigns starts an election when there is nobody to wait for. All that is known to be committed has been through handle
// by now, so every voter change among it is in force.
func (q *Quorum) campaigns() bool {
	if q.raft.BasicStatus().RaftState == raft.StateLeader {
		return false
	}
	err := q.raft.Campaign()
	invariant.Check(err == nil && q.raft.HasReady(), "a sole voter cannot campaign: %v", err)
	return true
}

// step hands what was proposed to raft.
func (q *Quorum) step() {
	q.mu.Lock()
	queue := q.queue
	q.queue = nil
	q.mu.Unlock()
	for _, p := range queue {
		var err error
		if p.change != nil {
			err = q.raft.ProposeConfChange(p.change)
		} else {
			err = q.raft.Propose(p.data)
		}
		if err != nil {
			// Leadership is lost or on its way to somebody else. Offsets promised to the rest of the queue are void too.
			q.o.Logger.Warn("raft dropped a proposal", "err", err)
			q.mu.Lock()
			q.resignLocked(ErrNotLeader)
			q.mu.Unlock()
			return
		}
	}
}

// handle does what raft asks for: term and vote, then entries, durably; then what is committed.
func (q *Quorum) handle(ready raft.Ready) error {
	invariant.Check(len(ready.Messages) == 0 && raft.IsEmptySnap(ready.Snapshot), "a sole voter has a message for somebody")
	if !raft.IsEmptyHardState(ready.HardState) {
		if err := q.patiently(func() error { return q.saveState(ready.HardState) }); err != nil {
			return err
		}
	}
	if len(ready.Entries) > 0 {
		started := q.o.Now()
		var n int
		err := q.patiently(func() (err error) {
			n, err = q.store.append(ready.Entries)
			return err
		})
		if err != nil {
			return fmt.Errorf("store %d raft entries: %w", len(ready.Entries), err)
		}
		q.metrics.appended(len(ready.Entries), n, q.o.Now().Sub(started))
	}
	if len(ready.CommittedEntries) > 0 {
		return q.committed(ready.CommittedEntries)
	}
	return nil
}

// fullDiskRetry is how long the loop waits for space on a full disk before it tries again.
const fullDiskRetry = time.Second

// patiently does what must be stored before the loop may go on, and waits while the disk is full: nothing is lost by it, and
// no restart should be needed when there is space again. What commitlog could not undo it reports as a storage error, and that
// is not tried again.
func (q *Quorum) patiently(write func() error) error {
	for told := false; ; told = true {
		err := write()
		if !errors.Is(err, syscall.ENOSPC) || errors.Is(err, kerr.KafkaStorageError) {
			return err
		}
		if !told {
			q.o.Logger.Error("the disk of the metadata log is full; changes wait for space", "dir", q.o.Dir, "err", err)
		}
		select {
		case <-q.stop:
			return ErrStopped
		case <-time.After(fullDiskRetry):
		}
	}
}

// saveState makes term and vote durable if they changed.
func (q *Quorum) saveState(hard *pb.HardState) error {
	old := q.store.stored
	if hard.GetTerm() == old.GetTerm() && hard.GetVote() == old.GetVote() {
		return nil
	}
	epoch, err := epochOf(hard.GetTerm())
	if err != nil {
		return err
	}
	q.mu.Lock()
	leader, known := q.members.byRaftID(q.raft.BasicStatus().Lead)
	vote, voted := q.members.byRaftID(hard.GetVote())
	q.mu.Unlock()
	leaderID := kafka.NoNode
	if known {
		leaderID = leader.ID
	}
	invariant.Check(voted || hard.GetVote() == 0, "vote for %x, who is no voter", hard.GetVote())
	var votedFor *Voter
	if voted {
		votedFor = &vote
	}
	if err := writeState(q.store.fs, q.store.dir, epoch, leaderID, votedFor); err != nil {
		return fmt.Errorf("store term and vote: %w", err)
	}
	q.store.stored = hard
	return nil
}

// committed applies voter changes and moves the high watermark.
func (q *Quorum) committed(entries []*pb.Entry) error {
	for _, e := range entries {
		if err := q.applyVoters(e); err != nil {
			return err
		}
	}
	last, err := q.store.position(entries[len(entries)-1].GetIndex())
	invariant.Check(err == nil, "committed entry is not in the log: %v", err)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.highWatermark = last.end
	q.changeLocked()
	signal(q.applyWake)
	return nil
}

func (q *Quorum) applyVoters(e *pb.Entry) error {
	if e.GetType() == pb.EntryConfChangeV2 {
		change, voters, err := confChangeVoters(e.GetData())
		if err != nil {
			return err
		}
		// Raft works with a set from its application on. A node that forgot one it had applied could win an election in the
		// set before: two leaders in one term.
		if err := writeCommit(q.store.fs, q.store.dir, e.GetIndex()); err != nil {
			return fmt.Errorf("store the commit index: %w", err)
		}
		q.raft.ApplyConfChange(change)
		q.addVoters(e.GetIndex(), voters)
		return nil
	}
	b := batch.Batch(e.GetData())
	if len(b) == 0 || !b.Control() {
		return nil
	}
	return eachControl(b, func(kind batch.ControlType, value []byte) error {
		if kind != batch.ControlKRaftVoters {
			return nil
		}
		voters, _, err := parseVoters(value)
		if err == nil {
			q.addVoters(e.GetIndex(), voters)
		}
		return err
	})
}

func (q *Quorum) addVoters(index uint64, voters []Voter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.members.add(index, voters)
}
