package commitlog

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"

	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// errGone says that a file was taken out of its log.
var errGone = errors.New("file is no longer part of the log")

// Files keeps at most a number of descriptors open for all logs of a directory. Those pinned by a running operation or by
// a Region do not count: the limit is soft by as many.
type Files struct {
	fs  vfs.FS
	max int

	mu   xsync.Mutex
	ring []*file // open files, in the order of the clock's hand
	hand int
	over atomic.Bool // there are more than max of them; written under mu

	used    chan struct{} // capacity 1
	windows sync.Pool     // of *window
	scans   sync.Pool     // of *[scanBytes]byte
	reserve reserve
}

// NewFiles makes the set of open files of one directory. max is at least 1.
func NewFiles(fsys vfs.FS, max int) *Files {
	return &Files{fs: fsys, max: max, used: make(chan struct{}, 1), windows: sync.Pool{New: func() any { return new(window) }}, scans: sync.Pool{New: func() any { return new([scanBytes]byte) }}}
}

// Used gets a value when a descriptor is opened while no other is: from then on there is something for CloseIdle.
func (s *Files) Used() <-chan struct{} { return s.used }

// Open returns how many descriptors are open.
func (s *Files) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ring)
}

// file is one file of a log, whether its descriptor is open or not.
type file struct {
	set *Files

	mu   xsync.Mutex
	path string
	f    vfs.File // nil while closed
	pins int
	gone bool // never opened again; closed when the last pin goes
	// written counts the writes that have returned, synced is the value of written that the last good sync covers.
	written, synced uint64
	syncErr         error // of the first failed sync; nobody may rely on this file any more
	// The file has space set aside up to reservedTo, for which it has taken reservedBytes of what there is for all.
	// mayExceed says that it may have some, perhaps from before a crash.
	reservedTo, reservedBytes int64
	mayExceed                 bool

	used atomic.Bool // since the hand last came by
	at   int         // in the ring, plus one; 0 = not there. Guarded by set.mu
}

func (s *Files) file(path string) *file { return &file{set: s, path: path} }

// pin opens the file if need be and keeps it open until unpin.
func (f *file) pin() (vfs.File, error) {
	f.mu.Lock()
	if f.gone {
		f.mu.Unlock()
		return nil, errGone
	}
	opened := f.f == nil
	if opened {
		h, err := f.set.fs.Open(f.path, vfs.Write)
		if err != nil {
			f.mu.Unlock()
			return nil, err
		}
		f.f = h
	}
	f.pins++
	h := f.f
	f.mu.Unlock()
	f.used.Store(true)
	if opened {
		f.set.add(f)
	}
	return h, nil
}

func (f *file) unpin() {
	f.mu.Lock()
	f.unpinLocked()
	f.mu.Unlock()
	f.set.unpinned(f)
}

// unpinLocked is what unpin does under the lock; Files.unpinned follows, without it.
func (f *file) unpinLocked() {
	f.pins--
	if f.gone && f.pins == 0 {
		_ = f.closeLocked() // the file is deleted or given up: nothing in it matters
	}
}

func (f *file) closeLocked() error {
	if f.f == nil {
		return nil
	}
	err := f.f.Close()
	f.f = nil
	return err
}

// create makes the file, or empties one that is there.
func (f *file) create() error {
	f.mu.Lock()
	h, err := f.set.fs.Open(f.path, vfs.Create|vfs.Truncate)
	if err != nil {
		f.mu.Unlock()
		return err
	}
	f.f = h
	f.written++
	f.mu.Unlock()
	f.used.Store(true)
	f.set.add(f)
	return nil
}

// nothingYet notes that a file that was made just now has nothing to sync: there was none of its name, and it is empty.
func (f *file) nothingYet() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.synced = f.written
}

// extend makes the file longer, with a hole. That needs no sync: without it the file ends earlier, which says the same.
func (f *file) extend(size int64) error {
	h, err := f.pin()
	if err != nil {
		return err
	}
	defer f.unpin()
	return h.Truncate(size)
}

// change runs one write or truncation and notes that the file has to be synced, also after a failure: a part may have
// been written.
func (f *file) change(op func(vfs.File) error) error {
	h, err := f.pin()
	if err != nil {
		return err
	}
	err = op(h)
	f.mu.Lock()
	f.written++
	f.unpinLocked()
	f.mu.Unlock()
	f.set.unpinned(f)
	return err
}

