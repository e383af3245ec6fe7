package commitlog

import (
	"errors"
	"path/filepath"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

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
