package quorum

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"moldau/internal/batch"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// MaxBatchBytes is the largest record batch, header included, that one Propose may make.
const MaxBatchBytes = 1 << 20

// KRaftLevel is the level of the feature kraft.version that this log has: voters in the log (KIP-853).
const KRaftLevel int16 = 1

// TopicName is the name of the metadata partition's topic; its only partition is 0.
const TopicName = "__cluster_metadata"

// ErrNotLeader says that this node does not lead, or no longer leads, the epoch that was named. A proposal that ends with
// it may still be committed by a later leader. It is Kafka's NOT_CONTROLLER.
var ErrNotLeader = fmt.Errorf("this node does not lead the metadata quorum: %w", kerr.NotController)

// ErrBusy says that too much is proposed and not yet delivered. It is retriable.
var ErrBusy = fmt.Errorf("the metadata log is behind with its writes: %w", kerr.RequestTimedOut)

// ErrStopped says that Stop was called.
var ErrStopped = errors.New("the metadata quorum is stopped")

// Listener receives what is committed. Its methods are called by one goroutine, in order. An error ends the quorum.
type Listener interface {
	// Snapshot replaces the state. appendTimestamp is that of the last record the snapshot covers, in ms. The records are
	// valid until the next one is asked for.
	Snapshot(id SnapshotID, appendTimestamp int64, records iter.Seq2[[]byte, error]) error
	// Commit brings the records of one batch, the first of them at offset base. Their bytes must not be changed and may
	// be kept. Control batches are left out, so bases have gaps.
	Commit(base kafka.Offset, epoch kafka.Epoch, appendTimestamp int64, records [][]byte) error
	// Lead says that this node leads epoch, and that everything committed before has been delivered.
	Lead(epoch kafka.Epoch)
	// Resign says that the leadership announced for epoch is over.
	Resign(epoch kafka.Epoch)
}

// Options says where the log is and who this node is.
type Options struct {
	FS        vfs.FS
	Dir       string // metadata.log.dir
	NodeID    kafka.NodeID
	DirID     kafka.DirID // of Dir
	Endpoints []Endpoint  // this node's controller listeners, for the voter set
	Listener  Listener
	Now       func() time.Time
	Logger    *slog.Logger
	Metrics   *metrics.Set // nil: none

	SegmentBytes       int   // metadata.log.segment.bytes; at most about SnapshotMaxBytes is made use of
	SegmentMs          int64 // metadata.log.segment.ms
	SnapshotMaxBytes   int64 // metadata.log.max.record.bytes.between.snapshots
	SnapshotIntervalMs int64 // metadata.log.max.snapshot.interval.ms; 0 is never
	RetentionBytes     int64 // metadata.max.retention.bytes; -1 is without limit
	RetentionMs        int64 // metadata.max.retention.ms; -1 is without limit
}

// Endpoint is a controller listener of a voter.
type Endpoint struct {
	Name string
	Host string
	Port uint16
}

// Voter is a member of the voter set.
type Voter struct {
	ID        kafka.NodeID
	DirID     kafka.DirID
	Endpoints []Endpoint
}

// SnapshotID names a snapshot: all records below EndOffset, the last of them of Epoch.
type SnapshotID struct {
	EndOffset kafka.Offset
	Epoch     kafka.Epoch
}

// Quorum is this node's part of the metadata quorum.
type Quorum struct {
	o     Options
	self  Voter
	store *store

	// For the loop alone.
	raft         *raft.RawNode
	ledTerm      uint64 // the last term whose leadership was announced
	leaderChange uint64 // index of the entry that announced it
	endpoints    bool   // this leadership has looked whether the voter set names our endpoints right

	snapshotting xsync.Mutex // held by WriteSnapshot; taken before mu and the store's

	mu            xsync.Mutex // guards what follows; never held across disk I/O or a call of the Listener
	leader        kafka.NodeID
	epoch         kafka.Epoch // raft's term
	leading       bool        // Propose is allowed: the LeaderChange of epoch is on its way or in the log
	next          kafka.Offset
	queue         []proposal // for the loop
	inflight      []waiting  // by ascending offset
	inflightBytes int
	highWatermark kafka.Offset
	delivered     kafka.Offset // the Listener has had everything below
	events        []event      // for the Listener, in order
	members       members
	observers     map[observer]*Replica
	changed       chan struct{} // nil until somebody asks for it
	sinceSnapshot int64         // bytes delivered and in no snapshot
	snapshotEra   int           // counts snapshots taken
	overdue       bool          // the snapshot interval has passed since the last one
	wishPending   bool          // a snapshot was asked for and is not done
	err           error
	stopped       bool

	wake           chan struct{} // the queue has something
	applyWake      chan struct{} // there is something for the Listener
	snapshotWanted chan struct{}
	stop           chan struct{} // closed by Stop
	failed         chan struct{} // closed by fail
	goroutines     sync.WaitGroup
	metrics        *quorumMetrics
}

