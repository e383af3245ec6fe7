package commitlog

import (
	"errors"
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// OffsetForTimestamp returns the first record in [log start, upTo) with a timestamp of at least ts, in ms.
func (l *Log) OffsetForTimestamp(ts int64, upTo kafka.Offset) (found TimestampOffset, ok bool, err error) {
	err = l.lookup(func(b *Bounds, w *window) error {
		found, ok, err = b.offsetForTimestamp(w, ts, min(upTo, b.LogEnd))
		return err
	})
	return found, ok, err
}

// OffsetOfMaxTimestamp returns the record with the largest timestamp in [log start, upTo), the first of several. Records
// of a segment that begins before the log start count too, as in Kafka.
func (l *Log) OffsetOfMaxTimestamp(upTo kafka.Offset) (found TimestampOffset, ok bool, err error) {
	err = l.lookup(func(b *Bounds, w *window) error {
		found, ok, err = b.offsetOfMaxTimestamp(w, min(upTo, b.LogEnd))
		return err
	})
	return found, ok, err
}

// SegmentStart is where a segment begins and the largest timestamp in it, in ms; -1 if it has none.
type SegmentStart struct {
	Offset       kafka.Offset
	MaxTimestamp int64
}

// SegmentStarts returns the segments that hold records, oldest first. The first begins at the log start, if it began before.
func (l *Log) SegmentStarts() (starts []SegmentStart, err error) {
	err = l.lookup(func(b *Bounds, w *window) error {
		starts = starts[:0]
		for i := range len(b.sealed) + 1 {
			v := b.view(i)
			if v.size == 0 || v.next <= b.LogStart {
				continue
			}
			newest, err := v.maxTimestamp(w, i < len(b.sealed))
			if err != nil {
				return err
			}
			starts = append(starts, SegmentStart{Offset: max(v.base, b.LogStart), MaxTimestamp: newest.Timestamp})
		}
		return nil
	})
	return starts, err
}

// lookup calls f with bounds that hold while it runs, once more whenever a segment is deleted under it.
func (l *Log) lookup(f func(*Bounds, *window) error) error {
	w := l.files.window()
	defer l.files.release(w)
	for {
		if err := l.usable(); err != nil {
			return err
		}
		b := l.bounds.Load()
		w.f = nil // what it holds may be older than b
		err := f(b, w)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errGone) {
			return fmt.Errorf("look up a time in %s: %w", l.tp, err)
		}
		if b == l.bounds.Load() {
			return errClosed
		}
	}
}

func (b *Bounds) offsetForTimestamp(w *window, ts int64, upTo kafka.Offset) (TimestampOffset, bool, error) {
	none := TimestampOffset{Timestamp: -1, Offset: -1, LeaderEpoch: kafka.NoEpoch}
	for i := range len(b.sealed) + 1 {
		v := b.view(i)
		if v.base >= upTo {
			break
		}
		newest, err := v.maxTimestamp(w, i < len(b.sealed))
		if err != nil {
			return none, false, err
		}
		if newest.Timestamp < ts || v.next <= b.LogStart {
			continue
		}
		found, ok, err := v.firstSince(w, ts, b.LogStart)
		if err != nil {
			return none, false, err
		}
		if ok {
			if found.Offset >= upTo {
				break
			}
			return found, true, nil
		}
	}
	return none, false, nil
}

// firstSince returns the first record from an offset on with a timestamp of at least ts.
func (v *view) firstSince(w *window, ts int64, from kafka.Offset) (found TimestampOffset, ok bool, err error) {
	// Records after the batch that an entry names can be later than its timestamp; those before cannot.
	entry, any, err := v.timed(w, func(e []byte) bool { return entryTimestamp(e) <= ts })
	if err != nil {
		return found, false, err
	}
	start := from
	if any {
		start = max(from, entry.Offset)
	}
	p, within, err := v.locateAny(w, start)
	if err != nil || !within {
		return found, false, err
	}
	err = v.walk(w, p.pos, func(h batch.Batch, pos, size int64) (bool, error) {
		if h.MaxTimestamp() < ts {
			return true, nil
		}
		b, err := v.load(pos, size)
		if err != nil {
			return false, err
		}
		err = b.Each(func(r batch.Record) error {
			if !ok && r.Timestamp >= ts && r.Offset >= from {
				found, ok = TimestampOffset{Timestamp: r.Timestamp, Offset: r.Offset, LeaderEpoch: b.LeaderEpoch()}, true
			}
			return nil
		})
		if err != nil && !ok { // unreadable: it came in unopened, and its header is all that is known
			found, ok = TimestampOffset{Timestamp: b.MaxTimestamp(), Offset: max(from, b.BaseOffset()), LeaderEpoch: b.LeaderEpoch()}, true
		}
		return !ok, nil
	})
	return found, ok, err
}

