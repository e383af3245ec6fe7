package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// ErrChanged says that a folder is not what the summary of its log is of: Open has to read the files.
var ErrChanged = errors.New("folder has changed since the log was closed")

// summary is what the next Open would find out by reading the files of a log that is closed, and by what to know that they are
// still the same.
type summary struct {
	folder         uint64       // fingerprint of the folder
	end            kafka.Offset // of the log
	max            TimestampOffset
	firstTimestamp int64
	sinceEntry     int64
	beforeSeal     int64
	hasSeal        bool
	epochs         epochs // that have records
}

// fingerprint tells one state of a folder from another: by the names, the sizes and the changes of its files.
func fingerprint(entries []vfs.Entry) uint64 {
	h := fnv.New64a()
	var b []byte
	for _, e := range entries {
		b = append(append(b[:0], e.Name...), 0)
		b = binary.BigEndian.AppendUint64(b, uint64(e.Size))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Changed))
		_, _ = h.Write(b) // never fails
	}
	return h.Sum64()
}

// Summary returns what Options.Summary takes. Call it when Close has returned without error. nil: Open has to read the files, because
// there is something for it to do.
func (l *Log) Summary() ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.active
	switch {
	case !l.settled:
		return nil, nil
	case l.summary != nil && l.appended.Load() == 0 && l.names == 0 && l.truncations == 0:
		// The one that Open was given, which saves a listing. Should something have changed a file that is not counted here, it is of no
		// use, and does no harm.
		return l.summary, nil
	case a.next != l.logEnd || len(a.known()) > 0:
		return nil, nil
	}
	entries, err := l.fs.List(l.dir)
	if err != nil {
		return nil, fmt.Errorf("look at log %s once more: %w", l.tp, err)
	}
	if !a.has(entries) {
		return nil, nil
	}
	s := summary{
		folder: fingerprint(entries), end: l.logEnd, max: a.max, firstTimestamp: a.firstTimestamp, sinceEntry: a.sinceEntry,
		beforeSeal: a.beforeSeal, hasSeal: a.hasSeal, epochs: l.epochs.cutEnd(l.logEnd),
	}
	return s.encode(), nil
}

// has tells whether a folder's files have the sizes that the segment counts, and none is on its way in or out of the log.
func (a *active) has(entries []vfs.Entry) bool {
	counted := map[string]int64{
		fileName(a.base, logSuffix):       a.size,
		fileName(a.base, indexSuffix):     a.offset.size(),
		fileName(a.base, timeIndexSuffix): a.time.size(),
		fileName(a.base, txnIndexSuffix):  int64(a.aborted) * txnWidth,
	}
	return !slices.ContainsFunc(entries, func(e vfs.Entry) bool {
		for _, suffix := range []string{deletedSuffix, cleanedSuffix, swapSuffix, tmpSuffix} {
			if strings.HasSuffix(e.Name, suffix) {
				return true
			}
		}
		size, its := counted[e.Name]
		return its && size != e.Size
	})
}

func (s *summary) encode() []byte {
	b := binary.BigEndian.AppendUint64(nil, s.folder)
	b = binary.AppendVarint(b, s.end)
	b = binary.AppendVarint(b, s.max.Timestamp)
	b = binary.AppendVarint(b, s.max.Offset)
	b = binary.AppendVarint(b, s.firstTimestamp)
	b = binary.AppendVarint(b, s.sinceEntry)
	seal := int64(0)
	if s.hasSeal {
		seal = 1
	}
	b = binary.AppendVarint(b, seal)
	b = binary.AppendVarint(b, s.beforeSeal)
	for _, e := range s.epochs {
		b = binary.AppendVarint(b, int64(e.epoch))
		b = binary.AppendVarint(b, e.start)
	}
	return b
}

func parseSummary(b []byte) (s summary, ok bool) {
	if len(b) < 8 {
		return s, false
	}
	s.folder = binary.BigEndian.Uint64(b)
	b = b[8:]
	next := func() (v int64) {
		v, n := binary.Varint(b)
		if ok = ok && n > 0; ok {
			b = b[n:]
		}
		return v
	}
	ok = true
	s.end = next()
	s.max = TimestampOffset{Timestamp: next(), Offset: next(), LeaderEpoch: kafka.NoEpoch}
	s.firstTimestamp, s.sinceEntry = next(), next()
	s.hasSeal, s.beforeSeal = next() == 1, next()
	for ok && len(b) > 0 {
		s.epochs = append(s.epochs, epochStart{kafka.Epoch(next()), next()})
	}
	return s, ok
}

// resume makes the log what it was when it was closed, if its folder is still as it was then. The producers' snapshot is all that
// is read, if it names any.
func (r *recovery) resume(o Options, entries []vfs.Entry) error {
	s, ok := parseSummary(o.Summary)
	if !ok || s.folder != fingerprint(entries) {
		return ErrChanged
	}
	if err := r.inventory(entries); err != nil {
		return err
	}
	if len(r.segments) == 0 || slices.ContainsFunc(r.segments, (*found).suspect) {
		return ErrChanged
	}
	first, last := r.segments[0], r.segments[len(r.segments)-1]
	if s.end < last.base {
		return ErrChanged
	}
	r.namesFound = !o.NamesDurable
	r.active = r.newActive(last.base)
	for i, f := range r.segments[:len(r.segments)-1] {
		v := viewOf(r.segment(f.base), f.log, r.segments[i+1].base, f.index, f.time, f.txn)
		v.cold.Store(f.log)
		r.sealed = append(r.sealed, v)
	}
	if err := r.resumeProducers(s.end, first.base, entries); err != nil {
		return err
	}
	a := r.active
	a.view = viewOf(a.segment, last.log, s.end, last.index, last.time, last.txn)
	a.cold.Store(last.log)
	a.max, a.firstTimestamp, a.sinceEntry = s.max, s.firstTimestamp, s.sinceEntry
	a.hasSeal, a.beforeSeal = s.hasSeal, s.beforeSeal
	a.lastEntryTime = s.max.Timestamp // of the seal, unless there was no need for one
	a.allocated = r.cfg().Preallocate
	r.logEnd, r.syncedEnd, r.recoveryPoint = s.end, s.end, s.end
	r.report.From = s.end
	r.epochs = s.epochs
	files := len(r.snapshots) + len(r.sequences)
	if err := r.finish(o, s.epochs); err != nil {
		return err
	}
	if len(r.snapshots)+len(r.sequences) == files { // else the folder is another one now
		r.summary = o.Summary
	}
	return nil
}

// resumeProducers loads the snapshot at the log end.
func (r *recovery) resumeProducers(end, first kafka.Offset, entries []vfs.Entry) error {
	if len(r.snapshots) == 0 && end == first {
		return nil
	}
	if len(r.snapshots) == 0 || r.snapshots[len(r.snapshots)-1] != end {
		return ErrChanged
	}
	name := fileName(end, snapshotSuffix)
	if slices.ContainsFunc(entries, func(e vfs.Entry) bool { return e.Name == name && e.Size == snapshotHeader }) {
		return nil // it names no producers
	}
	if at, err := r.loadSnapshotLocked(end); err != nil || at == end {
		return err
	}
	return ErrChanged // it cannot be read
}
