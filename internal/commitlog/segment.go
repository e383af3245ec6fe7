package commitlog

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"sync/atomic"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// segment is the identity of a stretch of the log and its files. What changes about it is in a view.
type segment struct {
	base    kafka.Offset
	log     *file
	offsets *file
	times   *file
	txns    *file // exists on disk only if a transaction was aborted

	// damaged says that an index entry pointed to no batch: lookups go without the index until Retain makes it anew.
	damaged atomic.Bool
	// holes is where no batch can be used, as far as somebody came across it. cold is up to where a batch was neither written
	// nor verified by this run.
	holes atomic.Pointer[[]hole]
	cold  atomic.Int64
	// txnsChecked says that the transaction index was compared with the batches, or made from them, by this run.
	txnsChecked atomic.Bool
	txnsBad     atomic.Bool // and does not belong to them
	// maxTime is the largest timestamp of a sealed segment, and firstTime that of its first batch, once somebody has asked: whoever
	// looks at all logs now and then opens no files for it.
	maxTime   atomic.Pointer[TimestampOffset]
	firstTime atomic.Pointer[int64]
}

// TimestampOffset is a record's timestamp and offset, and the leader epoch it was written in, -1 if unknown. A Timestamp
// of -1 means that there is none.
type TimestampOffset struct {
	Timestamp   int64
	Offset      kafka.Offset
	LeaderEpoch kafka.Epoch
}

// view is what can be read of a segment at one moment. It is immutable.
type view struct {
	*segment
	size    int64        // bytes of whole batches
	next    kafka.Offset // end of the offsets that belong here
	offset  index
	time    index
	aborted int // entries of the transaction index
	// max is the largest timestamp and the last offset of the first batch that has it; -1 and the base offset if there
	// is none. Only good in the active segment: see maxTimestamp.
	max TimestampOffset
}

// active is the segment that is appended to. Guarded by Log.mu.
type active struct {
	view
	sinceEntry     int64 // bytes from the batch of the last offset index entry on, or from the start
	lastEntryTime  int64 // of the time index, -1 if it is empty
	firstTimestamp int64 // largest timestamp of the first batch, -1 if there is none: rolling by time counts from here
	createdMs      int64 // rolling by time without timestamps counts from here
	jitterMs       int64
	hasSeal        bool  // the last time index entry is that of a clean stop, and goes with the next append
	beforeSeal     int64 // lastEntryTime without it
	extended       bool  // the index files have their full size
	surplus        bool  // the index files may hold more than counts, from before a crash
	allocated      bool  // the log file may be longer than size
}

func (l *Log) segment(base kafka.Offset) *segment {
	path := func(suffix string) *file { return l.files.file(filepath.Join(l.dir, fileName(base, suffix))) }
	return &segment{
		base: base, log: path(logSuffix), offsets: path(indexSuffix), times: path(timeIndexSuffix), txns: path(txnIndexSuffix),
	}
}

// each calls f for all files of the segment with their suffixes.
func (s *segment) each(f func(*file, string)) {
	f(s.log, logSuffix)
	f(s.offsets, indexSuffix)
	f(s.times, timeIndexSuffix)
	f(s.txns, txnIndexSuffix)
}

// files returns the files that the segment has on disk.
func (s *segment) files(hasTxns bool) []*file {
	all := []*file{s.log, s.offsets, s.times}
	if hasTxns {
		all = append(all, s.txns)
	}
	return all
}

func (s *segment) close() error {
	var errs []error
	s.each(func(f *file, _ string) { errs = append(errs, f.close()) })
	return errors.Join(errs...)
}

// viewOf returns the view of a segment whose index files hold so many bytes.
func viewOf(s *segment, size int64, next kafka.Offset, indexBytes, timeIndexBytes, txnIndexBytes int64) view {
	return view{
		segment: s, size: size, next: next,
		offset:  index{f: s.offsets, width: offsetWidth, written: int(indexBytes / offsetWidth)},
		time:    index{f: s.times, width: timeWidth, written: int(timeIndexBytes / timeWidth)},
		aborted: int(txnIndexBytes / txnWidth),
		max:     TimestampOffset{Timestamp: batch.NoTimestamp, Offset: s.base, LeaderEpoch: kafka.NoEpoch},
	}
}

// newActive returns an empty segment to append to; it touches no file.
func (l *Log) newActive(base kafka.Offset) *active {
	return &active{
		view:          viewOf(l.segment(base), 0, base, 0, 0, 0),
		lastEntryTime: batch.NoTimestamp, firstTimestamp: batch.NoTimestamp,
		createdMs: l.now().UnixMilli(), jitterMs: l.jitter(),
	}
}

// jitter returns what to subtract from segment.ms so that many partitions do not roll at the same moment.
func (l *Log) jitter() int64 {
	bound := min(l.cfg().SegmentJitterMs, l.cfg().SegmentMs)
	if bound <= 0 {
		return 0
	}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	return int64(binary.BigEndian.Uint64(b[:])>>1) % bound
}

// create makes the files of the segment.
func (l *Log) create(a *active) error {
	for _, f := range []*file{a.log, a.offsets, a.times} {
		if err := f.create(); err != nil {
			return err
		}
		if l.newFolder {
			f.nothingYet()
		}
	}
	if l.cfg().Preallocate {
		a.allocated = true
		if err := a.log.change(allocate(int64(l.cfg().SegmentBytes))); err != nil {
			return err
		}
	}
	l.noteIndexes(a)
	return l.extend(a)
}

