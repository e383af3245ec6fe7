//go:build sim

package xsync

import "sync"

// Mutex is a mutual exclusion lock whose waiters block on a channel, first come first served.
type Mutex struct {
	mu      sync.Mutex // guards the fields below; never held while waiting
	locked  bool
	waiters []chan struct{}
}

// Lock waits until the lock is free and takes it.
func (m *Mutex) Lock() {
	m.mu.Lock()
	if !m.locked {
		m.locked = true
		m.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	m.waiters = append(m.waiters, turn)
	m.mu.Unlock()
	<-turn
}

// TryLock takes the lock if it is free.
func (m *Mutex) TryLock() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked {
		return false
	}
	m.locked = true
	return true
}

// Unlock hands the lock to the first waiter, or frees it.
func (m *Mutex) Unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.locked {
		panic("xsync: unlock of an unlocked Mutex")
	}
	if len(m.waiters) == 0 {
		m.locked = false
		return
	}
	next := m.waiters[0]
	m.waiters = m.waiters[1:]
	close(next) // the lock stays taken: it is the waiter's now
}

// RWMutex is a reader/writer lock whose waiters block on channels, first come first served: a waiting writer holds
// back the readers that come after it, as sync.RWMutex does.
type RWMutex struct {
	mu      sync.Mutex
	readers int
	writing bool
	waiters []rwWaiter
}

type rwWaiter struct {
	write bool
	turn  chan struct{}
}

// Lock waits until there is neither reader nor writer and takes the lock for writing.
func (m *RWMutex) Lock() { m.wait(true) }

// RLock waits until there is no writer, nor one waiting, and takes the lock for reading.
func (m *RWMutex) RLock() { m.wait(false) }

func (m *RWMutex) wait(write bool) {
	m.mu.Lock()
	if len(m.waiters) == 0 && m.freeLocked(write) {
		m.takeLocked(write)
		m.mu.Unlock()
		return
	}
	w := rwWaiter{write: write, turn: make(chan struct{})}
	m.waiters = append(m.waiters, w)
	m.mu.Unlock()
	<-w.turn
}

// TryLock takes the lock for writing if nobody has it.
func (m *RWMutex) TryLock() bool { return m.try(true) }

// TryRLock takes the lock for reading if no writer has it or waits for it.
func (m *RWMutex) TryRLock() bool { return m.try(false) }

func (m *RWMutex) try(write bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.waiters) > 0 || !m.freeLocked(write) {
		return false
	}
	m.takeLocked(write)
	return true
}

// Unlock ends writing.
func (m *RWMutex) Unlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.writing {
		panic("xsync: unlock of an unlocked RWMutex")
	}
	m.writing = false
	m.releaseLocked()
}

// RUnlock ends one reader.
func (m *RWMutex) RUnlock() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.readers == 0 {
		panic("xsync: read unlock of an unlocked RWMutex")
	}
	m.readers--
	m.releaseLocked()
}

func (m *RWMutex) freeLocked(write bool) bool { return !m.writing && (!write || m.readers == 0) }

func (m *RWMutex) takeLocked(write bool) {
	if write {
		m.writing = true
	} else {
		m.readers++
	}
}

func (m *RWMutex) releaseLocked() {
	for len(m.waiters) > 0 && m.freeLocked(m.waiters[0].write) {
		w := m.waiters[0]
		m.waiters = m.waiters[1:]
		m.takeLocked(w.write)
		close(w.turn)
	}
}
