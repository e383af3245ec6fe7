package commitlog

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// hole is a stretch of a segment in which there is no batch that can be used.
type hole struct {
	pos, end int64        // in the file
	from, to kafka.Offset // offsets that no other batch of the segment has
}

func (h hole) error(name string) error {
	return fmt.Errorf("%s holds nothing readable of the offsets [%d, %d), at positions [%d, %d): %w", name, h.from, h.to, h.pos, h.end, batch.ErrCorrupt)
}

// known returns the known holes, by position.
func (s *segment) known() []hole {
	if all := s.holes.Load(); all != nil {
		return *all
	}
	return nil
}

// noteHole remembers a hole, so that nobody looks for its end twice.
func (s *segment) noteHole(h hole) {
	for {
		old := s.holes.Load()
		var all []hole
		if old != nil {
			all = *old
		}
		i, found := slices.BinarySearchFunc(all, h.pos, func(k hole, pos int64) int { return int(k.pos - pos) })
		if found {
			return
		}
		all = slices.Insert(slices.Clone(all), i, h)
		if s.holes.CompareAndSwap(old, &all) {
			return
		}
	}
}

// cutHoles forgets what lay behind the end that the segment has now.
func (s *segment) cutHoles(size int64) {
	if all := s.holes.Load(); all != nil {
		left := slices.DeleteFunc(slices.Clone(*all), func(h hole) bool { return h.end > size })
		s.holes.Store(&left)
	}
}

// knownAt tells whether a known hole begins at a position.
func (s *segment) knownAt(pos int64) bool {
	return slices.ContainsFunc(s.known(), func(h hole) bool { return h.pos == pos })
}

// findHole is passHole for one who came to pos by the length of the batch before, which may be what is wrong. before is zero
// if there was none.
func (v *view) findHole(before place, pos int64, least kafka.Offset) (hole, error) {
	if before.size > 0 && !v.knownAt(pos) {
		b, err := v.load(before.pos, before.size)
		if err == nil {
			err = b.VerifyCRC()
		}
		if errors.Is(err, batch.ErrCorrupt) {
			return v.passHole(before.pos, before.base)
		}
		if err != nil {
			return hole{}, err
		}
	}
	return v.passHole(pos, least)
}

// passHole returns the hole that begins at pos, where the batch of offset least, or a later one, cannot be read: it ends
// with the next batch that is whole, or with the segment.
func (v *view) passHole(pos int64, least kafka.Offset) (hole, error) {
	for _, h := range v.known() {
		if h.pos == pos {
			return h, nil
		}
	}
	file, err := v.log.pin()
	if err != nil {
		return hole{}, err
	}
	defer v.log.unpin()
	h := hole{pos: pos, end: v.size, from: least, to: v.next}
	end, to, err := nextWhole(file, pos+1, v.size, least, v.next)
	if err != nil {
		return hole{}, fmt.Errorf("look for the end of the damage in %s: %w", v.log.name(), err)
	}
	if end >= 0 {
		h.end, h.to = end, to
	}
	v.noteHole(h)
	return h, nil
}

// locateAny is locate for one who needs a place even where the offset cannot be read: it is that of the damage then.
func (v *view) locateAny(w *window, target kafka.Offset) (place, bool, error) {
	p, found, err := v.locate(w, target)
	if errors.Is(err, batch.ErrCorrupt) {
		for _, h := range v.known() {
			if target < h.to {
				return place{pos: h.pos, size: h.end - h.pos, base: h.from, next: h.to}, true, nil
			}
		}
	}
	return p, found, err
}

// nextWhole looks byte by byte for a batch with a good CRC and an offset in [least, below), in [pos, end) of a log file.
// It returns its position, -1 if there is none, and its base offset.
func nextWhole(f io.ReaderAt, pos, end int64, least, below kafka.Offset) (int64, kafka.Offset, error) {
	buf := make([]byte, scanBytes)
	for pos+batch.HeaderSize <= end {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), end-pos)], pos)
		if n < batch.HeaderSize {
			if err == io.EOF {
				break
			}
			return -1, 0, err
		}
		for i := 0; i+batch.HeaderSize <= n; i++ {
			size, base, magic, err := batch.PeekHeader(buf[i:n])
			if err != nil || magic != 2 || base < least || base >= below || int64(size) > end-pos-int64(i) {
				continue
			}
			if h := batch.Batch(buf[i : i+batch.HeaderSize]); h.LastOffsetDelta() < 0 || h.Count() < 0 || h.NextOffset() > below {
				continue
			}
			whole, err := readBatch(f, pos+int64(i), int64(size))
			if err != nil {
				return -1, 0, err
			}
			if whole.VerifyCRC() == nil {
				return pos + int64(i), base, nil
			}
		}
		pos += int64(n - batch.HeaderSize + 1)
	}
	return -1, 0, nil
}

func readBatch(f io.ReaderAt, pos, size int64) (batch.Batch, error) {
	b := make([]byte, size)
	if n, err := f.ReadAt(b, pos); n < len(b) {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	bt, _, err := batch.Next(b)
	return bt, err
}

// oldMessage tells whether a message of format 0 or 1 lies at pos, rather than damage that looks like one.
func oldMessage(f vfs.File, pos, size int64) bool {
	b := make([]byte, size)
	n, _ := f.ReadAt(b, pos)
	return n == len(b) && oldFormat(b)
}

// locateChecked is locate for one who will read there. The batch's CRC is looked at only where neither this run nor its
// recovery has written or verified it: a disk may have changed it since it was. One that does not match may also be wrong
// about which offsets it has.
func (v *view) locateChecked(w *window, target kafka.Offset) (place, bool, error) {
	for {
		p, found, err := v.locate(w, target)
		if err != nil || !found || p.pos >= v.cold.Load() {
			return p, found, err
		}
		b, err := v.load(p.pos, p.size)
		if err == nil {
			if err = b.VerifyCRC(); err == nil {
				return p, true, nil
			}
		}
		if !errors.Is(err, batch.ErrCorrupt) {
			return p, false, err
		}
		h, err := v.passHole(p.pos, p.base)
		if err != nil {
			return p, false, err
		}
		if target < h.to {
			return p, false, h.error(v.log.name())
		}
		// The hole is known now, and locate passes over it.
	}
}

// Damage is a stretch of a log file that holds no batch, or one that does not match its CRC.
type Damage struct {
	Segment  kafka.Offset // base offset of the file
	Position int64
	Bytes    int64
	From, To kafka.Offset // offsets that cannot be read because of it
}

// Damage returns the damage that this run has come across, in order.
func (l *Log) Damage() []Damage {
	b := l.bounds.Load()
	var all []Damage
	for i := range len(b.sealed) + 1 {
		v := b.view(i)
		for _, h := range v.known() {
			all = append(all, Damage{Segment: v.base, Position: h.pos, Bytes: h.end - h.pos, From: h.from, To: h.to})
		}
	}
	return all
}
