package quorum

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"moldau/internal/kafka"
)

func (s *store) newestSnapshot() snapshot {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.snapshots[len(s.snapshots)-1]
}

// lookup finds the entry that ends at an offset.
func (s *store) lookup(end kafka.Offset) (index uint64, p position, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i, ok := slices.BinarySearchFunc(s.positions, end, func(p position, end kafka.Offset) int { return int(p.end - end) })
	if !ok {
		return 0, position{}, false
	}
	return s.first + uint64(i), s.positions[i], true
}

func (s *store) forgetPositionsLocked(before uint64) {
	if before > s.first {
		s.positions = slices.Clone(s.positions[before-s.first:])
		s.first = before
	}
}

// retain deletes the oldest snapshots while they are too old or all is too big, and the log below the oldest that stays.
// The newest always stays. Mirrors KafkaMetadataLog.maybeClean.
func (s *store) retain(now time.Time, maxBytes, maxMs int64, highWatermark kafka.Offset) error {
	s.log.SetDeletionBound(highWatermark)
	for {
		dropped, logStart, ok := s.dropOldest(now, maxBytes, maxMs)
		if !ok {
			return nil
		}
		// The snapshot first, and durably: recovery takes the oldest snapshot for the log start, so what follows it must be
		// whole.
		if err := s.fs.Remove(filepath.Join(s.dir, dropped.file())); err != nil {
			return err
		}
		if err := s.fs.SyncDir(s.dir); err != nil {
			return err
		}
		if err := s.log.SetLogStart(logStart); err != nil {
			return err
		}
		if _, err := s.log.Retain(now); err != nil {
			return err
		}
		if _, err := s.log.DeletePending(now); err != nil {
			return err
		}
		s.logger.Info("metadata snapshot deleted", "snapshot", dropped.String(), "log_start", logStart)
	}
}

func (s *store) dropOldest(now time.Time, maxBytes, maxMs int64) (dropped SnapshotID, logStart kafka.Offset, ok bool) {
	size := s.log.Size()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.snapshots) < 2 {
		return SnapshotID{}, 0, false
	}
	for _, snap := range s.snapshots {
		size += snap.sizeBytes
	}
	oldest := s.snapshots[0]
	tooOld := maxMs >= 0 && now.UnixMilli()-oldest.timestamp > maxMs
	tooBig := maxBytes >= 0 && size > maxBytes
	if !tooOld && !tooBig {
		return SnapshotID{}, 0, false
	}
	s.snapshots = slices.Clone(s.snapshots[1:])
	s.forgetPositionsLocked(s.snapshots[0].index)
	return oldest.id, s.snapshots[0].id.EndOffset, true
}

// SnapshotWanted receives a value when enough has been committed, or enough time has passed, since the last snapshot.
func (q *Quorum) SnapshotWanted() <-chan struct{} { return q.snapshotWanted }

// WriteSnapshot stores a snapshot of all records below id.EndOffset, which emit passes on one by one, and deletes what it
// makes superfluous. The Listener must have been given the record before id.EndOffset, as the last of its batch; it need not be
// through with that batch, and a busy one seldom is. A snapshot that is not newer than the newest is not written. An error leaves
// the quorum as it was, to be tried again at the next wish.
func (q *Quorum) WriteSnapshot(id SnapshotID, emit func(record func([]byte) error) error) error {
	q.snapshotting.Lock()
	defer q.snapshotting.Unlock()
	if q.store.newestSnapshot().id.EndOffset >= id.EndOffset {
		q.snapshotDone(0, false)
		return nil
	}
	index, at, ok := q.store.lookup(id.EndOffset)
	q.mu.Lock()
	bytes, highWatermark := q.sinceSnapshot, q.highWatermark
	voters := q.members.at(index)
	q.mu.Unlock()
	if !ok || at.epoch != id.Epoch || id.EndOffset > highWatermark {
		q.snapshotDone(0, false)
		return fmt.Errorf("metadata snapshot %v: no batch of epoch %d that is committed ends there", id, id.Epoch)
	}
	taken := snapshot{id: id, index: index, timestamp: at.timestamp, voters: voters}
	size, err := writeSnapshotFile(q.store.fs, q.store.dir, taken, emit)
	if err != nil {
		q.snapshotDone(0, false)
		return fmt.Errorf("write metadata snapshot %v: %w", id, err)
	}
	taken.sizeBytes = size
	if !q.store.addSnapshot(taken) {
		q.snapshotDone(0, false)
		return q.store.fs.Remove(filepath.Join(q.store.dir, id.file()))
	}
	q.snapshotDone(bytes, true)
	q.o.Logger.Info("metadata snapshot written", "snapshot", id.String(), "bytes", size)
	if err := q.store.retain(q.o.Now(), q.o.RetentionBytes, q.o.RetentionMs, highWatermark); err != nil {
		return fmt.Errorf("delete old metadata: %w", err)
	}
	return nil
}

// snapshotDone ends the wish for a snapshot. If one was taken, it made covered delivered bytes superfluous.
func (q *Quorum) snapshotDone(covered int64, taken bool) {
	oldest := q.store.oldestIndex()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wishPending = false
	if taken {
		q.sinceSnapshot = max(0, q.sinceSnapshot-covered)
		q.snapshotEra++
		q.overdue = false
		q.members.forget(oldest)
		q.changeLocked()
	}
	signal(q.applyWake)
}

// wishSnapshotLocked asks for a snapshot if there is enough for one, or something and it is time, and none is under way.
func (q *Quorum) wishSnapshotLocked() {
	if q.wishPending || q.sinceSnapshot == 0 || q.sinceSnapshot < q.o.SnapshotMaxBytes && !q.overdue {
		return
	}
	q.wishPending = true
	signal(q.snapshotWanted)
}

// oldestIndex returns the lowest index of which a snapshot can still be taken.
func (s *store) oldestIndex() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.first
}
