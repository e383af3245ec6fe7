package sim

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/vfs"
)

// harm does something to a node's disk.
func (c *course) harm(h *Host, f Fault) {
	rng := c.rng
	switch f {
	case SlowPeer:
		peers := []string{"producer0>", "producer1>", "consumer0>", "consumer1>", "admin>"}
		if c.plan.Group {
			peers = append(peers, "member0>", "member1>")
		}
		c.world.Hold(peers[rng.IntN(len(peers))]+h.name, c.while())
	case SlowDisk:
		parts := []string{"/orders-0/", "/orders-1/", "/__cluster_metadata-0/", "/moldau.journal", " sync", " rename", ".index"}
		if c.plan.Group {
			parts = append(parts, "/__consumer_offsets-")
		}
		part := parts[rng.IntN(len(parts))]
		c.world.HoldWhere(h.name+"'s disk: "+part, c.while(), func(name string) bool {
			return strings.HasPrefix(name, "disk "+h.name+" ") && strings.Contains(name, part)
		})
	case FullDisk:
		usage, err := h.mem.Usage("/")
		if err != nil {
			c.fail(sound, "%v", err)
			return
		}
		c.world.Note("%s has a full disk", h.name)
		h.mem.SetCapacity(usage.Total - usage.Free + rng.Int64N(64<<10))
		h.full = true
	case DiskError:
		h.life.disk.expect(c.trouble())
	case Rot:
		c.rot(h)
	case SideFile:
		c.die(h, false)
		c.damage(h)
		c.revive(h)
	}
}

// trouble picks an operation that will fail. Syncs are picked most: what a node does then decides about acked records.
func (c *course) trouble() *trouble {
	kinds := []vfs.OpKind{
		vfs.OpSyncData, vfs.OpSyncData, vfs.OpSyncData, vfs.OpSyncData, vfs.OpSync, vfs.OpSyncDir, vfs.OpWrite, vfs.OpWrite,
		vfs.OpRename, vfs.OpRemove, vfs.OpCreate, vfs.OpTruncate, vfs.OpRead, vfs.OpRead, vfs.OpOpen, vfs.OpList,
	}
	paths := []string{"/", "/", "/orders-", "/orders-0/", "/__cluster_metadata-0/", "/moldau.journal", ".log"}
	if c.plan.Group {
		paths = append(paths, "/__consumer_offsets-")
	}
	return &trouble{kind: kinds[c.rng.IntN(len(kinds))], path: paths[c.rng.IntN(len(paths))], nth: 1 + c.rng.IntN(30)}
}

// damage takes away, cuts or garbles a file of a partition that can be made anew from the log or the journal, on a disk that nobody
// uses.
func (c *course) damage(h *Host) {
	endings := []string{".index", ".timeindex", "leader-epoch-checkpoint"}
	if c.plan.RetainBytes == 0 && !c.plan.DeleteRecords && !c.plan.Compact {
		endings = append(endings, ".snapshot") // what is only there is not in the log any more otherwise
	}
	if c.plan.TopicIDs {
		endings = append(endings, "partition.metadata")
	}
	ending := endings[c.rng.IntN(len(endings))]
	path := c.pick(h, func(name string) bool { return strings.HasSuffix(name, ending) })
	if path == "" {
		return
	}
	content, err := vfs.ReadFile(h.mem, path)
	how := c.rng.IntN(3)
	switch {
	case err != nil:
	case how == 0 || len(content) == 0:
		c.world.Note("%s loses %s", h.name, path)
		err = h.mem.Remove(path)
	case how == 1:
		c.world.Note("%s has half of %s", h.name, path)
		err = rewrite(h.mem, path, content[:len(content)/2])
	case ending == "partition.metadata" && !journalled(h.mem, path):
		return // in its first second a topic id that reads well, but is another, cannot be told from that of an older topic
	default:
		c.world.Note("%s has garbage in %s", h.name, path)
		content[c.rng.IntN(len(content))] ^= byte(1 + c.rng.IntN(255))
		err = rewrite(h.mem, path, content)
	}
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // a full disk has cut the file off, which is harm enough
		c.fail(sound, "harm %s: %v", path, err)
	}
}

// journalled tells whether the topic id in a partition.metadata is in the journal of its directory too, with this partition's number
// and name behind it: the other partitions of the topic have the same id.
func journalled(fs vfs.FS, path string) bool {
	folder := filepath.Dir(path)
	id, err := commitlog.ReadPartitionMetadata(fs, folder)
	if err != nil {
		return false
	}
	var number byte
	if _, err := fmt.Sscanf(filepath.Base(folder), kept+"-%d", &number); err != nil {
		return false
	}
	journal, err := vfs.ReadFile(fs, filepath.Join(filepath.Dir(folder), "moldau.journal"))
	return err == nil && bytes.Contains(journal, slices.Concat(id[:], []byte{number}, []byte(kept)))
}

