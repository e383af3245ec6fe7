package commitlog

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// start chooses where the scan begins: at the newest producer snapshot that is not above what is trusted. Every recovery
// point of ours has a snapshot, and a truncation removes those above it before it cuts, so that a recovery point stored
// before the truncation does no harm. It loads the producers as of there and enters the segments before it.
func (r *recovery) start(trusted kafka.Offset) (kafka.Offset, error) {
	first := r.segments[0].base
	trusted = max(trusted, first) // the snapshot there is of records that are gone
	r.solid = -1
	r.active = r.newActive(first) // for firstBaseLocked
	for {
		from, err := r.loadSnapshotLocked(trusted)
		if err != nil {
			return 0, err
		}
		from = max(from, first)
		if r.solid < 0 {
			r.solid, r.solidProducers = from, r.producers
		}
		at := len(r.segments) - 1
		// Where a segment begins at from, the one before may not have been sealed yet when the crash came.
		for at > 0 && r.segments[at].base >= from {
			at--
		}
		ok, err := r.enter(at, from)
		if err != nil || ok {
			r.report.From = from
			return from, err
		}
		invariant.Check(from > first, "%s: segment %d cannot be entered at its base", r.tp, first)
		r.logger.Warn("log is damaged below its recovery point, recovery begins earlier", "offset", from)
		trusted = from - 1
	}
}

// enter makes the segments before number at part of the log as they are, and the active segment what number at holds
// below from. It reports false when the batches there do not lead to from.
func (r *recovery) enter(at int, from kafka.Offset) (ok bool, err error) {
	for i := range r.sealed { // of an earlier try
		_ = r.sealed[i].close()
	}
	r.sealed, r.next = nil, at
	for i, f := range r.segments[:at] {
		v := viewOf(r.segment(f.base), f.log, r.segments[i+1].base, f.index, f.time, f.txn)
		if f.suspect() {
			if v, err = r.rebuild(f, v.next); err != nil {
				return false, err
			}
		}
		v.cold.Store(f.log)
		r.sealed = append(r.sealed, v)
	}
	a, ok, err := r.enterActive(r.segments[at], from)
	if err != nil || !ok {
		return false, err
	}
	r.active, r.logEnd = a, from
	return true, nil
}

// suspect tells whether the sizes of the index files alone show that they are not good. Damage inside is found when an
// entry is used.
func (f *found) suspect() bool {
	const manyBytes = 1 << 20 // nobody sets the index interval so high
	return !f.hasIndex || !f.hasTime || f.index%offsetWidth != 0 || f.time%timeWidth != 0 || f.index == 0 && f.log > manyBytes
}

// rebuild makes the index files of a sealed segment anew. Its batches are not verified: they are below the recovery point.
func (r *recovery) rebuild(f *found, next kafka.Offset) (view, error) {
	a, err := r.reindex(r.segment(f.base), f.log, next, int(f.txn/txnWidth))
	if err != nil {
		return view{}, err
	}
	r.report.RebuiltIndexes++
	r.touched = true
	return a, nil
}

// reindex writes the index files of a sealed segment from its batches, as far as they can be read. Each appears whole: half
// an index looks like one of fewer batches.
func (l *Log) reindex(s *segment, size int64, next kafka.Offset, aborted int) (view, error) {
	a := l.newActive(s.base)
	a.segment = s
	a.offset.f, a.time.f = s.offsets, s.times
	whole := viewOf(s, size, next, 0, 0, 0)
	w := l.files.window()
	defer l.files.release(w)
	err := whole.walk(w, 0, func(h batch.Batch, pos, sizeBytes int64) (bool, error) {
		a.size = pos // over damage
		l.note(a, h, int(sizeBytes))
		return true, nil
	})
	if err != nil {
		return view{}, err
	}
	a.noteTime()
	for _, x := range []*index{&a.offset, &a.time} {
		if err := vfs.WriteFileAtomic(l.fs, x.f.name(), x.tail); err != nil {
			return view{}, err
		}
		x.written, x.tail = x.count(), nil
	}
	a.view.size, a.view.next, a.view.aborted = size, next, aborted
	s.damaged.Store(false)
	return a.view, nil
}

