package commitlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// Truncate cuts the log so that nothing at or after to is left, durably. The log end becomes that of the last batch left:
// to itself, unless it lies inside a batch or a gap. A to at or behind the log end only ends an epoch that was assigned and
// has no record: the log that this one is to follow may know another. One before all segments
// is TruncateFullyAt. Nobody may append meanwhile, and the caller must not have told anybody to rely on what is cut.
// After an error the log has failed, unless that is ENOSPC alone: then nothing is cut, and it can be tried again.
func (l *Log) Truncate(to kafka.Offset) error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if to >= l.logEnd {
		if cut := l.epochs.cutEnd(l.logEnd); len(cut) < len(l.epochs) {
			l.epochs, l.epochsDirty, l.epochUnused = cut, true, false
			l.publishLocked()
		}
		return nil
	}
	if to < l.firstBaseLocked() {
		return l.emptyLocked(to)
	}
	if to >= l.active.base {
		// The cut finds its place by the index file. That needs space, and nothing after it does.
		switch err := l.flushIndexes(l.active, 0); {
		case errors.Is(err, syscall.ENOSPC):
			return fmt.Errorf("truncate to %d: %w", to, err)
		case err != nil:
			return fmt.Errorf("truncate to %d: %w", to, l.fail(err))
		}
	}
	if err := l.truncateLocked(to); err != nil {
		return fmt.Errorf("truncate to %d: %w", to, l.fail(err))
	}
	return nil
}

// cuts counts the truncations so far.
func (l *Log) cuts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.truncations
}

// TruncateFullyAt deletes all records and lets the log go on at offset, durably. Errors are as those of Truncate.
func (l *Log) TruncateFullyAt(offset kafka.Offset) error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	return l.emptyLocked(offset)
}

func (l *Log) emptyLocked(offset kafka.Offset) error {
	untouched, err := l.truncateFullyLocked(offset)
	switch {
	case err == nil:
		return nil
	case untouched && errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("empty the log to begin at %d: %w", offset, err)
	}
	return fmt.Errorf("empty the log to begin at %d: %w", offset, l.fail(err))
}

// forgetRecoveryLocked makes sure that recovery begins no later than at an offset: it begins at a snapshot, so those that drop
// picks go, for good.
func (l *Log) forgetRecoveryLocked(drop func(kafka.Offset) bool, at kafka.Offset) error {
	l.truncations++
	if err := l.removeSnapshotsLocked(drop); err != nil {
		return err
	}
	l.recoveryPoint, l.stored = min(l.recoveryPoint, at), min(l.stored, at)
	return l.fs.SyncDir(l.dir)
}

