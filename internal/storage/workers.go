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
	jobs    map[kafka.TopicPartition][]func() // an entry stays while one of its jobs is in line or running
	ready   []kafka.TopicPartition            // partitions with a job to start
	first   []kafka.TopicPartition            // those that come before all of ready
	running int
	stopped bool
	wg      sync.WaitGroup
}

func newWorkers(limit int) *workers {
	return &workers{limit: limit, jobs: map[kafka.TopicPartition][]func(){}}
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

func (w *workers) add(key kafka.TopicPartition, job func(), first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	queue, busy := w.jobs[key]
	w.jobs[key] = append(queue, job)
	if busy {
		return
	}
	if first {
		w.first = append(w.first, key)
	} else {
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
	for len(w.first)+len(w.ready) > 0 && !w.stopped && w.running <= w.limit {
		line := &w.first
		if len(w.first) == 0 {
			line = &w.ready
		}
		key := (*line)[0]
		*line = (*line)[1:]
		job := w.jobs[key][0]
		w.mu.Unlock()
		job()
		w.mu.Lock()
		if rest := w.jobs[key][1:]; len(rest) > 0 {
			w.jobs[key] = rest
			w.ready = append(w.ready, key) // at the end: no partition starves the others
		} else {
			delete(w.jobs, key)
		}
	}
	w.running--
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
