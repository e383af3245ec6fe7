package commitlog

import (
	"errors"
	"fmt"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// Scrubbed is what a scrub has found.
type Scrubbed struct {
	Bytes   int64
	Damage  []Damage // that nobody knew of
	Indexes int      // segments whose index files do not belong to their log; Retain makes them anew
}

// Scrub reads the whole log and compares batches with their CRCs and index files with batches, for what a disk changes
// over the years unseen. Reads of what it finds damaged answer CORRUPT_MESSAGE from then on. pace is told of what is read;
// it may wait, and its error ends the scrub. The log may change meanwhile; the folder must not be renamed.
func (l *Log) Scrub(pace func(bytes int) error) (done Scrubbed, err error) {
	b := l.bounds.Load()
	for i := range len(b.sealed) + 1 {
		if err := l.usable(); err != nil {
			return done, err
		}
		err := l.scrubSegment(b.view(i), i < len(b.sealed), &done, pace)
		if err != nil && !errors.Is(err, errGone) { // deleted meanwhile
			return done, fmt.Errorf("scrub %s: %w", l.tp, err)
		}
	}
	return done, nil
}

func (l *Log) scrubSegment(v *view, sealed bool, done *Scrubbed, pace func(bytes int) error) error {
	l.mu.Lock()
	truncations := l.truncations
	l.mu.Unlock()
	h, err := v.log.pin()
	if err != nil {
		return err
	}
	defer v.log.unpin()
	var indexes *indexCheck
	if sealed {
		if indexes, err = l.newIndexCheck(v); err != nil {
			return err
		}
	}
	holes, err := verifyLog(h, v.base, v.next, v.size, func(b batch.Batch, pos int64) error {
		done.Bytes += int64(len(b))
		indexes.pass(b, pos)
		return pace(len(b))
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if truncations != l.truncations || l.closed {
		return nil // what was read may have been cut off under the reader
	}
	v.cold.Store(0)
	for _, h := range holes {
		if v.knownAt(h.pos) {
			continue
		}
		v.noteHole(h)
		done.Damage = append(done.Damage, h.damage(v.base))
	}
	if sealed && len(v.known()) == 0 && indexes.wrong() {
		v.damaged.Store(true)
		done.Indexes++
	}
	return nil
}

// indexCheck follows the batches of a sealed segment and compares them with its index files. A nil one checks nothing.
type indexCheck struct {
	base                 kafka.Offset
	offsets, times, txns []byte // what is left of them to meet
	max                  int64  // timestamp so far
	lastTime             int64
	open                 map[int64]bool // producers with records of a transaction in this segment
	bad                  bool
}

func (l *Log) newIndexCheck(v *view) (*indexCheck, error) {
	x := &indexCheck{base: v.base, max: batch.NoTimestamp, lastTime: batch.NoTimestamp, open: map[int64]bool{}}
	for _, f := range []struct {
		f       *file
		content *[]byte
		width   int
	}{{v.offsets, &x.offsets, offsetWidth}, {v.times, &x.times, timeWidth}, {v.txns, &x.txns, txnWidth}} {
		b, err := vfs.ReadFile(l.fs, f.f.name())
		if err != nil && !notExist(err) {
			return nil, err
		}
		if notExist(err) && f.f != v.txns || len(b)%f.width != 0 {
			x.bad = true
		}
		*f.content = b
	}
	return x, nil
}

func (x *indexCheck) pass(b batch.Batch, pos int64) {
	if x == nil || x.bad {
		return
	}
	last := b.LastOffset()
	if b.Count() > 0 {
		x.max = max(x.max, b.MaxTimestamp())
	}
	if len(x.offsets) >= offsetWidth && entryOffset(x.offsets, x.base) <= last {
		x.bad = entryOffset(x.offsets, x.base) != last || entryPosition(x.offsets) != pos
		x.offsets = x.offsets[offsetWidth:]
	}
	if len(x.times) >= timeWidth && entryTimeOffset(x.times, x.base) <= last {
		x.lastTime = entryTimestamp(x.times)
		x.bad = x.bad || entryTimeOffset(x.times, x.base) != last || x.lastTime != b.MaxTimestamp()
		x.times = x.times[timeWidth:]
	}
	x.passTxn(b)
}

func (x *indexCheck) passTxn(b batch.Batch) {
	if !b.Control() {
		if b.Transactional() && b.Count() > 0 {
			x.open[b.ProducerID()] = true
		}
		return
	}
	m, err := endMarker(b)
	if err != nil || m == nil {
		return
	}
	began := x.open[b.ProducerID()]
	delete(x.open, b.ProducerID())
	if m.commit {
		return
	}
	if len(x.txns) >= txnWidth {
		t, err := parseAbortedTxn(x.txns)
		if err == nil && t.LastOffset == b.BaseOffset() && t.ProducerID == b.ProducerID() && t.FirstOffset < t.LastOffset {
			x.txns = x.txns[txnWidth:]
			return
		}
	}
	x.bad = x.bad || began
}

// wrong tells, at the end, whether the files are not those of the segment.
func (x *indexCheck) wrong() bool {
	return x.bad || len(x.offsets)+len(x.times)+len(x.txns) > 0 || x.lastTime != x.max
}

// retxn writes the transaction index of a segment anew, and returns how many entries it has. The transactions that
// began before the segment are known from the newest snapshot before it, or from the records since.
func (l *Log) retxn(v *view) (entries int, err error) {
	kept := l.producers
	defer func() { l.producers = kept }()
	from, err := l.snapshotAtOrBefore(v.base)
	if err != nil {
		return 0, err
	}
	var content []byte
	w := l.files.window()
	defer l.files.release(w)
	views := append(slices.Clone(l.sealed), l.active.view)
	for i := range views {
		s := &views[i]
		if s.next <= from || s.base > v.base {
			continue
		}
		err := s.walk(w, 0, func(h batch.Batch, pos, size int64) (bool, error) {
			if h.ProducerID() < 0 || h.BaseOffset() < from {
				return true, nil
			}
			var m *marker
			if h.Control() {
				whole, err := s.load(pos, size)
				if err != nil {
					return false, err
				}
				if m, err = endMarker(whole); err != nil {
					return true, nil // recovery passes over it too
				}
			}
			if t, aborts := l.producers.aborts(h, m); aborts && s.base == v.base {
				content = append(content, t.encode()...)
			}
			l.producers.apply(h, m, 0)
			return true, nil
		})
		if err != nil {
			return 0, err
		}
	}
	path := v.txns.name()
	if len(content) == 0 {
		if err := l.fs.Remove(path); err != nil && !notExist(err) {
			return 0, err
		}
		return 0, nil
	}
	return len(content) / txnWidth, vfs.WriteFileAtomic(l.fs, path, content)
}

// snapshotAtOrBefore sets the producers' state to that of a snapshot on disk, and returns its offset; empty, and the log's
// first, without one.
func (l *Log) snapshotAtOrBefore(offset kafka.Offset) (kafka.Offset, error) {
	for i := len(l.snapshots) - 1; i >= 0; i-- {
		if l.snapshots[i] > offset {
			continue
		}
		content, err := vfs.ReadFile(l.fs, l.snapshotPath(l.snapshots[i]))
		if err != nil && !notExist(err) {
			return 0, err
		}
		if ps, bad := parseSnapshot(content, 0); err == nil && bad == nil {
			l.producers = ps
			return l.snapshots[i], nil
		}
	}
	l.producers = producers{}
	return min(offset, l.firstBaseLocked()), nil
}

// txnsBelong tells whether the transaction index of a segment is that of its batches. It looks once, at files that an
// earlier run has left: that one is missing does not show otherwise.
func (l *Log) txnsBelong(v *view, sealed bool) (bool, error) {
	if v.cold.Load() == 0 || v.txnsChecked.Load() {
		return true, nil
	}
	x := &indexCheck{base: v.base, open: map[int64]bool{}}
	var err error
	if x.txns, err = vfs.ReadFile(l.fs, v.txns.name()); err != nil && !notExist(err) {
		return false, err
	}
	if !sealed {
		x.txns = x.txns[:min(len(x.txns), v.aborted*txnWidth)] // appends go on
	}
	w := l.files.window()
	defer l.files.release(w)
	err = v.walk(w, 0, func(h batch.Batch, pos, size int64) (bool, error) {
		if !h.Control() {
			x.passTxn(h)
			return true, nil
		}
		whole, err := v.load(pos, size)
		if err == nil {
			x.passTxn(whole)
		}
		return true, err
	})
	if err != nil {
		return false, err
	}
	belongs := !x.bad && len(x.txns) == 0
	v.txnsChecked.Store(belongs)
	return belongs, nil
}
