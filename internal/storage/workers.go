package storage

import (
	"sync"

	"moldau/internal/kafka"
	"moldau/internal/xsync"
)

// workers run jobs that wait for disks: those of one partition in order, of different partitions side by side, so many at
// once for each directory: one that stalls holds up the others' jobs as little as their appends. A goroutine lives only
// while there is work.
type workers struct {
	mu      xsync.Mutex
	each    int // jobs at once per directory
	dirs    int
	lent    int                            // jobs in the lane without directory that wait for a stalled one, for which others may run
	lines   map[kafka.TopicPartition]*line // an entry stays while one of its jobs is in line or running
	lanes   map[*Directory]*lane           // nil: of partitions that lie in no directory yet
	stopped bool
	wg      sync.WaitGroup
}

// maxLent bounds the jobs that may wait for stalled disks: each may hold a thread of the operating system.
const maxLent = 64

// lane is the partitions with jobs in one directory.
type lane struct {
	d       *Directory
	ready   []kafka.TopicPartition // with a job to start
	first   []kafka.TopicPartition // those that come before all of ready
	running int
}

// line is the jobs of one partition. It is named in its lane's ready or first unless one of them runs; what is named in
// first may be named in ready too, where it is passed over.
type line struct {
	lane    *lane
	jobs    []func()
	running bool
	hurried bool // named in first, or to be again when what runs is over
}

// newWorkers returns workers for so many directories, each jobs at once for each.
func newWorkers(each, dirs int) *workers {
	return &workers{each: each, dirs: dirs, lines: map[kafka.TopicPartition]*line{}, lanes: map[*Directory]*lane{}}
}

// limitLocked is how many jobs of a lane run at once.
func (w *workers) limitLocked(l *lane) int {
	if l.d == nil {
		return w.each*w.dirs + min(w.lent, maxLent)
	}
	return w.each
}

// setLimit changes how many jobs run at once per directory.
func (w *workers) setLimit(each int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.each = each
	for _, l := range w.lanes {
		w.startLocked(l)
	}
}

// lend says that n more jobs of partitions that lay in no directory wait for a stalled one; fewer if it is negative.
func (w *workers) lend(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lent += n
	if l := w.lanes[nil]; l != nil {
		w.startLocked(l)
	}
}

// startLocked begins as many goroutines as may run and have something to do.
func (w *workers) startLocked(l *lane) {
	for idle := len(l.first) + len(l.ready); idle > 0 && l.running < w.limitLocked(l) && !w.stopped; idle-- {
		l.running++
		w.wg.Go(func() { w.work(l) })
	}
}

// run puts a job in line, in the lane of the directory that the partition lies in. After stop it is dropped.
func (w *workers) run(d *Directory, key kafka.TopicPartition, job func()) { w.add(d, key, job, false) }

// runFirst puts a job before those of other partitions, together with what the partition has in line.
func (w *workers) runFirst(d *Directory, key kafka.TopicPartition, job func()) {
	w.add(d, key, job, true)
}

// hurry puts the jobs of a partition, if it has any in line, before those of partitions that nobody has hurried.
func (w *workers) hurry(key kafka.TopicPartition) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.lines[key]; l != nil {
		l.hurry(key)
	}
}

func (l *line) hurry(key kafka.TopicPartition) {
	if l.hurried {
		return
	}
	if l.hurried = true; !l.running {
		l.lane.first = append(l.lane.first, key)
	}
}

func (w *workers) add(d *Directory, key kafka.TopicPartition, job func(), first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if l, busy := w.lines[key]; busy { // in whatever lane, so that its jobs keep their order
		if l.jobs = append(l.jobs, job); first {
			l.hurry(key)
		}
		return
	}
	at := w.lanes[d]
	if at == nil {
		at = &lane{d: d}
		w.lanes[d] = at
	}
	l := &line{lane: at, jobs: []func(){job}}
	w.lines[key] = l
	if first {
		l.hurry(key)
	} else {
		at.ready = append(at.ready, key)
	}
	if at.running < w.limitLocked(at) {
		at.running++
		w.wg.Go(func() { w.work(at) })
	}
}

func (w *workers) work(at *lane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.stopped && at.running <= w.limitLocked(at) {
		key, l := w.nextLocked(at)
		if l == nil {
			break
		}
		job := l.jobs[0]
		l.jobs, l.running = l.jobs[1:], true
		w.mu.Unlock()
		job()
		w.mu.Lock()
		switch l.running = false; {
		case len(l.jobs) == 0:
			delete(w.lines, key)
		case l.hurried:
			at.first = append(at.first, key)
		default:
			at.ready = append(at.ready, key) // at the end: no partition starves the others
		}
	}
	at.running--
}

// nextLocked takes the next partition out of a lane that has a job to start; nil: there is none.
func (w *workers) nextLocked(at *lane) (kafka.TopicPartition, *line) {
	if len(at.first) > 0 {
		key := at.first[0]
		at.first = at.first[1:]
		return key, w.lines[key]
	}
	for len(at.ready) > 0 {
		key := at.ready[0]
		at.ready = at.ready[1:]
		if l := w.lines[key]; l != nil && l.lane == at && !l.running {
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
