package commitlog

import (
	"fmt"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// Truncate cuts the log so that nothing at or after to is left, durably. The log end becomes that of the last batch left:
// to itself, unless it lies inside a batch or a gap. A to at or behind the log end only ends an epoch that was assigned and
// has no record: the log that this one is to follow may know another. One before all segments
// is TruncateFullyAt. Nobody may append meanwhile, and the caller must not have told anybody to rely on what is cut.
// After an error the log has failed.
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
	err := l.truncateLocked(to)
	if err != nil {
		return fmt.Errorf("truncate to %d: %w", to, l.fail(err))
	}
	return nil
}

// TruncateFullyAt deletes all records and lets the log go on at offset, durably. After an error the log has failed.
func (l *Log) TruncateFullyAt(offset kafka.Offset) error {
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return err
	}
	if err := l.truncateFullyLocked(offset); err != nil {
		return fmt.Errorf("empty the log to begin at %d: %w", offset, l.fail(err))
	}
	return nil
}

func (l *Log) truncateLocked(to kafka.Offset) error {
	if to < l.firstBaseLocked() {
		return l.truncateFullyLocked(to)
	}
	to, err := l.batchBoundaryLocked(to)
	if err != nil {
		return err
	}
	l.truncations++
	// A recovery point that somebody has stored must not vouch for what will be written here from now on. Recovery
	// begins at a snapshot, so those above the cut go first, for good.
	if err := l.removeSnapshotsLocked(func(offset kafka.Offset) bool { return offset > to }); err != nil {
		return err
	}
	l.recoveryPoint, l.stored = min(l.recoveryPoint, to), min(l.stored, to)
	if err := l.fs.SyncDir(l.dir); err != nil {
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
	if err := l.writeEpochsLocked(); err != nil {
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
	// A new identity for the same files: readers hold the sealed one with its cached answers.
	s := &segment{base: last.base, log: last.log, offsets: last.offsets, times: last.times, txns: last.txns}
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
	if err := old.offset.flush(); err != nil {
		return err
	}
	if err := old.time.flush(); err != nil {
		return err
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
		err = whole.walk(w, 0, func(h batch.Batch, _, _ int64) (bool, error) {
			a.firstTimestamp = h.MaxTimestamp()
			return false, nil
		})
		if err != nil {
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
			var m *marker
			if h.Control() {
				whole, err := v.load(pos, size)
				if err != nil {
					return false, err
				}
				if m, err = endMarker(whole); err != nil {
					return false, err
				}
			}
			l.producers.apply(h, m, nowMs)
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *Log) truncateFullyLocked(offset kafka.Offset) error {
	l.truncations++
	if err := l.removeSnapshotsLocked(func(kafka.Offset) bool { return true }); err != nil {
		return err
	}
	l.recoveryPoint, l.stored = 0, 0
	if err := l.fs.SyncDir(l.dir); err != nil {
		return err
	}
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
	l.active = l.newActive(offset)
	if err := l.create(l.active); err != nil {
		return err
	}
	l.epochs, l.epochsDirty, l.epochUnused = nil, true, false
	l.producers = producers{}
	if err := l.writeEpochsLocked(); err != nil { // this syncs the names of the new files too
		return err
	}
	l.logStart, l.logEnd, l.syncedEnd, l.recoveryPoint = offset, offset, offset, offset
	l.sinceRecovery = 0
	l.synced.Store(l.appended.Load())
	l.publishLocked()
	return nil
}
