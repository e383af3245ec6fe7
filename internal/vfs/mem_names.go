package vfs

import (
	"io/fs"
	"slices"
	"syscall"
	"time"
)

// slot is a place for a name.
type slot struct {
	dir  *node
	name string
}

// nameChange is a create (no from), a remove (no to) or a rename. It is durable when every folder it touches has been
// synced since; until then a power cut leaves all of it or nothing.
type nameChange struct {
	from, to slot
	node     *node
	gone     *node   // what loses its name by it: the removed node, or the file that a rename replaces
	waits    []*node // folders whose sync is outstanding
}

// changeLocked makes a change to the names that programs see.
func (m *Mem) changeLocked(c nameChange, now time.Time) {
	m.changes++
	c.node.changed = m.changes
	if c.from.dir != nil {
		delete(c.from.dir.names, c.from.name)
		m.touchLocked(c.from.dir, now)
		c.waits = append(c.waits, c.from.dir)
	}
	if c.gone != nil {
		c.gone.linked = false
		m.freeLocked(c.gone)
	}
	if c.to.dir != nil {
		c.to.dir.names[c.to.name] = c.node
		m.touchLocked(c.to.dir, now)
		c.node.linked = true
		if c.to.dir != c.from.dir {
			c.waits = append(c.waits, c.to.dir)
		}
	}
	m.unsynced = append(m.unsynced, c)
}

// keep makes the change to the durable names.
func (c *nameChange) keep() {
	if c.from.dir != nil {
		delete(c.from.dir.kept, c.from.name)
	}
	if c.to.dir != nil {
		c.to.dir.kept[c.to.name] = c.node
	}
}

// touched is a set of places and folders, to find out which name changes hang together: one cannot be durable without an
// earlier one in the same place, and a folder cannot go before all that happened in it.
type touched struct {
	slots map[slot]bool
	dirs  map[*node]bool
}

func newTouched() touched { return touched{slots: map[slot]bool{}, dirs: map[*node]bool{}} }

func (t touched) slot(c nameChange) bool { return t.slots[c.from] || t.slots[c.to] }

func (t touched) addSlots(c nameChange) {
	for _, s := range []slot{c.from, c.to} {
		if s.dir != nil {
			t.slots[s] = true
		}
	}
}

// SyncDir makes the names in a folder durable. A rename between two folders is durable when both have been synced.
func (m *Mem) SyncDir(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	dir, err := m.findLocked("sync", path)
	if err != nil {
		return err
	}
	if !dir.isDir() {
		return &fs.PathError{Op: "sync", Path: path, Err: syscall.ENOTDIR}
	}
	m.syncNamesLocked(func(n *node) bool { return n == dir })
	return nil
}

// syncNamesLocked makes the changes durable that wait only for folders which are synced now, and those that they rest on.
func (m *Mem) syncNamesLocked(synced func(dir *node) bool) {
	durable := make([]bool, len(m.unsynced))
	needed := newTouched()
	for i := len(m.unsynced) - 1; i >= 0; i-- {
		c := &m.unsynced[i]
		c.waits = slices.DeleteFunc(c.waits, synced)
		if len(c.waits) > 0 && !needed.slot(*c) && !needed.dirs[c.from.dir] && !needed.dirs[c.to.dir] {
			continue
		}
		durable[i] = true
		needed.addSlots(*c)
		if c.gone != nil && c.gone.isDir() {
			needed.dirs[c.gone] = true
		}
	}
	rest := m.unsynced[:0]
	for i, c := range m.unsynced {
		if durable[i] {
			c.keep()
		} else {
			rest = append(rest, c)
		}
	}
	clear(m.unsynced[len(rest):])
	m.unsynced = rest
}

// OpenDisk opens the disk as a whole.
func (m *Mem) OpenDisk(path string) (Disk, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.findLocked("open", path); err != nil {
		return nil, err
	}
	return memDisk{m, path}, nil
}

type memDisk struct {
	m    *Mem
	path string
}

func (d memDisk) Sync() error  { return d.m.SyncFS(d.path) }
func (d memDisk) failSync()    { d.m.failSyncFS() }
func (d memDisk) Close() error { return nil }

// SyncFS makes all data and all names durable.
func (m *Mem) SyncFS(path string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.findLocked("syncfs", path); err != nil {
		return err
	}
	m.syncNamesLocked(func(*node) bool { return true })
	for n := range m.dirty {
		n.sync()
	}
	clear(m.dirty)
	return nil
}