func (f *file) writeAt(b []byte, pos int64) error {
	return f.change(func(h vfs.File) error {
		_, err := h.WriteAt(b, pos)
		return err
	})
}

func (f *file) truncate(size int64) error {
	return f.change(func(h vfs.File) error {
		err := h.Truncate(size)
		if err == nil {
			f.mu.Lock()
			f.releasedLocked()
			f.mu.Unlock()
		}
		return err
	})
}

// startSync begins what sync will wait for. Its error is one of a sync.
func (f *file) startSync() error {
	h, err := f.pin()
	if err != nil {
		return err
	}
	defer f.unpin()
	f.mu.Lock()
	dirty, err := f.written > f.synced, f.syncErr
	f.mu.Unlock()
	if err != nil || !dirty {
		return err
	}
	if err = h.StartSync(); err != nil {
		f.mu.Lock()
		f.syncErr = err
		f.mu.Unlock()
	}
	return err
}

// sync makes everything durable that was written before the call. After one failure it fails for ever: the kernel has
// forgotten which pages were dirty, and a second call would report success for data that is lost.
func (f *file) sync() error {
	h, err := f.pin()
	if err != nil {
		return err
	}
	defer f.unpin()
	f.mu.Lock()
	covers, dirty, err := f.written, f.written > f.synced, f.syncErr
	f.mu.Unlock()
	if err != nil || !dirty {
		return err
	}
	err = h.SyncData()
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.syncErr = err
	} else {
		f.synced = max(f.synced, covers)
	}
	return err
}

// writes counts the writes to the file so far; syncedTo takes such a count.
func (f *file) writes() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.written
}

// syncedTo notes that a sync of the whole filesystem, begun after so many writes, has made them durable.
func (f *file) syncedTo(writes uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.syncErr == nil {
		f.synced = max(f.synced, writes)
	}
	return f.syncErr
}

// suspect notes that the file has to be synced although nobody here has written to it: somebody may have, before a crash.
func (f *file) suspect() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.written++
}

// clean tells whether nothing is left to sync.
func (f *file) clean() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gone || f.written == f.synced
}

// rename gives the file another path; pins stay good.
func (f *file) rename(path string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.set.fs.Rename(f.path, path); err != nil {
		return err
	}
	f.path = path
	return nil
}

// expectAt gives a file that is not on the disk another path: should it ever be made, there.
func (f *file) expectAt(path string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.path = path
}

func (f *file) name() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.path
}

// close ends the use of the file: pins stay good, new ones fail.
func (f *file) close() error {
	defer f.set.drop(f) // after it is marked: who is about to enter it into the ring looks afterwards
	f.mu.Lock()
	defer f.mu.Unlock()
	f.gone = true
	f.releasedLocked()
	if f.pins > 0 {
		return nil
	}
	return f.closeLocked()
}

