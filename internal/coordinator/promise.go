package coordinator

import (
	"moldau/internal/replica"
)

// Promise is an answer that some turn gives, and that may leave when what the log held at the end of that turn is
// committed.
type Promise[T any] struct {
	given  chan struct{} // closed when what follows is set
	answer T
	err    error
	commit *replica.Waiter // nil: nothing to wait for
}

// NewPromise returns a promise that is still to be kept.
func NewPromise[T any]() *Promise[T] { return &Promise[T]{given: make(chan struct{})} }

// Give keeps the promise at the end of the turn. The answer must not change afterwards.
func (p *Promise[T]) Give(t *Turn, answer T) {
	p.answer = answer
	t.kept = append(t.kept, p)
}

// Fail keeps the promise at the end of the turn, with an error.
func (p *Promise[T]) Fail(t *Turn, err error) {
	p.err = err
	t.kept = append(t.kept, p)
}

// Given is closed when a turn has kept the promise. Use Committed and Answer after that.
func (p *Promise[T]) Given() <-chan struct{} { return p.given }

// Committed is closed when the answer may leave; nil if it may at once.
func (p *Promise[T]) Committed() <-chan struct{} {
	if p.commit == nil {
		return nil
	}
	return p.commit.Done()
}

// Answer returns the answer or what went wrong. Call it when the answer may leave.
func (p *Promise[T]) Answer() (T, error) {
	if p.err == nil && p.commit != nil {
		if err := p.commit.Err(); err != nil {
			return p.answer, Fault(err)
		}
	}
	return p.answer, p.err
}

// promise is a Promise of whatever type.
type promise interface {
	keep(commit *replica.Waiter, lost error)
}

func (p *Promise[T]) keep(commit *replica.Waiter, lost error) {
	p.commit = commit
	if lost != nil {
		p.err = lost
	}
	close(p.given)
}

// Broken returns a promise that has been kept with an error.
func Broken[T any](err error) *Promise[T] {
	p := &Promise[T]{given: make(chan struct{}), err: err}
	close(p.given)
	return p
}
