package oracle

import (
	"encoding/binary"
	"hash/crc32"
	"time"

	"moldau/internal/batch"
)

// Positions in a message of formats 0 and 1.
const (
	atSetLength     = 8
	atSetCRC        = 12
	atSetMagic      = 16
	atSetAttributes = 17
)

// around makes one message whose value is a set, compressed.
func around(set []byte, magic byte, codec batch.Codec, now time.Time) ([]byte, error) {
	packed, err := batch.Compress(codec, 0, set)
	if err != nil {
		return nil, err
	}
	m := append(make([]byte, atSetMagic), magic, byte(codec))
	if magic == 1 {
		m = binary.BigEndian.AppendUint64(m, uint64(now.UnixMilli()))
	}
	m = binary.BigEndian.AppendUint32(m, 0xffffffff) // no key
	m = binary.BigEndian.AppendUint32(m, uint32(len(packed)))
	return sealed(append(m, packed...)), nil
}

// marked sets bits in the attributes of a message.
func marked(m []byte, bits byte) []byte {
	m[atSetAttributes] |= bits
	return sealed(m)
}

// sealed stores the length and the checksum of a message.
func sealed(m []byte) []byte {
	binary.BigEndian.PutUint32(m[atSetLength:], uint32(len(m)-atSetCRC))
	binary.BigEndian.PutUint32(m[atSetCRC:], crc32.ChecksumIEEE(m[atSetMagic:]))
	return m
}

// numbered gives the messages of a set offsets from one on. No checksum covers them.
func numbered(set []byte, from int64) []byte {
	for rest := set; len(rest) > 0; from++ {
		binary.BigEndian.PutUint64(rest, uint64(from))
		rest = rest[atSetCRC+binary.BigEndian.Uint32(rest[atSetLength:]):]
	}
	return set
}
