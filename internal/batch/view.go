package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// HeaderSize is the number of bytes before the first record.
const HeaderSize = 61

// PeekSize is the number of bytes that PeekHeader needs.
const PeekSize = 17

// Positions of the header's fields.
const (
	atBaseOffset      = 0
	atLength          = 8
	atLeaderEpoch     = 12
	atMagic           = 16
	atCRC             = 17
	atAttributes      = 21
	atLastOffsetDelta = 23
	atBaseTimestamp   = 27
	atMaxTimestamp    = 35
	atProducerID      = 43
	atProducerEpoch   = 51
	atBaseSequence    = 53
	atCount           = 57

	// lengthExcludes is what the length field does not count: base offset and itself.
	lengthExcludes = 12
)

// Bits of the attributes.
const (
	attrCodec         = 0x07
	attrAppendTime    = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

// NoTimestamp is the timestamp of a record or batch that has none.
const NoTimestamp int64 = -1

// NoProducer is the producer id, epoch and base sequence of a batch that no idempotent producer made.
const NoProducer = -1

var (
	// ErrShort says that a buffer ends before the batch that begins in it.
	ErrShort = errors.New("buffer ends inside a record batch")
	// ErrCorrupt is in the chain of every error about bytes that cannot be a batch or do not match their CRC. It is
	// Kafka's CORRUPT_MESSAGE.
	ErrCorrupt error = kerr.CorruptMessage
	// ErrOldMagic says that a record is in format 0 or 1. It wraps INVALID_RECORD, which Produce answers from v3 on.
	ErrOldMagic = fmt.Errorf("record format older than 2: %w", kerr.InvalidRecord)
)

// Batch is one whole record batch of format 2. Values come from Next or Builder.Build and are at least HeaderSize long.
type Batch []byte

// BaseOffset returns the offset of the first record that was ever in the batch.
func (b Batch) BaseOffset() kafka.Offset { return int64(binary.BigEndian.Uint64(b[atBaseOffset:])) }

// LastOffset returns the offset of the last record that was ever in the batch; compaction does not lower it.
func (b Batch) LastOffset() kafka.Offset { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset returns the offset after the batch.
func (b Batch) NextOffset() kafka.Offset { return b.LastOffset() + 1 }

// Size returns the length in bytes, header included.
func (b Batch) Size() int { return len(b) }

// LeaderEpoch returns the epoch of the leader that appended the batch, or -1.
func (b Batch) LeaderEpoch() kafka.Epoch { return int32(binary.BigEndian.Uint32(b[atLeaderEpoch:])) }

// Magic returns the format, always 2.
func (b Batch) Magic() int8 { return int8(b[atMagic]) }

// CRC returns the stored CRC-32C of everything from the attributes on.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[atCRC:]) }

// Attributes returns all attribute bits.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[atAttributes:])) }

// Codec returns how Records is compressed. It may be a value that no codec has.
func (b Batch) Codec() Codec { return Codec(b.Attributes() & attrCodec) }

// LogAppendTime reports whether MaxTimestamp is the broker's time and stands for every record's.
func (b Batch) LogAppendTime() bool { return b.Attributes()&attrAppendTime != 0 }

// Transactional reports whether the batch is part of a transaction.
func (b Batch) Transactional() bool { return b.Attributes()&attrTransactional != 0 }

// Control reports whether the records are control records, which consumers do not see.
func (b Batch) Control() bool { return b.Attributes()&attrControl != 0 }

// DeleteHorizonSet reports whether the base timestamp is the time from which tombstones may go (KIP-534).
func (b Batch) DeleteHorizonSet() bool { return b.Attributes()&attrDeleteHorizon != 0 }

// LastOffsetDelta returns LastOffset - BaseOffset.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[atLastOffsetDelta:])) }

// BaseTimestamp returns what record timestamps are counted from, in ms.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atBaseTimestamp:])) }

// MaxTimestamp returns the largest timestamp of a record, in ms, or -1.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[atMaxTimestamp:])) }

// ProducerID returns the idempotent producer's id, or -1.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[atProducerID:])) }

// ProducerEpoch returns the idempotent producer's epoch, or -1.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[atProducerEpoch:])) }

// BaseSequence returns the sequence number of the first record, or -1.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[atBaseSequence:])) }

// LastSequence returns the sequence number of the last record, or -1. Sequence numbers wrap from 2^31-1 to 0.
func (b Batch) LastSequence() int32 {
	base := b.BaseSequence()
	if base == NoProducer {
		return NoProducer
	}
	return (base + b.LastOffsetDelta()) & 0x7fffffff
}

// Count returns the number of records that the header declares.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[atCount:])) }

// Records returns the bytes after the header, compressed as Codec says.
func (b Batch) Records() []byte { return b[HeaderSize:] }

// VerifyCRC returns an ErrCorrupt when the bytes do not match their CRC.
func (b Batch) VerifyCRC() error {
	if sum := b.sum(); sum != b.CRC() {
		return fmt.Errorf("batch at offset %d has CRC %08x, its bytes give %08x: %w", b.BaseOffset(), b.CRC(), sum, ErrCorrupt)
	}
	return nil
}

func (b Batch) sum() uint32 {
	return crc32.Checksum(b[atAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// PeekHeader reads what a scan needs from the first PeekSize bytes of h: the size of the whole batch, its base offset and
// its magic. Formats 0 and 1 have these three fields in the same places. The error is ErrShort or an ErrCorrupt.
func PeekHeader(h []byte) (sizeBytes int, baseOffset kafka.Offset, magic int8, err error) {
	if len(h) < PeekSize {
		return 0, 0, 0, ErrShort
	}
	length := int32(binary.BigEndian.Uint32(h[atLength:]))
	baseOffset = int64(binary.BigEndian.Uint64(h[atBaseOffset:]))
	magic = int8(h[atMagic])
	// The least a format 0 record has after the length field is CRC, magic, attributes and two lengths.
	least := int32(14)
	if magic >= 2 {
		least = HeaderSize - lengthExcludes
	}
	if magic < 0 || magic > 2 {
		return 0, baseOffset, magic, fmt.Errorf("batch at offset %d has unknown format %d: %w", baseOffset, magic, ErrCorrupt)
	}
	if length < least {
		return 0, baseOffset, magic, fmt.Errorf("batch at offset %d declares %d bytes, fewer than a header: %w", baseOffset, length, ErrCorrupt)
	}
	return int(length) + lengthExcludes, baseOffset, magic, nil
}

// Next cuts the first batch off buf. The error is ErrShort when buf ends inside the batch, ErrOldMagic for formats 0 and
// 1, otherwise an ErrCorrupt. The CRC is not looked at. An empty buf is ErrShort.
func Next(buf []byte) (b Batch, rest []byte, err error) {
	size, base, magic, err := PeekHeader(buf)
	if err != nil {
		return nil, buf, err
	}
	if magic != 2 {
		return nil, buf, fmt.Errorf("record at offset %d has magic %d: %w", base, magic, ErrOldMagic)
	}
	if size > len(buf) {
		return nil, buf, ErrShort
	}
	return Batch(buf[:size:size]), buf[size:], nil
}
