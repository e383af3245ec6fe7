package batch

import (
	"encoding/binary"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// Producer is the idempotent producer of a batch.
type Producer struct {
	ID           int64
	Epoch        int16
	BaseSequence int32 // -1 in a control batch
}

// BuildOptions is the header of a batch to build.
type BuildOptions struct {
	BaseOffset    kafka.Offset
	LeaderEpoch   kafka.Epoch
	Codec         Codec
	Level         int       // compression level; 0 is the codec's default
	Producer      *Producer // nil: none
	Transactional bool
	Control       bool
	AppendTime    bool  // Timestamp is the timestamp of every record
	Timestamp     int64 // ms; used with AppendTime only
}

// Builder makes one batch, record by record: the coordinators' and the quorum's, and those of tests.
type Builder struct {
	o             BuildOptions
	buf           []byte // header, then records as yet uncompressed
	count         int32
	baseTimestamp int64
	maxTimestamp  int64
}

// NewBuilder returns a builder without records. The codec must be known and the level one that Compress takes.
func NewBuilder(o BuildOptions) *Builder {
	return &Builder{o: o, buf: make([]byte, HeaderSize, 512), maxTimestamp: NoTimestamp}
}

// Add appends a record; its offset follows the one before, whatever r.Offset says. The bytes of r are copied.
func (bu *Builder) Add(r Record) {
	if bu.count == 0 {
		bu.baseTimestamp = r.Timestamp
	}
	bu.maxTimestamp = max(bu.maxTimestamp, r.Timestamp)
	bu.buf = appendRecord(bu.buf, r, r.Timestamp-bu.baseTimestamp, bu.count)
	bu.count++
}

// appendRecord appends a record to dst, from its first byte to its last.
func appendRecord(dst []byte, r Record, timestampDelta int64, offsetDelta int32) []byte {
	size := 1 + varintSize(timestampDelta) + varintSize(int64(offsetDelta)) + bytesSize(r.Key) + bytesSize(r.Value) +
		varintSize(int64(len(r.Headers)))
	for _, h := range r.Headers {
		size += varintSize(int64(len(h.Key))) + len(h.Key) + bytesSize(h.Value)
	}
	b := binary.AppendVarint(dst, int64(size))
	b = append(b, byte(r.Attributes))
	b = binary.AppendVarint(b, timestampDelta)
	b = binary.AppendVarint(b, int64(offsetDelta))
	b = appendBytes(b, r.Key)
	b = appendBytes(b, r.Value)
	b = binary.AppendVarint(b, int64(len(r.Headers)))
	for _, h := range r.Headers {
		b = binary.AppendVarint(b, int64(len(h.Key)))
		b = append(b, h.Key...)
		b = appendBytes(b, h.Value)
	}
	return b
}

// Count returns the number of records so far.
func (bu *Builder) Count() int { return int(bu.count) }

// Size returns the size of the batch so far, in bytes before compression.
func (bu *Builder) Size() int { return len(bu.buf) }

// Build returns the batch. The builder must not be used after it. A batch needs a record.
func (bu *Builder) Build() Batch {
	invariant.Check(bu.count > 0, "batch built without records")
	b := Batch(bu.buf)
	if bu.o.Codec != None {
		packed, err := Compress(bu.o.Codec, bu.o.Level, b.Records())
		invariant.Check(err == nil, "batch built with %v level %d: %v", bu.o.Codec, bu.o.Level, err)
		b = append(b[:HeaderSize:HeaderSize], packed...)
	}
	b.writeHeader(bu.o, bu.count, bu.baseTimestamp, bu.maxTimestamp)
	return b
}

// writeHeader fills in the header of a batch whose records are there, CRC included.
func (b Batch) writeHeader(o BuildOptions, count int32, baseTimestamp, maxTimestamp int64) {
	attributes := int16(o.Codec)
	if o.Transactional {
		attributes |= attrTransactional
	}
	if o.Control {
		attributes |= attrControl
	}
	if o.AppendTime {
		attributes |= attrAppendTime
		maxTimestamp = o.Timestamp
	}
	producer := Producer{ID: NoProducer, Epoch: NoProducer, BaseSequence: NoProducer}
	if o.Producer != nil {
		producer = *o.Producer
	}
	b.Assign(o.BaseOffset, o.LeaderEpoch)
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthExcludes))
	b[atMagic] = 2
	binary.BigEndian.PutUint16(b[atAttributes:], uint16(attributes))
	binary.BigEndian.PutUint32(b[atLastOffsetDelta:], uint32(count-1))
	binary.BigEndian.PutUint64(b[atBaseTimestamp:], uint64(baseTimestamp))
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(maxTimestamp))
	binary.BigEndian.PutUint64(b[atProducerID:], uint64(producer.ID))
	binary.BigEndian.PutUint16(b[atProducerEpoch:], uint16(producer.Epoch))
	binary.BigEndian.PutUint32(b[atBaseSequence:], uint32(producer.BaseSequence))
	binary.BigEndian.PutUint32(b[atCount:], uint32(count))
	b.seal()
}

func varintSize(v int64) int {
	u := uint64(v)<<1 ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

func bytesSize(b []byte) int {
	if b == nil {
		return 1
	}
	return varintSize(int64(len(b))) + len(b)
}

// appendBytes appends b after its length, which is -1 for nil.
func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return binary.AppendVarint(dst, -1)
	}
	return append(binary.AppendVarint(dst, int64(len(b))), b...)
}
