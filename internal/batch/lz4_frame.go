package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/pierrec/lz4/v4"
)

// A frame is a descriptor (magic number, flags, largest size of a block, a checksum of that), blocks after their lengths, and
// a length of 0. Kafka's first implementation computed the checksum over the magic number in front of the descriptor, too:
// clients of format 0 write and expect that; format 1 came with the right one (KAFKA-3160, KIP-57).
const (
	lz4Magic      = 0x184D2204
	lz4MagicBytes = 4
	lz4Stored     = 1 << 31 // in a block's length: the block is not compressed
	lz4BlockSizes = 0x70    // in the descriptor's second byte: 4 is 64 KiB, and each more four times as much

	// In the first byte, the flags.
	lz4Version     = 0x40 // of two bits
	lz4Independent = 0x20 // no match reaches into the block before
	lz4BlockSums   = 0x10 // a checksum after each block
	lz4ContentSize = 0x08 // eight bytes of it follow the second byte
	lz4ContentSum  = 0x04 // a checksum after the end. Kafka does not look at it, and a batch has its own
)

var errLZ4Short = errors.New("frame ends early")

// lz4BlockBytes is how much one block of Kafka's own producer holds.
const lz4BlockBytes = 64 << 10

// lz4Packer makes a block of src in dst. It says 0, or an error, if the block has no room there.
type lz4Packer interface {
	CompressBlock(src, dst []byte) (int, error)
}

// lz4Hasty is for what is sent once, and not kept. Messages of formats 0 and 1 have a header each whose middle repeats; this compressor,
// whose table stays in a processor's first cache, finds that in half of the time, and with steps of four it makes blocks at most a
// twentieth larger. Of records of format 2 it makes no more than the other, and takes longer.
func lz4Hasty() lz4Packer { return &lz4.CompressorCCompat{Acceleration: 4} }

// lz4Frame is a frame as Kafka's own producer writes it.
func lz4Frame(packer lz4Packer) blocks {
	header := binary.LittleEndian.AppendUint32(nil, lz4Magic)
	descriptor := []byte{lz4Version | lz4Independent, 4 << 4}
	header = append(append(header, descriptor...), lz4Checksum(descriptor))
	appendBlock := func(dst, src []byte) []byte {
		at := len(dst) + 4
		dst = slices.Grow(dst, 4+len(src))[:at]
		length, err := packer.CompressBlock(src, dst[at:at+len(src)-1])
		if err == nil && length > 0 {
			dst = dst[:at+length]
		} else { // nothing is gained
			dst = append(dst, src...)
			length = len(src) | lz4Stored
		}
		binary.LittleEndian.PutUint32(dst[at-4:], uint32(length))
		return dst
	}
	return blocks{bytes: lz4BlockBytes, header: header, trailer: []byte{0, 0, 0, 0}, appendBlock: appendBlock}
}

// setHistoricLZ4Checksum makes a frame one of format 0.
func setHistoricLZ4Checksum(frame []byte) {
	if at := lz4ChecksumAt(frame); at >= 0 {
		frame[at] = lz4Checksum(frame[:at])
	}
}

// lz4ChecksumAt is the position of the checksum in a frame, negative if the frame is too short to have one.
func lz4ChecksumAt(frame []byte) int {
	if len(frame) < lz4MagicBytes+1 {
		return -1
	}
	at := lz4MagicBytes + 2
	if frame[lz4MagicBytes]&lz4ContentSize != 0 {
		at += 8
	}
	if at >= len(frame) {
		return -1
	}
	return at
}

func lz4Checksum(descriptor []byte) byte { return byte(xxh32(descriptor) >> 8) }

