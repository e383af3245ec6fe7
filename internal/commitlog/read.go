package commitlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// ReadOptions bounds a read.
type ReadOptions struct {
	MaxBytes   int          // batches that would go beyond are left out
	UpTo       kafka.Offset // batches that do not end at or before it are left out: the reader's high watermark or last stable offset
	AtLeastOne bool         // the first batch comes even if it is larger than MaxBytes
}

// Read is the result of a read: whole batches of one segment. The first may begin before the wanted offset.
type Read struct {
	Region           *Region // nil if there is nothing to read; the caller releases it
	FirstBatchOffset kafka.Offset
	NextOffset       kafka.Offset // where the next read goes on
	Bytes            int
}

// Region is a stretch of a segment file. It keeps the file open until Release, also when retention removes it meanwhile.
type Region struct {
	f   *file
	h   vfs.File
	pos int64
	n   int64
}

// Len returns the length in bytes.
func (r *Region) Len() int64 { return r.n }

// SendTo writes the bytes to dst. Fewer than Len without an error of dst mean that the log was truncated meanwhile.
func (r *Region) SendTo(dst io.Writer) (int64, error) { return r.h.SendTo(dst, r.pos, r.n) }

// ReadAt reads bytes from position off of the region on, as io.ReaderAt does.
func (r *Region) ReadAt(b []byte, off int64) (int, error) {
	if off >= r.n {
		return 0, io.EOF
	}
	whole := len(b)
	b = b[:min(int64(whole), r.n-off)]
	n, err := r.h.ReadAt(b, r.pos+off)
	if err == nil && n < whole {
		err = io.EOF
	}
	return n, err
}

// ReadAll returns the bytes in new memory.
func (r *Region) ReadAll() ([]byte, error) {
	b := make([]byte, r.n)
	n, err := r.h.ReadAt(b, r.pos)
	if n == len(b) {
		return b, nil
	}
	return nil, fmt.Errorf("read %d bytes at %d of %s: got %d: %w", r.n, r.pos, r.f.name(), n, err)
}

// Release ends the use of the file. Call it once.
func (r *Region) Release() {
	r.h = nil
	r.f.unpin()
}

// Read finds the batches from an offset on. It takes no lock that a writer holds. The error is OFFSET_OUT_OF_RANGE before
// the log start and after the log end. An offset at or after UpTo reads nothing.
func (l *Log) Read(from kafka.Offset, o ReadOptions) (Read, error) {
	for {
		if err := l.usable(); err != nil {
			return Read{}, err
		}
		b := l.bounds.Load()
		if from < b.LogStart || from > b.LogEnd {
			return Read{}, fmt.Errorf("offset %d of %s, which holds [%d, %d): %w", from, l.tp, b.LogStart, b.LogEnd, kerr.OffsetOutOfRange)
		}
		r, err := l.read(b, from, o)
		if err == nil {
			return r, nil
		}
		if !errors.Is(err, errGone) {
			return Read{}, fmt.Errorf("read %s at offset %d: %w", l.tp, from, err)
		}
		if b == l.bounds.Load() {
			return Read{}, errClosed
		}
		// The segment was deleted or truncated since the bounds were loaded.
	}
}

func (l *Log) read(b *Bounds, from kafka.Offset, o ReadOptions) (Read, error) {
	nothing := Read{FirstBatchOffset: from, NextOffset: from}
	upTo := min(o.UpTo, b.LogEnd)
	if from >= upTo {
		return nothing, nil
	}
	w := l.files.window()
	defer l.files.release(w)
	for i := b.floor(from); i <= len(b.sealed); i++ {
		v := b.view(i)
		first, found, err := v.locateChecked(w, from)
		if err != nil {
			return nothing, err
		}
		if !found {
			continue // from lies in a gap at the segment's end
		}
		if first.next > upTo {
			return nothing, nil
		}
		end, next, err := v.limit(w, first, upTo, o)
		if err != nil || end == first.pos {
			return nothing, err
		}
		h, err := v.log.pin()
		if err != nil {
			return nothing, err
		}
		n := end - first.pos
		return Read{Region: &Region{f: v.log, h: h, pos: first.pos, n: n}, FirstBatchOffset: first.base, NextOffset: next, Bytes: int(n)}, nil
	}
	return nothing, nil
}

// place is where a batch lies.
type place struct {
	pos, size  int64
	base, next kafka.Offset
}

func (v *view) placeAt(w *window, pos int64) (place, error) {
	h, size, err := v.headerAt(w, pos)
	if err != nil {
		return place{}, err
	}
	return place{pos: pos, size: size, base: h.BaseOffset(), next: h.NextOffset()}, nil
}

// placeAfter is placeAt in a walk: least is the lowest offset that the batch may have, and becomes that of the one after.
func (v *view) placeAfter(w *window, pos int64, least *kafka.Offset) (place, error) {
	p, err := v.placeAt(w, pos)
	if err == nil && (p.base < *least || p.next <= p.base) {
		err = fmt.Errorf("%s at position %d: batch of offsets [%d, %d) where %d is next: %w", v.log.name(), pos, p.base, p.next, *least, batch.ErrCorrupt)
	}
	*least = p.next
	return p, err
}

