package commitlog

import (
	"errors"
	"slices"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// rollDueLocked tells whether a new segment has to begin before the run. Mirrors LogSegment.shouldRoll.
func (l *Log) rollDueLocked(r run, nowMs int64) bool {
	a := l.active
	if a.size == 0 {
		return !a.fits(r.last)
	}
	waited := nowMs - a.createdMs
	if a.firstTimestamp >= 0 {
		waited = r.maxTimestamp - a.firstTimestamp
	}
	return a.size+int64(len(r.bytes)) > int64(l.cfg().SegmentBytes) ||
		waited > l.cfg().segmentMs()-a.jitterMs ||
		a.offset.count() >= l.maxEntries(offsetWidth) || a.time.count() >= l.maxEntries(timeWidth)-1 ||
		!a.fits(r.last)
}

// rollLocked seals the active segment and begins one at base, which is the log end or, over a large gap, beyond. On an
// error the active segment goes on. The new files are durable with the next Sync, and nothing in them counts as synced
// before: it syncs the sealed segment and the folder too.
func (l *Log) rollLocked(base kafka.Offset) error {
	old := l.active
	invariant.Check(base > old.base, "%s: roll at %d, where the active segment begins", l.tp, base)
	if len(l.sealed) == 0 && (l.names > l.namesSynced || l.namesFound) {
		// A later segment whose name is lost leaves a gap, which recovery finds. Before the first there is nothing to
		// miss it: its name must be on disk before there is a second one.
		if err := l.fs.SyncDir(l.dir); err != nil {
			return l.fail(err)
		}
		l.namesSynced, l.namesFound = l.names, false
	}
	next := l.newActive(base)
	if err := l.create(next); err != nil {
		return errors.Join(err, l.discard(next))
	}
	if err := l.cutSurplus(old); err != nil {
		return errors.Join(err, l.discard(next))
	}
	if err := old.seal(); err != nil {
		return errors.Join(err, l.discard(next))
	}
	l.holdSnapshotLocked()
	l.unsyncedAside = append(l.unsyncedAside, old.offsets, old.times)
	if old.aborted > 0 {
		l.unsyncedAside = append(l.unsyncedAside, old.txns)
	}
	if n := len(l.unsynced); n == 0 || l.unsynced[n-1] != old.log {
		l.unsynced = append(l.unsynced, old.log) // sealing may have cut preallocated space off
	}
	old.next = base
	newest := old.max
	old.maxTime.Store(&newest)
	l.sealed = append(l.sealed, old.view)
	l.active = next
	l.logEnd = base
	l.names++
	return nil
}

// discard removes the files of a segment that nothing was written to.
func (l *Log) discard(a *active) error {
	var errs []error
	a.each(func(f *file, suffix string) {
		if suffix != txnIndexSuffix {
			errs = append(errs, f.remove())
		}
	})
	l.names++
	return errors.Join(errs...)
}

func (l *Log) firstBaseLocked() kafka.Offset {
	if len(l.sealed) > 0 {
		return l.sealed[0].base
	}
	return l.active.base
}

// isBaseLocked tells whether a segment begins at offset.
func (l *Log) isBaseLocked(offset kafka.Offset) bool {
	return offset == l.active.base || slices.ContainsFunc(l.sealed, func(v view) bool { return v.base == offset })
}
