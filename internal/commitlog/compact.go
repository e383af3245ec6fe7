package commitlog

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// ErrCompactionMoot ends a compaction whose segments were truncated or deleted meanwhile. Nothing is lost by it.
var ErrCompactionMoot = errors.New("segments have changed during their compaction")

// CompactOptions says how Compact works.
type CompactOptions struct {
	// FirstDirty is where the last compaction has ended: each key has at most one record below. The log start if unknown.
	FirstDirty kafka.Offset
	Now        time.Time
	MapBytes   int64   // memory for the map of keys
	MapLoad    float64 // how full it may get, of (0, 1]
	// BufferBytes is how much is read and written at once.
	BufferBytes int
	// Pace is told of bytes read or written. It may wait, and its error ends the compaction. No lock is held.
	Pace func(bytes int) error
}

// Compacted tells what Compact has done.
type Compacted struct {
	FirstDirty                kafka.Offset // where the next compaction begins
	Full                      bool         // the map could not take all keys: there is more to do
	ReadBytes, WrittenBytes   int64
	RecordsRead, RecordsKept  int64
	SegmentsRead, SegmentsNew int // those that stay as they are count in neither
}

// Compactable tells what Compact would find.
type Compactable struct {
	FirstDirty, End        kafka.Offset // it would bring [FirstDirty, End) in
	CleanBytes, DirtyBytes int64        // of segments below FirstDirty, and of those that begin or go on in the range
	Overdue                bool         // a record has waited for longer than max.compaction.lag.ms
}

// Ratio is the part of the log that compaction has not seen, as min.cleanable.dirty.ratio is compared with it; 0 if there
// is nothing to do.
func (c Compactable) Ratio() float64 {
	if c.DirtyBytes == 0 {
		return 0
	}
	return float64(c.DirtyBytes) / float64(c.CleanBytes+c.DirtyBytes)
}

// Compactable looks at which segments can be compacted now. A firstDirty that lies outside of the log counts as the log
// start. Excluded are the active segment, everything from the last stable offset on, segments with records younger
// than min.compaction.lag.ms, and what is not below the recovery point that the next Open is given: behind that a missing record means
// a lost one, and it has to lie between two batches.
// Mirrors LogCleanerManager.cleanableOffsets.
func (l *Log) Compactable(firstDirty kafka.Offset, now time.Time) (found Compactable, err error) {
	l.mu.Lock()
	cfg, recoveryPoint := l.cfg, min(l.recoveryPoint, l.stored)
	l.mu.Unlock()
	limit := min(recoveryPoint, l.deletionBound.Load())
	if stable := l.LastStable(); stable >= 0 {
		limit = min(limit, stable)
	}
	err = l.lookup(func(b *Bounds, w *window) error {
		found, err = l.compactable(b, w, &cfg, firstDirty, limit, now.UnixMilli())
		return err
	})
	return found, err
}

func (l *Log) compactable(b *Bounds, w *window, cfg *Config, firstDirty, limit kafka.Offset, nowMs int64) (Compactable, error) {
	if firstDirty < b.LogStart || firstDirty > b.LogEnd {
		firstDirty = b.LogStart
	}
	c := Compactable{FirstDirty: firstDirty, End: firstDirty}
	for i := range b.sealed {
		v := &b.sealed[i]
		if v.next > limit {
			break
		}
		if v.next <= firstDirty {
			c.CleanBytes += v.size
			continue
		}
		if cfg.MinCompactionLagMs > 0 {
			newest, err := l.newestMs(v, w, true)
			if err != nil {
				return c, err
			}
			if newest > nowMs-cfg.MinCompactionLagMs {
				break
			}
		}
		if cfg.MaxCompactionLagMs < math.MaxInt64 && !c.Overdue {
			err := v.walk(w, 0, func(h batch.Batch, _, _ int64) (bool, error) {
				c.Overdue = h.MaxTimestamp() > 0 && h.MaxTimestamp() < nowMs-max(0, cfg.MaxCompactionLagMs)
				return false, nil
			})
			if err != nil {
				return c, err
			}
		}
		c.DirtyBytes += v.size
		c.End = v.next
	}
	return c, nil
}

