package batch

import (
	"encoding/binary"

	"moldau/internal/kafka"
)

// EachKey calls f with the offset and the key of every record in order, until f returns false. key is nil for null, and
// good until f returns; tombstone says that the value is null. The error is as Each's.
func (b Batch) EachKey(f func(offset kafka.Offset, key []byte, tombstone bool) bool) error {
	recs, err := b.plain()
	if err != nil {
		return err
	}
	var s scan
	for i, n := int32(0), b.Count(); i < n; i++ {
		if !s.next(recs) {
			return b.badRecord(i)
		}
		if !f(b.BaseOffset()+int64(s.offsetDelta), s.key(recs), s.valueLen < 0) {
			return nil
		}
	}
	if s.at != len(recs) {
		return b.badRest(len(recs) - s.at)
	}
	return nil
}

// key returns the key of the record that next stepped over, nil for null.
func (s *scan) key(recs []byte) []byte {
	if s.keyLen < 0 {
		return nil
	}
	return recs[s.keyAt : s.keyAt+s.keyLen : s.keyAt+s.keyLen]
}

// FilterOptions says what Filter leaves of a batch.
type FilterOptions struct {
	// Keep tells whether a record stays. The arguments are those of EachKey's function.
	Keep func(offset kafka.Offset, key []byte, tombstone bool) bool
	// HorizonMs is the time from which the tombstones that stay may go (KIP-534). It is written into a batch that keeps
	// one and has no such time yet. NoTimestamp: they stay, and no time is written.
	HorizonMs int64
	// Marker says that the batch is a transaction's marker that gets HorizonMs like a tombstone.
	Marker bool
}

// Filter returns the batch without the records that Keep refuses, and how many are left: b itself if that changes
// nothing, nil if none is left. Offsets, sequence numbers, producer and codec stay. The error is as Each's.
// Mirrors MemoryRecords.filterTo.
func (b Batch) Filter(o FilterOptions) (out Batch, kept int, err error) {
	recs, err := b.plain()
	if err != nil {
		return nil, 0, err
	}
	var s scan
	var left []byte // header and records; nil while all have stayed
	tombstones, newest := false, NoTimestamp
	for i, n := int32(0), b.Count(); i < n; i++ {
		start := s.at
		if !s.next(recs) {
			return nil, 0, b.badRecord(i)
		}
		tombstone := s.valueLen < 0
		switch {
		case o.Keep(b.BaseOffset()+int64(s.offsetDelta), s.key(recs), tombstone):
			kept++
			tombstones = tombstones || tombstone
			newest = max(newest, b.BaseTimestamp()+s.timestampDelta)
			if left != nil {
				left = append(left, recs[start:s.at]...)
			}
		case left == nil:
			left = append(make([]byte, HeaderSize, HeaderSize+len(recs)), recs[:start]...)
		}
	}
	if s.at != len(recs) {
		return nil, 0, b.badRest(len(recs) - s.at)
	}
	if kept == 0 {
		return nil, 0, nil
	}
	horizon := o.HorizonMs != NoTimestamp && (tombstones || o.Marker) && !b.DeleteHorizonSet()
	if left == nil {
		if !horizon {
			return b, kept, nil
		}
		left = append(make([]byte, HeaderSize, HeaderSize+len(recs)), recs...)
	}
	attributes, base := b.Attributes(), b.BaseTimestamp()
	if horizon {
		// The field that record timestamps are counted from is the one that holds the horizon.
		left = rebase(left, base-o.HorizonMs)
		attributes, base = attributes|attrDeleteHorizon, o.HorizonMs
	}
	if b.Codec() != None {
		packed, err := Compress(b.Codec(), 0, left[HeaderSize:])
		if err != nil {
			return nil, 0, err
		}
		left = append(left[:HeaderSize], packed...)
	}
	copy(left, b[:HeaderSize])
	out = Batch(left)
	binary.BigEndian.PutUint16(out[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint64(out[atBaseTimestamp:], uint64(base))
	if !b.LogAppendTime() {
		binary.BigEndian.PutUint64(out[atMaxTimestamp:], uint64(newest))
	}
	out.resize(kept)
	return out, kept, nil
}

// rebase returns a batch's header space and records with shift added to every timestamp delta. The records are well-formed.
func rebase(b []byte, shift int64) []byte {
	out := make([]byte, HeaderSize, len(b)+len(b)/8)
	for recs := b[HeaderSize:]; len(recs) > 0; {
		length, at := varint(recs, 0)
		end := at + int(length)
		delta, rest := varlong(recs[:end], at+1)
		delta += shift
		tail := recs[rest:end]
		out = binary.AppendVarint(out, int64(1+varintSize(delta)+len(tail)))
		out = append(out, recs[at]) // attributes
		out = binary.AppendVarint(out, delta)
		out = append(out, tail...)
		recs = recs[end:]
	}
	return out
}

// Empty returns the batch without any record: its offsets, and its producer's id, epoch and sequence numbers, stay known.
// Mirrors DefaultRecordBatch.writeEmptyHeader.
func (b Batch) Empty() Batch {
	if b.Count() == 0 && len(b) == HeaderSize {
		return b
	}
	out := Batch(append(make([]byte, 0, HeaderSize), b[:HeaderSize]...))
	binary.BigEndian.PutUint16(out[atAttributes:], uint16(b.Attributes()&^(attrCodec|attrDeleteHorizon)))
	noTimestamp := NoTimestamp
	binary.BigEndian.PutUint64(out[atBaseTimestamp:], uint64(noTimestamp))
	out.resize(0)
	return out
}

// resize brings length, record count and CRC up to date.
func (b Batch) resize(count int) {
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthExcludes))
	binary.BigEndian.PutUint32(b[atCount:], uint32(count))
	b.seal()
}
