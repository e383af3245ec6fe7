package vfs

import (
	"slices"
	"sync"
)

// Log is an FS that passes everything on to another one and writes down each operation that changes the disk or makes
// something durable, in the order in which they ended.
type Log struct {
	around
	print func(line string)

	mu     sync.Mutex
	lines  []string
	counts [opKinds]int
}

// NewLog wraps fs. print, unless nil, is called with every line too.
func NewLog(fs FS, print func(line string)) *Log {
	l := &Log{print: print}
	l.around = around{fs: fs, run: l.run}
	return l
}

func (l *Log) run(op Op, do func() error) error {
	err := do()
	line := op.String()
	if err != nil {
		line += " failed: " + err.Error()
	}
	l.mu.Lock()
	l.counts[op.Kind]++
	if op.Kind.Mutates() {
		l.lines = append(l.lines, line)
	}
	l.mu.Unlock()
	if op.Kind.Mutates() && l.print != nil {
		l.print(line)
	}
	return err
}

// Lines returns what was written down since the last Reset.
func (l *Log) Lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.lines)
}

// Count returns how many operations of these kinds there were since the last Reset, failed ones included. It knows the
// kinds that are not written down too.
func (l *Log) Count(kinds ...OpKind) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, kind := range kinds {
		n += l.counts[kind]
	}
	return n
}

// Reset forgets lines and counts.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = nil
	l.counts = [opKinds]int{}
}
