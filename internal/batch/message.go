package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
)

// Formats 0 and 1 know messages, not batches: each has its own offset, length and CRC, and what is sent and fetched is a
// set of them, one after the other. A set is compressed as a whole: it becomes the value of one message, the wrapper,
// whose offset is that of the last message inside. Inside, offsets are absolute in format 0 and count from the first
// message in format 1 (KIP-31). Format 1 brought timestamps (KIP-32).
const (
	atMessageCRC        = 12
	atMessageMagic      = 16
	atMessageAttributes = 17
	atMessageTimestamp  = 18 // format 1 only

	// messageBytes0 and messageBytes1 are the sizes of a message without key and value.
	messageBytes0 = 26
	messageBytes1 = 34
)

// message is one message of format 0 or 1. Key and value alias the set.
type message struct {
	size       int // all of it, offset and length included
	offset     kafka.Offset
	magic      int8
	attributes int8
	timestamp  int64  // ms; NoTimestamp in format 0
	key        []byte // nil is null
	value      []byte // nil is null
}

func (m *message) codec() Codec     { return Codec(m.attributes & attrCodec) }
func (m *message) appendTime() bool { return m.magic == 1 && m.attributes&attrAppendTime != 0 }

// messageBytes is the size of a message without key and value.
func messageBytes(magic int8) int {
	if magic == 0 {
		return messageBytes0
	}
	return messageBytes1
}

// IsMessageSet reports whether records begin with a message of format 0 or 1.
func IsMessageSet(records []byte) bool {
	return len(records) > atMessageMagic && (records[atMessageMagic] == 0 || records[atMessageMagic] == 1)
}

// nextMessage cuts the first message off a set and verifies it. Every error is an ErrCorrupt, unless a message of another
// format than magic is there, which is INVALID_RECORD.
func nextMessage(set []byte, magic int8) (m message, rest []byte, err error) {
	size, offset, found, err := PeekHeader(set)
	switch {
	case errors.Is(err, ErrShort):
		return m, nil, fmt.Errorf("message set ends after %d bytes of a message: %w", len(set), ErrCorrupt)
	case err != nil:
		return m, nil, err
	case found != magic:
		return m, nil, fmt.Errorf("message of format %d in a set of format %d: %w", found, magic, kerr.InvalidRecord)
	case size < messageBytes(magic):
		return m, nil, fmt.Errorf("message of %d bytes, format %d needs %d: %w", size, magic, messageBytes(magic), ErrCorrupt)
	case size > len(set):
		return m, nil, fmt.Errorf("message set ends after %d of the %d bytes of a message: %w", len(set), size, ErrCorrupt)
	}
	b := set[:size:size]
	crc := binary.BigEndian.Uint32(b[atMessageCRC:])
	if sum := crc32.ChecksumIEEE(b[atMessageMagic:]); sum != crc {
		return m, nil, fmt.Errorf("message has CRC %08x, its bytes give %08x: %w", crc, sum, ErrCorrupt)
	}
	m = message{size: size, offset: offset, magic: magic, attributes: int8(b[atMessageAttributes]), timestamp: NoTimestamp}
	fields := b[atMessageTimestamp:]
	if magic == 1 {
		m.timestamp, fields = int64(binary.BigEndian.Uint64(fields)), fields[8:]
	}
	var ok bool
	if m.key, fields, ok = messageField(fields); ok {
		m.value, fields, ok = messageField(fields)
	}
	if !ok || len(fields) > 0 {
		return m, nil, fmt.Errorf("lengths of key and value do not fill the message of %d bytes: %w", size, ErrCorrupt)
	}
	return m, set[size:], nil
}

// messageField cuts bytes after their length off b. Any negative length is null.
func messageField(b []byte) (field, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n, b := int32(binary.BigEndian.Uint32(b)), b[4:]
	if n < 0 {
		return nil, b, true
	}
	if int(n) > len(b) {
		return nil, nil, false
	}
	return b[:n:n], b[n:], true
}

// appendMessage appends a message to dst, its CRC included. It does not look at m.size.
func appendMessage(dst []byte, m *message) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.offset))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0, byte(m.magic), byte(m.attributes)) // length and CRC: see sealMessage
	if m.magic == 1 {
		dst = binary.BigEndian.AppendUint64(dst, uint64(m.timestamp))
	}
	dst = appendMessageField(dst, m.key)
	dst = appendMessageField(dst, m.value)
	sealMessage(dst[at:])
	return dst
}

// appendMessageHead appends all of a message but its value, which has to follow and is not null.
func appendMessageHead(dst []byte, m *message) []byte {
	at := len(dst)
	head := *m
	head.value = nil
	dst = appendMessage(dst, &head)
	b := dst[at:]
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthExcludes+len(m.value)))
	binary.BigEndian.PutUint32(b[len(b)-4:], uint32(len(m.value)))
	crc := crc32.Update(crc32.ChecksumIEEE(b[atMessageMagic:]), crc32.IEEETable, m.value)
	binary.BigEndian.PutUint32(b[atMessageCRC:], crc)
	return dst
}

// sealMessage stores the length and the CRC of a message whose other bytes are there.
func sealMessage(b []byte) {
	binary.BigEndian.PutUint32(b[atLength:], uint32(len(b)-lengthExcludes))
	binary.BigEndian.PutUint32(b[atMessageCRC:], crc32.ChecksumIEEE(b[atMessageMagic:]))
}

// appendMessageField appends b after its length, which is -1 for nil.
func appendMessageField(dst, b []byte) []byte {
	if b == nil {
		return binary.BigEndian.AppendUint32(dst, 0xffffffff)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(b))), b...)
}
