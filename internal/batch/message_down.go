package batch

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

const (
	// downGather is how many bytes of messages are gathered before they go to the compressor.
	downGather = 32 << 10
	// downLevel is that of gzip and lz4 for readers: what it makes is sent once, and not kept.
	downLevel = 1
)

// DownOptions bounds a conversion to format 0 or 1.
type DownOptions struct {
	PlainBytes int      // as in CheckOptions
	Packers    *Packers // what compresses; nil: made for this
}

// Messages returns the records of b as a message set of format 0 or 1, in the same codec; headers are dropped, and in format
// 0 timestamps. It is empty for a control batch and for one without records. Mirrors RecordsUtil.downConvert.
//
// Errors: CORRUPT_MESSAGE where b does not match its CRC, INVALID_RECORD (ErrTooLarge too), and UNSUPPORTED_COMPRESSION_TYPE
// for zstd, which readers of these formats do not know.
func (b Batch) Messages(magic int8, o DownOptions) ([]byte, error) {
	if b.Control() || b.Count() <= 0 {
		return nil, nil
	}
	codec := b.Codec()
	if codec == Zstd {
		return nil, fmt.Errorf("batch at offset %d: zstd has no place in format %d: %w", b.BaseOffset(), magic, kerr.UnsupportedCompressionType)
	}
	if err := b.VerifyCRC(); err != nil {
		return nil, err
	}
	d := downward{b: b, magic: magic}
	if codec == None {
		d.recs = b.Records()
		// A record is at least minRecordBytes long, whatever the header says of their number.
		d.out = make([]byte, 0, len(d.recs)+min(int(b.Count()), len(d.recs)/minRecordBytes+1)*(messageBytes(magic)-minRecordBytes+1))
		err := d.each(0, func(m *message) error {
			d.out = appendMessage(d.out, m)
			return nil
		})
		return d.out, err
	}
	plain := o.Packers.buffer()
	var err error
	d.recs, err = b.decompress(*plain, o.PlainBytes, o.Packers)
	defer func() { o.Packers.keep(plain, d.recs) }()
	if err != nil {
		return nil, err
	}
	return d.wrapped(codec, o.Packers)
}

// downward is a conversion under way.
type downward struct {
	b     Batch
	recs  []byte // uncompressed
	magic int8
	out   []byte

	// What each has seen.
	last         kafka.Offset
	maxTimestamp int64
}

// each calls f for every record as a message, whose offset counts from base. The message is valid until f returns.
func (d *downward) each(base kafka.Offset, f func(*message) error) error {
	b := d.b
	m := message{magic: d.magic, attributes: d.attributes()}
	d.last, d.maxTimestamp = b.BaseOffset(), NoTimestamp
	var s scan
	for i, n := int32(0), b.Count(); i < n; i++ {
		if !s.next(d.recs) {
			return b.badRecord(i)
		}
		d.last = b.BaseOffset() + int64(s.offsetDelta)
		m.offset, m.timestamp, m.key, m.value = d.last-base, b.BaseTimestamp()+s.timestampDelta, nil, nil
		if b.LogAppendTime() {
			m.timestamp = b.MaxTimestamp()
		}
		d.maxTimestamp = max(d.maxTimestamp, m.timestamp)
		if s.keyLen >= 0 {
			m.key = d.recs[s.keyAt : s.keyAt+s.keyLen]
		}
		if s.valueLen >= 0 {
			m.value = d.recs[s.valueAt : s.valueAt+s.valueLen]
		}
		if err := f(&m); err != nil {
			return err
		}
	}
	return nil
}

func (d *downward) attributes() int8 {
	if d.magic == 1 && d.b.LogAppendTime() {
		return attrAppendTime
	}
	return 0
}

// first is the offset of the first record, which is not that of the batch once compaction has been there.
func (d *downward) first() (kafka.Offset, error) {
	var s scan
	if !s.next(d.recs) {
		return 0, d.b.badRecord(0)
	}
	return d.b.BaseOffset() + int64(s.offsetDelta), nil
}

// wrapped makes one message around the compressed set. The set itself, which can be many times larger than the records of
// format 2, is nowhere whole.
func (d *downward) wrapped(codec Codec, packers *Packers) ([]byte, error) {
	var base kafka.Offset // of offsets inside
	if d.magic == 1 {
		var err error
		if base, err = d.first(); err != nil {
			return nil, err
		}
	}
	wrapper := message{magic: d.magic, attributes: d.attributes() | int8(codec), value: []byte{}}
	d.out = appendMessage(make([]byte, 0, len(d.b)+len(d.b)/8), &wrapper)
	valueAt := len(d.out)
	packer, err := packers.compressor(codec, downLevel, (*appender)(&d.out))
	if err != nil {
		return nil, err
	}
	buffer := packers.buffer()
	gathered := *buffer
	defer func() { packers.keep(buffer, gathered) }()
	flush := func() error {
		_, err := packer.Write(gathered)
		gathered = gathered[:0]
		return err
	}
	err = d.each(base, func(m *message) error {
		if len(m.value) >= downGather { // not worth a copy
			gathered = appendMessageHead(gathered, m)
			if err := flush(); err != nil {
				return err
			}
			_, err := packer.Write(m.value)
			return err
		}
		if gathered = appendMessage(gathered, m); len(gathered) >= downGather {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = packer.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("batch at offset %d: %w", d.b.BaseOffset(), err)
	}
	if codec == LZ4 && d.magic == 0 {
		setHistoricLZ4Checksum(d.out[valueAt:])
	}
	binary.BigEndian.PutUint64(d.out[atBaseOffset:], uint64(d.last))
	if d.magic == 1 {
		binary.BigEndian.PutUint64(d.out[atMessageTimestamp:], uint64(d.maxTimestamp))
	}
	binary.BigEndian.PutUint32(d.out[valueAt-4:], uint32(len(d.out)-valueAt))
	sealMessage(d.out)
	return d.out, nil
}

// appender is a slice that is written to.
type appender []byte

func (a *appender) Write(p []byte) (int, error) {
	*a = append(*a, p...)
	return len(p), nil
}

var _ io.Writer = (*appender)(nil)

// MessagesFrom returns the part of a set made by Messages that begins with the first message whose offset is at least from:
// readers of single messages take what they are sent as what they have asked for. A compressed set is one message.
func MessagesFrom(set []byte, from kafka.Offset) []byte {
	for len(set) > 0 {
		size, offset, _, err := PeekHeader(set)
		if err != nil || size > len(set) || offset >= from {
			return set
		}
		set = set[size:]
	}
	return set
}
