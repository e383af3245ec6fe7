package sim

import (
	"slices"
	"strings"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// checkReplicas: when all is quiet every node has the same records of every partition, byte for byte.
func (c *course) checkReplicas() {
	different := ""
	same := func() bool {
		different = ""
		for _, p := range c.topics.all() {
			first := ""
			for i, h := range c.hosts {
				switch log := logOf(h.mem, c.plan.dirs(), p); {
				case i == 0:
					first = log
				case log != first:
					different = p.String()
					return false
				}
			}
		}
		return true
	}
	if !c.world.Within(patience, same) {
		c.fail("the replicas of %s differ %v after the last fault", different, patience)
	}
}

// logOf returns the segments of a partition on a disk, one after the other.
func logOf(mem *vfs.Mem, dirs []string, p Partition) string {
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
		var all strings.Builder
		for _, name := range names {
			content, err := vfs.ReadFile(mem, folder+"/"+name)
			if err != nil {
				return err.Error()
			}
			all.Write(content)
		}
		return all.String()
	}
	return ""
}
