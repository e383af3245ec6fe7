package batch

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// Record is one record. Key, Value and the headers' values alias the batch, or the buffer it was decompressed into.
type Record struct {
	Attributes int8
	Offset     kafka.Offset
	Timestamp  int64  // ms, or -1
	Key        []byte // nil is null
	Value      []byte // nil is null
	Headers    []Header
}

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte // nil is null
}

// minRecordBytes is the size of the smallest record: length, attributes, two deltas, two null lengths, header count.
const minRecordBytes = 7

// Each calls f for every record in order and stops at f's first error. Compressed records are decompressed first, up to
// a limit that follows from the batch's size. A batch without records is legal: compaction leaves such. The error is f's,
// INVALID_RECORD or UNSUPPORTED_COMPRESSION_TYPE.
func (b Batch) Each(f func(Record) error) error {
	recs, err := b.plain()
	if err != nil {
		return err
	}
	var s scan
	for i, n := int32(0), b.Count(); i < n; i++ {
		if !s.next(recs) {
			return b.badRecord(i)
		}
		r := Record{
			Attributes: s.attributes,
			Offset:     b.BaseOffset() + int64(s.offsetDelta),
			Timestamp:  b.BaseTimestamp() + s.timestampDelta,
		}
		if b.LogAppendTime() {
			r.Timestamp = b.MaxTimestamp()
		}
		if s.keyLen >= 0 {
			r.Key = recs[s.keyAt : s.keyAt+s.keyLen : s.keyAt+s.keyLen]
		}
		if s.valueLen >= 0 {
			r.Value = recs[s.valueAt : s.valueAt+s.valueLen : s.valueAt+s.valueLen]
		}
		if s.headerCount > 0 {
			r.Headers = s.headers(recs)
		}
		if err := f(r); err != nil {
			return err
		}
	}
	if s.at != len(recs) {
		return b.badRest(len(recs) - s.at)
	}
	return nil
}

// OffsetOfMaxTimestamp returns the largest timestamp of a record, in ms, and the offset of the first record that has it;
// -1 and -1 if the batch has no records. It decompresses like Each. Mirrors RecordBatch.offsetOfMaxTimestamp.
func (b Batch) OffsetOfMaxTimestamp() (timestamp int64, offset kafka.Offset, err error) {
	recs, err := b.plain()
	if err != nil {
		return -1, -1, err
	}
	timestamp, offset = NoTimestamp, -1
	var s scan
	for i, n := int32(0), b.Count(); i < n; i++ {
		if !s.next(recs) {
			return -1, -1, b.badRecord(i)
		}
		ts := b.BaseTimestamp() + s.timestampDelta
		if b.LogAppendTime() {
			ts = b.MaxTimestamp()
		}
		if offset < 0 || ts > timestamp {
			timestamp, offset = ts, b.BaseOffset()+int64(s.offsetDelta)
		}
	}
	return timestamp, offset, nil
}

// plain returns the records uncompressed.
func (b Batch) plain() ([]byte, error) { return b.plainWithin(0) }

// plainWithin is plain with a limit that is lower than usual; 0 is the usual one.
func (b Batch) plainWithin(limitBytes int) ([]byte, error) {
	if b.Codec() == None {
		return b.Records(), nil
	}
	return b.decompress(nil, limitBytes, nil)
}

// decompress is plainWithin for compressed records, into dst, which is empty and may have room.
func (b Batch) decompress(dst []byte, limitBytes int, packers *Packers) ([]byte, error) {
	limit := b.plainLimit()
	if limitBytes > 0 {
		limit = min(limit, limitBytes)
		// The codec lets a large window pass, up to that of the highest level, and has to hold it.
		if b.Codec() == Zstd && zstdWindowBytes(b.Records()) > limitBytes {
			return nil, ErrTooLarge
		}
	}
	recs, err := decompress(dst, b.Codec(), b.Records(), limit, packers)
	if err != nil {
		return nil, fmt.Errorf("records of the batch at offset %d: %w", b.BaseOffset(), err)
	}
	return recs, nil
}

// plainLimit is how many bytes the records may have once decompressed. Sixteen times is more than codecs reach on what
// people send; the floor lets a small batch of very repetitive records pass, and keeps what a bomb can take bounded.
func (b Batch) plainLimit() int {
	const floorBytes = 64 << 20
	return max(floorBytes, 16*len(b))
}

func (b Batch) badRecord(i int32) error {
	return fmt.Errorf("record %d of %d of the batch at offset %d is malformed or missing: %w", i, b.Count(), b.BaseOffset(), kerr.InvalidRecord)
}

func (b Batch) badRest(n int) error {
	return fmt.Errorf("%d bytes follow the last of %d records of the batch at offset %d: %w", n, b.Count(), b.BaseOffset(), kerr.InvalidRecord)
}

