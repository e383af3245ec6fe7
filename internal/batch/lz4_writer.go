package batch

import (
	"encoding/binary"
	"io"
	"slices"

	"github.com/pierrec/lz4/v4"
)

const (
	lz4BlockBytes  = 64 << 10
	lz4Stored      = 1 << 31 // in a block's length: the block is not compressed
	lz4FrameMagic  = 0x184D2204
	lz4FrameFlags  = 0x60 // version 1, blocks do not depend on each other, no checksums besides the descriptor's
	lz4FrameBlocks = 0x40 // of up to 64 KiB
)

// lz4Writer writes a frame at the codec's default level. The library's own writer does the same with two copies more, and
// makes its buffers anew for each frame.
type lz4Writer struct {
	out    io.Writer
	plain  []byte // less than a block
	packed []byte // not yet written to out: the header at first, then a block at a time
}

// Reset begins a new frame.
func (w *lz4Writer) Reset(out io.Writer) {
	w.out, w.plain = out, w.plain[:0]
	w.packed = binary.LittleEndian.AppendUint32(w.packed[:0], lz4FrameMagic)
	descriptor := []byte{lz4FrameFlags, lz4FrameBlocks}
	w.packed = append(w.packed, lz4FrameFlags, lz4FrameBlocks, byte(xxh32(descriptor)>>8))
}

func (w *lz4Writer) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		take := min(len(p), lz4BlockBytes-len(w.plain))
		w.plain, p = append(w.plain, p[:take]...), p[take:]
		if len(w.plain) == lz4BlockBytes {
			if err := w.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// flush writes what is held.
func (w *lz4Writer) flush() error {
	if len(w.plain) > 0 {
		w.appendBlock()
	}
	_, err := w.out.Write(w.packed)
	w.plain, w.packed = w.plain[:0], w.packed[:0]
	return err
}

func (w *lz4Writer) appendBlock() {
	at := len(w.packed)
	w.packed = slices.Grow(w.packed, 4+lz4.CompressBlockBound(len(w.plain)))
	block := w.packed[at+4 : at+4+lz4.CompressBlockBound(len(w.plain))]
	size, err := lz4.CompressBlock(w.plain, block, nil)
	length := uint32(size)
	if err != nil || size == 0 || size >= len(w.plain) {
		size = copy(block, w.plain)
		length = uint32(size) | lz4Stored
	}
	w.packed = binary.LittleEndian.AppendUint32(w.packed, length)
	w.packed = w.packed[:at+4+size] // the block is in place already
}

// Close ends the frame.
func (w *lz4Writer) Close() error {
	if len(w.plain) > 0 {
		w.appendBlock()
		w.plain = w.plain[:0]
	}
	w.packed = append(w.packed, 0, 0, 0, 0)
	return w.flush()
}