func (l *Log) truncateLocked(to kafka.Offset) error {
	to, err := l.batchBoundaryLocked(to)
	if err != nil {
		return err
	}
	// A recovery point that somebody has stored must not vouch for what will be written here from now on.
	if err := l.forgetRecoveryLocked(func(offset kafka.Offset) bool { return offset > to }, to); err != nil {
		return err
	}
	if err := l.dropAfterLocked(to); err != nil {
		return err
	}
	if err := l.cutActiveLocked(to); err != nil {
		return err
	}
	if cut := l.epochs.cutEnd(l.logEnd); len(cut) < len(l.epochs) {
		l.epochs, l.epochsDirty, l.epochUnused = cut, true, false
	}
	// Those that are on disk may be too many as long as the recovery point is not past the cut: a start reads on from there.
	if err := l.writeEpochsLocked(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	if err := l.reloadProducersLocked(); err != nil {
		return err
	}
	l.syncedEnd, l.logStart = min(l.syncedEnd, l.logEnd), min(l.logStart, l.logEnd)
	l.recoveryPoint = min(l.recoveryPoint, l.logEnd)
	l.publishLocked()
	return nil
}

// batchBoundaryLocked returns where the batch begins that an offset lies inside of, or the offset itself.
func (l *Log) batchBoundaryLocked(offset kafka.Offset) (kafka.Offset, error) {
	w := l.files.window()
	defer l.files.release(w)
	v := &l.active.view
	for i := len(l.sealed) - 1; i >= 0 && v.base > offset; i-- {
		v = &l.sealed[i]
	}
	p, found, err := v.locateAny(w, offset)
	if err != nil || !found {
		return offset, err
	}
	return min(offset, p.base), nil
}

// dropAfterLocked takes the segments that begin after an offset out of the log, the last first and each for good before
// the one before it, so that no crash leaves a hole; the last one left becomes active.
func (l *Log) dropAfterLocked(to kafka.Offset) error {
	last := l.active.view
	for last.base > to {
		if err := l.markDeletedLocked(last.segment, last.aborted > 0); err != nil {
			return err
		}
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
		n := len(l.sealed) - 1
		last = l.sealed[n]
		l.sealed = l.sealed[:n]
	}
	l.sealed = slices.Clone(l.sealed) // readers hold the old array, whose elements must not be overwritten
	if last.segment == l.active.segment {
		return nil
	}
	// A new identity for the same files: readers hold the sealed one with its cached answers. What is known of damage stays.
	s := &segment{base: last.base, log: last.log, offsets: last.offsets, times: last.times, txns: last.txns}
	s.holes.Store(last.holes.Load())
	s.cold.Store(last.cold.Load())
	s.txnsChecked.Store(last.txnsChecked.Load())
	s.txnsBad.Store(last.txnsBad.Load())
	a := &active{view: last, lastEntryTime: batch.NoTimestamp, firstTimestamp: batch.NoTimestamp, createdMs: l.now().UnixMilli(), jitterMs: l.jitter()}
	a.view.segment = s
	l.active = a
	return nil
}

// cutActiveLocked cuts the active segment's files and brings its state to the new end.
func (l *Log) cutActiveLocked(to kafka.Offset) error {
	w := l.files.window()
	defer l.files.release(w)
	old := l.active
	end := old.size
	p, found, err := old.locateAny(w, to)
	if err != nil {
		return err
	}
	if found {
		end = p.pos
	}
	a := &active{
		view:          viewOf(old.segment, 0, old.base, 0, 0, 0),
		lastEntryTime: batch.NoTimestamp, firstTimestamp: batch.NoTimestamp, createdMs: old.createdMs, jitterMs: old.jitterMs,
	}
	if err := l.rewindLocked(a, old, w, end); err != nil {
		return err
	}
	all, err := old.abortedTxns()
	if err != nil {
		return err
	}
	for a.aborted < len(all) && all[a.aborted].LastOffset < a.next {
		a.aborted++
	}
	if a.aborted < old.aborted {
		if err := a.txns.truncate(int64(a.aborted) * txnWidth); err != nil {
			return err
		}
		l.unsyncedAside = append(l.unsyncedAside, a.txns)
	}
	if err := a.offsets.truncate(int64(a.offset.written) * offsetWidth); err != nil {
		return err
	}
	if err := a.times.truncate(int64(a.time.written) * timeWidth); err != nil {
		return err
	}
	if err := a.log.truncate(a.size); err != nil {
		return err
	}
	a.cutHoles(a.size)
	a.cold.Store(min(a.cold.Load(), a.size))
	// Now, because what is appended next must not be mixed with remains of what was there.
	if err := a.log.sync(); err != nil {
		return err
	}
	l.unsyncedAside = append(l.unsyncedAside, a.offsets, a.times)
	l.active, l.logEnd = a, a.next
	return nil
}

// rewindLocked brings a, which is empty, to the state that old had when the segment's size was end.
func (l *Log) rewindLocked(a, old *active, w *window, end int64) error {
	if end == 0 {
		return nil
	}
	whole := old.view
	whole.size = end
	pos, err := whole.indexed(w, func(e []byte) bool { return entryPosition(e) < end })
	if err != nil {
		return err
	}
	if pos > 0 {
		a.size = pos
		if a.offset.written, err = whole.offset.countWhile(w, func(e []byte) bool { return entryPosition(e) <= pos }); err != nil {
			return err
		}
		entry, err := whole.offset.at(w, a.offset.written-1)
		if err != nil {
			return err
		}
		offset := entryOffset(entry, a.base)
		if a.time.written, err = whole.time.countWhile(w, func(e []byte) bool { return entryTimeOffset(e, a.base) <= offset }); err != nil {
			return err
		}
		if entry, err = a.time.last(w); err != nil {
			return err
		}
		if entry != nil {
			a.max.Timestamp, a.max.Offset = entryTimestamp(entry), entryTimeOffset(entry, a.base)
			a.lastEntryTime = a.max.Timestamp
		}
		if a.firstTimestamp, err = whole.readFirstTimestamp(w); err != nil {
			return err
		}
	}
	return whole.walk(w, a.size, func(h batch.Batch, pos, size int64) (bool, error) {
		a.size = pos // over damage
		l.note(a, h, int(size))
		return true, nil
	})
}

// reloadProducersLocked makes the producers' state that of the log end.
func (l *Log) reloadProducersLocked() error {
	from, err := l.loadSnapshotLocked(l.logEnd)
	if err != nil {
		return err
	}
	nowMs := l.now().UnixMilli()
	w := l.files.window()
	defer l.files.release(w)
	views := append(slices.Clone(l.sealed), l.active.view)
	for i := range views {
		v := &views[i]
		if v.next <= from {
			continue
		}
		p, found, err := v.locateAny(w, from)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		err = v.walk(w, p.pos, func(h batch.Batch, pos, size int64) (bool, error) {
			if h.ProducerID() < 0 {
				return true, nil
			}
			m, err := v.endMarker(h, pos, size)
			if err == nil {
				l.producers.apply(h, m, nowMs)
			}
			return true, err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// truncateFullyLocked empties the log. untouched, after an error, says that all records are there.
func (l *Log) truncateFullyLocked(offset kafka.Offset) (untouched bool, err error) {
	if err := l.forgetRecoveryLocked(func(kafka.Offset) bool { return true }, 0); err != nil {
		return false, err
	}
	// What needs space comes first.
	next, err := l.createAside(offset)
	if err != nil {
		return true, err
	}
	// One of before, in a log that is empty, would be taken for the epoch of its start. As long as there are records a start reads them
	// all, and their epochs.
	l.epochsDirty = true
	if err := epochs(nil).write(l.fs, l.dir); err != nil {
		return true, errors.Join(err, l.discard(next))
	}
	return false, l.beginAnewLocked(next)
}

// createAside makes the files of an empty segment, with names that the next start would remove.
func (l *Log) createAside(base kafka.Offset) (*active, error) {
	a := l.newActive(base)
	a.each(func(f *file, _ string) { f.expectAt(f.name() + tmpSuffix) })
	if err := l.create(a); err != nil {
		return nil, errors.Join(err, l.discard(a))
	}
	return a, nil
}

// placeLocked gives the files of createAside their names. Should the folder have no room for them, the files that have left the log go
// at once.
func (l *Log) placeLocked(a *active) error {
	rename := func() error {
		var errs []error
		a.each(func(f *file, suffix string) {
			path := filepath.Join(l.dir, fileName(a.base, suffix))
			if suffix == txnIndexSuffix {
				f.expectAt(path)
			} else {
				errs = append(errs, f.rename(path))
			}
		})
		return errors.Join(errs...)
	}
	err := rename()
	if errors.Is(err, syscall.ENOSPC) {
		var errs []error
		for _, d := range l.deleted {
			errs = append(errs, d.f.remove())
		}
		l.deleted = nil
		err = errors.Join(append(errs, rename())...)
	}
	return err
}

// beginAnewLocked puts one empty segment in place of all.
func (l *Log) beginAnewLocked(next *active) error {
	offset := next.base
	for {
		if err := l.markDeletedLocked(l.active.segment, l.active.aborted > 0); err != nil {
			return err
		}
		if err := l.fs.SyncDir(l.dir); err != nil {
			return err
		}
		n := len(l.sealed) - 1
		if n < 0 {
			break
		}
		l.active = &active{view: l.sealed[n]}
		l.sealed = l.sealed[:n]
	}
	l.sealed = nil
	l.active = next
	if err := l.placeLocked(next); err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
	l.epochs, l.epochsDirty, l.epochUnused = nil, false, false
	l.producers = producers{}
	l.logStart, l.logEnd, l.syncedEnd, l.recoveryPoint = offset, offset, offset, offset
	l.sinceRecovery = 0
	l.synced.Store(l.appended.Load())
	l.publishLocked()
	return nil
}
