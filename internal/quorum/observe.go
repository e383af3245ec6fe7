package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
)

// observerExpiry is how long an observer that no longer fetches is told of (LeaderState.OBSERVER_SESSION_TIMEOUT_MS).
const observerExpiry = 5 * time.Minute

// maxObservers bounds how many observers are remembered: anybody may say that he is one.
const maxObservers = 10_000

// observer names one incarnation of an observer's disk.
type observer struct {
	id  kafka.NodeID
	dir kafka.DirID
}

// FetchRequest is what an observer asks for when it fetches the metadata partition.
type FetchRequest struct {
	ReplicaID        kafka.NodeID
	ReplicaDirID     kafka.DirID
	CurrentEpoch     kafka.Epoch // the leader epoch that the observer knows; -1 if none
	Offset           kafka.Offset
	LastFetchedEpoch kafka.Epoch // of the record before Offset; -1 if none
	MaxBytes         int
}

// FetchResult is the answer to a FetchRequest. At most one of Diverging, SnapshotID and Region is set; none means that there
// is nothing new.
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
	q.mu.Lock()
	result := FetchResult{LeaderID: q.leader.ID, LeaderEpoch: q.epoch, HighWatermark: q.highWatermark}
	err := q.checkEpochLocked(r.CurrentEpoch)
	q.mu.Unlock()
	result.LogStart = q.store.log.LogStart()
	if err != nil {
		return result, err
	}
	if result.SnapshotID, result.Diverging = q.store.compare(r.Offset, r.LastFetchedEpoch); result.SnapshotID != nil || result.Diverging != nil {
		return result, nil
	}
	q.observe(r, result.HighWatermark)
	if r.Offset >= result.HighWatermark {
		return result, nil
	}
	read, err := q.store.log.Read(r.Offset, commitlog.ReadOptions{MaxBytes: r.MaxBytes, UpTo: result.HighWatermark, AtLeastOne: true})
	if errors.Is(err, kerr.OffsetOutOfRange) {
		id := q.store.newestSnapshot().id // the log start has moved since compare
		result.SnapshotID = &id
		return result, nil
	}
	if err != nil {
		return result, fmt.Errorf("fetch of %s from offset %d: %w (%w)", TopicName, r.Offset, err, kerr.KafkaStorageError)
	}
	result.Region = read.Region
	return result, nil
}

// checkEpochLocked mirrors KafkaRaftClient.validateLeaderOnlyRequest, except that an observer may know no epoch at all.
func (q *Quorum) checkEpochLocked(known kafka.Epoch) error {
	switch {
	case q.err != nil:
		return q.err
	case known != kafka.NoEpoch && known < q.epoch:
		return kerr.FencedLeaderEpoch
	case known > q.epoch:
		return kerr.UnknownLeaderEpoch
	case q.stopped || !q.leadsLocked():
		return kerr.NotLeaderForPartition
	}
	return nil
}

// compare decides whether a log that ends at offset, with a last record of that epoch, is a prefix of ours. If not it names a
// snapshot to start from, or where the two logs part. Mirrors ReplicatedLog.validateOffsetAndEpoch.
func (s *store) compare(offset kafka.Offset, epoch kafka.Epoch) (start, diverging *SnapshotID) {
	logStart := s.log.LogStart()
	if offset == 0 && logStart == 0 {
		return nil, nil
	}
	s.mu.RLock()
	oldest, newest := s.snapshots[0].id, s.snapshots[len(s.snapshots)-1].id
	s.mu.RUnlock()
	if offset < logStart || epoch < oldest.Epoch || offset == oldest.EndOffset && epoch != oldest.Epoch {
		if newest.EndOffset == 0 {
			return nil, &SnapshotID{} // nothing was ever deleted: start at the beginning
		}
		return &newest, nil
	}
	knownEpoch, end := s.log.EndOffsetForEpoch(epoch)
	if knownEpoch == kafka.NoEpoch {
		knownEpoch, end = s.log.LastEpoch(), s.log.LogEnd()
	}
	if knownEpoch != epoch || end < offset {
		return nil, &SnapshotID{EndOffset: end, Epoch: knownEpoch}
	}
	return nil, nil
}

