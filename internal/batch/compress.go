package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kerr"
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

// Known reports whether c is one of the five codecs.
func (c Codec) Known() bool { return c >= None && c <= Zstd }

// ErrTooLarge says that decompressing was stopped because there is more than the limit. It wraps INVALID_RECORD.
var ErrTooLarge = fmt.Errorf("decompressed records are larger than allowed: %w", kerr.InvalidRecord)

// errUncompress is in the chain of every error about bytes that do not decompress. Not CORRUPT_MESSAGE, which a client
// would send again and again: where the CRC holds, the bytes are what the producer made.
var errUncompress = fmt.Errorf("records do not decompress: %w", kerr.InvalidRecord)

// Kafka's own block sizes.
const (
	xerialBlockBytes  = 32 << 10
	xerialHeaderBytes = 16
)

// xerialMagic begins a stream of the xerial snappy library: magic, then its version and the lowest that can read it.
const xerialMagic = "\x82SNAPPY\x00"

// Compress returns src compressed as Kafka's own producer frames it. Level 0 is the codec's default; otherwise gzip takes
// 1–9, lz4 1–17 and zstd 1–22 (Kafka's compression.*.level), snappy and none take no level.
func Compress(c Codec, level int, src []byte) ([]byte, error) {
	return (*Packers)(nil).compress(c, level, src)
}

// compress is Compress.
func (p *Packers) compress(c Codec, level int, src []byte) ([]byte, error) {
	switch c {
	case None:
		return src, nil
	case Zstd:
		w, err := p.zstd(level)
		if err != nil {
			return nil, err
		}
		defer p.keepZstd(level, w)
		return w.EncodeAll(src, nil), nil
	}
	out := make([]byte, 0, len(src)/2)
	w, err := p.compressor(c, level, (*appender)(&out))
	if err == nil {
		_, err = w.Write(src)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

// newCompressor returns what compresses into out as it is written to, for all codecs but zstd. Close it once all is written.
func newCompressor(c Codec, level int, out io.Writer) (packer, error) {
	switch c {
	case Gzip:
		if level == 0 {
			level = gzip.DefaultCompression
		}
		w, err := gzip.NewWriterLevel(out, level)
		if err != nil {
			return nil, fmt.Errorf("gzip level %d: %w", level, err)
		}
		return w, nil
	case Snappy:
		return newBlockWriter(xerialStream(), out), nil
	case LZ4:
		search := lz4Level(level)
		switch {
		case level == 1:
			return newBlockWriter(lz4Frame(lz4Hasty()), out), nil
		case search == lz4.Fast:
			return newBlockWriter(lz4Frame(new(lz4.Compressor)), out), nil
		}
		w := lz4.NewWriter(out)
		err := w.Apply(lz4.ConcurrencyOption(1), lz4.BlockSizeOption(lz4.Block64Kb), lz4.ChecksumOption(false),
			lz4.CompressionLevelOption(search))
		if err != nil {
			return nil, fmt.Errorf("lz4 level %d: %w", level, err)
		}
		return w, nil
	}
	return nil, unknownCodec(c)
}

// lz4Level maps Kafka's levels to the nine of this library. They are those of the C library, but for Kafka's default, 9, which
// is the fast compressor (Lz4BlockOutputStream).
func lz4Level(level int) lz4.CompressionLevel {
	switch {
	case level < 3 || level == 9:
		return lz4.Fast
	case level < 11:
		return lz4.CompressionLevel(1 << (8 + level - 2)) // 3 to 10 become Level1 to Level8
	}
	return lz4.Level9
}

// xerialStream is a stream of the xerial snappy library, as Kafka writes it.
func xerialStream() blocks {
	header := binary.BigEndian.AppendUint32([]byte(xerialMagic), 1)
	return blocks{bytes: xerialBlockBytes, header: binary.BigEndian.AppendUint32(header, 1), appendBlock: appendXerialBlock}
}

func appendXerialBlock(dst, chunk []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, 4+s2.MaxEncodedLen(len(chunk)))
	block := s2.EncodeSnappy(dst[at+4:cap(dst)], chunk) // snappy.Encode of this library takes twice as long to make it a little smaller
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(block)))
	return dst[:at+4+len(block)] // the block is in place already
}

// Decompress returns src decompressed; for None that is src itself. It never holds much more than maxBytes. The error is
// INVALID_RECORD (ErrTooLarge, or bytes that the codec does not understand) or UNSUPPORTED_COMPRESSION_TYPE.
func Decompress(c Codec, src []byte, maxBytes int) ([]byte, error) {
	if c != None {
		return decompress(nil, c, src, maxBytes, nil)
	}
	if len(src) > maxBytes {
		return nil, ErrTooLarge
	}
	return src, nil
}

// decompress is Decompress into dst, which is empty and may have room, for what is compressed.
func decompress(dst []byte, c Codec, src []byte, maxBytes int, packers *Packers) ([]byte, error) {
	switch c {
	case Gzip:
		r, err := packers.gunzip(src)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w: %w", errUncompress, err)
		}
		defer packers.keepGunzip(r)
		return drain(dst, c, r, len(src), maxBytes)
	case Snappy:
		return decompressSnappy(dst, src, maxBytes)
	case LZ4:
		return decompressLZ4(dst, src, maxBytes, false)
	case Zstd:
		return decompressZstd(src, maxBytes)
	}
	return nil, unknownCodec(c)
}

