package vfs

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
)

// Survivors goes through the disks that a crash at this moment can leave, each with a few words on how it came about:
// first as a killed process leaves it, then as up to n power cuts do, from nothing kept to all kept and mixtures. A power
// cut after which the disk holds what an earlier one held, or the kill, is left out: no two disks hold the same.
func (m *Mem) Survivors(rng *rand.Rand, n int) iter.Seq2[string, *Mem] {
	return func(yield func(string, *Mem) bool) {
		seed := maphash.MakeSeed()
		killed := m.KillClone()
		seen := map[uint64]bool{killed.sum(seed): true}
		if !yield("killed", killed) {
			return
		}
		keeps := [...]float64{0, 1, 0.5, 0.5, 0.3, 0.7}
		for i := range n {
			keep := keeps[i%len(keeps)]
			disk := m.CrashClone(rng, keep)
			if sum := disk.sum(seed); !seen[sum] {
				seen[sum] = true
				if !yield(fmt.Sprintf("power lost, keep %v, variant %d", keep, i), disk) {
					return
				}
			}
		}
	}
}

// sum is a hash of all names and contents that programs see.
func (m *Mem) sum(seed maphash.Seed) uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var h maphash.Hash
	h.SetSeed(seed)
	m.root.sum(&h)
	return h.Sum64()
}

func (n *node) sum(h *maphash.Hash) {
	number := func(i int64) {
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(i))
		h.Write(b[:])
	}
	if n.isDir() {
		number(int64(len(n.names)))
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			number(int64(len(name)))
			h.WriteString(name)
			n.names[name].sum(h)
		}
		return
	}
	number(-1 - n.cache.size)
	for _, i := range slices.Sorted(maps.Keys(n.cache.pages)) {
		if p := n.cache.pages[i]; *p != (page{}) { // a page of zeros reads as a hole does
			number(i)
			h.Write(p[:])
		}
	}
}
