package quorum

import (
	"errors"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
)

// FetchRequest is what an observer asks for when it fetches the metadata partition.
type FetchRequest struct {
	ReplicaID        kafka.NodeID
	ReplicaDirID     kafka.DirID
	CurrentEpoch     kafka.Epoch // the leader epoch that the observer knows; -1 if none
	Offset           kafka.Offset
	LastFetchedEpoch kafka.Epoch // of the record before Offset; -1 if none
	MaxBytes         int
}

// FetchResult is the answer to a FetchRequest. At most one of Diverging, SnapshotID and Region is set.
type FetchResult struct {
	LeaderID      kafka.NodeID
	LeaderEpoch   kafka.Epoch
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
	Diverging     *SnapshotID       // where the observer's log parts from ours: end offset and epoch
	SnapshotID    *SnapshotID       // fetch this snapshot, then what follows it
	Region        *commitlog.Region // committed batches; the caller releases it
}

// Fetch reads committed batches for an observer. The error is a kerr value: NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH,
// UNKNOWN_LEADER_EPOCH or KAFKA_STORAGE_ERROR; leader and epoch are set nevertheless.
func (q *Quorum) Fetch(r FetchRequest) (FetchResult, error) {
	return FetchResult{}, errors.ErrUnsupported
}

// Changed returns a channel that is closed when the high watermark, the log start or the leader changes. Take it before
// the Fetch that finds nothing.
func (q *Quorum) Changed() <-chan struct{} { return nil }

// SnapshotChunk is a part of a snapshot file.
type SnapshotChunk struct {
	Size  int64 // of the whole file, in bytes
	Bytes []byte
}

// FetchSnapshot reads a snapshot file from position on. currentEpoch is as in FetchRequest. The error is a kerr value:
// SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE or one of those of Fetch.
func (q *Quorum) FetchSnapshot(id SnapshotID, currentEpoch kafka.Epoch, position int64, maxBytes int) (SnapshotChunk, error) {
	return SnapshotChunk{}, errors.ErrUnsupported
}
