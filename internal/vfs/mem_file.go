package vfs

import (
	"io"
	"io/fs"
	"maps"
	"syscall"
)

const (
	pageBytes   = 4096
	sectorBytes = 512 // what a disk writes as a whole, if at all
)

// page is a piece of a file. A page that is not dirty never changes again, so views and clones share it.
type page [pageBytes]byte

// image is the content of a file: pages that are missing are holes. Bytes of a page behind size are zero.
type image struct {
	size  int64
	pages map[int64]*page // by offset / pageBytes
}

// body is what a file has of content. Bits of dirty are the sectors of a page that were written since the last sync.
type body struct {
	cache    image // what programs see
	disk     image // what a power cut leaves for certain
	dirty    map[int64]uint8
	cut      int64 // smallest size since the last sync; means nothing above disk.size
	reserved int64 // pages from the start that Allocate or Reserve has paid for
	charged  int64 // pages that count against the capacity: reserved ones, and those in cache behind them
}

func pagesFor(size int64) int64 { return (size + pageBytes - 1) / pageBytes }

// sectors is the mask of the sectors that [from, to) of a page touches.
func sectors(from, to int64) uint8 {
	first, end := from/sectorBytes, (to+sectorBytes-1)/sectorBytes
	return uint8(1<<end - 1<<first)
}

// sync makes the content durable. It costs what has changed.
func (b *body) sync() {
	if b.cut < b.disk.size {
		b.disk.pages = maps.Clone(b.cache.pages) // pages went away, which dirty does not tell
	}
	for i := range b.dirty {
		if b.disk.pages == nil {
			b.disk.pages = map[int64]*page{}
		}
		b.disk.pages[i] = b.cache.pages[i]
	}
	b.disk.size = b.cache.size
	b.cut = b.cache.size
	b.dirty = nil
}

// writable returns a page of the cache that may be changed, and notes the sectors of [from, to) as dirty.
func (b *body) writable(i, from, to int64) *page {
	p := b.cache.pages[i]
	if b.dirty[i] == 0 {
		fresh := new(page)
		if p != nil {
			*fresh = *p
		}
		p = fresh
		if b.cache.pages == nil {
			b.cache.pages = map[int64]*page{}
		}
		b.cache.pages[i] = p
	}
	if b.dirty == nil {
		b.dirty = map[int64]uint8{}
	}
	b.dirty[i] |= sectors(from, to)
	return p
}

// chargeLocked counts a file's pages anew.
func (m *Mem) chargeLocked(n *node) {
	charged := n.reserved
	for i := range n.cache.pages {
		if i >= n.reserved {
			charged++
		}
	}
	m.used += (charged - n.charged) * pageBytes
	n.charged = charged
}

// freeLocked gives the space of a file back that nobody can reach any more.
func (m *Mem) freeLocked(n *node) {
	if !n.linked && n.handles == 0 {
		m.used -= n.charged * pageBytes
		n.charged = 0
		delete(m.dirty, n)
	}
}

func (m *Mem) writeLocked(n *node, b []byte, off int64) (done int, err error) {
	for done < len(b) {
		at := off + int64(done)
		i, from := at/pageBytes, at%pageBytes
		if i >= n.reserved && n.cache.pages[i] == nil {
			if m.used+pageBytes > m.capacity {
				return done, syscall.ENOSPC
			}
			m.used += pageBytes
			n.charged++
		}
		to := min(pageBytes, from+int64(len(b)-done))
		done += copy(n.writable(i, from, to)[from:to], b[done:])
		n.cache.size = max(n.cache.size, off+int64(done))
		m.dirty[n] = struct{}{}
	}
	return done, nil
}

func (m *Mem) truncateLocked(n *node, size int64) {
	if size < n.cache.size {
		end := pagesFor(size)
		for i := range n.cache.pages {
			if i >= end {
				delete(n.cache.pages, i)
				delete(n.dirty, i)
			}
		}
		if from := size % pageBytes; from > 0 && n.cache.pages[end-1] != nil {
			clear(n.writable(end-1, from, pageBytes)[from:])
		}
		n.cut = min(n.cut, size)
	}
	if size <= n.cache.size {
		n.reserved = min(n.reserved, pagesFor(size))
		m.chargeLocked(n)
	}
	n.cache.size = size
	m.dirty[n] = struct{}{}
}

