package quorum

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/raft/v3"

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

// ErrStopped says that Stop was called. To a client it is the same as ErrNotLeader: ask another node.
var ErrStopped = fmt.Errorf("the metadata quorum is stopped: %w", kerr.NotController)

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

// over tells whether the quorum is stopped or has failed.
func (q *Quorum) over() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped || q.err != nil
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
