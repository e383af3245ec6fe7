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
	safe := safeOf(h.mem)
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
		var has span
		for _, dir := range c.plan.dirs() {
			if s, there := reach(safe, filepath.Join(dir, tp.String())); there {
				has = s
				break
			}
		}
		if has.end < high {
			c.fail(withinBounds, "%s is in sync for %v, whose watermark is %d, and has on disk what is below %d", h.name, tp, high, has.end)
		}
	}
}

// durable returns, for every partition in dirs, the records that are safe from a power loss.
func durable(mem *vfs.Mem, dirs []string) map[Partition]span {
	safe := safeOf(mem)
	kept := make(map[Partition]span)
	for _, dir := range dirs {
		folders, err := safe.List(dir)
		if err != nil {
			continue // not even made yet
		}
		for _, entry := range folders {
			folder := filepath.Join(dir, entry.Name)
			p, known := incarnation(safe, folder)
			if s, there := reach(safe, folder); known && there {
				kept[p] = s
			}
		}
	}
	return kept
}

// safeOf returns what is left of a disk if nothing survives a power loss that does not have to.
func safeOf(mem *vfs.Mem) *vfs.Mem { return mem.CrashClone(rand.New(rand.NewPCG(0, 0)), 0) }

// incarnation tells whose log a folder has, without the topic's name.
func incarnation(fs vfs.FS, folder string) (p Partition, known bool) {
	text, err := vfs.ReadFile(fs, folder+"/partition.metadata")
	if err != nil {
		return p, false
	}
	_, id, _ := strings.Cut(string(text), "topic_id: ")
	if p.id, err = kafka.ParseUUID(strings.TrimSpace(id)); err != nil {
		return p, false
	}
	_, err = fmt.Sscanf(folder[strings.LastIndexByte(folder, '-')+1:], "%d", &p.number)
	return p, err == nil // or it is being deleted
}

// span is the offsets from start to end, without end.
type span struct{ start, end kafka.Offset }

// reach returns the offsets of the log in a folder, up to the first hole or damage.
func reach(fs vfs.FS, folder string) (s span, there bool) {
	files, err := fs.List(folder)
	if err != nil {
		return s, false
	}
	for _, file := range files {
		var base kafka.Offset
		if _, err := fmt.Sscanf(file.Name, "%020d.log", &base); err != nil || !strings.HasSuffix(file.Name, ".log") {
			continue
		}
		if !there {
			s, there = span{base, base}, true
		}
		content, err := vfs.ReadFile(fs, filepath.Join(folder, file.Name))
		if err != nil || base != s.end {
			return s, there
		}
		for len(content) > 0 {
			var b batch.Batch
			if b, content, err = batch.Next(content); err == nil {
				err = b.VerifyCRC()
			}
			if err != nil {
				return s, there
			}
			s.end = b.NextOffset()
		}
	}
	return s, there
}
