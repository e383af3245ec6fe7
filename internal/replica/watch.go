package replica

import (
	"math/bits"
	"sync/atomic"
	"time"

	"moldau/internal/xsync"
)

// Kind is what moves one who watches a partition.
type Kind uint8

// The kinds of watcher. A follower is also told of appends, which consumers do not see before the watermark passes them.
const (
	Consumer Kind = 1 << iota
	Follower

	everyKind = Consumer | Follower
)

// Watch gathers news of many partitions for one fetch session or one fetch. Each partition is a slot, a small number of
// the caller's choice. News are: records appended (followers only), the high watermark, the last stable offset or the log
// start moved, the leader or its epoch changed, the partition is gone.
//
// Attach before looking at a partition: then whatever the look did not see is marked.
type Watch struct {
	signal  chan struct{} // capacity 1
	fetched atomic.Int64  // when the session's follower last fetched, in ns since 1970; see Set.Heard

	mu       xsync.Mutex // taken while Partition.mu is held, never the other way round
	dirty    []uint64    // a bit per slot
	any      bool        // some bit is set
	attached map[int]*Partition
}

// NewWatch returns a Watch of no partition.
func NewWatch() *Watch {
	return &Watch{signal: make(chan struct{}, 1), attached: map[int]*Partition{}}
}

func (w *Watch) lastFetch() time.Time { return time.Unix(0, w.fetched.Load()) }

// C delivers a value when a slot is dirty that was not when Take was last called.
func (w *Watch) C() <-chan struct{} { return w.signal }

// Take appends the dirty slots in ascending order to slots and makes all clean.
func (w *Watch) Take(slots []int) []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.any {
		return slots
	}
	w.any = false
	for i, word := range w.dirty {
		for ; word != 0; word &= word - 1 {
			slots = append(slots, i*64+bits.TrailingZeros64(word))
		}
		w.dirty[i] = 0
	}
	return slots
}

// mark makes a slot dirty.
func (w *Watch) mark(slot int) {
	w.mu.Lock()
	for slot/64 >= len(w.dirty) {
		w.dirty = append(w.dirty, 0)
	}
	bit := uint64(1) << (slot % 64)
	fresh := w.dirty[slot/64]&bit == 0
	w.dirty[slot/64] |= bit
	w.any = true
	w.mu.Unlock()
	if fresh {
		select {
		case w.signal <- struct{}{}:
		default:
		}
	}
}

// Close ends every attachment.
func (w *Watch) Close() {
	w.mu.Lock()
	partitions := make([]*Partition, 0, len(w.attached))
	for _, p := range w.attached {
		partitions = append(partitions, p)
	}
	w.mu.Unlock()
	for _, p := range partitions {
		p.Detach(w)
	}
}

// watcher is one Watch in a partition's list.
type watcher struct {
	watch *Watch
	slot  int
	kind  Kind
}

// Attach lets w know of news of p under slot. A Watch has at most one slot per partition; attaching again replaces it.
func (p *Partition) Attach(w *Watch, slot int, kind Kind) {
	p.Detach(w)
	p.mu.Lock()
	p.watchers = append(p.watchers, watcher{w, slot, kind})
	p.watched.Store(int32(len(p.watchers)))
	w.mu.Lock()
	w.attached[slot] = p
	w.mu.Unlock()
	p.mu.Unlock()
	// Whoever watches waits for the watermark, and that for the disk. What is appended from now on is hurried by Append.
	if log := p.acting.Load().log; log != nil {
		log.Hurry()
	}
}

// Detach ends it.
func (p *Partition) Detach(w *Watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, at := range p.watchers {
		if at.watch != w {
			continue
		}
		last := len(p.watchers) - 1
		p.watchers[i] = p.watchers[last]
		p.watchers[last] = watcher{}
		p.watchers = p.watchers[:last]
		p.watched.Store(int32(last))
		w.mu.Lock()
		if w.attached[at.slot] == p {
			delete(w.attached, at.slot)
		}
		w.mu.Unlock()
		return
	}
}

// markLocked tells all watchers of these kinds.
func (p *Partition) markLocked(kinds Kind) {
	for _, at := range p.watchers {
		if at.kind&kinds != 0 {
			at.watch.mark(at.slot)
		}
	}
}
