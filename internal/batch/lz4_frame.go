package batch

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// Kafka's first implementation of LZ4 computed the checksum of a frame's descriptor over the magic number in front of it,
// too. Clients of format 0 write and expect that; format 1 came with the right one (KAFKA-3160, KIP-57).

const (
	lz4MagicBytes   = 4
	lz4ContentSize  = 0x08 // in the descriptor's first byte: eight bytes of it follow its second
	lz4DictionaryID = 0x01 // four bytes follow those
)

// lz4ChecksumAt is the position of the checksum in a frame, negative if the frame is too short to have one.
func lz4ChecksumAt(frame []byte) int {
	if len(frame) < lz4MagicBytes+1 {
		return -1
	}
	at := lz4MagicBytes + 2
	if frame[lz4MagicBytes]&lz4ContentSize != 0 {
		at += 8
	}
	if frame[lz4MagicBytes]&lz4DictionaryID != 0 {
		at += 4
	}
	if at >= len(frame) {
		return -1
	}
	return at
}

// withLZ4Checksum returns a copy of a frame whose descriptor has the right checksum, whatever stood there.
func withLZ4Checksum(frame []byte) []byte {
	at := lz4ChecksumAt(frame)
	if at < 0 {
		return frame
	}
	frame = slices.Clone(frame)
	frame[at] = byte(xxh32(frame[lz4MagicBytes:at]) >> 8)
	return frame
}

// setHistoricLZ4Checksum makes a frame one of format 0.
func setHistoricLZ4Checksum(frame []byte) {
	if at := lz4ChecksumAt(frame); at >= 0 {
		frame[at] = byte(xxh32(frame[:at]) >> 8)
	}
}

// xxh32 is the hash of that name with seed 0, of up to 18 bytes: a descriptor and the magic number have no more.
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
		h = 0
		for i, rotation := range [4]int{1, 7, 12, 18} {
			lane := bits.RotateLeft32(lanes[i]+binary.LittleEndian.Uint32(b[4*i:])*prime2, 13) * prime1
			h += bits.RotateLeft32(lane, rotation)
		}
		b = b[16:]
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
