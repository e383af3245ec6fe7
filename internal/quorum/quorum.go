package quorum

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"slices"
	"strconv"
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

// errLost says that this node has lost what it promised to the others of its quorum: its vote, or entries that it had stored. It
// may come back under a new directory id only, as somebody who has no vote.
var errLost = errors.New("this voter has lost a part of its memory")

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
	DirID     kafka.DirID // of Dir; the node's in the quorum, unless that has a newer one (VoterDirID)
	Endpoints []Endpoint  // this node's controller listeners, for the voter set
	Listener  Listener
	Now       func() time.Time
	Logger    *slog.Logger
	Metrics   *metrics.Set // nil: none

	ClusterID string // checked on every message between nodes
	// Voters is the first voter set of a log that does not exist yet; nil: such a log belongs to an observer, which follows the
	// leader until a voter set names it. A log that exists does not look at it.
	Voters []Voter
	// Used says that the node has run on this directory before: a log that is not there, and of no known Voters, is lost.
	Used      bool
	Bootstrap []string // host:port of controller listeners that know the leader, for when this node does not
	// Dial connects to a controller listener; nil: there is nobody but this node.
	Dial    func(ctx context.Context, address string) (net.Conn, error)
	CanVote bool // process.roles has controller: others reach this node, and it takes part when the voter set names it
	// AutoJoin is controller.quorum.auto.join.enable: a node that can vote and does not asks to be made a voter, in the place of
	// what it was before if need be. Joined makes it ask only if no voter has its node id (Formed.Join).
	AutoJoin, Joined bool

	ElectionTimeoutMs int32 // controller.quorum.election.timeout.ms: a follower that hears nothing stands after half to all of it; 0: 1,000
	FetchTimeoutMs    int32 // controller.quorum.fetch.timeout.ms: a node without a vote looks for another leader after so long; 0: 2,000
	RequestTimeoutMs  int32 // controller.quorum.request.timeout.ms; 0: 2,000
	RetryBackoffMs    int32 // controller.quorum.retry.backoff.ms: before a node that did not answer is tried again; 0: 20
	FetchMaxBytes     int32 // controller.quorum.fetch.max.bytes; 0: 1 MiB
	ChunkMaxBytes     int32 // controller.quorum.fetch.snapshot.max.bytes; 0: 1 MiB

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

	rival kafka.DirID // of a voter that has run beside this node with the same node id; for runErrands alone

	// For the loop alone.
	raft         *raft.RawNode
	clock        clock
	conf         []uint64       // the voters that raft works with; without this node, it is raft's learner
	ledTerm      uint64         // the last term whose leadership was announced
	leaderChange uint64         // index of the entry that announced it
	grants       grants         // votes for this node
	endpoints    bool           // this leadership has looked whether the voter set names our endpoints right
	leaderless   int            // ticks since a leader was known
	vacancy      vacancy        // the leader's process has ended
	snapshotSent map[uint64]int // raft id to the tick at which it was told to fetch a snapshot
	downloaded   *snapshot      // a file that is complete and not installed
	dropped      complaint
	quiet        bool              // what raft answers to was read by Fetch, so that nobody waits for the answer
	settling     []chan<- struct{} // arrivals whose sender waits until they have been acted on

	snapshotting xsync.Mutex // held by WriteSnapshot; taken before mu and the store's

	mu            xsync.Mutex  // guards what follows; never held across disk I/O, network or a call of the Listener
	leader        Voter        // its ID is kafka.NoNode if unknown
	epoch         kafka.Epoch  // raft's term
	leading       bool         // Propose is allowed: the LeaderChange of epoch is on its way or in the log
	announced     kafka.Offset // after that LeaderChange
	next          kafka.Offset
	commit        uint64     // index of the last committed entry that has been acted on
	queue         []proposal // for the loop
	inflight      []waiting  // by ascending offset
	inflightBytes int
	highWatermark kafka.Offset
	delivered     kafka.Offset // the Listener has had everything below
	installing    bool         // a snapshot is taking the place of the log
	replaced      bool         // there is a snapshot whose state the Listener has not had
	events        []event      // for the Listener, in order
	members       members
	strangers     []Voter // who sent messages, and the voter set that is known here does not name it or has it listen elsewhere; the oldest first
	guide         Voter   // the leader as an answer to Fetch told it
	arrivals      []arrival
	arrivalBytes  int
	unreachable   []uint64           // raft ids to which messages were lost
	links         map[uint64]*link   // by raft id
	peers         map[uint64]Replica // how far the other voters are, while this node leads
	downloading   bool
	follows       bool // this node has to fetch: it has no vote, or hears of no leader
	joins         bool // Joined, until this node has had a vote
	leaving       bool // Stop wants the leadership handed over
	observers     map[observer]*Replica
	changed       chan struct{} // nil until somebody asks for it
	progressed    chan struct{} // closed when an observer has come further; nil until somebody asks for it
	sinceSnapshot int64         // bytes delivered and in no snapshot
	snapshotEra   int           // counts snapshots taken
	overdue       bool          // the snapshot interval has passed since the last one
	wishPending   bool          // a snapshot was asked for and is not done
	err           error
	stopped       bool

	started        bool               // written by Start
	cancel         context.CancelFunc // ends what talks to other nodes
	changing       chan struct{}      // holds one while a voter change is under way
	handed         chan struct{}      // closed by the loop once leaving needs nothing more
	wake           chan struct{}      // the loop has something to do
	followWake     chan struct{}      // follows or the leader has changed
	errandWake     chan struct{}      // the leader or the voter set has changed
	applyWake      chan struct{}      // there is something for the Listener
	snapshotWanted chan struct{}
	stop           chan struct{} // closed by Stop
	failed         chan struct{} // closed by fail
	goroutines     sync.WaitGroup
	metrics        *quorumMetrics
}