// decompressZstd uses DecodeAll, which needs no window besides its output: a stream would allocate the window that the
// frame declares before the first byte.
func decompressZstd(src []byte, maxBytes int) ([]byte, error) {
	// The library takes its memory limit for the window too. High levels declare a window far larger than a batch, so the
	// limit gives way to it, up to the window of the highest level.
	memory := uint64(max(zstd.MinWindowSize, maxBytes))
	var h zstd.Header
	if err := h.Decode(src); err == nil {
		if h.HasFCS && h.FrameContentSize > uint64(maxBytes) { // else it would be allocated on the frame's word
			return nil, ErrTooLarge
		}
		memory = max(memory, min(h.WindowSize, zstdMaxWindowBytes))
	}
	r, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxMemory(memory), zstd.WithDecoderMaxWindow(zstdMaxWindowBytes))
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	defer r.Close()
	out, err := r.DecodeAll(src, nil)
	switch {
	case errors.Is(err, zstd.ErrDecoderSizeExceeded) || err == nil && len(out) > maxBytes:
		return nil, ErrTooLarge
	case err != nil:
		return nil, fmt.Errorf("zstd: %w: %w", errUncompress, err)
	}
	return out, nil
}

// zstdWindowBytes is the window that the first frame declares, 0 if it is none.
func zstdWindowBytes(src []byte) int {
	var h zstd.Header
	if h.Decode(src) != nil {
		return 0
	}
	return int(min(h.WindowSize, zstdMaxWindowBytes))
}

// zstdMaxWindowBytes is the window of the highest level, 22.
const zstdMaxWindowBytes = 128 << 20

// drain reads r to its end. The first guess of the size follows from what arrived, and doubling does the rest.
func drain(dst []byte, c Codec, r io.Reader, srcBytes, maxBytes int) ([]byte, error) {
	out := slices.Grow(dst, min(4*srcBytes+512, maxBytes+1))
	for idle := 0; ; idle++ {
		if len(out) > maxBytes {
			return nil, ErrTooLarge
		}
		if idle == 100 { // a decoder that gives nothing and no error would keep us here for ever
			return nil, fmt.Errorf("%v: %w: %w", c, errUncompress, io.ErrNoProgress)
		}
		if len(out) == cap(out) {
			out = growPlain(out, 1, maxBytes)
		}
		n, err := r.Read(out[len(out):cap(out)])
		out = out[:len(out)+n]
		if n > 0 {
			idle = 0
		}
		if err == io.EOF && len(out) <= maxBytes {
			return out, nil
		}
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("%v: %w: %w", c, errUncompress, err)
		}
	}
}

// decompressSnappy tells the two framings apart by the xerial magic. No plain block begins with it: the first element
// would copy from before the start.
func decompressSnappy(dst, src []byte, maxBytes int) ([]byte, error) {
	if !bytes.HasPrefix(src, []byte(xerialMagic)) {
		return appendSnappy(dst, src, maxBytes)
	}
	if len(src) < xerialHeaderBytes {
		return nil, fmt.Errorf("snappy: %w: header ends early", errUncompress)
	}
	src = src[xerialHeaderBytes:]
	for len(src) > 0 {
		if len(src) < 4 {
			return nil, fmt.Errorf("snappy: %w: block length ends early", errUncompress)
		}
		n := binary.BigEndian.Uint32(src)
		if uint64(n) > uint64(len(src)-4) {
			return nil, fmt.Errorf("snappy: %w: block of %d bytes in %d", errUncompress, n, len(src)-4)
		}
		var err error
		if dst, err = appendSnappy(dst, src[4:4+n], maxBytes); err != nil {
			return nil, err
		}
		src = src[4+n:]
	}
	return dst, nil
}

// appendSnappy appends one decompressed block to dst.
func appendSnappy(dst, block []byte, maxBytes int) ([]byte, error) {
	size, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w: %w", errUncompress, err)
	}
	// The best a snappy element does is 64 bytes from 3. A block that declares more lies, and must not make us allocate.
	if size > 22*len(block) {
		return nil, fmt.Errorf("snappy: %w: %d bytes cannot hold %d", errUncompress, len(block), size)
	}
	if size > maxBytes-len(dst) {
		return nil, ErrTooLarge
	}
	at := len(dst)
	dst = growPlain(dst, size, maxBytes)[:at+size]
	if _, err := snappy.Decode(dst[at:at+size:at+size], block); err != nil {
		return nil, fmt.Errorf("snappy: %w: %w", errUncompress, err)
	}
	return dst, nil
}

// growPlain makes room for n more bytes. It doubles what grows, up to what may come.
func growPlain(dst []byte, n, maxBytes int) []byte {
	if cap(dst)-len(dst) < n {
		dst = slices.Grow(dst, max(n, min(cap(dst), maxBytes-len(dst))))
	}
	return dst
}

func unknownCodec(c Codec) error {
	return fmt.Errorf("%v: %w", c, kerr.UnsupportedCompressionType)
}
