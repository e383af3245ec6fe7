package commitlog

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"moldau/internal/kafka"
)

// recoveryBytes is how much may be appended until the recovery point is moved up: what recovery reads at most, beyond
// what came after the last sync.
const recoveryBytes = 64 << 20

// flush is one sync under way: what it covers, and what it has to touch.
type flush struct {
	end         kafka.Offset
	appended    int64
	truncations int
	logs, aside []*file
	dir         string // whose names have to be synced too, or ""
	names       int
	// recovery says that all is prepared for the recovery point to move to end.
	recovery bool
}

// Sync makes durable all that was appended before the call and returns the offset below which everything is: the log
// end at the time of the call, unless the log was truncated meanwhile. Appends go on during the sync. When many bytes
// were appended since the recovery point, or a segment was rolled, it also writes what the next Open needs to begin here:
// index entries, a producer snapshot and the epochs. After an error the log has failed for good.
func (l *Log) Sync() (syncedEnd kafka.Offset, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.syncUnlocked(false); err != nil {
		return l.syncedEnd, fmt.Errorf("sync log %s: %w", l.tp, err)
	}
	return l.syncedEnd, nil
}

// StartSync begins to write out what Sync will then wait for, so that the syncs of many logs overlap. Nothing is durable
// before Sync has returned. After an error the log has failed, as after one of Sync.
func (l *Log) StartSync() error {
	l.mu.Lock()
	if err := l.usableLocked(); err != nil {
		l.mu.Unlock()
		return err
	}
	var few [2]*file
	logs := append(few[:0], l.unsynced...)
	l.mu.Unlock()
	for _, f := range logs {
		if err := f.startSync(); err != nil && !errors.Is(err, errGone) {
			return fmt.Errorf("sync log %s: %w", l.tp, l.fail(err))
		}
	}
	return nil
}

// syncUnlocked does the work of Sync; recovery asks for a new recovery point in any case. It is called with Log.mu held,
// and lets go of it while it waits for the disk.
func (l *Log) syncUnlocked(recovery bool) error {
	f, err := l.beginSyncLocked(recovery)
	if err != nil {
		return err
	}
	l.mu.Unlock()
	l.syncing.Lock()
	err = l.touch(f)
	l.syncing.Unlock()
	l.mu.Lock()
	if err == nil {
		err = l.usableLocked()
	}
	if err != nil {
		return err
	}
	l.endSyncLocked(f)
	if !f.recovery || f.truncations != l.truncations {
		return nil
	}
	// Only now that all below is on disk may a snapshot say so.
	snapshots, err := l.writeSnapshotsLocked(f.end)
	dir := l.dir
	l.mu.Unlock()
	if err = errors.Join(err, l.syncSnapshots(snapshots, dir)); err != nil && !errors.Is(err, syscall.ENOSPC) {
		err = l.fail(err)
	}
	l.mu.Lock()
	if errors.Is(err, syscall.ENOSPC) {
		l.logger.Warn("disk full, the recovery point stays", "offset", l.recoveryPoint, "err", err)
		return nil
	}
	if err == nil && !l.closed && f.truncations == l.truncations {
		l.endRecoveryLocked(f)
	}
	return err
}

// UnsyncedBytes returns how many bytes were appended that are not known to be on disk. It takes no lock.
func (l *Log) UnsyncedBytes() int64 { return max(0, l.appended.Load()-l.synced.Load()) }

