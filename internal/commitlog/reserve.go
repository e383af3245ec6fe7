package commitlog

import "sync/atomic"

// A log file that grows has to find blocks at every sync, which costs more than the sync itself. One that has shown that it
// grows sets space aside ahead of its end, in steps as large as itself.
const (
	reserveFrom = 1 << 20 // a smaller file sets nothing aside: most logs of a node are small and idle
	reserveStep = 8 << 20 // at most
)

// reserve is what the logs of one directory may set aside, and have, in bytes.
type reserve struct{ limit, taken atomic.Int64 }

// SetReserveLimit says how many bytes the logs together may set aside for what they will be appended. It is 0 at first.
// What they have already is theirs until Log.ReleaseReserve.
func (s *Files) SetReserveLimit(bytes int64) { s.reserve.limit.Store(bytes) }

// take asks for more, or gives back with a negative number.
func (r *reserve) take(bytes int64) bool {
	if r.taken.Add(bytes) > r.limit.Load() && bytes > 0 {
		r.taken.Add(-bytes)
		return false
	}
	return true
}

// reserveAhead is called before a write of [size, end) at the end of the file, which will not grow beyond limit. It is a
// hint: the write goes on whatever comes of it. The caller holds Log.mu, which orders it with release and truncate.
func (f *file) reserveAhead(size, end, limit int64) {
	if end < reserveFrom {
		return
	}
	f.mu.Lock()
	to, more := min(end+min(end, reserveStep), limit), int64(0)
	need := end > f.reservedTo && end < to
	if need {
		more = to - size - f.reservedBytes
		need = f.set.reserve.take(more)
	}
	f.mu.Unlock()
	if !need {
		return
	}
	h, err := f.pin()
	if err == nil {
		err = h.Reserve(size, to-size)
	}
	if h != nil {
		defer f.unpin()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mayExceed = true // also after an error: a part may have been set aside
	if err != nil {
		// Not here or not now: nobody tries again before somebody has looked at the disk.
		f.set.reserve.limit.Store(0)
		f.set.reserve.take(-more)
		return
	}
	f.reservedTo, f.reservedBytes = to, f.reservedBytes+more
}

// release gives back what was set aside behind the end of the file, size.
func (f *file) release(size int64) error {
	f.mu.Lock()
	may := f.mayExceed
	f.mu.Unlock()
	if !may {
		return nil
	}
	h, err := f.pin()
	if err != nil {
		return err
	}
	defer f.unpin()
	if err := h.Truncate(size); err != nil { // changes nothing that would have to be synced
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.releasedLocked()
	return nil
}

// releasedLocked notes that nothing is set aside any more.
func (f *file) releasedLocked() {
	f.set.reserve.take(-f.reservedBytes)
	f.reservedTo, f.reservedBytes, f.mayExceed = 0, 0, false
}

// ReleaseReserve gives the space back that the log has set aside for what it will be appended.
func (l *Log) ReleaseReserve() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usableLocked() != nil {
		return nil
	}
	return l.active.log.release(l.active.size)
}
