package vfs

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
)

// Rule decides whether an operation fails: it returns nil to let it pass, or the error (syscall.EIO, syscall.ENOSPC,
// ShortWrite …) that is returned in its place, wrapped as the operating system's errors are. When it fails the sync of a
// file on a Mem, the unsynced data never becomes durable, even if a later sync succeeds: so it is on Linux. Rules are
// called by many goroutines at once.
type Rule func(op Op) error

// Inject is an FS that passes everything on to another one, except what a rule says must fail. It counts operations.
type Inject struct {
	around

	// Hook, if set, is called before every operation with no lock held. It may block: a simulation parks the operation
	// there. An error stops the operation before it is counted. Set it before the first use.
	Hook func(op Op) error
	// After, if set, is called when an operation is done and before its caller learns the outcome; it may block. Parking
	// a sync here rather than in Hook finds callers that take bytes written meanwhile for synced. Set it before the
	// first use.
	After func(op Op, err error)

	count atomic.Int64
	rules atomic.Pointer[[]Rule]
}

// NewInject wraps fs.
func NewInject(fs FS, rules ...Rule) *Inject {
	i := &Inject{}
	i.around = around{fs: fs, run: i.run}
	i.SetRules(rules...)
	return i
}

// SetRules replaces all rules; without arguments nothing fails any more. The first rule that returns an error decides.
func (i *Inject) SetRules(rules ...Rule) { i.rules.Store(&rules) }

// Count returns the number of operations so far, failed ones included: the next one's Index.
func (i *Inject) Count() int64 { return i.count.Load() }

func (i *Inject) run(op Op, do func() error) error {
	op.Index = -1
	if i.Hook != nil {
		if err := i.Hook(op); err != nil {
			return failed(op, err)
		}
	}
	op.Index = i.count.Add(1) - 1
	err := i.verdict(op)
	switch {
	case err == nil:
		err = do()
	case op.Kind == OpSync || op.Kind == OpSyncData || op.Kind == OpStartSync || op.Kind == OpSyncFS:
		err = failed(op, &lostSync{err})
	default:
		err = failed(op, err)
	}
	if i.After != nil {
		i.After(op, err)
	}
	return err
}

func (i *Inject) verdict(op Op) error {
	for _, rule := range *i.rules.Load() {
		if err := rule(op); err != nil {
			return err
		}
	}
	return nil
}

// OnIndex fails the n-th operation, counted from 0, of the Inject it is given to.
func OnIndex(n int64, err error) Rule {
	return func(op Op) error {
		if op.Index == n {
			return err
		}
		return nil
	}
}

// FromIndex fails the n-th operation and all that follow: a disk that has died.
func FromIndex(n int64, err error) Rule {
	return func(op Op) error {
		if op.Index >= n {
			return err
		}
		return nil
	}
}

// OnOp fails the operations of one kind on the paths that match: pattern is a suffix of whole path elements, each as in
// filepath.Match ("orders-0/*.log", "meta.properties"); "" matches every path. A rename is matched by either path.
func OnOp(kind OpKind, pattern string, err error) Rule {
	return func(op Op) error {
		if op.Kind == kind && (matches(pattern, op.Path) || op.To != "" && matches(pattern, op.To)) {
			return err
		}
		return nil
	}
}

// Nth lets a rule strike only once: at the n-th operation, counted from 0, that it would fail.
func Nth(n int64, rule Rule) Rule {
	var seen atomic.Int64
	return func(op Op) error {
		err := rule(op)
		if err != nil && seen.Add(1)-1 != n {
			return nil
		}
		return err
	}
}

func matches(pattern, path string) bool {
	if pattern == "" {
		return true
	}
	elements := strings.Split(filepath.ToSlash(path), "/")
	wanted := strings.Count(pattern, "/") + 1
	if wanted > len(elements) {
		return false
	}
	ok, err := filepath.Match(pattern, strings.Join(elements[len(elements)-wanted:], "/"))
	return ok && err == nil
}

// ShortWrite is an error for a Rule: a write stores its first n bytes and then fails with err. Any other operation just
// fails with it.
func ShortWrite(n int, err error) error { return &shortWrite{bytes: n, err: err} }

type shortWrite struct {
	bytes int
	err   error
}

func (s *shortWrite) Error() string { return fmt.Sprintf("after %d bytes: %v", s.bytes, s.err) }
func (s *shortWrite) Unwrap() error { return s.err }

// lostSync marks the error of a sync that a rule made fail.
type lostSync struct{ err error }

func (l *lostSync) Error() string { return l.err.Error() }
func (l *lostSync) Unwrap() error { return l.err }
