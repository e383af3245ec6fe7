package quorum

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
func (q *Quorum) run(ctx context.Context) {
	// Raft's answer to a failed Storage.Entries is a panic, for want of another way out. In that case the disk is broken and
	// not the program.
	defer func() {
		if err := q.store.readErr; err != nil {
			_ = recover()
			q.fail(err)
		}
		q.clock.run(false)
		q.settle()
	}()
	for {
		q.step(ctx)
		for q.raft.HasReady() {
			ready := q.raft.Ready()
			if err := q.handle(ctx, ready); err != nil {
				if !errors.Is(err, ErrStopped) {
					q.fail(err)
				}
				return
			}
			q.raft.Advance(ready)
			q.observeRole()
			q.settle()
			// What was proposed or came in while handle synced joins the next group.
			q.step(ctx)
		}
		q.settle()
		if q.campaigns() {
			continue
		}
		q.clock.run(q.waits())
		select {
		case <-q.stop:
		case <-q.failed: // the Listener refused something
		case <-q.wake:
		case <-q.clock.C():
			q.clock.due = true
		}
		if q.over() {
			return
		}
	}
}

// settle tells those who handed something in that it has been acted on.
func (q *Quorum) settle() {
	for _, done := range q.settling {
		done <- struct{}{}
	}
	q.settling = nil
}

// alone reports whether this node is the only voter, and waits whether there are others whose silence would mean something.
func (q *Quorum) alone() bool { return len(q.conf) == 1 && q.conf[0] == raftID(q.self.DirID) }

func (q *Quorum) waits() bool {
	return len(q.conf) > 1 && slices.Contains(q.conf, raftID(q.self.DirID))
}

// campaigns starts an election when there is nobody to wait for. All that is known to be committed has been through handle
// by now, so every voter change among it is in force.
func (q *Quorum) campaigns() bool {
	if !q.alone() || q.raft.BasicStatus().RaftState == raft.StateLeader {
		return false
	}
	err := q.raft.Campaign()
	invariant.Check(err == nil && q.raft.HasReady(), "a sole voter cannot campaign: %v", err)
	return true
}

// step hands raft what has come from others and from this node.
func (q *Quorum) step(ctx context.Context) {
	q.mu.Lock()
	arrivals, unreachable := q.arrivals, q.unreachable
	q.arrivals, q.arrivalBytes, q.unreachable = nil, 0, nil
	leaving := q.leaving
	q.mu.Unlock()
	for _, id := range unreachable {
		q.raft.ReportUnreachable(id)
	}
	q.quiet = len(arrivals) > 0
	for _, a := range arrivals {
		q.take(ctx, a)
		q.observeRole()
	}
	if q.clock.take() {
		q.tick()
	}
	if leaving {
		q.handOver()
	}
	q.proposeQueue()
}

// tick lets raft's time pass.
func (q *Quorum) tick() {
	q.raft.Tick()
	q.standEarly()
	status := q.raft.BasicStatus()
	if status.Lead == 0 {
		q.leaderless++
	} else {
		q.leaderless = 0
	}
	if status.RaftState != raft.StateLeader {
		clear(q.snapshotSent)
	}
	for _, id := range slices.Sorted(maps.Keys(q.snapshotSent)) {
		// Nobody tells whether the follower has fetched it. If it has, it says so with its next answer; if not it is told again.
		if q.clock.ticks-q.snapshotSent[id] >= electionTicks {
			delete(q.snapshotSent, id)
			q.raft.ReportSnapshot(id, raft.SnapshotFailure)
		}
	}
	q.observeRole()
}

