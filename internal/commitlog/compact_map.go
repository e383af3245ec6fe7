package commitlog

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"

	"moldau/internal/kafka"
)

// keyMap holds the latest offset of each key, in a fixed amount of memory. It does not hold keys but 128 bits of a
// cryptographic hash of each, so nobody can make two keys that it takes for one. Mirrors SkimpyOffsetMap.
type keyMap struct {
	slots []keySlot
	used  int
	limit int // of used
}

type keySlot struct {
	high, low uint64
	next      kafka.Offset // the key's offset + 1; 0 = the slot is empty
}

const keySlotBytes = 24

// newKeyMap makes a map for as many keys as fit into maxBytes when no more than load of it, of (0, 1], is used; but not
// for more than keys, and for at least one.
func newKeyMap(maxBytes int64, load float64, keys int64) *keyMap {
	most := max(2, maxBytes/keySlotBytes)
	wanted := max(2, int64(float64(keys)/load)+2)
	slots := min(most, wanted)
	// An empty slot has to be left, or the search for a key that is not there never ends.
	limit := max(1, min(int(float64(slots)*load), int(slots)-1))
	return &keyMap{slots: make([]keySlot, slots), limit: limit}
}

// find returns the key's slot, or the empty one that it would get.
func (m *keyMap) find(key []byte) (*keySlot, uint64, uint64) {
	sum := sha256.Sum256(key)
	high, low := binary.BigEndian.Uint64(sum[:]), binary.BigEndian.Uint64(sum[8:])
	at, _ := bits.Mul64(high, uint64(len(m.slots))) // spreads evenly over any number of slots
	for {
		s := &m.slots[at]
		if s.next == 0 || s.high == high && s.low == low {
			return s, high, low
		}
		if at++; at == uint64(len(m.slots)) {
			at = 0
		}
	}
}

// put notes a key's latest offset. It reports false, and does nothing, if the key is new and the map full.
func (m *keyMap) put(key []byte, offset kafka.Offset) bool {
	s, high, low := m.find(key)
	if s.next == 0 {
		if m.used == m.limit {
			return false
		}
		m.used++
		s.high, s.low = high, low
	}
	s.next = max(s.next, offset+1)
	return true
}

// superseded tells whether the map has a later offset of the key.
func (m *keyMap) superseded(key []byte, offset kafka.Offset) bool {
	s, _, _ := m.find(key)
	return s.next > offset+1
}
