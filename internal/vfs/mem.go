package vfs

import (
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Mem is a disk in memory. It knows what is durable, so it can be cut off from power (CrashClone), and it is sparse:
// holes and preallocated space cost nothing, and a sync costs what was written since the last one. Make it with NewMem.
type Mem struct {
	buffers buffers

	mu       sync.Mutex // guards all below and every node; never held across a call out of this package
	now      func() time.Time
	capacity int64 // bytes
	used     int64 // pages, counted by what programs see
	changes  int64 // so far, of files and their names
	root     *node
	unsynced []nameChange       // name changes that a power cut can still undo, oldest first
	dirty    map[*node]struct{} // files that a sync would have to do something for
}

// node is a file or a folder. Two views of it are kept side by side: what programs see, and what a power cut leaves for
// certain. Folders have names and kept; files have a body.
type node struct {
	modTime time.Time
	changed int64            // Mem.changes when it was changed last
	names   map[string]*node // nil for a file
	kept    map[string]*node // durable names

	body
	handles int
	linked  bool // it has a name
	locked  bool
}

// touchLocked notes that a file or folder has changed.
func (m *Mem) touchLocked(n *node, now time.Time) {
	m.changes++
	n.modTime, n.changed = now, m.changes
}

func newFolder(now time.Time) *node {
	return &node{modTime: now, names: map[string]*node{}, kept: map[string]*node{}, linked: true}
}

func (n *node) isDir() bool { return n.names != nil }

// NewMem returns an empty disk of unlimited size, with a root folder. Its clock stands still until SetNow.
func NewMem() *Mem {
	epoch := time.UnixMilli(0)
	return &Mem{
		now:      func() time.Time { return epoch },
		capacity: math.MaxInt64,
		root:     newFolder(epoch),
		dirty:    map[*node]struct{}{},
	}
}

// SetNow gives the disk its clock, for modification times.
func (m *Mem) SetNow(now func() time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = now
}

// SetCapacity sets the size of the disk in bytes. What is on it stays, even if that is more.
func (m *Mem) SetCapacity(bytes int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.capacity = bytes
}

// Usage tells capacity and free space. Data takes whole pages of 4096 bytes; names take nothing.
func (m *Mem) Usage(path string) (Usage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.findLocked("statfs", path); err != nil {
		return Usage{}, err
	}
	return Usage{Total: m.capacity, Free: max(m.capacity-m.used, 0)}, nil
}

// clock asks the time, with no lock held: the clock is somebody else's code.
func (m *Mem) clock() time.Time {
	m.mu.Lock()
	now := m.now
	m.mu.Unlock()
	return now()
}

// elements splits a path; relative ones start at the root too.
func elements(path string) []string {
	clean := strings.Trim(filepath.ToSlash(filepath.Clean("/"+path)), "/")
	if clean == "" {
		return nil
	}
	return strings.Split(clean, "/")
}

// within tells whether path lies below folder.
func within(path, folder []string) bool {
	return len(path) > len(folder) && slices.Equal(path[:len(folder)], folder)
}

func (m *Mem) walkLocked(path []string) (*node, error) {
	at := m.root
	for _, name := range path {
		if !at.isDir() {
			return nil, syscall.ENOTDIR
		}
		if at = at.names[name]; at == nil {
			return nil, syscall.ENOENT
		}
	}
	return at, nil
}

func (m *Mem) findLocked(op, path string) (*node, error) {
	n, err := m.walkLocked(elements(path))
	if err != nil {
		return nil, &fs.PathError{Op: op, Path: path, Err: err}
	}
	return n, nil
}

// slotLocked finds the folder and the name in it that a path means, and what is there now, or nil.
func (m *Mem) slotLocked(path string) (slot, *node, error) {
	names := elements(path)
	if len(names) == 0 {
		return slot{}, nil, syscall.EBUSY // the root
	}
	last := len(names) - 1
	dir, err := m.walkLocked(names[:last])
	if err != nil {
		return slot{}, nil, err
	}
	if !dir.isDir() {
		return slot{}, nil, syscall.ENOTDIR
	}
	return slot{dir, names[last]}, dir.names[names[last]], nil
}

// Open opens a file.
func (m *Mem) Open(path string, flag Flag) (File, error) {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.openLocked(path, flag, now)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	n.handles++
	return &memFile{m: m, n: n, path: path, writable: flag&(Write|Create|Truncate) != 0}, nil
}

func (m *Mem) openLocked(path string, flag Flag, now time.Time) (*node, error) {
	at, n, err := m.slotLocked(path)
	switch {
	case err == syscall.EBUSY:
		return nil, syscall.EISDIR
	case err != nil:
		return nil, err
	case n == nil && flag&Create == 0:
		return nil, syscall.ENOENT
	case n == nil:
		n = &node{modTime: now}
		m.changeLocked(nameChange{to: at, node: n}, now)
		return n, nil
	case flag&Create != 0 && flag&Excl != 0:
		return nil, syscall.EEXIST
	case n.isDir():
		return nil, syscall.EISDIR
	}
	if flag&Truncate != 0 {
		m.truncateLocked(n, 0)
		m.touchLocked(n, now)
	}
	return n, nil
}

// MkdirAll makes a folder and its parents.
func (m *Mem) MkdirAll(path string) error {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.root
	for _, name := range elements(path) {
		next := at.names[name]
		if next == nil {
			next = newFolder(now)
			m.changeLocked(nameChange{to: slot{at, name}, node: next}, now)
		}
		if !next.isDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: syscall.ENOTDIR}
		}
		at = next
	}
	return nil
}

