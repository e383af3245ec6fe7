package cli

import "encoding/binary"

// murmur2 is the hash by which Java's producer picks the partition of a key (Utils.murmur2): MurmurHash2 of Austin
// Appleby, 32 bits, with a seed of Kafka's own.
func murmur2(key []byte) uint32 {
	const m, seed = 0x5bd1e995, 0x9747b28c
	h := seed ^ uint32(len(key))
	for ; len(key) >= 4; key = key[4:] {
		k := binary.LittleEndian.Uint32(key) * m
		k = (k ^ k>>24) * m
		h = h*m ^ k
	}
	for i := len(key) - 1; i >= 0; i-- {
		h ^= uint32(key[i]) << (8 * i)
	}
	if len(key) > 0 {
		h *= m
	}
	h = (h ^ h>>13) * m
	return h ^ h>>15
}

// partitionOfKey is where Java's producer puts a key in a topic of n partitions.
func partitionOfKey(key []byte, n int) int { return int(murmur2(key)&0x7fffffff) % n }