func (m *Mem) allocateLocked(n *node, size int64) error {
	if err := m.reserveLocked(n, size); err != nil {
		return err
	}
	if size > n.cache.size {
		n.cache.size = size
		m.dirty[n] = struct{}{}
	}
	return nil
}

// reserveLocked pays for the pages of [0, size): holes are paid for as well, which no caller makes.
func (m *Mem) reserveLocked(n *node, size int64) error {
	reserved, before := n.reserved, n.charged
	n.reserved = max(reserved, pagesFor(size))
	m.chargeLocked(n)
	if m.used > m.capacity && n.charged > before {
		n.reserved = reserved
		m.chargeLocked(n)
		return syscall.ENOSPC
	}
	return nil
}

func (i image) readAt(b []byte, off int64) int {
	b = b[:max(0, min(int64(len(b)), i.size-off))]
	for done := 0; done < len(b); {
		at := off + int64(done)
		rest := b[done:min(len(b), done+int(pageBytes-at%pageBytes))]
		if p := i.pages[at/pageBytes]; p != nil {
			copy(rest, p[at%pageBytes:])
		} else {
			clear(rest)
		}
		done += len(rest)
	}
	return len(b)
}

// memFile is one opening of a file.
type memFile struct {
	m        *Mem
	n        *node
	path     string
	writable bool
	closed   bool // guarded by m.mu
}

func (f *memFile) failed(op string, err error) error {
	return &fs.PathError{Op: op, Path: f.path, Err: err}
}

// use does one thing to the open file under the lock.
func (f *memFile) use(op string, do func() error) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	err := fs.ErrClosed
	if !f.closed {
		err = do()
	}
	if err != nil {
		return f.failed(op, err)
	}
	return nil
}

// change is use for what needs a file opened for writing, and takes a new modification time.
func (f *memFile) change(op string, do func() error) error {
	now := f.m.clock()
	return f.use(op, func() error {
		if !f.writable {
			return syscall.EBADF
		}
		f.m.touchLocked(f.n, now)
		return do()
	})
}

func (f *memFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.use("read", func() error {
		if off < 0 {
			return syscall.EINVAL
		}
		n = f.n.cache.readAt(b, off)
		return nil
	})
	if err == nil && n < len(b) {
		err = io.EOF
	}
	return n, err
}

func (f *memFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.change("write", func() (err error) {
		if off < 0 {
			return syscall.EINVAL
		}
		n, err = f.m.writeLocked(f.n, b, off)
		return err
	})
	return n, err
}

func (f *memFile) Truncate(size int64) error {
	return f.change("truncate", func() error {
		if size < 0 {
			return syscall.EINVAL
		}
		f.m.truncateLocked(f.n, size)
		return nil
	})
}

func (f *memFile) Allocate(size int64) error {
	return f.change("allocate", func() error { return f.m.allocateLocked(f.n, size) })
}

func (f *memFile) Reserve(off, n int64) error {
	return f.change("reserve", func() error { return f.m.reserveLocked(f.n, off+n) })
}

// StartSync does nothing: a power cut may leave any part of what was not synced in any case.
func (f *memFile) StartSync() error { return f.use("start-sync", func() error { return nil }) }

func (f *memFile) SyncData() error { return f.Sync() }

func (f *memFile) Sync() error {
	return f.use("sync", func() error {
		f.n.sync()
		delete(f.m.dirty, f.n)
		return nil
	})
}

// failSync is what Linux makes of a sync that fails: programs go on seeing the data, nothing will write it any more, and
// the next sync reports success.
func (f *memFile) failSync() {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.dirty = nil
}

// failSyncFS is the same for all files.
func (m *Mem) failSyncFS() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.dirty {
		n.dirty = nil
	}
}

func (f *memFile) Size() (size int64, err error) {
	err = f.use("stat", func() error {
		size = f.n.cache.size
		return nil
	})
	return size, err
}

func (f *memFile) SendTo(dst io.Writer, pos, n int64) (int64, error) {
	return f.m.buffers.send(dst, f, pos, n)
}

func (f *memFile) Close() error {
	return f.use("close", func() error {
		f.closed = true
		f.n.handles--
		f.m.freeLocked(f.n)
		return nil
	})
}