// Compact leaves, of the records that it can look at (see Compactable), only the last of each key, and of tombstones only
// those younger than delete.retention.ms. Offsets stay. It writes new segments beside the old ones, several small ones
// becoming one, and puts them in their place. Appends and reads go on meanwhile. If not all keys fit into the map,
// FirstDirty of the answer lies before the end of what can be compacted, and another call goes on from there.
//
// The last batch of each producer stays, empty if need be, so that its sequence numbers stay known; and so does the last
// batch of each segment, because recovery takes a gap before the next segment for a lost end.
//
// After an error the log is as before, or has failed; ErrCompactionMoot and errors of Pace are no failures. A batch that is
// damaged is CORRUPT_MESSAGE: the log can not be compacted. One call at a time; the folder must not be renamed meanwhile.
func (l *Log) Compact(o CompactOptions) (Compacted, error) {
	if !l.compacting.CompareAndSwap(false, true) {
		return Compacted{FirstDirty: o.FirstDirty}, ErrCompactionMoot
	}
	defer l.compacting.Store(false)
	c := &compaction{l: l, o: o, nowMs: o.Now.UnixMilli()}
	c.done.FirstDirty = o.FirstDirty
	err := c.run()
	if errors.Is(err, errGone) {
		err = ErrCompactionMoot
	}
	if err != nil {
		return c.done, fmt.Errorf("compact %s: %w", l.tp, err)
	}
	return c.done, nil
}

// compaction is one call of Compact.
type compaction struct {
	l      *Log
	o      CompactOptions
	nowMs  int64
	cfg    Config
	dir    string
	done   Compacted
	unpaid int // bytes that Pace has not heard of

	from   kafka.Offset // first dirty offset
	views  []view       // segments to compact, from the first of the log on
	keys   *keyMap
	latest kafka.Offset // the map knows all keys of records in [from, latest]
	txns   *txnWalk
	last   map[int64]lastBatch // by producer
	w      *window
}

// lastBatch is what has to stay of a producer.
type lastBatch struct {
	offset kafka.Offset // its last batch's last offset, -1 if it has only a marker
	epoch  int16
}

func (c *compaction) run() error {
	todo, err := c.l.Compactable(c.o.FirstDirty, c.o.Now)
	if err == nil {
		c.done.FirstDirty = todo.FirstDirty
	}
	if err != nil || todo.DirtyBytes == 0 && todo.End == todo.FirstDirty {
		return err
	}
	c.from, c.latest = todo.FirstDirty, todo.FirstDirty-1
	if err := c.begin(todo.End); err != nil || len(c.views) == 0 {
		return err
	}
	c.w = c.l.files.window()
	defer c.l.files.release(c.w)
	c.keys = newKeyMap(c.o.MapBytes, c.o.MapLoad, todo.End-todo.FirstDirty)
	if err := c.mapKeys(); err != nil {
		return err
	}
	if err := c.findTxns(c.views[0].base); err != nil {
		return err
	}
	n := 0
	for n < len(c.views) && c.views[n].base <= c.latest {
		n++
	}
	for _, group := range groupSegments(c.views[:n], &c.cfg) {
		if err := c.compactGroup(group); err != nil {
			return err
		}
	}
	c.done.FirstDirty = c.latest + 1
	return c.pace(0)
}

// begin takes what the compaction needs of the log's state.
func (c *compaction) begin(end kafka.Offset) error {
	l := c.l
	l.mu.Lock()
	c.cfg, c.dir = l.cfg, l.dir
	for i := range l.sealed {
		if l.sealed[i].next <= end {
			c.views = append(c.views, l.sealed[i])
		}
	}
	c.last = make(map[int64]lastBatch, len(l.producers.byID))
	for id, p := range l.producers.byID {
		last, _ := p.last()
		c.last[id] = lastBatch{offset: last.lastOffset, epoch: p.epoch}
	}
	err := l.usableLocked()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	// What an earlier compaction could not remove would make recovery take the files of this one for incomplete.
	entries, err := l.fs.List(c.dir)
	for _, e := range entries {
		if err == nil && strings.HasSuffix(e.Name, cleanedSuffix) {
			err = l.fs.Remove(filepath.Join(c.dir, e.Name))
		}
	}
	return err
}

