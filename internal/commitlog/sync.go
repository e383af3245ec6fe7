package commitlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// recoveryBytes is how much may be appended until the recovery point is moved up: what recovery reads at most, beyond
// what came after the last sync.
const recoveryBytes = 64 << 20

// Flush is one sync under way: what it covers, and what it has to touch.
type Flush struct {
	end         kafka.Offset
	appended    int64
	truncations int
	logs, aside []covered
	first       [1]covered // memory of logs, which is almost always one
	dir         string
	syncNames   bool // in dir, as many changes as names counts
	names       int
	newFolder   bool     // dir's own name, and the topic id in it, are not durable either
	standsOn    []string // snapshots that were there before
	// recovery says that all is prepared for the recovery point to move to end; epochs that a new checkpoint of them lies
	// beside the old one, to take its place; promised that the snapshots are written.
	recovery, epochs, promised bool
}

// covered is a file of a Flush, and the writes to it that the sync covers.
type covered struct {
	*file
	written uint64
}

// cover appends files to all.
func cover(all []covered, files []*file) []covered {
	for _, f := range files {
		all = append(all, covered{f, f.writes()})
	}
	return all
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
	f, err := l.beginSyncLocked(recovery || l.recoveryDueLocked())
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
	if !f.recovery {
		return nil
	}
	for {
		snapshots, more, err := l.promiseLocked(f)
		switch {
		case err != nil:
			return l.unpromisedLocked(err)
		case !more:
			l.endRecoveryLocked(f)
			return nil
		}
		l.mu.Unlock()
		err = l.syncPromise(f, snapshots)
		l.mu.Lock()
		if err != nil {
			return l.fail(err)
		}
	}
}

// BeginSync is the first part of a Sync whose waiting the owner does for many logs at once: by a sync of the whole
// filesystem that begins after this call. EndSync is the second part. recovery asks for a new recovery point; without it
// that stays, due or not.
func (l *Log) BeginSync(recovery bool) (*Flush, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, err := l.beginSyncLocked(recovery)
	if err != nil {
		return nil, fmt.Errorf("sync log %s: %w", l.tp, err)
	}
	if !f.recovery {
		f.aside = cover(nil, l.unsyncedAside) // which comes for nothing
	}
	return f, nil
}

// EndSync is told that everything on the filesystem is durable that was there when BeginSync returned. It returns the
// offset below which all of the log is. If more, the recovery point is about to move: EndRecovery goes on after another
// sync of the filesystem.
func (l *Log) EndSync(f *Flush) (syncedEnd kafka.Offset, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return l.syncedEnd, false, err
	}
	for _, files := range [][]covered{f.logs, f.aside} {
		for _, c := range files {
			if err := c.syncedTo(c.written); err != nil {
				return l.syncedEnd, false, fmt.Errorf("sync log %s: %w", l.tp, l.fail(err))
			}
		}
	}
	l.endSyncLocked(f)
	if f.recovery {
		more, err = l.promiseNextLocked(f)
	}
	return l.syncedEnd, more, err
}

// EndRecovery is told that everything on the filesystem is durable that was there when EndSync, or the last EndRecovery,
// returned. If more, it has to be called again, after another sync; else the recovery point has moved, unless the log was
// cut meanwhile or the disk is full.
func (l *Log) EndRecovery(f *Flush) (more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return false, err
	}
	return l.promiseNextLocked(f)
}

func (l *Log) promiseNextLocked(f *Flush) (more bool, err error) {
	snapshots, more, err := l.promiseLocked(f)
	switch {
	case err != nil:
		return false, l.unpromisedLocked(err)
	case !more:
		l.endRecoveryLocked(f)
		return false, nil
	}
	for _, s := range snapshots {
		err = errors.Join(err, s.Close())
	}
	if err != nil {
		return false, l.fail(err)
	}
	return true, nil
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
	return 0, len(l.unsynced) > 0 || l.names > l.namesSynced || l.newFolder
}

// recoveryDueLocked tells whether the recovery point should move with the next sync: much was appended since it did, or it
// lies in a segment that is full.
func (l *Log) recoveryDueLocked() bool {
	return l.sinceRecovery >= recoveryBytes || l.recoveryPoint < l.active.base
}

// RecoveryDue tells whether the next Sync will move the recovery point.
func (l *Log) RecoveryDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usableLocked() == nil && l.recoveryDueLocked()
}

