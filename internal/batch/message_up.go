package batch

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// UpOptions bounds a conversion from format 0 or 1.
type UpOptions struct {
	MaxMessageBytes int // max.message.bytes, for each message of the set; 0 means no limit
	// PlainBytes is how much memory the messages of a compressed set may take once they are opened; ErrTooLarge if they need
	// more. 0 is the largest limit, which follows from the set's size.
	PlainBytes int
	Packers    *Packers // what compresses; nil: made for this
}

// FromMessages returns a whole message set of format 0 or 1 as one batch of format 2, in the same codec. Offsets in the set
// mean nothing, save that those of a compressed one of format 1 must not lead to negative ones: records are numbered from 0. What came
// without a timestamp has NoTimestamp. The result is what Check takes; nothing of it aliases set.
//
// A compressed set is one message, in which no other is compressed. Mirrors LogValidator; stricter in one point: a set that
// ends inside a message is refused, where Apache Kafka appends what came before and tells the producer that all is well.
//
// Errors: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP (negative, and not NoTimestamp),
// UNSUPPORTED_COMPRESSION_TYPE.
func FromMessages(set []byte, o UpOptions) (Batch, error) {
	if !IsMessageSet(set) {
		return nil, fmt.Errorf("no message of format 0 or 1 in %d bytes: %w", len(set), ErrCorrupt)
	}
	magic := int8(set[atMessageMagic])
	var u upward
	for rest := set; len(rest) > 0; {
		m, after, err := nextMessage(rest, magic)
		if err != nil {
			return nil, err
		}
		if o.MaxMessageBytes > 0 && m.size > o.MaxMessageBytes {
			return nil, fmt.Errorf("message of %d bytes, max.message.bytes is %d: %w", m.size, o.MaxMessageBytes, kerr.MessageTooLarge)
		}
		if codec := m.codec(); codec != None {
			if m.size < len(set) {
				return nil, refuse("more than one message around a compressed set")
			}
			return fromWrapper(&m, o)
		}
		if u.records == nil {
			u.records = make([]byte, HeaderSize, HeaderSize+len(set)) // no record is longer than its message: see below
		}
		if err := u.add(&m); err != nil {
			return nil, err
		}
		rest = after
	}
	b := Batch(u.records)
	b.writeHeader(u.header(None), u.count, u.baseTimestamp, u.maxTimestamp)
	return b, nil
}

// fromWrapper opens a compressed set.
func fromWrapper(wrapper *message, o UpOptions) (Batch, error) {
	codec := wrapper.codec()
	switch {
	case codec == Zstd:
		return nil, refuse("format %d knows no zstd", wrapper.magic)
	case wrapper.value == nil:
		return nil, refuse("compressed set without a value")
	}
	limit := Batch(wrapper.value).plainLimit()
	if o.PlainBytes > 0 {
		limit = min(limit, o.PlainBytes)
	}
	buffer := o.Packers.buffer()
	var plain []byte
	var err error
	if codec == LZ4 && wrapper.magic == 0 {
		plain, err = decompressLZ4(*buffer, wrapper.value, limit, true)
	} else {
		plain, err = decompress(*buffer, codec, wrapper.value, limit, o.Packers)
	}
	defer func() { o.Packers.keep(buffer, plain) }()
	if err != nil {
		return nil, fmt.Errorf("message set: %w", err)
	}
	// Records take the place of the messages that they are made of: no record is longer than its message (the header of a
	// record is at most 32 bytes of numbers, at most 23 without a timestamp; that of a message has 34, and 26 in format 0), and
	// each of its fields is written before the place in the message that it is read from.
	u := upward{records: plain[:0]}
	var last kafka.Offset
	for rest := plain; len(rest) > 0; {
		m, after, err := nextMessage(rest, wrapper.magic)
		if err != nil {
			return nil, fmt.Errorf("in a compressed set: %w", err)
		}
		if m.codec() != None {
			return nil, refuse("compressed message %d in a compressed set", u.count)
		}
		if wrapper.appendTime() {
			m.attributes, m.timestamp = m.attributes|attrAppendTime, wrapper.timestamp
		}
		if err := u.add(&m); err != nil {
			return nil, err
		}
		last, rest = m.offset, after
	}
	switch {
	case u.count == 0:
		return nil, refuse("compressed set without messages")
	case wrapper.magic == 1 && wrapper.offset != 0 && wrapper.offset < last: // 0 is what librdkafka sent
		return nil, refuse("offset %d of a compressed set, that of its last message is %d", wrapper.offset, last)
	}
	b := make(Batch, HeaderSize, HeaderSize+len(wrapper.value)+len(wrapper.value)/8)
	packer, err := o.Packers.compressor(codec, 0, (*appender)(&b))
	if err == nil {
		_, err = packer.Write(u.records)
	}
	if err == nil {
		err = packer.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("message set: %w", err)
	}
	b.writeHeader(u.header(codec), u.count, u.baseTimestamp, u.maxTimestamp)
	return b, nil
}

// upward is the records of format 2 so far.
type upward struct {
	records       []byte
	count         int32
	baseTimestamp int64
	maxTimestamp  int64
	appendTime    bool // a message says that its timestamp is the broker's
}

func (u *upward) add(m *message) error {
	if m.timestamp < NoTimestamp {
		return fmt.Errorf("timestamp %d of message %d: %w", m.timestamp, u.count, kerr.InvalidTimestamp)
	}
	if u.count == 0 {
		u.baseTimestamp, u.maxTimestamp = m.timestamp, m.timestamp
	}
	u.maxTimestamp = max(u.maxTimestamp, m.timestamp)
	u.appendTime = u.appendTime || m.appendTime()
	u.records = appendRecord(u.records, Record{Key: m.key, Value: m.value}, m.timestamp-u.baseTimestamp, u.count)
	u.count++
	return nil
}

// header is that of the batch. Whether a producer may claim append time is for Check to say.
func (u *upward) header(codec Codec) BuildOptions {
	return BuildOptions{LeaderEpoch: -1, Codec: codec, AppendTime: u.appendTime, Timestamp: u.maxTimestamp}
}
