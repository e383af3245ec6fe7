package quorum

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/vfs"
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

// ErrBusy says that too much is proposed and not yet committed. It is retriable.
var ErrBusy = fmt.Errorf("the metadata log is behind with its writes: %w", kerr.RequestTimedOut)

// ErrStopped says that Stop was called.
var ErrStopped = errors.New("the metadata quorum is stopped")

// Listener receives what is committed. Its methods are called by one goroutine, in order. An error ends the quorum.
type Listener interface {
	// Snapshot replaces the state. appendTimestamp is that of the last record the snapshot covers, in ms. The records are
	// valid until the next one is asked for.
	Snapshot(id SnapshotID, appendTimestamp int64, records iter.Seq2[[]byte, error]) error
	// Commit brings the records of one batch, the first of them at offset base. Their bytes must not be changed and may
	// be kept.
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
	ClusterID string
	Endpoints []Endpoint // this node's controller listeners, for the voter set
	Listener  Listener
	Now       func() time.Time
	Logger    *slog.Logger
	Metrics   *metrics.Set // nil: none

	ElectionMs  int // controller.quorum.election.timeout.ms
	HeartbeatMs int // how often a leader of several voters shows that it lives; at most a third of ElectionMs

	SegmentBytes       int   // metadata.log.segment.bytes
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
type Quorum struct{}

// Open recovers the metadata log, or makes a new one whose only voter is this node. Nothing runs before Start.
func Open(o Options) (*Quorum, error) { return nil, errors.ErrUnsupported }

// Start starts the loop and the deliveries to the Listener.
func (q *Quorum) Start() {}

// Stop ends both, waits for them and closes the log. Proposals in flight end with ErrStopped.
func (q *Quorum) Stop() error { return nil }

// Failed is closed when the quorum cannot go on; Err then says why.
func (q *Quorum) Failed() <-chan struct{} { return nil }

// Err returns the error that ended the quorum, or nil.
func (q *Quorum) Err() error { return nil }

// Propose appends the records as one batch, if this node leads epoch. lastOffset is where the last of them will be. done
// receives exactly one value: nil when they are committed and the Listener has had them, else why that is not known.
func (q *Quorum) Propose(epoch kafka.Epoch, records [][]byte) (lastOffset kafka.Offset, done <-chan error, err error) {
	return -1, nil, errors.ErrUnsupported
}

// SnapshotWanted receives a value when enough has been committed, or enough time has passed, since the last snapshot.
func (q *Quorum) SnapshotWanted() <-chan struct{} { return nil }

// WriteSnapshot stores a snapshot made of the records that emit passes on, and deletes what it makes superfluous. id must
// end at a record that has been delivered.
func (q *Quorum) WriteSnapshot(id SnapshotID, emit func(record func([]byte) error) error) error {
	return errors.ErrUnsupported
}