// proposeQueue hands what was proposed to raft.
func (q *Quorum) proposeQueue() {
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

// handle does what raft asks for: a snapshot, term and vote, then entries, durably; then what is committed. A follower's
// messages wait for the disk, since they promise what is on it. A leader's do not: its own share in a majority is counted
// when this has returned.
func (q *Quorum) handle(ctx context.Context, ready raft.Ready) error {
	leads := q.raft.BasicStatus().RaftState == raft.StateLeader
	if leads {
		q.send(ctx, ready.Messages)
	}
	if !raft.IsEmptySnap(ready.Snapshot) {
		if err := q.patiently(func() error { return q.install(ready.Snapshot) }); err != nil {
			return err
		}
	}
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
	if !leads {
		q.send(ctx, ready.Messages)
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
	leader, known := q.nameLocked(q.raft.BasicStatus().Lead)
	vote, voted := q.nameLocked(hard.GetVote())
	q.mu.Unlock()
	leaderID := kafka.NoNode
	if known {
		leaderID = leader.ID
	}
	invariant.Check(voted || hard.GetVote() == 0, "vote for %x, who never asked for it", hard.GetVote())
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
	q.highWatermark, q.commit = last.end, entries[len(entries)-1].GetIndex()
	q.changeLocked()
	signal(q.applyWake)
	return nil
}

// applyVoters brings a voter set into force that an entry states.
func (q *Quorum) applyVoters(e *pb.Entry) error {
	if e.GetType() == pb.EntryConfChangeV2 {
		_, voters, err := confChangeVoters(e.GetData())
		if err != nil {
			return err
		}
		return q.setVoters(e.GetIndex(), voters)
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
		if err != nil {
			return err
		}
		if slices.EqualFunc(q.conf, voters, func(id uint64, v Voter) bool { return id == raftID(v.DirID) }) {
			q.addVoters(e.GetIndex(), voters) // what was formed, told once more
			return nil
		}
		return q.setVoters(e.GetIndex(), voters)
	})
}

// setVoters makes voters the set that raft works with.
func (q *Quorum) setVoters(index uint64, voters []Voter) error {
	changes := q.changesTo(voters)
	if len(voters) == 0 || len(q.conf) > 0 && len(changes) > 1 {
		return fmt.Errorf("the voter set of raft entry %d is more than one change away from the one before", index)
	}
	// Raft works with a set from its application on. A node that forgot one it had applied could win an election in the set
	// before: two leaders in one term. A start applies older sets again, and must not forget the newest meanwhile.
	durable, err := readCommit(q.store.fs, q.store.dir)
	if err == nil && durable < index {
		err = q.patiently(func() error { return writeCommit(q.store.fs, q.store.dir, index) })
	}
	if err != nil {
		return fmt.Errorf("store the commit index: %w", err)
	}
	q.addVoters(index, voters)
	for _, c := range changes {
		q.raft.ApplyConfChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{c}})
	}
	before := q.conf
	q.conf = confState(voters, q.self.DirID).GetVoters()
	if lead := q.raft.BasicStatus().Lead; slices.Contains(before, lead) && !slices.Contains(q.conf, lead) {
		q.vacate(lead, "has no vote any more")
	}
	return nil
}

// changesTo lists what raft has to be told for its voters to be the given ones. The first set of an observer takes several
// changes, later ones take one, or none if only endpoints changed. This node stays as a learner where it is no voter.
func (q *Quorum) changesTo(voters []Voter) (changes []*pb.ConfChangeSingle) {
	want := confState(voters, q.self.DirID).GetVoters()
	self := raftID(q.self.DirID)
	add := func(kind pb.ConfChangeType, id uint64) {
		changes = append(changes, &pb.ConfChangeSingle{Type: kind.Enum(), NodeId: new(id)})
	}
	for _, id := range want {
		if !slices.Contains(q.conf, id) {
			add(pb.ConfChangeAddNode, id)
		}
	}
	for _, id := range q.conf {
		switch {
		case slices.Contains(want, id):
		case id == self:
			add(pb.ConfChangeAddLearnerNode, id)
		default:
			add(pb.ConfChangeRemoveNode, id)
		}
	}
	if len(q.conf) == 0 && !slices.Contains(want, self) {
		add(pb.ConfChangeAddLearnerNode, self)
	}
	return changes
}

func (q *Quorum) addVoters(index uint64, voters []Voter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.members.add(index, voters)
	q.joins = q.joins && !q.votesLocked() // should somebody take the vote from it later, that was meant
	q.forgetStrangersLocked()
	q.followLocked()
	signal(q.errandWake)
}