// findTxns prepares the walk over the transactions from an offset on.
func (c *compaction) findTxns(from kafka.Offset) error {
	aborted, err := c.l.AbortedTxns(from, c.views[len(c.views)-1].next)
	c.txns = newTxnWalk(aborted)
	return err
}

// each calls f for the batches of a segment from a position on, with the position at which each ends. A batch is good
// until f returns.
func (c *compaction) each(v *view, pos int64, f func(b batch.Batch, end int64) (bool, error)) error {
	h, err := v.log.pin()
	if err != nil {
		return err
	}
	defer v.log.unpin()
	s := scanner{f: h, pos: pos, end: v.size, chunk: c.o.BufferBytes}
	for s.pos < s.end {
		b, err := s.next()
		if err == nil {
			err = b.VerifyCRC() // what is written anew gets a CRC that holds
		}
		if errors.Is(err, batch.ErrShort) {
			err = batch.ErrCorrupt
		}
		if err != nil {
			return fmt.Errorf("%s at position %d: %w", v.log.name(), s.pos, err)
		}
		c.done.ReadBytes += int64(len(b))
		if err := c.pace(len(b)); err != nil {
			return err
		}
		if more, err := f(b, s.pos); err != nil || !more {
			return err
		}
	}
	return nil
}

// pace tells Pace of bytes, many at once. 0 tells the rest.
func (c *compaction) pace(bytes int) error {
	c.unpaid += bytes
	if c.unpaid < c.o.BufferBytes && bytes > 0 {
		return nil
	}
	bytes, c.unpaid = c.unpaid, 0
	return c.o.Pace(bytes)
}

// mapKeys notes the latest offset of each key from c.from on, as far as the map takes them.
func (c *compaction) mapKeys() error {
	if err := c.findTxns(c.from); err != nil {
		return err
	}
	for i := range c.views {
		v := &c.views[i]
		if v.next <= c.from {
			continue
		}
		p, found, err := v.locate(c.w, c.from)
		if err != nil {
			return err
		}
		if found {
			err = c.each(v, p.pos, func(b batch.Batch, _ int64) (bool, error) { return c.mapBatch(b) })
			if err != nil {
				return err
			}
		}
		if c.done.Full {
			return nil
		}
		c.latest = v.next - 1
	}
	return nil
}

// mapBatch reports false when the map is full.
func (c *compaction) mapBatch(b batch.Batch) (more bool, err error) {
	drop, err := c.txns.pass(b)
	if err != nil && !unreadable(err) {
		return false, err
	}
	if drop || b.Control() {
		c.latest = max(c.latest, b.LastOffset())
		return true, nil
	}
	err = b.EachKey(func(offset kafka.Offset, key []byte, _ bool) bool {
		if key != nil && offset >= c.from && !c.keys.put(key, offset) {
			c.latest, c.done.Full = offset-1, true
			return false
		}
		return true
	})
	if err != nil && !unreadable(err) {
		return false, err
	}
	if !c.done.Full {
		c.latest = max(c.latest, b.LastOffset())
	}
	return !c.done.Full, nil
}

// unreadable tells whether an error is of records that no reader understands although their CRC holds: a producer made
// them so. Their batch stays as it is.
func unreadable(err error) bool {
	return errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.UnsupportedCompressionType)
}

