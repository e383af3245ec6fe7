package storage

import (
	"sync"

	"moldau/internal/kafka"
	"moldau/internal/xsync"
)

// workers run jobs that wait for disks: those of one partition in order, of different partitions side by side. A
// goroutine lives only while there is work.
type workers struct {
	mu      xsync.Mutex
	limit   int
	lines   map[kafka.TopicPartition]*line // an entry stays while one of its jobs is in line or running
	ready   []kafka.TopicPartition         // partitions with a job to start
	first   []kafka.TopicPartition         // those that come before all of ready
	running int
	stopped bool
	wg      sync.WaitGroup
}

// line is the jobs of one partition. It is named in ready or first unless one of them runs; what is named in first may be
// named in ready too, where it is passed over.
type line struct {
	jobs    []func()
	running bool
	hurried bool // named in first
}

func newWorkers(limit int) *workers {
	return &workers{limit: limit, lines: map[kafka.TopicPartition]*line{}}
}

// setLimit changes how many jobs run at once.
func (w *workers) setLimit(limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limit = limit
	for idle := len(w.first) + len(w.ready); idle > 0 && w.running < w.limit && !w.stopped; idle-- {
		w.running++
		w.wg.Go(w.work)
	}
}

// run puts a job in line. After stop it is dropped.
func (w *workers) run(key kafka.TopicPartition, job func()) { w.add(key, job, false) }

// runFirst puts a job before those of other partitions.
func (w *workers) runFirst(key kafka.TopicPartition, job func()) { w.add(key, job, true) }

// hurry puts the jobs of a partition, if it has any in line, before those of partitions that nobody has hurried.
func (w *workers) hurry(key kafka.TopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.lines[key]; l != nil {
		w.hurryLocked(key, l)
	}
}

func (w *workers) hurryLocked(key kafka.TopicPartition, l *line) {
	if !l.running && !l.hurried {
		l.hurried = true
		w.first = append(w.first, key)
	}
}

func (w *workers) add(key kafka.TopicPartition, job func(), first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	l, busy := w.lines[key]
	if !busy {
		l = &line{}
		w.lines[key] = l
	}
	l.jobs = append(l.jobs, job)
	switch {
	case busy:
		return
	case first:
		w.hurryLocked(key, l)
	default:
		w.ready = append(w.ready, key)
	}
	if w.running < w.limit {
		w.running++
		w.wg.Go(w.work)
	}
}

func (w *workers) work() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.stopped && w.running <= w.limit {
		key, l := w.nextLocked()
		if l == nil {
			break
		}
		job := l.jobs[0]
		l.jobs, l.running = l.jobs[1:], true
		w.mu.Unlock()
		job()
		w.mu.Lock()
		if l.running = false; len(l.jobs) > 0 {
			w.ready = append(w.ready, key) // at the end: no partition starves the others
		} else {
			delete(w.lines, key)
		}
	}
	w.running--
}

// nextLocked takes the next partition out of line that has a job to start; nil: there is none.
func (w *workers) nextLocked() (kafka.TopicPartition, *line) {
	if len(w.first) > 0 {
		key := w.first[0]
		w.first = w.first[1:]
		l := w.lines[key]
		l.hurried = false
		return key, l
	}
	for len(w.ready) > 0 {
		key := w.ready[0]
		w.ready = w.ready[1:]
		if l := w.lines[key]; l != nil && !l.running {
			return key, l
		}
	}
	return kafka.TopicPartition{}, nil
}

// stop drops what has not begun and waits for the rest.
func (w *workers) stop() {
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	w.wg.Wait()
}

// wait lets everything in line finish. No job may be added meanwhile.
func (w *workers) wait() { w.wg.Wait() }
