package storage

import (
	"path/filepath"
	"slices"
	"time"

	"moldau/internal/xsync"
)

// doomed is a renamed folder that waits for its removal.
type doomed struct {
	path string
	due  time.Time
}

// retention deletes in one directory what is too old or too much, forgets idle producers, and removes later the files and folders
// that were only renamed.
type retention struct {
	d    *Directory
	wake chan struct{} // capacity 1

	mu     xsync.Mutex
	doomed []doomed
}

func newRetention(d *Directory) *retention { return &retention{d: d, wake: make(chan struct{}, 1)} }

// doom puts a folder in line for removal.
func (r *retention) doom(path string, due time.Time) {
	r.mu.Lock()
	r.doomed = append(r.doomed, doomed{path, due})
	r.mu.Unlock()
	signal(r.wake)
}

func (r *retention) run(stop <-chan struct{}) {
	pass, producers, folders, files := newAlarm(), newAlarm(), newAlarm(), newAlarm()
	pass.set(phase(r.d.o.RetentionInterval))
	producers.set(phase(r.d.o.ProducerInterval))
	defer pass.stop()
	defer producers.stop()
	defer folders.stop()
	defer files.stop()
	for {
		if wait, some := r.untilNextFolder(); some {
			folders.set(wait)
		}
		woken := false
		select {
		case <-stop:
		case <-r.wake:
			woken = true
		case <-folders.c():
			folders.ring()
		case <-pass.c():
			pass.ring()
		case <-producers.c():
			producers.ring()
		case <-files.c():
			files.ring()
		}
		// As in keeper.run: an order for what has come together.
		if received(stop) {
			return
		}
		if woken || received(r.wake) {
			folders.stop() // to be set anew
		}
		if folders.due() {
			r.removeFolders(stop)
		}
		if pass.due() {
			if delay, some := r.retainAll(stop); some {
				files.set(delay)
			}
			pass.set(r.d.o.RetentionInterval)
		}
		if producers.due() {
			r.expireProducers(stop)
			producers.set(r.d.o.ProducerInterval)
		}
		if files.due() {
			if delay, some := r.removeFiles(stop); some {
				files.set(delay)
			}
		}
	}
}

// retainAll makes one pass over all logs of the directory. It returns when files that are only renamed can be removed, if there are any.
func (r *retention) retainAll(stop <-chan struct{}) (delay time.Duration, some bool) {
	return r.each(stop, func(l *Log, now time.Time) (bool, error) { return l.retain(now) })
}

func (r *retention) expireProducers(stop <-chan struct{}) {
	r.each(stop, func(l *Log, now time.Time) (bool, error) {
		l.expireProducers(now, r.d.s.producerExpiryMs.Load())
		return false, nil
	})
}

func (r *retention) removeFiles(stop <-chan struct{}) (delay time.Duration, some bool) {
	return r.each(stop, func(l *Log, now time.Time) (bool, error) { return l.removeFiles(now) })
}

func (r *retention) each(stop <-chan struct{}, f func(l *Log, now time.Time) (left bool, err error)) (delay time.Duration, some bool) {
	for _, l := range r.d.logs() {
		select {
		case <-stop:
			return 0, false
		default:
		}
		if !r.d.Online() {
			return 0, false
		}
		left, err := f(l, r.d.o.Now())
		if err != nil {
			_ = r.d.ioFailed(err) // retention has no caller to tell; the directory is offline or full now
			continue
		}
		if left {
			d := time.Duration(l.Config().FileDeleteDelayMs)*time.Millisecond + time.Millisecond
			if !some || d < delay {
				delay, some = d, true
			}
		}
	}
	return delay, some
}

func (r *retention) untilNextFolder() (wait time.Duration, some bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.doomed) == 0 {
		return 0, false
	}
	first := slices.MinFunc(r.doomed, func(a, b doomed) int { return a.due.Compare(b.due) })
	return max(0, first.due.Sub(r.d.o.Now())), true
}

func (r *retention) removeFolders(stop <-chan struct{}) {
	now := r.d.o.Now()
	r.mu.Lock()
	var due, later []doomed
	for _, d := range r.doomed {
		if d.due.After(now) {
			later = append(later, d)
		} else {
			due = append(due, d)
		}
	}
	r.doomed = later
	r.mu.Unlock()
	for _, d := range due {
		select {
		case <-stop:
			return // the name says what it is: the next start removes it
		default:
		}
		if !r.d.Online() {
			return
		}
		if err := r.d.o.FS.RemoveAll(d.path); err != nil {
			_ = r.d.ioFailed(err)
			continue
		}
		r.d.logger.Info("deleted partition folder", "folder", filepath.Base(d.path))
	}
}