// observe notes how far an observer has come.
func (q *Quorum) observe(r FetchRequest, highWatermark kafka.Offset) {
	if r.ReplicaID < 0 || r.ReplicaID == q.self.ID && r.ReplicaDirID == q.self.DirID {
		return
	}
	now := q.o.Now().UnixMilli()
	key := observer{r.ReplicaID, r.ReplicaDirID}
	q.mu.Lock()
	defer q.mu.Unlock()
	seen, ok := q.observers[key]
	if !ok {
		q.expireObserversLocked(now)
		if len(q.observers) >= maxObservers {
			return
		}
		seen = &Replica{ID: key.id, DirID: key.dir, LastCaughtUpMs: -1}
		q.observers[key] = seen
	}
	seen.LogEnd, seen.LastFetchMs = r.Offset, now
	if r.Offset >= highWatermark {
		seen.LastCaughtUpMs = now
	}
	if q.progressed != nil {
		close(q.progressed)
		q.progressed = nil
	}
}

func (q *Quorum) expireObserversLocked(nowMs int64) {
	for key, seen := range q.observers {
		if nowMs-seen.LastFetchMs > observerExpiry.Milliseconds() {
			delete(q.observers, key)
		}
	}
}

// observersLocked returns the observers by node id.
func (q *Quorum) observersLocked(nowMs int64) []Replica {
	q.expireObserversLocked(nowMs)
	var all []Replica
	for _, seen := range q.observers {
		if _, votes := find(q.members.newest().voters, Voter{ID: seen.ID, DirID: seen.DirID}); !votes {
			all = append(all, *seen)
		}
	}
	slices.SortFunc(all, func(a, b Replica) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), slices.Compare(a.DirID[:], b.DirID[:]))
	})
	return all
}

// Changed returns a channel that is closed when the high watermark, the log start or the leader changes, or the quorum ends.
// Take it before the Fetch that finds nothing.
func (q *Quorum) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err != nil || q.stopped { // nothing will change any more
		over := make(chan struct{})
		close(over)
		return over
	}
	if q.changed == nil {
		q.changed = make(chan struct{})
	}
	return q.changed
}

// SnapshotChunk is a part of a snapshot file.
type SnapshotChunk struct {
	Size  int64 // of the whole file, in bytes
	Bytes []byte
}

// maxChunkBytes bounds what one FetchSnapshot reads into memory.
const maxChunkBytes = 8 << 20

// FetchSnapshot reads a snapshot file from position on, at most maxBytes. currentEpoch is as in FetchRequest. The error is a
// kerr value: SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE or one of those of Fetch.
func (q *Quorum) FetchSnapshot(id SnapshotID, currentEpoch kafka.Epoch, position int64, maxBytes int) (SnapshotChunk, error) {
	q.mu.Lock()
	err := q.checkEpochLocked(currentEpoch)
	q.mu.Unlock()
	if err != nil {
		return SnapshotChunk{}, err
	}
	return q.store.readChunk(id, position, max(0, min(maxBytes, maxChunkBytes)))
}

func (s *store) readChunk(id SnapshotID, position int64, maxBytes int) (c SnapshotChunk, err error) {
	s.mu.RLock()
	i := slices.IndexFunc(s.snapshots, func(have snapshot) bool { return have.id == id })
	if i >= 0 {
		c.Size = s.snapshots[i].sizeBytes
	}
	s.mu.RUnlock()
	if i < 0 {
		return SnapshotChunk{}, fmt.Errorf("metadata snapshot %v: %w", id, kerr.SnapshotNotFound)
	}
	if position < 0 || position >= c.Size {
		return SnapshotChunk{}, fmt.Errorf("metadata snapshot %v has %d bytes, not one at %d: %w", id, c.Size, position, kerr.PositionOutOfRange)
	}
	f, err := s.fs.Open(filepath.Join(s.dir, id.file()), 0)
	if err != nil {
		return SnapshotChunk{}, fmt.Errorf("metadata snapshot %v: %w (%w)", id, err, kerr.SnapshotNotFound)
	}
	c.Bytes = make([]byte, min(int64(maxBytes), c.Size-position))
	if err := errors.Join(readFull(f, c.Bytes, position), f.Close()); err != nil {
		return SnapshotChunk{}, fmt.Errorf("metadata snapshot %v: %w (%w)", id, err, kerr.KafkaStorageError)
	}
	return c, nil
}