// headerAt returns the header of the batch at pos, good until the next use of w, and the size of the batch. w looks into
// the log file.
func (v *view) headerAt(w *window, pos int64) (batch.Batch, int64, error) {
	b, err := w.bytes(pos, batch.HeaderSize)
	if err != nil {
		return nil, 0, err
	}
	if len(b) < batch.HeaderSize {
		return nil, 0, fmt.Errorf("%s ends in a batch at position %d: %w", v.log.name(), pos, batch.ErrCorrupt)
	}
	size, base, magic, err := batch.PeekHeader(b)
	switch {
	case err != nil:
	case magic != 2 && pos+int64(size) <= v.size && oldMessage(w.f, pos, int64(size)):
		err = batch.ErrOldMagic
	case magic != 2:
		err = batch.ErrCorrupt
	case pos+int64(size) > v.size:
		err = fmt.Errorf("batch of %d bytes ends behind the segment's %d: %w", size, v.size, batch.ErrCorrupt)
	case base < v.base || base >= v.next:
		err = fmt.Errorf("batch offset %d is not of the segment's [%d, %d): %w", base, v.base, v.next, batch.ErrCorrupt)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s at position %d: %w", v.log.name(), pos, err)
	}
	return batch.Batch(b), int64(size), nil
}

// locate returns the first batch that ends after target-1: the one that holds the offset, or else the next one.
func (v *view) locate(w *window, target kafka.Offset) (place, bool, error) {
	pos, err := v.indexed(w, func(e []byte) bool { return entryOffset(e, v.base) <= target })
	if err != nil {
		return place{}, false, err
	}
	h, err := v.log.pin()
	if err != nil {
		return place{}, false, err
	}
	defer v.log.unpin()
	w.of(h)
	var before place
	for least := v.base; pos < v.size; {
		next := least
		p, err := v.placeAfter(w, pos, &next)
		if errors.Is(err, batch.ErrCorrupt) || v.knownAt(pos) {
			gap, err := v.findHole(before, pos, least)
			if err != nil {
				return place{}, false, err
			}
			if target < gap.to {
				return place{}, false, gap.error(v.log.name())
			}
			pos, least = gap.end, gap.to
			w.of(h)
			continue
		}
		if err != nil {
			return place{}, false, err
		}
		if p.next > target {
			return p, true, nil
		}
		before, pos, least = p, pos+p.size, next
	}
	return place{}, false, nil
}

// indexed returns the position in the last entry of the offset index for which ok holds, or 0. An entry that leads to no
// batch of its offset marks the index as damaged, as does one that is gone, and the answer is 0, from where everything is found without
// an index.
func (v *view) indexed(w *window, ok func(entry []byte) bool) (int64, error) {
	if v.damaged.Load() {
		return 0, nil
	}
	entry, err := v.offset.floor(w, ok)
	if lost(err) {
		v.damaged.Store(true)
		return 0, nil
	}
	if err != nil || entry == nil {
		return 0, err
	}
	pos, offset := entryPosition(entry), entryOffset(entry, v.base)
	h, err := v.log.pin()
	if err != nil {
		return 0, err
	}
	defer v.log.unpin()
	if pos > 0 && pos < v.size {
		p, err := v.placeAt(w.of(h), pos)
		if err == nil && p.base <= offset && p.next-1 <= offset {
			return pos, nil
		}
		if err != nil && !errors.Is(err, batch.ErrCorrupt) {
			return 0, err
		}
	}
	v.damaged.Store(true)
	return 0, nil
}

// lost tells whether an error is of an index file that has been removed or cut since it was opened: it is made anew from the log, and
// no disk is at fault.
func lost(err error) bool {
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || notExist(err)
}

// limit returns the position where a read that begins with first has to end, and the offset that lies there.
func (v *view) limit(w *window, first place, upTo kafka.Offset, o ReadOptions) (end int64, next kafka.Offset, err error) {
	end, next = v.size, v.next
	if upTo < v.next {
		bound, found, err := v.locateAny(w, upTo)
		if err != nil {
			return 0, 0, err
		}
		if found {
			end, next = bound.pos, min(bound.base, upTo)
		}
	}
	for _, gap := range v.known() {
		if gap.pos > first.pos && gap.pos < end {
			end, next = gap.pos, gap.from // whoever wants what is there is told of the damage
			break
		}
	}
	most := first.pos + int64(max(0, o.MaxBytes))
	if end <= most {
		return end, next, nil
	}
	if first.pos+first.size > most {
		if o.AtLeastOne {
			return first.pos + first.size, first.next, nil
		}
		return first.pos, first.base, nil
	}
	// Whole batches only: go to the last indexed batch that begins in range, and on from there.
	pos, err := v.indexed(w, func(e []byte) bool { return entryPosition(e) <= most })
	if err != nil {
		return 0, 0, err
	}
	h, err := v.log.pin()
	if err != nil {
		return 0, 0, err
	}
	defer v.log.unpin()
	w.of(h)
	pos = max(pos, first.pos)
	var before place
	for least := first.base; pos < end; {
		p, err := v.placeAfter(w, pos, &least)
		if errors.Is(err, batch.ErrCorrupt) && pos > first.pos {
			gap, err := v.findHole(before, pos, next)
			return gap.pos, gap.from, err
		}
		if err != nil {
			return 0, 0, err
		}
		if pos+p.size > most {
			return pos, p.base, nil
		}
		before, pos, next = p, pos+p.size, p.next
	}
	return end, next, nil
}
