package replica

import (
	"moldau/internal/kafka"
	"moldau/internal/storage"
)

// Waiter is one who waits until an offset is reached.
type Waiter struct {
	need kafka.Offset
	log  *storage.Log // whose sync it waits for, nil if for something else
	done chan struct{}
	err  error   // written before done is closed
	next *Waiter // in the list it waits in, then in the list of those released
}

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

// Done is closed when the wait is over.
func (w *Waiter) Done() <-chan struct{} { return w.done }

// Err returns how the wait ended: nil if the offset was reached. Call it after Done is closed.
func (w *Waiter) Err() error { return w.err }

// waiters is a list of Waiters by what they need, smallest first; among equals the first to come.
type waiters struct {
	first, last *Waiter
	count       int
}

// add puts one more in the list. Almost always it belongs at the end, because appends come in the order of offsets.
func (l *waiters) add(need kafka.Offset) *Waiter {
	w := &Waiter{need: need, done: make(chan struct{})}
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
		close(w.done)
		w = next
	}
}
