package sim

import "hash/fnv"

// checkBytesLocked: whoever reads a batch of a partition gets the same bytes, from whichever replica and whenever. Compaction
// alone may write a batch anew; its records are compared one by one all the same.
func (h *History) checkBytesLocked(p Partition, t *told, got []record) {
	if p.compacted() {
		return
	}
	for _, r := range got {
		if before, again := t.bytes[r.offset]; again && before != r.batch {
			h.faultLocked(sameBytes, "%v offset %d was read in a batch of other bytes before (epoch %d)", p, r.offset, r.epoch)
		}
		t.bytes[r.offset] = r.batch
	}
}

// sumOf tells batches apart.
func sumOf(batch []byte) uint64 {
	h := fnv.New64a()
	h.Write(batch) // never fails
	return h.Sum64()
}