// remove takes the file off the disk. Whoever has it pinned may go on reading it.
func (f *file) remove() error {
	err := errors.Join(f.close(), f.set.fs.Remove(f.name()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// cleanTries is how many files are asked for one that can be closed without a sync, before one is closed with a sync. Who opens
// files fast, as those who make partitions do, would else sync each of them alone.
const cleanTries = 64

// add enters an opened file into the ring and closes others for it, as the clock algorithm picks them: a file that was
// used since the hand last came by gets another round.
func (s *Files) add(f *file) {
	open := s.enter(f)
	excess := open - s.max
	if open == 1 {
		select {
		case s.used <- struct{}{}:
		default:
		}
	}
	for range max(0, excess) {
		if !s.closeOne(f) {
			return
		}
	}
}

// closeOne closes a file that nobody uses, but not keep, if there is one.
func (s *Files) closeOne(keep *file) bool {
	for try := range 2 * cleanTries {
		victim := s.pick(keep)
		if victim == nil {
			return false
		}
		if victim.evict(try >= cleanTries) {
			return true
		}
		s.enter(victim)
	}
	return false // all that were asked are pinned
}

// unpinned closes a file that is not used any more, if there are too many: when they were opened, too many of the others were in use.
func (s *Files) unpinned(f *file) {
	if !s.over.Load() {
		return
	}
	s.mu.Lock()
	mine := s.over.Load() && f.at != 0
	if mine {
		s.removeLocked(f)
	}
	s.mu.Unlock()
	if mine && !f.evict(false) {
		s.enter(f)
	}
}

// CloseIdle closes the files that were not used since the call before.
func (s *Files) CloseIdle() {
	s.mu.Lock()
	var idle []*file
	for i := 0; i < len(s.ring); {
		if f := s.ring[i]; f.used.Swap(false) {
			i++
		} else {
			idle = append(idle, f)
			s.removeLocked(f)
		}
	}
	s.mu.Unlock()
	for _, f := range idle {
		if !f.evict(true) {
			s.enter(f)
		}
	}
}

// pick takes out of the ring a file that was not used for the longest time, roughly.
func (s *Files) pick(keep *file) *file {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 2 * len(s.ring) {
		if s.hand >= len(s.ring) {
			s.hand = 0
		}
		f := s.ring[s.hand]
		if f == keep || f.used.Swap(false) {
			s.hand++
			continue
		}
		s.removeLocked(f)
		return f
	}
	return nil
}

// enter puts an open file into the ring, or back into it, and returns how many there are now. One that has left its log meanwhile is
// closed by the last who uses it.
func (s *Files) enter(f *file) (open int) {
	s.mu.Lock()
	s.ring = append(s.ring, f)
	f.at = len(s.ring)
	s.over.Store(f.at > s.max)
	s.mu.Unlock()
	f.mu.Lock()
	gone := f.gone
	f.mu.Unlock()
	if gone {
		s.drop(f)
	}
	return s.Open()
}

// removeLocked takes a file out of the ring if it is there. The last one takes its place.
func (s *Files) removeLocked(f *file) {
	if f.at == 0 {
		return
	}
	last := len(s.ring) - 1
	s.ring[f.at-1] = s.ring[last]
	s.ring[f.at-1].at = f.at
	s.ring[last] = nil
	s.ring = s.ring[:last]
	f.at = 0
	s.over.Store(len(s.ring) > s.max)
}

func (s *Files) drop(f *file) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeLocked(f)
}

// evict closes an idle file, after a sync if it has unsynced data: a descriptor that was closed cannot report later that
// the write-back failed. It reports false when somebody uses the file, or when it would need a sync and may not.
func (f *file) evict(maySync bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pins > 0 {
		return false
	}
	if f.f == nil {
		return true
	}
	if f.written > f.synced && f.syncErr == nil && !f.gone {
		if !maySync {
			return false
		}
		if err := f.f.SyncData(); err != nil {
			f.syncErr = err // the file's own log learns it from its next sync
		} else {
			f.synced = f.written
		}
	}
	_ = f.closeLocked() // what could fail here was synced above
	return true
}

// window is a reader's own look into a file: a few kilobytes read at once, because headers and index entries lie close
// together.
type window struct {
	f   vfs.File
	at  int64
	n   int
	buf [windowBytes]byte
}

const windowBytes = 4096

func (s *Files) window() *window { return s.windows.Get().(*window) }

func (s *Files) release(w *window) {
	w.f = nil
	s.windows.Put(w)
}

// scanSpace returns memory for a scanner, releaseScan takes back what the scanner has at its end.
func (s *Files) scanSpace() []byte { return s.scans.Get().(*[scanBytes]byte)[:] }

func (s *Files) releaseScan(space []byte) {
	if len(space) == scanBytes { // else one batch was larger
		s.scans.Put((*[scanBytes]byte)(space))
	}
}

// of points the window at a file. It keeps what it holds if it is there already: an operation only looks below the end
// that it began with, and what lies there does not change.
func (w *window) of(f vfs.File) *window {
	if w.f != f {
		w.f, w.n = f, 0
	}
	return w
}

// bytes returns n bytes at pos, or fewer where the file ends. They are good until the next call.
func (w *window) bytes(pos int64, n int) ([]byte, error) {
	if pos < w.at || pos+int64(n) > w.at+int64(w.n) {
		got, err := w.f.ReadAt(w.buf[:], pos)
		if got < n && err != nil && err != io.EOF {
			w.n = 0
			return nil, err
		}
		w.at, w.n = pos, got
	}
	b := w.buf[pos-w.at : w.n]
	return b[:min(n, len(b))], nil
}