// groupSegments cuts neighbours into groups that become one segment each: as many as fit a segment's limits. Mirrors
// Cleaner.groupSegmentsBySize.
func groupSegments(views []view, cfg *Config) (groups [][]view) {
	for len(views) > 0 {
		first := &views[0]
		size, offsets, times := first.size, first.offset.count(), first.time.count()
		n := 1
		for ; n < len(views); n++ {
			v := &views[n]
			size, offsets, times = size+v.size, offsets+v.offset.count(), times+v.time.count()
			if size > int64(cfg.SegmentBytes) || offsets > cfg.maxEntries(offsetWidth) || times > cfg.maxEntries(timeWidth) ||
				v.next-1-first.base > math.MaxInt32 {
				break
			}
		}
		groups = append(groups, views[:n])
		views = views[n:]
	}
	return groups
}

// compactGroup writes the segments of a group anew as one and swaps it in. A single segment of which everything stays is
// left alone.
func (c *compaction) compactGroup(group []view) error {
	out := &rewrite{c: c, base: group[0].base, next: group[len(group)-1].next}
	lastFull := -1
	for i := range group {
		if group[i].size > 0 {
			lastFull = i
		}
		out.left += group[i].size
	}
	err := c.fill(out, group, lastFull)
	if err == nil && out.a == nil {
		c.txns.kept = nil
		return nil
	}
	if err == nil {
		err = out.finish()
	}
	if err != nil {
		return errors.Join(err, out.discard())
	}
	c.done.SegmentsRead += len(group)
	c.done.SegmentsNew++
	return c.swap(group, out.a)
}

