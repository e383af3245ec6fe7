package replica

import (
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/storage"
)

// Waiter is one who waits until an offset is reached.
type Waiter struct {
	need kafka.Offset
	log  *storage.Log // whose sync it waits for, nil if for something else
	done chan struct{}
	err  error   // written before it ends
	next *Waiter // in the list it waits in, then in the list of those released

	together *Waiters // of which it is one; nil: it is alone, and has done
	ended    atomic.Bool
}

func newWaiter() *Waiter { return &Waiter{done: make(chan struct{})} }

// onDisk says that it is this log's sync that the wait is for, or that it depends on first.
func (w *Waiter) onDisk(log *storage.Log) *Waiter {
	w.log = log
	return w
}

// Hurry says that somebody waits for all of these from now on: the disk is asked. Without it the logs are synced all the
// same, some milliseconds later; so whoever gets several Waiters calls it once he has them all, and one round of syncs
// serves them.
func Hurry(waiters ...*Waiter) {
	var few [16]*storage.Log
	logs := few[:0]
	for _, w := range waiters {
		if w.log != nil {
			logs = append(logs, w.log)
		}
	}
	storage.Hurry(logs...)
}

// Done is closed when the wait is over. It is nil for one of Waiters.
func (w *Waiter) Done() <-chan struct{} { return w.done }

// Err returns how the wait ended: nil if the offset was reached. Call it after Done is closed.
func (w *Waiter) Err() error { return w.err }

// Ended reports whether the wait is over.
func (w *Waiter) Ended() bool { return w.ended.Load() }

// end says that the wait is over. Nothing of w is touched after that: it may serve somebody else.
func (w *Waiter) end() {
	w.ended.Store(true)
	if w.together == nil {
		close(w.done)
		return
	}
	w.together.one()
}

// Waiters are all that one request waits for. It is told once, when the last has ended, and then their memory can serve
// another request. Make it with NewWaiters.
type Waiters struct {
	each []*Waiter
	used int
	open atomic.Int32  // how many have not ended, and one until Hurry
	done chan struct{} // delivers once when open has become 0; capacity 1
	told bool          // it has been taken from
}

// NewWaiters returns Waiters of none.
func NewWaiters() *Waiters {
	g := &Waiters{done: make(chan struct{}, 1)}
	g.open.Store(1)
	return g
}

// waiter adds one.
func (g *Waiters) waiter() *Waiter {
	if g.used == len(g.each) {
		g.each = append(g.each, new(Waiter))
	}
	w := g.each[g.used]
	g.used++
	w.need, w.log, w.err, w.next, w.together = 0, nil, nil, nil, g
	w.ended.Store(false)
	g.open.Add(1)
	return w
}

func (g *Waiters) one() {
	if g.open.Add(-1) == 0 {
		g.done <- struct{}{}
	}
}

// Hurry says that there will be no more, and that somebody waits for all of them. Call it once.
func (g *Waiters) Hurry() {
	Hurry(g.each[:g.used]...)
	g.one()
}

// Await returns when all have ended, at most until over delivers or gone is closed. Call it once, after Hurry.
func (g *Waiters) Await(over <-chan time.Time, gone <-chan struct{}) {
	select {
	case <-g.done:
		g.told = true
	case <-over:
	case <-gone:
	}
}

// Ended reports whether all have ended.
func (g *Waiters) Ended() bool { return g.open.Load() == 0 }

// Reset makes it Waiters of none again, after Await. It returns false if some have not ended: then this one cannot be used
// any more.
func (g *Waiters) Reset() bool {
	if g.open.Load() != 0 {
		return false
	}
	if !g.told {
		<-g.done // whoever ended the last is about to say so
	}
	g.used, g.told = 0, false
	g.open.Store(1)
	return true
}

// waiters is a list of Waiters by what they need, smallest first; among equals the first to come.
type waiters struct {
	first, last *Waiter
	count       int
}

// add puts one more in the list.
func (l *waiters) add(need kafka.Offset) *Waiter { return l.put(newWaiter(), need) }

// put is add with a Waiter that is there. Almost always it belongs at the end, because appends come in the order of offsets.
func (l *waiters) put(w *Waiter, need kafka.Offset) *Waiter {
	w.need = need
	l.count++
	if l.last == nil || l.last.need <= need {
		if l.last == nil {
			l.first = w
		} else {
			l.last.next = w
		}
		l.last = w
		return w
	}
	at := &l.first
	for (*at).need <= need {
		at = &(*at).next
	}
	w.next, *at = *at, w
	return w
}

// reach takes out those whose need is met by offset, as a chain.
func (l *waiters) reach(offset kafka.Offset) *Waiter {
	if l.first == nil || l.first.need > offset {
		return nil
	}
	chain, last := l.first, (*Waiter)(nil)
	for w := l.first; w != nil && w.need <= offset; w = w.next {
		last = w
		l.count--
	}
	l.first = last.next
	last.next = nil
	if l.first == nil {
		l.last = nil
	}
	return chain
}

// fail takes out all.
func (l *waiters) fail(err error) *Waiter {
	chain := l.first
	for w := chain; w != nil; w = w.next {
		w.err = err
	}
	*l = waiters{}
	return chain
}

// release ends the wait of a chain. Call it with no lock held: who waits goes on at once.
func release(chain *Waiter) {
	for w := chain; w != nil; {
		next := w.next
		w.next = nil
		w.end()
		w = next
	}
}