// enterActive returns the segment as it was when from was its end: index entries from there on are dropped, and the
// batches behind the last entry before it are walked. ok is false when no batch ends at from.
func (r *recovery) enterActive(f *found, from kafka.Offset) (a *active, ok bool, err error) {
	a = r.newActive(f.base)
	a.allocated = r.cfg().Preallocate
	a.log.mayExceed = !r.clean && f.log >= reserveFrom
	if !r.clean && r.namesFound { // nor need what a killed process has cut off its files be gone for good
		r.suspectIndexes(a, f)
	}
	defer func() {
		if !ok {
			_ = a.close()
		}
	}()
	if from > f.base {
		whole := viewOf(a.segment, f.log, math.MaxInt64, f.index, f.time, f.txn)
		w := r.files.window()
		defer r.files.release(w)
		if err := r.trustIndexes(a, f, &whole, w, from); err != nil {
			return a, false, err
		}
		indexed := a.offset.count()
		err := whole.walk(w, a.size, func(h batch.Batch, pos, size int64) (bool, error) {
			if h.BaseOffset() >= from {
				return false, nil
			}
			a.size = pos // over damage
			r.note(a, h, int(size))
			return a.next < from, nil // what lies behind may be torn
		})
		if err != nil {
			return a, false, err
		}
		if a.next < from && !r.cfg().Preallocate {
			a.passEnd(f.log, from)
		}
		// Compaction may have left a gap at the end of a segment; the snapshot says that nothing else is missing.
		gap := a.next < from && a.size == f.log && r.beginsAt(from)
		if a.next != from && !gap {
			return a, false, nil
		}
		if indexed == 0 && a.offset.count() > 0 {
			r.report.RebuiltIndexes++
		}
		if err := a.findSeal(f, &whole, w); err != nil {
			return a, false, err
		}
		all, err := whole.abortedTxns()
		if err := ignoreCorrupt(err); err != nil {
			return a, false, err
		}
		if err != nil {
			return a, false, nil // it can only be made anew from before the segment
		}
		last := f.base - 1
		for _, t := range all {
			if t.LastOffset <= last || t.LastOffset >= from || t.FirstOffset >= t.LastOffset {
				break // of a marker that is not below from, or never written whole
			}
			last = t.LastOffset
			a.aborted++
		}
		a.cold.Store(a.size)
	}
	return a, true, r.cutIndexes(a, f)
}

// passEnd moves the end of the segment, whose file is so long, over damage that reaches just to an offset, or to the end of
// the file and so at least to there.
func (a *active) passEnd(size int64, offset kafka.Offset) {
	all := slices.Clone(a.known())
	for i := range all {
		if h := &all[i]; h.pos <= a.size && h.end > a.size && (h.to == offset || h.to > offset && h.end == size) {
			h.to = offset
			a.size, a.next = h.end, offset
		}
	}
	a.holes.Store(&all)
}

// beginsAt tells whether a segment begins at an offset.
func (r *recovery) beginsAt(offset kafka.Offset) bool {
	return slices.ContainsFunc(r.segments, func(f *found) bool { return f.base == offset })
}

// findSeal keeps the time index entry that a clean stop has added, so that a log that is not appended to is not written
// to. The first append takes it off again: index files depend on the batches alone.
func (a *active) findSeal(f *found, whole *view, w *window) error {
	if len(a.offset.tail) > 0 || len(a.time.tail) > 0 || a.max.Timestamp <= a.lastEntryTime || f.time != int64(a.time.written+1)*timeWidth {
		return nil
	}
	entry, err := whole.time.at(w, a.time.written)
	if err != nil {
		return err
	}
	if entryTimestamp(entry) == a.max.Timestamp && entryTimeOffset(entry, a.base) == a.max.Offset {
		a.beforeSeal, a.lastEntryTime = a.lastEntryTime, a.max.Timestamp
		a.time.written++
		a.hasSeal = true
	}
	return nil
}

// unseal takes back what findSeal has kept.
func (a *active) unseal() {
	if a.hasSeal {
		a.time.written--
		a.lastEntryTime, a.hasSeal = a.beforeSeal, false
	}
}

