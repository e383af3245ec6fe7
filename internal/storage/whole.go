package storage

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

const (
	// wholeFrom is how many logs are synced together by one sync of their whole filesystem rather than one by one:
	// docs/decisions/0002-sync-before-ack.md has what was measured.
	wholeFrom = 3

	// A sync of the whole filesystem also waits for what other programs have written. After this long the logs are synced
	// one by one, and nobody tries again for so many times as long as it took in the end.
	wholePatience = 500 * time.Millisecond
	wholePenalty  = 20

	// Where others write so much, the logs one by one take about so long each: thousands of them, as a start syncs them, have more
	// patience, and try again sooner.
	wholeEach = time.Millisecond
)

// whole syncs everything that is on a directory's filesystem at once. That costs about as much as the sync of one file,
// however many are dirty.
type whole struct {
	d *Directory

	// one holds a value during a sync. The kernel tells a failed write-back once: the sync that is not told would vouch for
	// what is lost, if it did not look at the directory afterwards.
	one chan struct{}

	disk vfs.Disk // nil: there is no such call, files have to be synced one by one. Closed with the directory

	mu        xsync.Mutex   // guards what follows
	running   bool          // one goes on
	notBefore time.Time     // other programs write much
	took      time.Duration // what the last one did that took too long
}

func openWhole(d *Directory) (*whole, error) {
	disk, err := d.o.FS.OpenDisk(d.path)
	if errors.Is(err, errors.ErrUnsupported) {
		d.logger.Info("files are synced one by one", "dir", d.path, "reason", err)
		return &whole{d: d}, nil
	}
	return &whole{d: d, disk: disk, one: make(chan struct{}, 1)}, err
}

// sync makes everything durable that was written before the call. An error has failed the directory already.
func (w *whole) sync() error {
	w.one <- struct{}{}
	defer func() { <-w.one }()
	if err := w.d.Err(); err != nil {
		return err
	}
	if err := w.disk.Sync(); err != nil {
		w.d.fail(fmt.Errorf("sync its filesystem: %w", err))
	}
	return w.d.Err()
}

// advance is a log on the way to a new recovery point.
type advance struct {
	l     *Log
	f     *commitlog.Flush // nil: nothing has to be synced
	began bool             // a sync has been made for it
}

// advance brings logs to the recovery points for which all is written, with as many syncs as the one takes that needs most. An
// error has failed the directory already.
func (w *whole) advance(steps []advance) {
	for len(steps) > 0 {
		steps = w.next(steps)
	}
}

// next syncs once for all of the logs, and returns those that need another sync.
func (w *whole) next(steps []advance) []advance {
	steps = slices.DeleteFunc(steps, func(s advance) bool { return s.f == nil })
	if len(steps) == 0 || w.sync() != nil {
		return nil
	}
	rest := steps[:0]
	for _, s := range steps {
		if s.l.endAdvance(s.f, !s.began) {
			s.began = true
			rest = append(rest, s)
		}
	}
	return rest
}

func (w *whole) close() error {
	if w.disk == nil {
		return nil
	}
	return w.disk.Close()
}

// worthwhile tells whether so many logs should be synced by try.
func (w *whole) worthwhile(logs int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if logs < w.d.o.SyncWholeFrom || w.disk == nil || w.running {
		return false
	}
	return !w.d.o.Now().Before(w.notBefore) || oneByOne(logs) > w.took
}

// oneByOne is about what the syncs of so many logs take where others write much.
func oneByOne(logs int) time.Duration { return time.Duration(logs) * wholeEach }

// begin is sync for somebody who need not wait. over, which must not wait, is told how it ended, and then the channel.
func (w *whole) begin(over func(error)) <-chan error {
	w.mu.Lock()
	w.running = true
	w.mu.Unlock()
	result := make(chan error, 1)
	w.d.s.running.Go(func() {
		err := w.sync()
		over(err)
		w.mu.Lock()
		w.running = false
		w.mu.Unlock()
		result <- err
	})
	return result
}

// try is sync for so many logs, with patience. It returns false if that was not enough: then the sync goes on, and its failure
// fails the directory all the same, but nobody waits for it.
func (w *whole) try(logs int) (done bool, err error) {
	began := w.d.o.Now()
	result := w.begin(func(error) {
		if took := w.d.since(began); took > wholePatience {
			w.mu.Lock()
			w.took = took
			w.notBefore = w.d.o.Now().Add(wholePenalty * took)
			w.mu.Unlock()
		}
	})
	timer := time.NewTimer(max(wholePatience, oneByOne(logs)))
	defer timer.Stop()
	select {
	case err = <-result:
		return true, err
	case <-timer.C:
	}
	select { // what is there has an order
	case err = <-result:
		return true, err
	default:
		return false, nil
	}
}
