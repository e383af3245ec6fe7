package batch

import (
	"errors"
	"strconv"
)

// Codec is how the records of a batch are compressed.
type Codec int8

// The codecs of format 2.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2
	LZ4    Codec = 3
	Zstd   Codec = 4
)

// String returns Kafka's name of the codec.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return "codec " + strconv.Itoa(int(c))
}

// Compress returns src compressed. Level 0 is the codec's default.
func Compress(c Codec, level int, src []byte) ([]byte, error) { return nil, errors.ErrUnsupported }

// Decompress returns src decompressed, or an error if that is more than maxBytes.
func Decompress(c Codec, src []byte, maxBytes int) ([]byte, error) { return nil, errors.ErrUnsupported }