// Open recovers the metadata log, or makes a new one. A voter that has lost a part of its memory comes back as somebody else,
// without a vote. Nothing runs before Start.
func Open(o Options) (*Quorum, error) {
	o.setDefaults()
	s, err := openAs(&o)
	if err != nil {
		return nil, fmt.Errorf("metadata log in %s: %w", o.Dir, err)
	}
	self := Voter{ID: o.NodeID, DirID: o.DirID, Endpoints: o.Endpoints}
	newest := s.newestSnapshot()
	q := &Quorum{
		o: o, self: self, store: s,
		leader: Voter{ID: kafka.NoNode}, guide: Voter{ID: kafka.NoNode}, epoch: kafka.Epoch(s.stored.GetTerm()),
		highWatermark: newest.id.EndOffset, replaced: true, commit: newest.index, members: members{sets: []votersAt{newest.voters}},
		conf: s.initialConf.GetVoters(), clock: clock{length: time.Duration(o.ElectionTimeoutMs) * time.Millisecond / (2 * electionTicks)},
		snapshotSent: make(map[uint64]int), observers: make(map[observer]*Replica), links: make(map[uint64]*link), peers: make(map[uint64]Replica),
		cancel: func() {}, changing: make(chan struct{}, 1), handed: make(chan struct{}),
		wake: make(chan struct{}, 1), applyWake: make(chan struct{}, 1), snapshotWanted: make(chan struct{}, 1),
		followWake: make(chan struct{}, 1), errandWake: make(chan struct{}, 1),
		stop: make(chan struct{}), failed: make(chan struct{}),
	}
	if err := q.checkPlace(); err != nil {
		s.log.Abandon()
		return nil, fmt.Errorf("metadata log in %s: %w", o.Dir, err)
	}
	q.raft, err = raft.NewRawNode(&raft.Config{
		ID: raftID(o.DirID), Storage: s, Applied: newest.index, Logger: raftLogger{o.Logger},
		ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		MaxSizePerMsg: 1 << 20, MaxCommittedSizePerReady: maxTailBytes, MaxInflightMsgs: 256, MaxInflightBytes: 4 << 20,
		// Propose refuses long before raft would, because a proposal that raft dropped would break the offsets promised to
		// those behind it.
		MaxUncommittedEntriesSize: 4 * maxInflightBytes,
		CheckQuorum:               true, PreVote: true, StepDownOnRemoval: true, DisableProposalForwarding: true,
	})
	if err != nil {
		s.log.Abandon()
		return nil, fmt.Errorf("metadata log in %s: %w", o.Dir, err)
	}
	q.mu.Lock()
	q.follows, q.joins = !q.votesLocked(), o.Joined
	q.mu.Unlock()
	if o.Metrics != nil {
		q.metrics = newMetrics(o.Metrics, q)
	}
	return q, nil
}

