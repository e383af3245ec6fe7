package znode

import (
	"fmt"
	"runtime"
	"testing"
)

// Offsets of a hundred thousand partitions, as consumers of ZooKeeper's age keep them, take less than 512 bytes each.
func TestMemoryOfANode(t *testing.T) {
	const nodes = 100_000
	used := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	s := &shard{tree: newTree(), watches: watches{data: watchTable{}, child: watchTable{}}}
	for i := range nodes {
		path := fmt.Sprintf("/consumers/a-group/offsets/topic-%d/%d", i/100, i%100)
		s.apply(entry{kind: entryCreate, path: path, data: []byte("1234567")}, true)
	}
	each := (used() - before) / nodes
	t.Logf("%d bytes a node", each)
	if each > 512 {
		t.Errorf("a node takes %d bytes", each)
	}
	runtime.KeepAlive(s)
}