// beginSyncLocked lists what has to be synced; it stays on the log's lists until it is. recovery asks for a new recovery
// point.
func (l *Log) beginSyncLocked(recovery bool) (*Flush, error) {
	if err := l.usableLocked(); err != nil {
		return nil, err
	}
	f := &Flush{end: l.logEnd, appended: l.appended.Load(), truncations: l.truncations, dir: l.dir, newFolder: l.newFolder, standsOn: l.standsOn}
	if recovery {
		epochs := l.epochsDirty
		switch err := l.prepareRecoveryLocked(); {
		case err == nil:
			f.recovery, f.epochs = true, epochs
		case errors.Is(err, syscall.ENOSPC):
			// The records can be synced all the same; only a recovery now would have more to read.
			l.logger.Warn("disk full, the recovery point stays", "offset", l.recoveryPoint, "err", err)
		default:
			return nil, l.fail(err)
		}
	}
	f.logs, f.names = cover(f.first[:0], l.unsynced), l.names
	if f.recovery {
		f.aside = cover(nil, l.unsyncedAside)
	}
	f.syncNames = l.names > l.namesSynced || l.namesFound
	return f, nil
}

// prepareRecoveryLocked writes what recovery from the log end would need, and puts what has to be synced on the lists. New
// epochs go beside the checkpoint; promiseLocked puts them in its place.
func (l *Log) prepareRecoveryLocked() error {
	if err := l.flushIndexes(l.active, 0); err != nil {
		return err
	}
	l.noteIndexes(l.active)
	if l.active.aborted > 0 {
		l.unsyncedAside = append(l.unsyncedAside, l.active.txns)
	}
	if l.epochsDirty {
		if err := l.writeFile(epochsName+tmpSuffix, l.epochs.encode()); err != nil {
			return err
		}
		l.epochsDirty = false
	}
	l.holdSnapshotLocked()
	return nil
}

// promiseLocked does the next step on the way to a new recovery point, after a sync that has covered the one before: it
// puts the epochs in their place, then it writes the snapshots, which vouch for all below them, and returns their files.
// more says that it has done something that has to be synced, which it has not after an error.
func (l *Log) promiseLocked(f *Flush) (snapshots []vfs.File, more bool, err error) {
	switch {
	case f.truncations != l.truncations:
		l.epochsDirty = l.epochsDirty || f.epochs
	case f.epochs:
		f.epochs = false
		path := filepath.Join(f.dir, epochsName)
		// If it is gone, newer ones have taken its place and that of the checkpoint.
		err := ignoreNotExist(l.fs.Rename(path+tmpSuffix, path))
		return nil, err == nil, err
	case !f.promised:
		f.promised = true
		snapshots, err := l.writeSnapshotsLocked(f.end)
		return snapshots, len(snapshots) > 0, err
	}
	return nil, false, nil
}

// unpromisedLocked judges an error of promiseLocked: a full disk only keeps the recovery point where it is. One of the sync after it
// is a failed sync like any other, whatever its cause: what a second one would vouch for may be lost.
func (l *Log) unpromisedLocked(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		l.epochsDirty = true
		l.logger.Warn("disk full, the recovery point stays", "offset", l.recoveryPoint, "err", err)
		return nil
	}
	return l.fail(err)
}