// Open recovers the metadata log, or forms a new one whose only voter is this node. Nothing runs before Start.
func Open(o Options) (*Quorum, error) {
	self := Voter{ID: o.NodeID, DirID: o.DirID, Endpoints: o.Endpoints}
	s, err := openStore(o, []Voter{self})
	if err != nil {
		return nil, fmt.Errorf("metadata log in %s: %w", o.Dir, err)
	}
	newest := s.newestSnapshot()
	q := &Quorum{
		o: o, self: self, store: s,
		leader: kafka.NoNode, epoch: kafka.Epoch(s.stored.GetTerm()),
		highWatermark: newest.id.EndOffset, members: members{sets: []votersAt{newest.voters}},
		observers: make(map[observer]*Replica),
		wake:      make(chan struct{}, 1), applyWake: make(chan struct{}, 1), snapshotWanted: make(chan struct{}, 1),
		stop: make(chan struct{}), failed: make(chan struct{}),
	}
	if err := q.checkVoters(); err != nil {
		s.log.Abandon()
		return nil, fmt.Errorf("metadata log in %s: %w", o.Dir, err)
	}
	q.raft, err = raft.NewRawNode(&raft.Config{
		ID: raftID(o.DirID), Storage: s, Applied: newest.index, Logger: raftLogger{o.Logger},
		// A sole voter is never ticked: it campaigns at once, and nobody can depose it.
		ElectionTick: 10, HeartbeatTick: 1,
		MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: maxTailBytes, MaxInflightMsgs: 256,
		// Propose refuses long before raft would, because a proposal that raft dropped would break the offsets promised to
		// those behind it.
		MaxUncommittedEntriesSize: 4 * maxInflightBytes,
		CheckQuorum:               true, PreVote: true, StepDownOnRemoval: true, DisableProposalForwarding: true,
	})
	if err != nil {
		s.log.Abandon()
		return nil, fmt.Errorf("metadata log in %s: %w", o.Dir, err)
	}
	if o.Metrics != nil {
		q.metrics = newMetrics(o.Metrics, q)
	}
	return q, nil
}

func (q *Quorum) checkVoters() error {
	voters := q.members.newest().voters
	if len(voters) == 1 && voters[0].ID == q.self.ID && voters[0].DirID == q.self.DirID {
		return nil
	}
	return fmt.Errorf("its voters are %v, but this is node %d with directory id %v; only a sole voter that is this node can run",
		voters, q.self.ID, q.self.DirID)
}

// Start starts the loop and the deliveries to the Listener.
func (q *Quorum) Start() {
	q.goroutines.Go(q.run)
	q.goroutines.Go(q.deliver)
}

// Stop ends both, waits for them and closes the log. Proposals in flight end with ErrStopped.
func (q *Quorum) Stop() error {
	q.mu.Lock()
	if q.stopped {
		q.mu.Unlock()
		return nil
	}
	q.stopped = true
	q.resignLocked(ErrStopped)
	close(q.stop)
	q.mu.Unlock()
	q.goroutines.Wait()

	q.mu.Lock()
	q.releaseLocked(q.inflight, ErrStopped)
	q.inflight = nil
	q.changeLocked()
	err := q.err
	q.mu.Unlock()
	if err != nil {
		q.store.log.Abandon()
		return err
	}
	commit := q.raft.BasicStatus().HardState.GetCommit()
	return errors.Join(writeCommit(q.store.fs, q.store.dir, commit), q.store.log.Close())
}

// Failed is closed when the quorum cannot go on; Err then says why.
func (q *Quorum) Failed() <-chan struct{} { return q.failed }

// Err returns the error that ended the quorum, or nil. It is Kafka's KAFKA_STORAGE_ERROR.
func (q *Quorum) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// fail ends the quorum. Only the first error counts.
func (q *Quorum) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil {
		return
	}
	q.err = fmt.Errorf("metadata log in %s: %w (%w)", q.o.Dir, err, kerr.KafkaStorageError)
	q.o.Logger.Error("the metadata log has failed", "err", err)
	q.resignLocked(q.err)
	q.releaseLocked(q.inflight, q.err)
	q.inflight = nil
	close(q.failed)
	q.changeLocked()
}

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
			return
		case <-q.failed: // the Listener refused something
			return
		case <-q.wake:
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
	signal(q.wake)
}

// changeLocked wakes those who wait on Changed.
func (q *Quorum) changeLocked() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// signal makes sure that a channel of capacity one holds a value.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
