package sim

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// checkDurable: what is below the watermark is on the disk of every in-sync replica, whatever becomes of its process. It looks at the
// disk of a node that is about to die, so that no power loss has to strike when the records would really be gone.
func (c *course) checkDurable(h *Host) {
	if !h.serves() || h.wiped || c.plan.Lazy || c.plan.has(Rot) {
		return
	}
	safe := h.mem.CrashClone(rand.New(rand.NewPCG(0, 0)), 0)
	for _, p := range h.life.node.Partitions() {
		tp := p.TopicPartition()
		if tp.Topic != kept && tp.Topic != recreated || !closed(p.Opened())() {
			continue
		}
		high := kafka.Offset(0)
		_, epoch := p.Leader()
		for _, other := range c.hosts {
			if !other.serves() {
				continue
			}
			for _, its := range other.life.node.Partitions() {
				leader, term := its.Leader()
				_, now, known := other.life.node.Image().Topics.Partition(tp)
				if known && leader == other.id && term == epoch && seatOf(its) == seatOf(p) && slices.Contains(now.ISR, h.id) {
					high = its.HighWatermark()
				}
			}
		}
		if end := durableEnd(safe, c.plan.dirs(), tp); end < high {
			c.fail(withinBounds, "%s is in sync for %v, whose watermark is %d, and has on disk what is below %d", h.name, tp, high, end)
		}
	}
}

// durableEnd is where a log ends on a disk.
func durableEnd(fs vfs.FS, dirs []string, tp kafka.TopicPartition) kafka.Offset {
	for _, dir := range dirs {
		folder := filepath.Join(dir, tp.String())
		files, err := fs.List(folder)
		if err != nil {
			continue
		}
		last := ""
		for _, f := range files {
			if strings.HasSuffix(f.Name, ".log") {
				last = max(last, f.Name)
			}
		}
		var end kafka.Offset
		if _, err := fmt.Sscanf(last, "%020d.log", &end); err != nil {
			return 0
		}
		content, err := vfs.ReadFile(fs, filepath.Join(folder, last))
		for err == nil && len(content) > 0 {
			var b batch.Batch
			if b, content, err = batch.Next(content); err == nil {
				end = b.NextOffset()
			}
		}
		return end
	}
	return 0
}