// noteIndexes puts the index files on the list of what a sync of the whole filesystem covers, so that their descriptors can be
// closed without a sync of their own.
func (l *Log) noteIndexes(a *active) {
	if !slices.Contains(l.unsyncedAside, a.offsets) {
		l.unsyncedAside = append(l.unsyncedAside, a.offsets, a.times)
	}
}

// extend gives the index files their full size, as holes: Kafka maps them into memory while they grow.
func (l *Log) extend(a *active) error {
	if a.extended {
		return nil
	}
	for _, x := range []*index{&a.offset, &a.time} {
		if err := x.f.extend(int64(max(l.maxEntries(x.width), x.written)) * int64(x.width)); err != nil {
			return err
		}
	}
	a.extended = true
	return nil
}

func (l *Log) maxEntries(width int) int { return l.cfg().maxEntries(width) }

// note takes a batch that lies at the end of the segment into the indexes and the view.
func (l *Log) note(a *active, b batch.Batch, sizeBytes int) { a.note(l.cfg(), b, sizeBytes) }

// note is the same function for a batch just appended, for one found by recovery and for one that compaction leaves, so
// all make the same index files. A batch that compaction has emptied has no timestamp. Mirrors LogSegment.append.
func (a *active) note(c *Config, b batch.Batch, sizeBytes int) {
	last, timestamp := b.LastOffset(), b.MaxTimestamp()
	if a.size == 0 {
		a.firstTimestamp = timestamp
	}
	if timestamp > a.max.Timestamp && b.Count() > 0 {
		a.max = TimestampOffset{Timestamp: timestamp, Offset: last, LeaderEpoch: kafka.NoEpoch}
	}
	if a.sinceEntry > int64(c.IndexIntervalBytes) && a.offset.count() < c.maxEntries(offsetWidth) {
		a.offset.tail = offsetEntry(a.offset.tail, int32(last-a.base), int32(a.size))
		if a.time.count() < c.maxEntries(timeWidth)-1 { // the last entry is for seal
			a.noteTime()
		}
		a.sinceEntry = 0
	}
	a.sinceEntry += int64(sizeBytes)
	a.size += int64(sizeBytes)
	a.next = last + 1
}

// noteTime adds a time index entry if the largest timestamp has grown since the last one.
func (a *active) noteTime() {
	if a.max.Timestamp > a.lastEntryTime {
		a.time.tail = timeEntry(a.time.tail, a.max.Timestamp, int32(a.max.Offset-a.base))
		a.lastEntryTime = a.max.Timestamp
	}
}

// flushIndexes writes index entries that are in memory only, if there are at least so many.
func (l *Log) flushIndexes(a *active, atLeast int) error {
	nothing := len(a.offset.tail) == 0 && len(a.time.tail) == 0
	if len(a.offset.tail) < atLeast*offsetWidth || nothing && !a.surplus {
		return nil
	}
	l.noteIndexes(a)
	if err := l.cutSurplus(a); err != nil || nothing {
		return err
	}
	if err := l.extend(a); err != nil {
		return err
	}
	if err := a.offset.flush(); err != nil {
		return err
	}
	return a.time.flush()
}

// cutSurplus takes off the index files what does not count. It comes before a recovery point moves past that.
func (l *Log) cutSurplus(a *active) error {
	if !a.surplus {
		return nil
	}
	if err := l.settleNames(); err != nil {
		return err
	}
	for _, x := range []*index{&a.offset, &a.time} {
		if err := x.f.truncate(int64(x.written) * int64(x.width)); err != nil {
			return err
		}
	}
	a.surplus = false
	return nil
}

// seal ends the writing to the segment: its last timestamp goes into the time index and its files get their real size.
// Doing it again, after an error, is harmless. Mirrors LogSegment.onBecomeInactiveSegment.
func (a *active) seal() error {
	a.noteTime()
	changed := a.extended || len(a.offset.tail) > 0 || len(a.time.tail) > 0
	if err := a.offset.flush(); err != nil {
		return err
	}
	if err := a.time.flush(); err != nil {
		return err
	}
	if changed {
		a.extended = false
		if err := a.offsets.truncate(a.offset.size()); err != nil {
			return err
		}
		if err := a.times.truncate(a.time.size()); err != nil {
			return err
		}
	}
	if a.allocated {
		if err := a.log.truncate(a.size); err != nil {
			return err
		}
		a.allocated = false
	}
	return a.log.release(a.size)
}

// fits tells whether a batch that ends at last can be indexed in the segment.
func (s *segment) fits(last kafka.Offset) bool { return last-s.base <= math.MaxInt32 }

// maxTimestamp returns the largest timestamp in the segment and the last offset of the first batch that has it.
func (v *view) maxTimestamp(w *window, sealed bool) (TimestampOffset, error) {
	if !sealed {
		return v.max, nil
	}
	if known := v.maxTime.Load(); known != nil {
		return *known, nil
	}
	found, err := v.newest(w)
	if err != nil {
		return TimestampOffset{}, err
	}
	v.maxTime.Store(&found)
	return found, nil
}

// firstTimestamp returns the largest timestamp of the first batch of a sealed segment, -1 if it has none.
func (v *view) firstTimestamp(w *window) (int64, error) {
	if known := v.firstTime.Load(); known != nil {
		return *known, nil
	}
	first, err := v.readFirstTimestamp(w)
	if err == nil {
		v.firstTime.Store(&first)
	}
	return first, err
}

// readFirstTimestamp is firstTimestamp of any segment.
func (v *view) readFirstTimestamp(w *window) (int64, error) {
	first := batch.NoTimestamp
	err := v.walk(w, 0, func(h batch.Batch, _, _ int64) (bool, error) {
		first = h.MaxTimestamp()
		return false, nil
	})
	return first, err
}