// decompressLZ4 appends what is in a frame to dst; historic ones may have any checksum. What comes after the frame is
// ignored. Mirrors Lz4BlockInputStream, and takes blocks that depend on each other, which that does not.
func decompressLZ4(dst, frame []byte, maxBytes int, historic bool) ([]byte, error) {
	at := lz4ChecksumAt(frame)
	if at < 0 {
		return nil, badLZ4(errLZ4Short)
	}
	flags, size := frame[lz4MagicBytes], frame[lz4MagicBytes+1]
	const known = lz4Independent | lz4BlockSums | lz4ContentSize | lz4ContentSum
	if binary.LittleEndian.Uint32(frame) != lz4Magic || flags&^known != lz4Version || size&^lz4BlockSizes != 0 || size < 4<<4 {
		return nil, badLZ4(fmt.Errorf("frame begins with % x", frame[:lz4MagicBytes+2]))
	}
	if !historic && frame[at] != lz4Checksum(frame[lz4MagicBytes:at]) {
		return nil, badLZ4(errors.New("checksum of the descriptor is wrong"))
	}
	most := 1 << (8 + 2*(size>>4))
	for rest := frame[at+1:]; ; {
		if len(rest) < 4 {
			return nil, badLZ4(errLZ4Short)
		}
		length := binary.LittleEndian.Uint32(rest)
		n := int(length &^ lz4Stored)
		switch rest = rest[4:]; {
		case n == 0:
			return dst, nil
		case n > most:
			return nil, badLZ4(fmt.Errorf("block of %d bytes, at most %d are allowed", n, most))
		case n > len(rest):
			return nil, badLZ4(errLZ4Short)
		}
		block := rest[:n]
		rest = rest[n:]
		if flags&lz4BlockSums != 0 {
			if len(rest) < 4 || binary.LittleEndian.Uint32(rest) != xxh32(block) {
				return nil, badLZ4(errors.New("checksum of a block is wrong"))
			}
			rest = rest[4:]
		}
		if length&lz4Stored != 0 {
			dst = append(growPlain(dst, n, maxBytes), block...)
		} else {
			var err error
			if dst, err = decompressLZ4Block(dst, block, min(most, 255*n), maxBytes, flags&lz4Independent == 0); err != nil {
				return nil, badLZ4(err)
			}
		}
		if len(dst) > maxBytes {
			return nil, ErrTooLarge
		}
	}
}

// decompressLZ4Block appends what is in a block, which are at most so many bytes, to dst. If it depends on the blocks before it,
// what they held is the end of dst.
func decompressLZ4Block(dst, block []byte, most, maxBytes int, dependent bool) ([]byte, error) {
	for room := min(most, 4*len(block)); ; room = min(most, 2*room) { // the block does not tell how much it holds
		dst = growPlain(dst, room, maxBytes)
		var before []byte
		if dependent {
			before = dst[max(0, len(dst)-lz4BlockBytes):]
		}
		room = min(most, cap(dst)-len(dst))
		n, err := lz4.UncompressBlockWithDict(block, dst[len(dst):len(dst)+room], before)
		if err == nil {
			return dst[:len(dst)+n], nil
		}
		if room == most {
			return nil, err
		}
	}
}

func badLZ4(err error) error { return fmt.Errorf("lz4: %w: %w", errUncompress, err) }

// xxh32 is the hash of that name with seed 0.
func xxh32(b []byte) uint32 {
	const (
		prime1 = 2654435761
		prime2 = 2246822519
		prime3 = 3266489917
		prime4 = 668265263
		prime5 = 374761393
	)
	h := uint32(prime5)
	all := uint32(len(b))
	if len(b) >= 16 {
		p1, p2 := uint32(prime1), uint32(prime2)
		lanes := [4]uint32{p1 + p2, p2, 0, -p1}
		for ; len(b) >= 16; b = b[16:] {
			for i := range lanes {
				lanes[i] = bits.RotateLeft32(lanes[i]+binary.LittleEndian.Uint32(b[4*i:])*prime2, 13) * prime1
			}
		}
		h = 0
		for i, rotation := range [4]int{1, 7, 12, 18} {
			h += bits.RotateLeft32(lanes[i], rotation)
		}
	}
	h += all
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*prime3, 17) * prime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*prime5, 11) * prime1
	}
	h = (h ^ h>>15) * prime2
	h = (h ^ h>>13) * prime3
	return h ^ h>>16
}