// cutIndexes sees to it that what a does not count is taken off the index files, so that no later recovery takes it for good. Of
// the offset and the time index that comes later, when a recovery point is to move past it or something is to be written there:
// until then recovery begins where this one has begun, and counts no more. Most logs need not have these files opened.
func (r *recovery) cutIndexes(a *active, f *found) error {
	for _, x := range []struct {
		f       *file
		exists  bool
		have    int64
		trusted int64
		needed  bool
	}{
		{a.offsets, f.hasIndex, f.index, int64(a.offset.written) * offsetWidth, true},
		{a.times, f.hasTime, f.time, int64(a.time.written) * timeWidth, true},
		{a.txns, f.hasTxn, f.txn, int64(a.aborted) * txnWidth, false},
	} {
		create, cut := !x.exists && x.needed, x.exists && x.have != x.trusted
		if cut && x.needed {
			a.surplus = true
			continue
		}
		if !create && !cut {
			continue
		}
		err := r.settleNames()
		switch {
		case err != nil:
		case create:
			err = x.f.create()
			r.touched = true
		default:
			err = x.f.truncate(x.trusted)
			r.unsyncedAside = append(r.unsyncedAside, x.f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settleNames makes the names durable that Open has found, before anything is changed that a snapshot vouches for: one whose
// removal a power cut takes back must not find less than it was written for.
func (l *Log) settleNames() error {
	if !l.namesFound {
		return nil
	}
	l.namesFound = false
	return l.fs.SyncDir(l.dir)
}

// suspectIndexes has the index files of a segment synced that are there.
func (l *Log) suspectIndexes(a *active, f *found) {
	for _, x := range []struct {
		f      *file
		exists bool
	}{{a.offsets, f.hasIndex}, {a.times, f.hasTime}, {a.txns, f.hasTxn}} {
		if x.exists {
			x.f.suspect()
			l.unsyncedAside = append(l.unsyncedAside, x.f)
		}
	}
}

// trustIndexes finds how much of the index files is of batches below from, and moves a to the last indexed one.
func (r *recovery) trustIndexes(a *active, f *found, whole *view, w *window, from kafka.Offset) error {
	if f.log == 0 || !f.hasIndex || !f.hasTime {
		return nil
	}
	lastOffset, lastPos := f.base-1, int64(0)
	offsets, err := whole.offset.trusted(w, func(e []byte) bool {
		offset, pos := entryOffset(e, f.base), entryPosition(e)
		if offset <= lastOffset || offset >= from || pos <= lastPos || pos >= f.log {
			return false
		}
		lastOffset, lastPos = offset, pos
		return true
	}, func() { lastOffset, lastPos = f.base-1, 0 })
	if err != nil || offsets == 0 {
		return err
	}
	lastTime, lastTimeOffset := int64(-1), f.base-1
	times, err := whole.time.trusted(w, func(e []byte) bool {
		timestamp, offset := entryTimestamp(e), entryTimeOffset(e, f.base)
		if timestamp <= lastTime || offset < lastTimeOffset || offset > lastOffset || timestamp == 0 && offset == f.base {
			return false
		}
		lastTime, lastTimeOffset = timestamp, offset
		return true
	}, func() { lastTime, lastTimeOffset = -1, f.base-1 })
	if err != nil {
		return err
	}
	h, err := whole.log.pin()
	if err != nil {
		return err
	}
	defer whole.log.unpin()
	w.of(h)
	last, err := whole.placeAt(w, lastPos)
	if err == nil && last.next-1 == lastOffset {
		var first batch.Batch
		if first, _, err = whole.headerAt(w, 0); err == nil && (times > 0 || first.MaxTimestamp() < 0) {
			a.firstTimestamp = first.MaxTimestamp()
			a.offset.written, a.time.written = offsets, times
			a.size, a.next = lastPos, last.base
			if times > 0 {
				a.max.Timestamp, a.max.Offset, a.lastEntryTime = lastTime, lastTimeOffset, lastTime
			}
		}
	}
	return ignoreCorrupt(err)
}

// trusted returns how many entries at the start of the file are good: good is asked about one after the other, and anew
// after again. A file of its real size, as a clean stop leaves it, is judged by its last entries.
func (x *index) trusted(w *window, good func(entry []byte) bool, again func()) (int, error) {
	if x.written == 0 {
		return 0, nil
	}
	h, err := x.f.pin()
	if err != nil {
		return 0, err
	}
	defer x.f.unpin()
	w.of(h)
	for n := x.written; n > max(0, x.written-2); n-- { // the last one may be what seal has added
		few := min(2, n) // one alone may be the remains of an older file
		last, err := x.read(w, n-few, few)
		if err != nil {
			return 0, err
		}
		if good(last[:x.width]) && (few == 1 || good(last[x.width:])) {
			return n, nil
		}
		again()
	}
	for i := range x.written {
		entry, err := x.read(w, i, 1)
		if err != nil {
			return 0, err
		}
		if !good(entry) {
			return i, nil
		}
	}
	return x.written, nil
}

// scan reads the log from an offset on, takes in its batches, and cuts it before the first that is not whole and of its
// place.
func (r *recovery) scan(from kafka.Offset) error {
	r.syncedEnd, r.recoveryPoint = from, from
	for i := r.next; ; i++ {
		f, a := r.segments[i], r.active
		whole, err := r.scanSegment(a, f)
		if err != nil {
			return err
		}
		if i == len(r.segments)-1 {
			if r.logEnd < r.solid {
				// What was here is lost, and its offsets are not given to other records.
				r.logger.Error("the end of the log is damaged below its recovery point", "logEnd", r.logEnd, "continues", r.solid)
				a.next, r.logEnd, r.producers = r.solid, r.solid, r.solidProducers
			}
			return nil
		}
		next := r.segments[i+1]
		if next.base > r.logEnd && next.base <= r.solid {
			r.logEnd = next.base
		}
		// Segments follow each other without a gap where they were written one after the other: a gap means that the
		// end of this one was lost. Only where no index entry could bridge the gap was it there from the start.
		if !whole || next.base < r.logEnd || next.base > r.logEnd && next.base-f.base <= math.MaxInt32 {
			return r.drop(i + 1)
		}
		if err := r.cutSurplus(a); err != nil {
			return err
		}
		if err := a.seal(); err != nil {
			return err
		}
		for _, f := range []*file{a.offsets, a.times, a.log} {
			if !f.clean() {
				r.unsyncedAside = append(r.unsyncedAside, f)
			}
		}
		a.next = next.base
		r.sealed = append(r.sealed, a.view)
		r.logEnd = next.base
		r.holdSnapshotLocked()
		var ok bool
		if r.active, ok, err = r.enterActive(next, next.base); err != nil {
			return err
		}
		invariant.Check(ok, "%s: segment %d cannot be entered at its base", r.tp, next.base)
	}
}

// scanSegment takes in the batches of a segment from its present end on. whole is false if it had to be cut.
func (r *recovery) scanSegment(a *active, f *found) (whole bool, err error) {
	if a.size == f.log {
		return true, nil
	}
	if err := r.settleNames(); err != nil {
		return false, err
	}
	a.unseal()
	a.log.suspect()
	r.unsynced = append(r.unsynced, a.log)
	r.unsyncedAside = append(r.unsyncedAside, a.offsets, a.times)
	nowMs := r.now().UnixMilli()
	h, err := a.log.pin()
	if err != nil {
		return false, err
	}
	defer a.log.unpin()
	s := scanner{f: h, pos: a.size, end: f.log, space: r.files.scanSpace()}
	defer func() { r.files.releaseScan(s.space) }()
	// After a sync that failed the system goes on showing what it could not write, and takes it for written. Only what is
	// written again will the coming sync bring to the disk, if an earlier run of this node saw such a failure. So good, which
	// lies before a.size, is written again, many batches at once.
	var good []byte
	rewrite := func() error {
		if len(good) == 0 {
			return nil
		}
		err := a.log.writeAt(good, a.size-int64(len(good)))
		good = nil
		return err
	}
	aborted := a.aborted
	for s.pos < s.end {
		if s.reads() {
			if err := rewrite(); err != nil {
				return false, err
			}
		}
		b, err := s.next()
		if err == nil {
			err = b.VerifyCRC()
		}
		if err == nil && (b.BaseOffset() < r.logEnd || b.LastOffsetDelta() < 0 || !a.fits(b.LastOffset()) ||
			r.logEnd < r.solid && b.NextOffset() > r.solid) { // a snapshot lies between two batches; the base offset has no CRC
			err = fmt.Errorf("batch of offsets %d to %d where %d is next: %w", b.BaseOffset(), b.LastOffset(), r.logEnd, batch.ErrCorrupt)
		}
		if err != nil {
			if err := rewrite(); err != nil {
				return false, err
			}
		}
		if (errors.Is(err, batch.ErrCorrupt) || errors.Is(err, batch.ErrShort)) && r.logEnd < r.solid {
			if err := r.passDamage(a, &s, err); err != nil {
				return false, err
			}
			continue
		}
		if errors.Is(err, batch.ErrCorrupt) || errors.Is(err, batch.ErrShort) {
			if r.cfg().Preallocate && s.zeros() {
				// Space that nothing was written to yet. If records should be here, the next segment's base tells.
				return true, a.log.truncate(a.size)
			}
			r.logger.Warn("log is cut before a batch that is not whole", "segment", f.base, "position", a.size, "bytes", f.log-a.size, "logEnd", r.logEnd, "err", err)
			r.report.TruncatedBytes += f.log - a.size
			a.cutHoles(a.size)
			return false, a.log.truncate(a.size)
		}
		if err != nil {
			return false, fmt.Errorf("%s at position %d: %w", a.log.name(), a.size, err)
		}
		m, err := endMarker(b)
		if err != nil {
			r.logger.Error("transaction marker cannot be read and is passed over", "offset", b.BaseOffset(), "err", err)
		}
		if t, aborts := r.producers.aborts(b, m); aborts {
			if err := a.abort(t); err != nil {
				return false, err
			}
			a.aborted++
		}
		if err := r.flushIndexes(a, indexGroup); err != nil {
			return false, err
		}
		r.takeLocked(a, b, b.Size(), m, nowMs)
		r.report.ScannedBytes += int64(b.Size())
		good = s.before(len(good) + b.Size())
	}
	if err := rewrite(); err != nil {
		return false, err
	}
	if a.aborted > aborted {
		r.unsyncedAside = append(r.unsyncedAside, a.txns)
	}
	return true, nil
}

// passDamage moves the scan over a batch that was on disk whole and is not any more: what was synced once is never cut off,
// or one flipped bit would take all that lies behind it. s stands at or behind its start.
func (r *recovery) passDamage(a *active, s *scanner, cause error) error {
	v := viewOf(a.segment, s.end, r.solid, 0, 0, 0)
	h, err := v.passHole(a.size, r.logEnd)
	if err != nil {
		return err
	}
	r.logger.Error("log is damaged below its recovery point; what lies around stays", "segment", a.base, "position", h.pos, "bytes", h.end-h.pos,
		"from", h.from, "to", h.to, "err", cause)
	a.size, a.next = h.end, h.to
	r.logEnd = h.to
	if h.to >= r.solid {
		r.producers = r.solidProducers // which the lost batch is in
	}
	s.pos, s.buf = h.end, nil
	return nil
}

// drop takes the segments from number i on out of the log, the last first and each for good before the one before it:
// whatever a crash leaves, no hole is left in the log.
func (r *recovery) drop(i int) error {
	if err := r.settleNames(); err != nil {
		return err
	}
	for j := len(r.segments) - 1; j >= i; j-- {
		f := r.segments[j]
		r.logger.Warn("segment behind the cut is dropped", "segment", f.base, "bytes", f.log)
		r.report.TruncatedBytes += f.log
		s := r.segment(f.base)
		if err := r.markDeletedLocked(s, f.hasTxn); err != nil {
			return err
		}
		if err := r.fs.SyncDir(r.dir); err != nil {
			return err
		}
	}
	return nil
}

// finish settles log start, epochs and snapshots, and syncs what was read or repaired.
func (r *recovery) finish(o Options, checkpoint epochs) error {
	r.logStart = min(max(o.LogStart, r.firstBaseLocked()), r.logEnd)
	r.epochs = r.epochs.cutEnd(r.logEnd).cutStart(r.logStart)
	r.epochsDirty = r.epochsDirty || !slices.Equal(r.epochs, checkpoint)
	// The one that the scan began at stays until the recovery point moves: should the process die before, it begins there again.
	err := r.removeSnapshotsLocked(func(offset kafka.Offset) bool { return offset != r.report.From && !r.isBaseLocked(offset) })
	if err != nil {
		return err
	}
	if err := r.removeSequencesLocked(func(offset kafka.Offset) bool { return offset != r.report.From }); err != nil {
		return err
	}
	// What was read lies after the recovery point and is not known to be on disk, like what is appended from now on.
	r.appended.Store(r.report.ScannedBytes)
	r.sinceRecovery = r.report.ScannedBytes
	r.publishLocked()
	// What was cut off must not come back behind what is appended now; nor may files that were replaced.
	if r.report.TruncatedBytes > 0 || r.touched || r.report.ScannedBytes > 0 && !o.DeferSync {
		r.names++
		if err := r.syncUnlocked(true); err != nil {
			return err
		}
	}
	if o.LogStart > r.logEnd {
		r.logger.Warn("log ends before its log start and begins there anew", "logEnd", r.logEnd, "logStart", o.LogStart)
		_, err := r.truncateFullyLocked(o.LogStart)
		return err
	}
	return nil
}