// rot changes a byte of a segment that is not written to any more. All such bytes are on one node: with more copies gone nobody
// could promise anything.
func (c *course) rot(h *Host) {
	if c.rotten == nil {
		c.rotten = &rotten{host: h, folders: make(map[string]bool)}
	}
	h = c.rotten.host
	path := c.pick(h, func(name string) bool { return strings.HasSuffix(name, ".log") })
	if path == "" {
		return
	}
	folder := path[:strings.LastIndexByte(path, '/')]
	files, err := h.mem.List(folder)
	if err != nil {
		return
	}
	var last string
	for _, file := range files {
		if strings.HasSuffix(file.Name, ".log") {
			last = max(last, folder+"/"+file.Name)
		}
	}
	content, err := vfs.ReadFile(h.mem, path)
	if err != nil || path == last || len(content) == 0 {
		return
	}
	at := c.rng.IntN(len(content))
	if !c.elsewhere(h, folder, content, at) {
		return
	}
	content[at] ^= byte(1 + c.rng.IntN(255))
	f, err := h.mem.Open(path, vfs.Write)
	if err == nil {
		_, err = f.WriteAt(content[at:at+1], int64(at))
		if err == nil {
			err = f.Sync()
		}
		_ = f.Close()
	}
	if err != nil {
		c.fail(sound, "rot: %v", err)
	}
	c.rotten.folders[folder] = true
	c.world.Note("%s has another byte at %d of %s", h.name, at, path)
}

// elsewhere tells whether the batch at a position of a segment is on every other node too.
func (c *course) elsewhere(without *Host, folder string, content []byte, at int) bool {
	p := Partition{topic: kept}
	if _, err := fmt.Sscanf(folder[strings.LastIndexByte(folder, '-')+1:], "%d", &p.number); err != nil {
		return false
	}
	hit, left := stretch{}, content
	for len(left) > 0 {
		b, rest, err := batch.Next(left)
		if err != nil {
			return false
		}
		if hit = (stretch{b.BaseOffset(), sumOf(b)}); len(content)-len(rest) > at {
			break
		}
		left = rest
	}
	for _, h := range c.hosts {
		if !h.serves() || h != without && c.has(h, p) && !slices.Contains(logOf(h.mem, c.plan.dirs(), p), hit) {
			return false
		}
	}
	return true
}

// rots tells whether a node's disk changes bytes. A start cuts a log where it finds one, some moments before the node registers and so
// leaves the in-sync set.
func (c *course) rots(h *Host) bool { return c.rotten != nil && c.rotten.host == h }

// rotten is the node whose disk changes bytes, and the folders that it has hit.
type rotten struct {
	host    *Host
	folders map[string]bool
}

// replace is what an operator does about a damaged replica: the node is stopped, the folder goes, and it is copied anew. Only
// the topic that rots has to be elsewhere: of another one the node may have the only replica, and keeps it.
func (c *course) replace() {
	if c.rotten == nil || len(c.rotten.folders) == 0 {
		return
	}
	h := c.rotten.host
	if !c.world.Within(patience, func() bool { return c.spare(h, func(topic string) bool { return topic == kept }) }) {
		c.fail(inTime, "nobody but %s is in sync for %s %v after the last fault", h.name, kept, patience)
		return
	}
	c.stop(h)
	for _, folder := range slices.Sorted(maps.Keys(c.rotten.folders)) {
		if err := h.mem.RemoveAll(folder); err != nil {
			c.fail(sound, "%v", err)
		}
	}
	c.rotten = nil
	c.start(h)
	c.settle(h)
}

// pick returns one file of a partition of the topic that is kept, "" if there is none.
func (c *course) pick(h *Host, wanted func(name string) bool) string {
	var paths []string
	for _, dir := range c.plan.dirs() {
		folders, err := h.mem.List(dir)
		if err != nil {
			continue
		}
		for _, folder := range folders {
			if !strings.HasPrefix(folder.Name, kept+"-") || strings.Count(folder.Name, "-") > 1 {
				continue
			}
			files, err := h.mem.List(dir + "/" + folder.Name)
			if err != nil {
				continue
			}
			for _, file := range files {
				if wanted(file.Name) {
					paths = append(paths, dir+"/"+folder.Name+"/"+file.Name)
				}
			}
		}
	}
	if len(paths) == 0 {
		return ""
	}
	slices.Sort(paths)
	return paths[c.rng.IntN(len(paths))]
}

// rewrite replaces the content of a file, durably.
func rewrite(mem *vfs.Mem, path string, content []byte) error {
	f, err := mem.Open(path, vfs.Write)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// relieve gives a full disk its space back.
func (c *course) relieve(h *Host) {
	if h.full {
		c.world.Note("the disk of %s has space", h.name)
		h.mem.SetCapacity(math.MaxInt64)
		h.full = false
	}
}

// heal ends every fault and has every node run.
func (c *course) heal() {
	c.calm = true
	c.world.LetGo()
	c.network.Mend()
	for _, h := range c.hosts { // first of all: what is expected of one disk may come true while another node starts
		if h.life != nil {
			h.life.disk.expect(nil)
		}
	}
	for _, h := range c.hosts {
		c.relieve(h)
		if h.life != nil && h.harmed() {
			c.repair(h)
		}
		if h.life == nil {
			c.start(h)
		}
	}
	for _, h := range c.hosts {
		if c.broken() {
			return
		}
		c.settle(h)
	}
	c.replace()
}

// repair is what happens about a broken disk that works again: an operator starts the node anew, or the power fails too.
func (c *course) repair(h *Host) {
	if c.plan.has(PowerLoss) && !c.calm && c.rng.IntN(2) == 0 {
		c.die(h, true)
	} else if err := h.Stop(); err != nil {
		c.world.Note("a harmed node stopped with an error")
	}
	c.start(h)
}
