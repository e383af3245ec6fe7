package commitlog

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// deletedFile is a file that was renamed out of the log.
type deletedFile struct {
	f  *file
	at time.Time
}

// SetLogStart moves the log start up to an offset: records below are never read again, and Retain deletes whole segments
// below. An offset at or below the log start does nothing; one above the deletion bound or the log end is
// OFFSET_OUT_OF_RANGE. The caller stores the new log start; it is an Option of Open.
func (l *Log) SetLogStart(to kafka.Offset) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if to > l.logEnd || to > l.deletionBound.Load() {
		return fmt.Errorf("log start %d of %s above the high watermark, %d: %w", to, l.tp, l.deletionBound.Load(), kerr.OffsetOutOfRange)
	}
	l.raiseLogStartLocked(to)
	return nil
}

func (l *Log) raiseLogStartLocked(to kafka.Offset) {
	if to <= l.logStart {
		return
	}
	l.logStart = to
	if cut := l.epochs.cutStart(to); !slices.Equal(cut, l.epochs) {
		l.epochs, l.epochsDirty = cut, true
	}
	l.publishLocked()
}

// Retain deletes the segments that retention.ms, retention.bytes or the log start release, oldest first and only below
// the deletion bound, and makes damaged indexes anew. The files are renamed now and removed by
// DeletePending. It returns how many segments were deleted. Mirrors UnifiedLog.deleteOldSegments.
func (l *Log) Retain(now time.Time) (deleted int, err error) {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return 0, err
	}
	n, end, err := l.releasedLocked(now, l.logEnd)
	if err == nil && n > 0 && end > l.recoveryPoint {
		// What the records left behind, the producers' state, must be on disk before they go. The sync waits without
		// the lock, so look again afterwards. On a full disk it may have left the recovery point where it was.
		if err = l.syncUnlocked(true); err == nil {
			n, _, err = l.releasedLocked(now, l.recoveryPoint)
		}
	}
	if err == nil && n > 0 {
		deleted, err = l.deleteUnlocked(n)
	}
	if err != nil {
		return deleted, fmt.Errorf("apply retention to %s: %w", l.tp, err)
	}
	// Last, because a full disk has no room for an index: what is deleted makes some.
	if l.active.damaged.Load() && l.active.size > 0 {
		err = l.rollLocked(l.logEnd) // to where indexes are made anew
		l.publishLocked()
	}
	if err == nil {
		err = l.repairLocked()
	}
	if err != nil {
		return deleted, fmt.Errorf("repair indexes of %s: %w", l.tp, err)
	}
	return deleted, nil
}

// releasedLocked returns how many segments from the first on may go, none that ends above a bound, and where the last of them ends.
func (l *Log) releasedLocked(now time.Time, bound kafka.Offset) (n int, end kafka.Offset, err error) {
	w := l.files.window()
	defer l.files.release(w)
	bound = min(bound, l.deletionBound.Load())
	size := l.active.size
	for i := range l.sealed {
		size += l.sealed[i].size
	}
	excess := size - l.cfg().RetentionBytes
	for ; n <= len(l.sealed); n++ {
		sealed := n < len(l.sealed)
		v, vEnd := &l.active.view, l.logEnd
		if sealed {
			v, vEnd = &l.sealed[n], l.sealed[n].next
		}
		if vEnd > bound || !sealed && v.size == 0 {
			break
		}
		release := vEnd <= l.logStart && sealed
		if l.cfg().Delete && !release && l.cfg().RetentionMs >= 0 {
			newest, err := l.newestMs(v, w, sealed)
			if err != nil {
				return 0, 0, err
			}
			release = now.UnixMilli()-newest > l.cfg().RetentionMs
		}
		if l.cfg().Delete && !release && l.cfg().RetentionBytes >= 0 {
			release = excess >= v.size
		}
		if !release {
			break
		}
		excess -= v.size
		end = vEnd
	}
	return n, end, nil
}

// newestMs returns the largest timestamp in a segment, or when it was last written if its records have none.
func (l *Log) newestMs(v *view, w *window, sealed bool) (int64, error) {
	newest, err := v.maxTimestamp(w, sealed)
	if err != nil || newest.Timestamp >= 0 {
		return newest.Timestamp, err
	}
	entry, err := l.fs.Stat(v.log.name())
	return entry.ModTime.UnixMilli(), err
}