// Rename replaces newPath in one step: after a crash either all of it has happened or nothing.
func (m *Mem) Rename(oldPath, newPath string) error {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.renameLocked(oldPath, newPath, now); err != nil {
		return &os.LinkError{Op: "rename", Old: oldPath, New: newPath, Err: err}
	}
	return nil
}

func (m *Mem) renameLocked(oldPath, newPath string, now time.Time) error {
	from, n, err := m.slotLocked(oldPath)
	if err != nil {
		return err
	}
	if n == nil {
		return syscall.ENOENT
	}
	to, old, err := m.slotLocked(newPath)
	switch {
	case err != nil:
		return err
	case old != nil && old.isDir():
		return syscall.EEXIST
	case old == n:
		return nil
	case old != nil && n.isDir():
		return syscall.ENOTDIR
	case n.isDir() && within(elements(newPath), elements(oldPath)):
		return syscall.EINVAL
	}
	m.changeLocked(nameChange{from: from, to: to, node: n, gone: old}, now)
	return nil
}

// Remove removes a file or an empty folder. Open files live on, without a name, until they are closed.
func (m *Mem) Remove(path string) error {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	at, n, err := m.slotLocked(path)
	if err == nil && n == nil {
		err = syscall.ENOENT
	}
	if err == nil && len(n.names) > 0 {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return &fs.PathError{Op: "remove", Path: path, Err: err}
	}
	m.changeLocked(nameChange{from: at, node: n, gone: n}, now)
	return nil
}

// RemoveAll removes whatever is at path. It is not one step: a crash can leave any part.
func (m *Mem) RemoveAll(path string) error {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	at, n, err := m.slotLocked(path)
	if err == syscall.ENOENT || err == nil && n == nil {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "removeall", Path: path, Err: err}
	}
	m.removeTreeLocked(at, n, now)
	return nil
}

func (m *Mem) removeTreeLocked(at slot, n *node, now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		m.removeTreeLocked(slot{n, name}, n.names[name], now)
	}
	m.changeLocked(nameChange{from: at, node: n, gone: n}, now)
}

// List returns the entries of a folder sorted by name.
func (m *Mem) List(path string) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findLocked("open", path)
	if err != nil {
		return nil, err
	}
	if !n.isDir() {
		return nil, &fs.PathError{Op: "readdir", Path: path, Err: syscall.ENOTDIR}
	}
	entries := make([]Entry, 0, len(n.names))
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		entries = append(entries, n.names[name].entry(name))
	}
	return entries, nil
}

// Stat describes what is at path.
func (m *Mem) Stat(path string) (Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.findLocked("stat", path)
	if err != nil {
		return Entry{}, err
	}
	return n.entry(filepath.Base(path)), nil
}

func (n *node) entry(name string) Entry {
	return Entry{Name: name, Dir: n.isDir(), Size: n.cache.size, ModTime: n.modTime, Changed: n.changed}
}

// Lock takes an exclusive lock on a file. Locks end with the process: clones have none.
func (m *Mem) Lock(path string) (io.Closer, error) {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.openLocked(path, Create, now)
	if err == nil && n.locked {
		err = ErrLocked
	}
	if err != nil {
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	n.handles++
	n.locked = true
	return &memLock{memFile{m: m, n: n, path: path}}, nil
}

type memLock struct{ file memFile }

func (l *memLock) Close() error {
	l.file.m.mu.Lock()
	if !l.file.closed {
		l.file.n.locked = false
	}
	l.file.m.mu.Unlock()
	return l.file.Close()
}
