package coordinator

import (
	"container/heap"
	"time"

	"moldau/internal/xsync"
)

// Timer is something a machine does later. Its zero value is not set. It belongs to one machine, whose turns alone use
// it.
type Timer struct {
	due   time.Duration // as Options.Elapsed counts
	order uint64
	at    int // place in the heap plus one; 0: not there
	shard *shard
	run   func(*Turn)
}

// After sets tm, anew if it is set: run has a turn when d is over.
func (t *Turn) After(tm *Timer, d time.Duration, run func(*Turn)) { t.s.r.timers.set(t.s, tm, d, run) }

// Cancel makes tm not fire any more.
func (t *Turn) Cancel(tm *Timer) { t.s.r.timers.cancel(tm) }

// timers is all timers of a Runtime.
type timers struct {
	elapsed func() time.Duration
	wake    chan struct{} // capacity 1: the first deadline may be another

	mu    xsync.Mutex
	heap  timerHeap
	order uint64
}

func (ts *timers) set(s *shard, tm *Timer, d time.Duration, run func(*Turn)) {
	due := ts.elapsed() + max(d, 0)
	ts.mu.Lock()
	ts.order++
	tm.due, tm.order, tm.shard, tm.run = due, ts.order, s, run
	if tm.at > 0 {
		heap.Fix(&ts.heap, tm.at-1)
	} else {
		heap.Push(&ts.heap, tm)
	}
	first := tm.at == 1
	ts.mu.Unlock()
	if first {
		ts.rouse()
	}
}

func (ts *timers) cancel(tm *Timer) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	tm.run = nil
	if tm.at > 0 {
		heap.Remove(&ts.heap, tm.at-1)
	}
}

func (ts *timers) rouse() {
	select {
	case ts.wake <- struct{}{}:
	default:
	}
}

// first returns the timer that is due, of a shard that is not busy, or how long it is until one is. It stays set, because
// only the shard's turn may take it.
func (ts *timers) first() (tm *Timer, s *shard, wait time.Duration) {
	now := ts.elapsed()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for i := range ts.heap {
		if !ts.heap[i].shard.busy.Load() && (tm == nil || ts.heap.Less(i, tm.at-1)) {
			tm = ts.heap[i]
		}
		if i == 0 && tm != nil {
			break // the first of all, as nearly always
		}
	}
	if tm == nil {
		return nil, nil, never
	}
	if tm.due > now {
		return nil, nil, tm.due - now
	}
	return tm, tm.shard, 0
}

// never is longer than any node runs.
const never = 1 << 62 * time.Nanosecond

// take unsets a timer that is still due, and returns what to run.
func (ts *timers) take(tm *Timer) func(*Turn) {
	now := ts.elapsed()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if tm.at == 0 || tm.due > now {
		return nil
	}
	heap.Remove(&ts.heap, tm.at-1)
	run := tm.run
	tm.run = nil
	return run
}

// drop unsets all timers of a shard.
func (ts *timers) drop(s *shard) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	kept := ts.heap[:0]
	for _, tm := range ts.heap {
		if tm.shard == s {
			tm.at, tm.run = 0, nil
			continue
		}
		kept = append(kept, tm)
	}
	clear(ts.heap[len(kept):])
	ts.heap = kept
	for i, tm := range ts.heap {
		tm.at = i + 1
	}
	heap.Init(&ts.heap)
}

// timerHeap has the timer that fires first at its root.
type timerHeap []*Timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	return h[i].due < h[j].due || h[i].due == h[j].due && h[i].order < h[j].order
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i+1, j+1
}

// Push is for package heap.
func (h *timerHeap) Push(x any) {
	tm := x.(*Timer)
	tm.at = len(*h) + 1
	*h = append(*h, tm)
}

// Pop is for package heap.
func (h *timerHeap) Pop() any {
	old := *h
	last := len(old) - 1
	tm := old[last]
	old[last] = nil
	*h = old[:last]
	tm.at = 0
	return tm
}