// openAs opens the log under the directory id that this node has in the quorum, which it sets.
func openAs(o *Options) (*store, error) {
	id, renamed, err := VoterDirID(o.FS, o.Dir)
	if err != nil {
		return nil, err
	}
	if renamed {
		o.DirID = id
	}
	s, err := openStore(*o, o.Voters, false)
	if !errors.Is(err, errLost) {
		return s, err
	}
	o.DirID = kafka.NewUUID()
	o.Logger.Error("this node takes part in the metadata quorum under a new directory id, without a vote", "dir", o.Dir, "id", o.DirID.String(), "error", err)
	if err := writeVoterDirID(o.FS, o.Dir, o.DirID); err != nil {
		return nil, err
	}
	return openStore(*o, nil, true)
}

func (o *Options) setDefaults() {
	o.ElectionTimeoutMs = cmp.Or(max(o.ElectionTimeoutMs, 0), 1000)
	o.RequestTimeoutMs = cmp.Or(max(o.RequestTimeoutMs, 0), 2000)
	o.RetryBackoffMs = cmp.Or(max(o.RetryBackoffMs, 0), 20)
	o.FetchTimeoutMs = cmp.Or(max(o.FetchTimeoutMs, 0), 2000)
	o.FetchMaxBytes = cmp.Or(max(o.FetchMaxBytes, 0), 1<<20)
	o.ChunkMaxBytes = cmp.Or(max(o.ChunkMaxBytes, 0), 1<<20)
}

// checkPlace refuses a log in which this node can neither vote nor follow anybody.
func (q *Quorum) checkPlace() error {
	voters := q.members.newest().voters
	if _, mine := find(voters, q.self); mine {
		return nil
	}
	if q.o.Dial != nil {
		another := func(v Voter) bool { return v.ID != q.self.ID && len(v.Endpoints) > 0 }
		if slices.ContainsFunc(voters, another) || slices.ContainsFunc(q.o.Bootstrap, func(a string) bool { return !q.self.listensAt(a) }) {
			return nil
		}
	}
	cure := ""
	if at := slices.IndexFunc(voters, func(v Voter) bool { return v.ID == q.self.ID }); at >= 0 {
		cure = fmt.Sprintf("; if this is its disk, write directory.id=%s into its meta.properties", voters[at].DirID)
	}
	return fmt.Errorf("its voters are %v, but this is node %d with directory id %v, and there is nobody whom it could follow%s",
		voters, q.self.ID, q.self.DirID, cure)
}

// listensAt reports whether address, host:port, is one of the voter's own.
func (v Voter) listensAt(address string) bool {
	return slices.ContainsFunc(v.Endpoints, func(e Endpoint) bool {
		return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))) == address
	})
}

// Start starts everything that runs.
func (q *Quorum) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	q.mu.Lock()
	q.started, q.cancel = true, cancel
	q.mu.Unlock()
	q.goroutines.Go(func() { q.run(ctx) })
	q.goroutines.Go(q.deliver)
	if q.o.Dial != nil {
		q.goroutines.Go(func() { q.follow(ctx) })
		q.goroutines.Go(func() { q.runErrands(ctx) })
	}
}

// Stop hands the leadership over, ends everything that runs, waits for it and closes the log. Proposals in flight end with
// ErrStopped.
func (q *Quorum) Stop() error {
	q.HandOver(context.Background())
	q.mu.Lock()
	if q.stopped {
		q.mu.Unlock()
		return nil
	}
	q.stopped = true
	q.resignLocked(ErrStopped)
	close(q.stop)
	q.cancel()
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
	q.cancel()
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