// Dirty returns how many bytes were appended that are not known to be on disk, and whether Sync has anything to do.
func (l *Log) Dirty() (bytes int64, dirty bool) {
	if bytes = l.UnsyncedBytes(); bytes > 0 {
		return bytes, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, len(l.unsynced) > 0 || len(l.unsyncedAside) > 0 || l.names > l.namesSynced
}

// beginSyncLocked lists what has to be synced; it stays on the log's lists until it is. recovery asks for a new recovery point in any case.
func (l *Log) beginSyncLocked(recovery bool) (*flush, error) {
	if err := l.usableLocked(); err != nil {
		return nil, err
	}
	f := &flush{end: l.logEnd, appended: l.appended.Load(), truncations: l.truncations}
	if recovery || l.sinceRecovery >= recoveryBytes || len(l.unsyncedAside) > 0 {
		switch err := l.prepareRecoveryLocked(); {
		case err == nil:
			f.recovery = true
		case errors.Is(err, syscall.ENOSPC):
			// The records can be synced all the same; only a recovery now would have more to read.
			l.logger.Warn("disk full, the recovery point stays", "offset", l.recoveryPoint, "err", err)
		default:
			return nil, l.fail(err)
		}
	}
	f.logs, f.aside, f.names = slices.Clone(l.unsynced), slices.Clone(l.unsyncedAside), l.names
	if l.names > l.namesSynced || l.namesFound {
		f.dir = l.dir
	}
	return f, nil
}

// prepareRecoveryLocked writes what recovery from the log end would need. The epochs are synced here: a leader change is
// rare enough to hold up appends for it.
func (l *Log) prepareRecoveryLocked() error {
	if err := l.flushIndexes(l.active, 0); err != nil {
		return err
	}
	l.unsyncedAside = append(l.unsyncedAside, l.active.offsets, l.active.times)
	if l.active.aborted > 0 {
		l.unsyncedAside = append(l.unsyncedAside, l.active.txns)
	}
	l.holdSnapshotLocked()
	return l.writeEpochsLocked()
}

func (l *Log) writeEpochsLocked() error {
	if !l.epochsDirty {
		return nil
	}
	if err := l.epochs.write(l.fs, l.dir); err != nil {
		return err
	}
	l.epochsDirty = false
	return nil
}

// touch does the waiting, without Log.mu: files first, then the names, so that a name never leads to less than it should.
func (l *Log) touch(f *flush) error {
	for _, files := range [][]*file{f.logs, f.aside} {
		for _, file := range files {
			if err := file.sync(); err != nil && !errors.Is(err, errGone) {
				return l.fail(err)
			}
		}
	}
	if f.dir != "" {
		if err := l.fs.SyncDir(f.dir); err != nil {
			return l.fail(err)
		}
	}
	return nil
}

// endSyncLocked counts what a finished sync has made durable. A truncation meanwhile may have put other records below
// its end, so that the sync proves nothing about those; the next one will.
func (l *Log) endSyncLocked(f *flush) {
	l.forgetSyncedLocked(f.names)
	if f.dir != "" {
		l.namesFound = false
	}
	if f.truncations != l.truncations {
		return
	}
	l.synced.Store(max(l.synced.Load(), f.appended))
	if f.end > l.syncedEnd {
		l.syncedEnd = f.end
		l.publishLocked()
	}
}

// endRecoveryLocked moves the recovery point to where a finished sync began.
func (l *Log) endRecoveryLocked(f *flush) {
	if f.end > l.recoveryPoint {
		l.recoveryPoint = f.end
		l.sinceRecovery = l.appended.Load() - f.appended
		l.dropOldSnapshotsLocked()
	}
}

// forgetSyncedLocked takes what a sync has covered off the lists. Files written to since stay.
func (l *Log) forgetSyncedLocked(names int) {
	l.namesSynced = max(l.namesSynced, names)
	l.unsynced = slices.DeleteFunc(l.unsynced, (*file).clean)
	l.unsyncedAside = slices.DeleteFunc(l.unsyncedAside, (*file).clean)
}

// dropOldSnapshotsLocked removes the snapshots that stood for earlier recovery points. Those at the base of a segment
// stay as long as it does: Kafka wants them. Nothing goes wrong if one is not removed.
func (l *Log) dropOldSnapshotsLocked() {
	err := errors.Join(
		l.removeSnapshotsLocked(func(offset kafka.Offset) bool { return offset < l.recoveryPoint && !l.isBaseLocked(offset) }),
		l.removeSequencesLocked(func(offset kafka.Offset) bool { return offset < l.recoveryPoint }),
	)
	if err != nil {
		l.logger.Warn("old producer snapshots stay on disk", "err", err)
	}
}

// settleLocked puts the log into the state in which a clean stop leaves it, and syncs it.
func (l *Log) settleLocked() error {
	a := l.active
	if err := a.log.release(a.size); err != nil {
		return err
	}
	changed := len(l.unsynced) > 0 || len(l.unsyncedAside) > 0 || l.names > l.namesSynced
	if a.extended || len(a.offset.tail) > 0 || a.max.Timestamp > a.lastEntryTime || a.allocated {
		changed = true
		if err := a.seal(); err != nil {
			return err
		}
	}
	if !changed && !l.epochsDirty && l.recoveryPoint == l.logEnd {
		return nil
	}
	if err := l.prepareRecoveryLocked(); err != nil {
		return err
	}
	l.unsynced = append(l.unsynced, a.log)
	for _, f := range slices.Concat(l.unsynced, l.unsyncedAside) {
		if err := f.sync(); err != nil && !errors.Is(err, errGone) {
			return l.fail(err)
		}
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return l.fail(err)
	}
	snapshots, err := l.writeSnapshotsLocked(l.logEnd)
	if err = errors.Join(err, l.syncSnapshots(snapshots, l.dir)); err != nil {
		return err
	}
	l.forgetSyncedLocked(l.names)
	l.synced.Store(l.appended.Load())
	l.syncedEnd, l.recoveryPoint, l.sinceRecovery = l.logEnd, l.logEnd, 0
	l.dropOldSnapshotsLocked()
	l.publishLocked()
	return nil
}
