package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// checkReplicas: when all is quiet every node has the same records of every partition, byte for byte. What lies before the log
// start of one may still be on the disk of another.
func (c *course) checkReplicas() {
	different := ""
	same := func() bool {
		for _, p := range c.topics.all() {
			if different = c.differ(p); different != "" {
				return false
			}
		}
		return true
	}
	if !c.world.Within(patience, same) {
		c.fail(sameReplicas, "%s %v after the last fault", different, patience)
	}
}

// differ tells in what the replicas of a partition differ, "" if they do not.
func (c *course) differ(p Partition) string {
	var first []stretch
	var firstHost *Host
	for _, h := range c.hosts {
		if !c.has(h, p) {
			continue
		}
		log := logOf(h.mem, c.plan.dirs(), p)
		if p.compacted() {
			log = newestOf(log)
		}
		if firstHost == nil {
			first, firstHost = log, h
			continue
		}
		if at, differ := firstDifference(first, log); differ {
			return fmt.Sprintf("%s and %s differ in %v from offset %d on", firstHost.name, h.name, p, at)
		}
	}
	return ""
}

// stretch is a batch, or one record of it, in few bytes.
type stretch struct {
	offset kafka.Offset
	sum    uint64
}

// firstDifference compares two logs from where both begin.
func firstDifference(a, b []stretch) (at kafka.Offset, differ bool) {
	if len(a) == 0 || len(b) == 0 {
		return 0, len(a) != len(b)
	}
	start := max(a[0].offset, b[0].offset)
	from := func(log []stretch) []stretch {
		i, _ := slices.BinarySearchFunc(log, start, func(s stretch, offset kafka.Offset) int { return cmp.Compare(s.offset, offset) })
		return log[i:]
	}
	a, b = from(a), from(b)
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return min(a[i].offset, b[i].offset), true
		}
	}
	switch {
	case len(a) > len(b):
		return a[len(b)].offset, true
	case len(b) > len(a):
		return b[len(a)].offset, true
	}
	return 0, false
}

// has tells whether a node has a replica of a partition, as it knows itself.
func (c *course) has(h *Host, p Partition) bool {
	_, now, known := h.life.node.Image().Topics.Partition(kafka.TopicPartition{Topic: p.topic, Partition: p.number})
	return known && slices.Contains(now.Replicas, h.id)
}

// newestOf leaves the newest record of each key, which compaction leaves alone.
func newestOf(log []stretch) []stretch {
	newest := make(map[uint64]stretch)
	for _, s := range log {
		newest[s.sum>>32] = s
	}
	return slices.SortedFunc(maps.Values(newest), func(a, b stretch) int { return cmp.Compare(a.offset, b.offset) })
}

// logOf returns the batches of a partition on a disk, or its records if it is compacted: then the upper half of a sum tells the
// key. What cannot be read ends it.
func logOf(mem *vfs.Mem, dirs []string, p Partition) (log []stretch) {
	for _, content := range segmentsOf(mem, dirs, p) {
		for len(content) > 0 {
			b, rest, err := batch.Next(content)
			if err != nil {
				return log
			}
			content = rest
			if !p.compacted() {
				log = append(log, stretch{b.BaseOffset(), sumOf(b)})
				continue
			}
			err = b.Each(func(r batch.Record) error {
				log = append(log, stretch{r.Offset, sumOf(r.Key)<<32 | sumOf(r.Value)>>32})
				return nil
			})
			if err != nil {
				return log
			}
		}
	}
	return log
}

// segmentsOf returns the segments of a partition on a disk, in order.
func segmentsOf(mem *vfs.Mem, dirs []string, p Partition) (all [][]byte) {
	for _, dir := range dirs {
		folder := dir + "/" + kafka.TopicPartition{Topic: p.topic, Partition: p.number}.String()
		files, err := mem.List(folder)
		if err != nil {
			continue
		}
		var names []string
		for _, f := range files {
			if strings.HasSuffix(f.Name, ".log") {
				names = append(names, f.Name)
			}
		}
		slices.Sort(names)
		for _, name := range names {
			if content, err := vfs.ReadFile(mem, folder+"/"+name); err == nil {
				all = append(all, content)
			}
		}
		return all
	}
	return nil
}