// writeFile writes a small file of the log, which it does not sync.
func (l *Log) writeFile(name string, content []byte) error {
	f, err := l.fs.Open(filepath.Join(l.dir, name), vfs.Create|vfs.Truncate)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(content, 0)
	return errors.Join(err, f.Close())
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
func (l *Log) touch(f *Flush) error {
	for _, files := range [][]covered{f.logs, f.aside} {
		for _, file := range files {
			if err := file.sync(); err != nil && !errors.Is(err, errGone) {
				return l.fail(err)
			}
		}
	}
	var errs []error
	if f.epochs {
		errs = append(errs, ignoreNotExist(l.syncFile(filepath.Join(f.dir, epochsName+tmpSuffix))))
	}
	if f.newFolder {
		errs = append(errs, ignoreNotExist(l.syncFile(filepath.Join(f.dir, partitionMetadataName))))
	}
	for _, path := range f.standsOn {
		errs = append(errs, ignoreNotExist(l.syncFile(path))) // a truncation may have removed it
	}
	if f.syncNames {
		errs = append(errs, l.fs.SyncDir(f.dir))
	}
	if f.newFolder {
		errs = append(errs, l.fs.SyncDir(filepath.Dir(f.dir)))
	}
	if err := errors.Join(errs...); err != nil {
		return l.fail(err)
	}
	return nil
}

func (l *Log) syncFile(path string) error {
	f, err := l.fs.Open(path, vfs.Write)
	if err != nil {
		return err
	}
	return errors.Join(f.SyncData(), f.Close())
}

func ignoreNotExist(err error) error {
	if notExist(err) {
		return nil
	}
	return err
}

// endSyncLocked counts what a finished sync has made durable. A truncation meanwhile may have put other records below
// its end, so that the sync proves nothing about those; the next one will.
func (l *Log) endSyncLocked(f *Flush) {
	l.forgetSyncedLocked(f.names)
	if f.syncNames {
		l.namesFound = false
	}
	if f.newFolder {
		l.newFolder = false
	}
	if len(f.standsOn) > 0 {
		l.standsOn = nil
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
func (l *Log) endRecoveryLocked(f *Flush) {
	if f.truncations != l.truncations {
		return
	}
	if f.end > l.recoveryPoint {
		l.recoveryPoint = f.end
		l.sinceRecovery = l.appended.Load() - f.appended
		if !l.ownerStores {
			l.stored = l.recoveryPoint
			l.dropOldSnapshotsLocked()
		}
	}
}

// forgetSyncedLocked takes what a sync has covered off the lists. Files written to since stay.
func (l *Log) forgetSyncedLocked(names int) {
	l.namesSynced = max(l.namesSynced, names)
	l.unsynced = slices.DeleteFunc(l.unsynced, (*file).clean)
	l.unsyncedAside = slices.DeleteFunc(l.unsyncedAside, (*file).clean)
}

// dropOldSnapshotsLocked removes the snapshots that stood for recovery points before the one that is stored. Those at the base of a segment
// stay as long as it does: Kafka wants them. Nothing goes wrong if one is not removed.
func (l *Log) dropOldSnapshotsLocked() {
	err := errors.Join(
		l.removeSnapshotsLocked(func(offset kafka.Offset) bool { return offset < l.stored && !l.isBaseLocked(offset) }),
		l.removeSequencesLocked(func(offset kafka.Offset) bool { return offset < l.stored }),
	)
	if err != nil {
		l.logger.Warn("old producer snapshots stay on disk", "err", err)
	}
}

// BeginClose is BeginSync for logs that are closed next: afterwards Close finds nothing left to do. nil: that is so already.
func (l *Log) BeginClose() (*Flush, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return nil, err
	}
	f, err := l.beginSettleLocked()
	if err != nil {
		return nil, fmt.Errorf("close log %s: %w", l.tp, err)
	}
	return f, nil
}

// beginSettleLocked writes what a clean stop leaves on disk, for a sync to follow; nil: nothing has changed since the last one.
func (l *Log) beginSettleLocked() (*Flush, error) {
	a := l.active
	if err := a.log.release(a.size); err != nil {
		return nil, err
	}
	changed := len(l.unsynced) > 0 || len(l.unsyncedAside) > 0 || l.names > l.namesSynced || l.newFolder || len(l.standsOn) > 0
	if a.extended || a.surplus || len(a.offset.tail) > 0 || a.max.Timestamp > a.lastEntryTime || a.allocated {
		changed = true
		before := a.lastEntryTime
		if err := l.cutSurplus(a); err != nil {
			return nil, err
		}
		if err := a.seal(); err != nil {
			return nil, err
		}
		if a.lastEntryTime > before {
			a.hasSeal, a.beforeSeal = true, before
		}
	}
	if !changed && !l.epochsDirty && l.recoveryPoint == l.logEnd {
		return nil, nil
	}
	l.summary = nil // of a folder that is about to change
	l.unsynced = append(l.unsynced, a.log)
	f, err := l.beginSyncLocked(true)
	if err == nil && !f.recovery {
		err = syscall.ENOSPC
	}
	return f, err
}

// settleLocked puts the log into the state in which a clean stop leaves it, and syncs it.
func (l *Log) settleLocked() error {
	f, err := l.beginSettleLocked()
	if f == nil || err != nil {
		return err
	}
	if err := l.touch(f); err != nil {
		return err
	}
	l.endSyncLocked(f)
	for {
		snapshots, more, err := l.promiseLocked(f)
		if err == nil && !more {
			l.endRecoveryLocked(f)
			return nil
		}
		if err == nil {
			err = l.syncPromise(f, snapshots)
		}
		if err != nil {
			return err
		}
	}
}
