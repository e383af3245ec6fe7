package batch

import (
	"encoding/binary"
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

// lz4Frame is a frame at the codec's default level. The library's own writer does the same with two copies more, and makes its
// buffers anew for each frame.
func lz4Frame() blocks {
	header := binary.LittleEndian.AppendUint32(nil, lz4FrameMagic)
	descriptor := []byte{lz4FrameFlags, lz4FrameBlocks}
	header = append(append(header, descriptor...), byte(xxh32(descriptor)>>8))
	return blocks{bytes: lz4BlockBytes, header: header, trailer: []byte{0, 0, 0, 0}, appendBlock: appendLZ4Block}
}

func appendLZ4Block(dst, plain []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, 4+lz4.CompressBlockBound(len(plain)))
	block := dst[at+4 : at+4+lz4.CompressBlockBound(len(plain))]
	size, err := lz4.CompressBlock(plain, block, nil)
	length := uint32(size)
	if err != nil || size == 0 || size >= len(plain) {
		size = copy(block, plain)
		length = uint32(size) | lz4Stored
	}
	dst = binary.LittleEndian.AppendUint32(dst, length)
	return dst[:at+4+size] // the block is in place already
}