func (b *Bounds) offsetOfMaxTimestamp(w *window, upTo kafka.Offset) (TimestampOffset, bool, error) {
	best := TimestampOffset{Timestamp: batch.NoTimestamp, Offset: -1, LeaderEpoch: kafka.NoEpoch}
	var in *view
	for i := range len(b.sealed) + 1 {
		v := b.view(i)
		if v.base >= upTo {
			break
		}
		newest, err := v.maxTimestamp(w, i < len(b.sealed))
		if err == nil && newest.Offset >= upTo {
			newest, err = v.maxTimestampBefore(w, upTo)
		}
		if err != nil {
			return best, false, err
		}
		if newest.Timestamp > best.Timestamp {
			best, in = newest, v
		}
	}
	if in == nil {
		return best, false, nil
	}
	p, found, err := in.locateAny(w, best.Offset)
	if err != nil || !found {
		return best, false, err
	}
	bt, err := in.load(p.pos, p.size)
	if err != nil {
		return best, false, err
	}
	best.LeaderEpoch = bt.LeaderEpoch()
	timestamp, offset, err := bt.OffsetOfMaxTimestamp()
	if err != nil { // unreadable, as in firstSince
		timestamp, offset = bt.MaxTimestamp(), bt.LastOffset()
	}
	best.Timestamp, best.Offset = timestamp, offset
	return best, true, nil
}

// maxTimestampBefore is maxTimestamp of the batches that end at or before upTo.
func (v *view) maxTimestampBefore(w *window, upTo kafka.Offset) (TimestampOffset, error) {
	best := TimestampOffset{Timestamp: batch.NoTimestamp, Offset: v.base, LeaderEpoch: kafka.NoEpoch}
	entry, any, err := v.timed(w, func(e []byte) bool { return entryTimeOffset(e, v.base) < upTo })
	if err != nil {
		return best, err
	}
	pos := int64(0)
	if any {
		best = entry
		// The time index was brought up to date with each entry of the offset index, so only what follows the last of
		// those can be newer.
		if pos, err = v.indexed(w, func(e []byte) bool { return entryOffset(e, v.base) < upTo }); err != nil {
			return best, err
		}
	}
	err = v.walk(w, pos, func(h batch.Batch, _, _ int64) (bool, error) {
		if h.NextOffset() > upTo {
			return false, nil
		}
		if h.MaxTimestamp() > best.Timestamp && h.Count() > 0 {
			best.Timestamp, best.Offset = h.MaxTimestamp(), h.LastOffset()
		}
		return true, nil
	})
	return best, err
}

// walk calls f with the header of each batch from pos on, until it returns false. It passes over damage.
func (v *view) walk(w *window, pos int64, f func(h batch.Batch, pos, size int64) (bool, error)) error {
	file, err := v.log.pin()
	if err != nil {
		return err
	}
	defer v.log.unpin()
	least, before := v.base, place{}
	for w.of(file); pos < v.size; {
		h, size, err := v.headerAt(w, pos)
		if err == nil && (h.BaseOffset() < least || h.LastOffsetDelta() < 0) {
			err = batch.ErrCorrupt
		}
		if errors.Is(err, batch.ErrCorrupt) || v.knownAt(pos) {
			gap, err := v.findHole(before, pos, least)
			if err != nil {
				return err
			}
			pos, least = gap.end, gap.to
			w.of(file)
			continue
		}
		if err != nil {
			return err
		}
		before, least = place{pos: pos, size: size, base: h.BaseOffset(), next: h.NextOffset()}, h.NextOffset()
		more, err := f(h, pos, size)
		if err != nil || !more {
			return err
		}
		pos += size
	}
	return nil
}

// load reads a whole batch.
func (v *view) load(pos, size int64) (batch.Batch, error) {
	h, err := v.log.pin()
	if err != nil {
		return nil, err
	}
	defer v.log.unpin()
	return readBatch(h, pos, size)
}