// fill filters all batches of the group into out.
func (c *compaction) fill(out *rewrite, group []view, lastFull int) error {
	if len(group) > 1 {
		if err := out.begin(); err != nil {
			return err
		}
	}
	for i := range group {
		v := &group[i]
		err := c.each(v, 0, func(b batch.Batch, end int64) (bool, error) {
			start := end - int64(len(b))
			left, err := c.filter(b, i == lastFull && end == v.size)
			if err != nil {
				return false, err
			}
			same := len(left) == len(b) && &left[0] == &b[0]
			if out.left -= int64(len(b)); len(left) > len(b) && out.size()+int64(len(left))+out.left > math.MaxInt32 {
				left = b // a delete horizon may make a batch longer; this file has no room for it
			}
			if out.a == nil {
				if same {
					return true, nil
				}
				if err := out.beginWith(v, start); err != nil {
					return false, err
				}
			}
			return true, out.add(left)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// filter returns what stays of a batch: itself, a shorter one, or nil. Mirrors Cleaner.cleanInto.
func (c *compaction) filter(b batch.Batch, lastOfGroup bool) (batch.Batch, error) {
	count := int64(b.Count())
	c.done.RecordsRead += count
	done, err := c.txns.pass(b)
	if err != nil {
		return c.keepUnreadable(b, err)
	}
	horizon := int64(math.MaxInt64)
	if b.DeleteHorizonSet() {
		horizon = b.BaseTimestamp()
	}
	expired := horizon <= c.nowMs
	keep := func(offset kafka.Offset, key []byte, tombstone bool) bool {
		if offset > c.latest {
			return true
		}
		// A record without a key is from before the topic was compacted.
		return key != nil && !(tombstone && expired) && !c.keys.superseded(key, offset)
	}
	switch {
	case b.Control():
		gone := done && expired
		keep = func(kafka.Offset, []byte, bool) bool { return !gone }
	case done:
		keep = func(kafka.Offset, []byte, bool) bool { return false }
	}
	left, kept, err := b.Filter(batch.FilterOptions{
		Keep: keep, HorizonMs: addMs(c.nowMs, c.cfg.DeleteRetentionMs), Marker: b.Control() && done,
	})
	if err != nil {
		return c.keepUnreadable(b, err)
	}
	c.done.RecordsKept += int64(kept)
	if left == nil && (lastOfGroup || c.lastOfProducer(b)) {
		left = b.Empty()
	}
	return left, nil
}

func (c *compaction) keepUnreadable(b batch.Batch, err error) (batch.Batch, error) {
	if !unreadable(err) {
		return nil, err
	}
	c.l.logger.Warn("records cannot be read and stay as they are in compaction", "offset", b.BaseOffset(), "err", err)
	c.done.RecordsKept += int64(b.Count())
	return b, nil
}

// lastOfProducer tells whether a batch is all that the log has of a producer's state: its last batch, or after a change
// of epoch the marker that brought it.
func (c *compaction) lastOfProducer(b batch.Batch) bool {
	p, known := c.last[b.ProducerID()]
	if !known || b.ProducerID() < 0 {
		return false
	}
	if p.offset >= 0 {
		return b.LastOffset() == p.offset
	}
	return b.Control() && b.ProducerEpoch() == p.epoch
}

func addMs(a, b int64) int64 {
	if b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}

// rewrite is the segment that takes the place of a group.
type rewrite struct {
	c          *compaction
	base, next kafka.Offset
	a          *active // nil as long as nothing is written
	buf        []byte  // batches that a counts and that are not in the file yet
	left       int64   // bytes of the group that are still to come
}

func (r *rewrite) size() int64 {
	if r.a == nil {
		return 0
	}
	return r.a.size
}

// begin makes the files of the new segment.
func (r *rewrite) begin() error {
	path := func(suffix string) *file {
		return r.c.l.files.file(filepath.Join(r.c.dir, fileName(r.base, suffix+cleanedSuffix)))
	}
	s := &segment{base: r.base, log: path(logSuffix), offsets: path(indexSuffix), times: path(timeIndexSuffix), txns: path(txnIndexSuffix)}
	r.a = &active{view: viewOf(s, 0, r.base, 0, 0, 0), lastEntryTime: batch.NoTimestamp, firstTimestamp: batch.NoTimestamp}
	for _, f := range []*file{s.log, s.offsets, s.times} {
		if err := f.create(); err != nil {
			return err
		}
	}
	return nil
}

// beginWith is begin, followed by all batches of v before a position as they are.
func (r *rewrite) beginWith(v *view, before int64) error {
	if err := r.begin(); err != nil || before == 0 {
		return err
	}
	return r.c.each(v, 0, func(b batch.Batch, end int64) (bool, error) { return end < before, r.add(b) })
}

// add appends a batch, or nothing if it is nil.
func (r *rewrite) add(b batch.Batch) error {
	if b == nil {
		return nil
	}
	r.a.note(&r.c.cfg, b, len(b))
	r.buf = append(r.buf, b...)
	r.c.done.WrittenBytes += int64(len(b))
	if err := r.c.pace(len(b)); err != nil || len(r.buf) < r.c.o.BufferBytes {
		return err
	}
	return r.flush()
}

func (r *rewrite) flush() error {
	err := r.a.log.writeAt(r.buf, r.a.size-int64(len(r.buf)))
	r.buf = r.buf[:0]
	return errors.Join(err, r.a.offset.flush(), r.a.time.flush())
}

// finish writes the rest and makes the files durable, but for their names.
func (r *rewrite) finish() error {
	a := r.a
	if err := r.flush(); err != nil {
		return err
	}
	if err := a.seal(); err != nil {
		return err
	}
	a.next = r.next
	newest := a.max
	a.maxTime.Store(&newest)
	files := []*file{a.log, a.offsets, a.times}
	kept := r.c.txns.kept
	r.c.txns.kept = nil
	for _, t := range kept {
		if err := a.abort(t); err != nil {
			return err
		}
		a.aborted++
	}
	if a.aborted > 0 {
		files = append(files, a.txns)
	}
	for _, f := range files {
		if err := f.sync(); err != nil {
			return err
		}
	}
	return nil
}

// discard removes what was written.
func (r *rewrite) discard() error {
	if r.a == nil {
		return nil
	}
	var errs []error
	r.a.each(func(f *file, _ string) { errs = append(errs, f.remove()) })
	return errors.Join(errs...)
}

// swap puts a new segment in the place of a group. The steps, each durable before the next, and what recovery makes of a
// crash after it: the new files are there as .cleaned (it removes them); as .swap (from here on it goes on with the
// swap); the old ones are .deleted; the new log file has its name; the other new files have theirs.
func (c *compaction) swap(group []view, a *active) error {
	l := c.l
	l.reshape.Lock()
	defer l.reshape.Unlock()
	if err := c.offer(group, a); err != nil {
		return err
	}
	if err := c.replace(group, a); err != nil {
		return err
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return l.fail(err)
	}
	if err := c.rename(a.log, logSuffix); err != nil {
		return l.fail(err)
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return l.fail(err)
	}
	var errs []error
	c.files(a, func(f *file, suffix string) {
		if suffix != logSuffix {
			errs = append(errs, c.rename(f, suffix))
		}
	})
	if err := errors.Join(errs...); err != nil {
		return l.fail(err)
	}
	l.mu.Lock()
	l.names++ // the next sync makes these durable; until then recovery knows them by both names
	l.mu.Unlock()
	return nil
}

// files calls f for the files that the new segment has.
func (c *compaction) files(a *active, f func(f *file, suffix string)) {
	a.each(func(file *file, suffix string) {
		if suffix != txnIndexSuffix || a.aborted > 0 {
			f(file, suffix)
		}
	})
}

// rename gives a file of the new segment the name with this suffix.
func (c *compaction) rename(f *file, suffix string) error {
	base, _, _ := parseName(filepath.Base(f.name()))
	return f.rename(filepath.Join(c.dir, fileName(base, suffix)))
}

// offer makes the new files ones that recovery would put in the group's place. If the group is no longer there, or on an
// error, they are gone when it returns.
func (c *compaction) offer(group []view, a *active) error {
	l := c.l
	discard := func(cause error) error {
		r := &rewrite{c: c, a: a}
		return errors.Join(cause, r.discard())
	}
	l.mu.Lock()
	err := l.usableLocked()
	if err == nil && c.placeLocked(group) < 0 {
		err = ErrCompactionMoot
	}
	l.mu.Unlock()
	if err != nil {
		return discard(err)
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return l.fail(err)
	}
	var errs []error
	c.files(a, func(f *file, suffix string) {
		if len(errs) == 0 {
			if err := c.rename(f, suffix+swapSuffix); err != nil {
				errs = append(errs, err)
			}
		}
	})
	if len(errs) > 0 {
		// What goes first is what makes recovery look at the others. It must not come back when the group has changed.
		err := discard(errs[0])
		if err := l.fs.SyncDir(c.dir); err != nil {
			return l.fail(err)
		}
		return err
	}
	if err := l.fs.SyncDir(c.dir); err != nil {
		return l.fail(err)
	}
	return nil
}

// placeLocked returns where the group begins in the log, -1 if it is not as it was.
func (c *compaction) placeLocked(group []view) int {
	sealed := c.l.sealed
	at := slices.IndexFunc(sealed, func(v view) bool { return v.segment == group[0].segment })
	if at < 0 || at+len(group) > len(sealed) {
		return -1
	}
	for i := range group {
		if sealed[at+i].segment != group[i].segment {
			return -1
		}
	}
	return at
}

// replace lets readers see the new segment, and renames the old ones' files. Nobody else can have changed the group.
func (c *compaction) replace(group []view, a *active) error {
	l := c.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return errors.Join(err, a.close()) // a crash at this point would be no other
	}
	if a.aborted == 0 {
		a.txns = l.files.file(filepath.Join(c.dir, fileName(a.base, txnIndexSuffix))) // should it ever be made
	}
	at := c.placeLocked(group)
	l.sealed = slices.Replace(slices.Clone(l.sealed), at, at+len(group), a.view)
	l.publishLocked()
	now := l.now()
	for i := range group {
		v := &group[i]
		err := l.markDeletedLocked(v.segment, v.aborted > 0)
		if err == nil && i > 0 {
			err = l.deleteSnapshotLocked(v.base, now) // no segment begins there any more
		}
		if err != nil {
			return l.fail(err)
		}
	}
	return nil
}