// scan walks over uncompressed records. It is what the fast path of Produce runs for every record, so it keeps positions,
// not slices, allocates nothing, and says only that a record is bad, not why.
type scan struct {
	at     int // where the next record begins
	bodyAt int // where this one begins, behind its length

	attributes     int8
	timestampDelta int64
	offsetDelta    int32
	keyAt          int
	keyLen         int // negative is null
	valueAt        int
	valueLen       int // negative is null
	headerCount    int
	headersAt      int
}

// next steps over one record and reports false if its bytes do not have the shape of one. The rules are those of
// DefaultRecord.readFrom: every length fits its surroundings, the record's length is exactly what its fields need, and
// any negative length but a header key's is null.
//
// One-byte numbers are read in place, not by a call: this halves the time per record, and the compiler does not inline
// anything that holds both ways.
func (s *scan) next(recs []byte) bool {
	at := s.at
	var length int32
	if at < len(recs) && recs[at] < 0x80 {
		length, at = zigzag(recs[at]), at+1
	} else if length, at = varint(recs, at); at < 0 {
		return false
	}
	if length < minRecordBytes-1 || int(length) > len(recs)-at {
		return false
	}
	end := at + int(length)
	rec := recs[:end] // all that follows must not look past this record
	s.bodyAt = at
	s.attributes = int8(rec[at])
	at++
	if c := rec[at]; c < 0x80 {
		s.timestampDelta, at = int64(zigzag(c)), at+1
	} else if s.timestampDelta, at = varlong(rec, at); at < 0 {
		return false
	}
	if at < len(rec) && rec[at] < 0x80 {
		s.offsetDelta, at = zigzag(rec[at]), at+1
	} else if s.offsetDelta, at = varint(rec, at); at < 0 {
		return false
	}
	var n int32
	if at < len(rec) && rec[at] < 0x80 {
		n, at = zigzag(rec[at]), at+1
	} else if n, at = varint(rec, at); at < 0 {
		return false
	}
	if int(n) > len(rec)-at {
		return false
	}
	s.keyAt, s.keyLen = at, int(n)
	at += max(0, int(n))
	if at < len(rec) && rec[at] < 0x80 {
		n, at = zigzag(rec[at]), at+1
	} else if n, at = varint(rec, at); at < 0 {
		return false
	}
	if int(n) > len(rec)-at {
		return false
	}
	s.valueAt, s.valueLen = at, int(n)
	at += max(0, int(n))
	s.at, s.headerCount, s.headersAt = end, 0, end
	if at+1 == end && rec[at] == 0 {
		return true // no headers, as most
	}
	if n, at = varint(rec, at); at < 0 || n < 0 || int(n) > len(rec)-at {
		return false
	}
	s.headerCount, s.headersAt = int(n), at
	for range n {
		if _, _, _, _, at = header(rec, at); at < 0 {
			return false
		}
	}
	return at == end
}

// headers returns the headers of the record that next stepped over.
func (s *scan) headers(recs []byte) []Header {
	hs := make([]Header, s.headerCount) // each is at least two bytes of recs
	at := s.headersAt
	for i := range hs {
		var keyAt, keyLen, valueAt, valueLen int
		keyAt, keyLen, valueAt, valueLen, at = header(recs, at)
		hs[i].Key = string(recs[keyAt : keyAt+keyLen])
		if valueLen >= 0 {
			hs[i].Value = recs[valueAt : valueAt+valueLen : valueAt+valueLen]
		}
	}
	return hs
}

// header finds key and value of the header at position at. next is where it ends, negative if it is malformed.
func header(b []byte, at int) (keyAt, keyLen, valueAt, valueLen, next int) {
	k, at := varint(b, at)
	if at < 0 || k < 0 || int(k) > len(b)-at {
		return 0, 0, 0, 0, -1
	}
	keyAt, keyLen = at, int(k)
	v, at := varint(b, at+keyLen)
	if at < 0 || int(v) > len(b)-at {
		return 0, 0, 0, 0, -1
	}
	return keyAt, keyLen, at, int(v), at + max(0, int(v))
}

// zigzag returns the number that one byte of a varint stands for.
func zigzag(c byte) int32 { return int32(c>>1) ^ -int32(c&1) }

// varint reads the zigzag number at position at and returns the position after it, negative if there is none.
func varint(b []byte, at int) (v int32, next int) {
	if rest := b[at:]; len(rest) >= 2 && rest[1] < 0x80 && rest[0] >= 0x80 { // lengths of 64 to 8,191
		u := uint32(rest[0]&0x7f) | uint32(rest[1])<<7
		return int32(u>>1) ^ -int32(u&1), at + 2
	}
	var u uint32
	for shift := 0; shift < 35 && at < len(b); shift += 7 {
		c := b[at]
		at++
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), at
		}
	}
	return 0, -1
}

// varlong is varint for 64 bits.
func varlong(b []byte, at int) (v int64, next int) {
	var u uint64
	for shift := 0; shift < 70 && at < len(b); shift += 7 {
		c := b[at]
		at++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), at
		}
	}
	return 0, -1
}
