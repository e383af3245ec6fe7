package storage

import (
	"encoding/binary"
	"hash/crc32"
)

// testBatch makes a batch of format 2 by hand: storage may not import package batch, and needs only bytes that commitlog
// takes. Every record is empty: length 6, no attributes, no timestamp delta, offset delta, null key and value, no headers.
func testBatch(n int) []byte {
	b := make([]byte, 61, 61+8*n)
	for i := range n {
		record := []byte{0, 0}
		record = binary.AppendVarint(record, int64(i))
		record = append(record, 1, 1, 0)
		b = binary.AppendVarint(b, int64(len(record)))
		b = append(b, record...)
	}
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	binary.BigEndian.PutUint32(b[12:], 0xffffffff) // leader epoch
	b[16] = 2
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint64(b[27:], 1000)
	binary.BigEndian.PutUint64(b[35:], 1000)
	binary.BigEndian.PutUint64(b[43:], 1<<64-1)
	binary.BigEndian.PutUint16(b[51:], 1<<16-1)
	binary.BigEndian.PutUint32(b[53:], 1<<32-1)
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	sumUp(b)
	return b
}

// testBatchOf is the first batch of a producer, with one record.
func testBatchOf(producerID uint64, timestampMs int64) []byte {
	b := testBatch(1)
	binary.BigEndian.PutUint64(b[27:], uint64(timestampMs))
	binary.BigEndian.PutUint64(b[35:], uint64(timestampMs))
	binary.BigEndian.PutUint64(b[43:], producerID)
	binary.BigEndian.PutUint16(b[51:], 0)
	binary.BigEndian.PutUint32(b[53:], 0)
	sumUp(b)
	return b
}

func sumUp(b []byte) {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
}
