package commitlog

import (
	"errors"
	"fmt"
	"slices"

	"moldau/internal/batch"
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
	cuts := l.cuts()
	h, err := v.log.pin()
	if err != nil {
		return err
	}
	defer v.log.unpin()
	indexes, err := l.readIndexes(v, sealed)
	if err == nil {
		err = pace(indexes.bytes())
	}
	if err != nil {
		return err
	}
	holes, err := verifyLog(h, v.base, v.next, v.size, func(b batch.Batch, pos int64) error {
		done.Bytes += int64(len(b))
		indexes.pass(b, pos)
		return pace(len(b))
	})
	if err != nil {
		return err
	}
	indexes.finish(v.size)
	if sealed {
		indexes.wantsNewest()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if cuts != l.truncations || l.closed || !l.hasLocked(v.segment) {
		return nil // what was read may have been cut off under the reader, or the files be those of another segment
	}
	for _, h := range holes {
		if v.knownAt(h.pos) {
			continue
		}
		v.noteHole(h)
		done.Damage = append(done.Damage, h.damage(v.base))
	}
	if indexes.wrong() {
		done.Indexes++
		v.damaged.Store(v.damaged.Load() || indexes.offsets.fault != "" || indexes.times.fault != "")
		v.txnsBad.Store(v.txnsBad.Load() || indexes.txns.fault != "")
	}
	v.cold.Store(0) // what was here before the start has been looked at, index files included
	return nil
}

// hasLocked tells whether a segment is part of the log, under this identity.
func (l *Log) hasLocked(s *segment) bool {
	return l.active.segment == s || slices.ContainsFunc(l.sealed, func(v view) bool { return v.segment == s })
}

// readIndexes begins the comparison of a segment's index files with its batches. Of an active segment it looks at the transactions
// alone: entries of the others still wait in memory.
func (l *Log) readIndexes(v *view, sealed bool) (*indexCheck, error) {
	x := newIndexCheck(v.base)
	err := l.readTxns(v, sealed, x)
	if !sealed {
		return x, err
	}
	for _, f := range []struct {
		f    *file
		to   *indexEntries
		size int64
	}{{v.offsets, &x.offsets, v.offset.size()}, {v.times, &x.times, v.time.size()}} {
		content, readErr := vfs.ReadFile(l.fs, f.f.name())
		switch {
		case notExist(readErr):
			f.to.wrong("is missing")
			readErr = nil
		case readErr == nil && int64(len(content)) < f.size: // who has it open may see another file
			f.to.wrong("has %d bytes of %d", len(content), f.size)
		}
		f.to.left, err = content, errors.Join(err, readErr)
	}
	return x, err
}

func (l *Log) readTxns(v *view, sealed bool, x *indexCheck) error {
	content, err := vfs.ReadFile(l.fs, v.txns.name())
	if !sealed {
		content = content[:min(len(content), v.aborted*txnWidth)] // appends go on
	}
	x.txns.left = content
	return ignoreNotExist(err)
}