// deleteUnlocked takes the first n segments out of the log. If that is all, a new one begins first. It is called with
// Log.mu held, and lets go of it while it waits for the disk.
//
// What precedes a deletion is durable before it begins. A power cut that keeps some renames and loses others would leave
// a hole, and recovery cuts a log at a hole, with all that was acked behind it.
func (l *Log) deleteUnlocked(n int) (deleted int, err error) {
	if n > len(l.sealed) {
		if err := l.rollLocked(l.logEnd); err != nil {
			return 0, err
		}
	}
	truncations := l.truncations
	for ; deleted < n; deleted++ {
		if err := l.syncNamesUnlocked(); err != nil {
			return deleted, err
		}
		if truncations != l.truncations {
			break // the log has lost its end meanwhile, and perhaps these segments
		}
		if err := l.deleteFirstLocked(); err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

func (l *Log) deleteFirstLocked() error {
	v := l.sealed[0]
	l.sealed = l.sealed[1:]
	l.raiseLogStartLocked(l.firstBaseLocked())
	l.publishLocked()
	l.logger.Info("segment deleted by retention", "segment", v.base, "bytes", v.size, "logStart", l.logStart)
	if err := l.markDeletedLocked(v.segment, v.aborted > 0); err != nil {
		return err
	}
	return l.deleteLocked(l.forgetSnapshotLocked(v.base))
}

// syncNamesUnlocked makes the names in the log's folder durable. It is called with Log.mu held, and lets go of it meanwhile.
func (l *Log) syncNamesUnlocked() error {
	names, dir := l.names, l.dir
	if names == l.namesSynced && !l.namesFound {
		return nil
	}
	l.mu.Unlock()
	err := l.fs.SyncDir(dir)
	if err != nil {
		err = l.fail(err)
	}
	l.mu.Lock()
	l.namesSynced, l.namesFound = max(l.namesSynced, names), false
	if err == nil {
		err = l.usableLocked()
	}
	return err
}

// markDeletedLocked renames a segment's files and ends their use; Regions go on reading. hasTxns says that it has a transaction
// index.
func (l *Log) markDeletedLocked(s *segment, hasTxns bool) error {
	l.names++
	return errors.Join(l.deleteLocked(s.files(hasTxns)), s.close())
}

// deleteLocked renames files for DeletePending.
func (l *Log) deleteLocked(files []*file) error {
	renamed, err := renameDeleted(files)
	l.removeLaterLocked(renamed)
	return err
}

// renameDeleted gives files the names of deleted ones, and returns those that have them now. That one is missing is no error: an
// earlier try may have got so far. On a full disk they go at once.
func renameDeleted(files []*file) (renamed []*file, err error) {
	var errs []error
	for _, f := range files {
		err := f.rename(f.name() + deletedSuffix)
		switch {
		case err == nil:
			renamed = append(renamed, f)
		case errors.Is(err, syscall.ENOSPC): // the folder has no room for a longer name
			err = f.remove()
		}
		errs = append(errs, ignoreNotExist(err))
	}
	return renamed, errors.Join(errs...)
}

// removeLaterLocked leaves renamed files to DeletePending.
func (l *Log) removeLaterLocked(renamed []*file) {
	now := l.now()
	for _, f := range renamed {
		l.deleted = append(l.deleted, deletedFile{f: f, at: now})
	}
}

// forgetSnapshotLocked takes a snapshot off the list, if there is one, and returns its file.
func (l *Log) forgetSnapshotLocked(offset kafka.Offset) []*file {
	i, found := slices.BinarySearch(l.snapshots, offset)
	if !found {
		return nil
	}
	l.snapshots = slices.Delete(l.snapshots, i, i+1)
	return []*file{l.files.file(l.snapshotPath(offset))}
}

// DeletePending removes the renamed files for which file.delete.delay.ms is over, and returns how many are left.
func (l *Log) DeletePending(now time.Time) (left int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, nil
	}
	var errs []error
	l.deleted = slices.DeleteFunc(l.deleted, func(d deletedFile) bool {
		if now.Sub(d.at).Milliseconds() < l.cfg().FileDeleteDelayMs {
			return false
		}
		err := d.f.remove()
		errs = append(errs, err)
		return err == nil
	})
	if err := errors.Join(errs...); err != nil {
		return len(l.deleted), fmt.Errorf("remove deleted files of %s: %w", l.tp, err)
	}
	return len(l.deleted), nil
}

// repairLocked makes the index files of damaged segments anew.
func (l *Log) repairLocked() error {
	for i := range l.sealed {
		v := l.sealed[i]
		if !v.damaged.Load() && !v.txnsBad.Load() {
			continue
		}
		l.logger.Warn("index is damaged and made anew", "segment", v.base)
		s := l.successor(v.segment)
		aborted, err := l.retxn(&v)
		if err != nil {
			return err
		}
		repaired, err := l.reindex(s, v.size, v.next, aborted)
		if err != nil {
			return err
		}
		sealed := slices.Clone(l.sealed)
		sealed[i] = repaired
		l.sealed = sealed
		l.publishLocked()
		if err := errors.Join(v.offsets.close(), v.times.close(), v.txns.close()); err != nil {
			return err
		}
	}
	if old := l.active.segment; old.txnsBad.Load() {
		l.logger.Warn("transaction index is damaged and made anew", "segment", old.base)
		aborted, err := l.retxn(&l.active.view)
		if err != nil {
			return err
		}
		s := l.successor(old)
		s.offsets, s.times = old.offsets, old.times
		l.active.segment, l.active.aborted = s, aborted
		l.publishLocked()
		return old.txns.close()
	}
	return nil
}

// successor returns a new identity for a segment whose index files are made anew: readers of the old one look at the old
// files, which are given up when there are others.
func (l *Log) successor(old *segment) *segment {
	s := l.segment(old.base)
	s.log = old.log
	s.holes.Store(old.holes.Load())
	s.cold.Store(old.cold.Load())
	s.txnsChecked.Store(true)
	return s
}
