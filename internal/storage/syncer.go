package storage

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/commitlog"
	"moldau/internal/xsync"
)

// How eagerly a log is synced for which nobody waits (Log.Hurry): a sync costs by the file rather than by the byte, so
// that one which comes a little later does the work of many.
const (
	lazyTime  = 10 * time.Millisecond
	lazyBytes = 1 << 20 // of one log
)

// gatherTime is how long the syncer is idle at most between two rounds for the sake of the second. It is no longer than the
// first took, either.
const gatherTime = 2 * time.Millisecond

// startAhead is how many logs begin to write before the first of them is waited for.
const startAhead = 64

// syncer is the group commit of one directory. Its one goroutine takes the logs in line that somebody waits for, and all
// logs now and then; it syncs them in one round, lets each one's owner know as soon as it is done, and begins again with
// what has come meanwhile. For those who wait there is no fixed delay: the time of one round is what gathers appends for
// the next, and a little more where more are to be expected (gather).
type syncer struct {
	d       *Directory
	metrics *syncMetrics
	wake    chan struct{} // capacity 1

	// asked counts those who began to wait since the last round began. At enough of them the syncer is woken: at each
	// while it is idle, at as many as it expects while it gathers.
	asked, enough atomic.Int64
	// came is asked at the moment when the first log of a round was done, -1 before: whoever comes later may be one whom the
	// round has served, back already.
	came atomic.Int64

	// The memory of one round, for the next; and what ends a wait for the next.
	logs    []*Log
	flushes []*commitlog.Flush
	over    *time.Timer

	mu   xsync.Mutex
	line []*Log // each at most once: Log.inLine says how
}

type syncMetrics struct {
	seconds prometheus.Histogram
	rounds  prometheus.Counter
}

// The values of Log.inLine.
const (
	notInLine int32 = iota
	patientInLine
	urgentInLine
)

func newSyncer(d *Directory) *syncer { return &syncer{d: d, wake: make(chan struct{}, 1)} }

func (s *syncer) kick() { signal(s.wake) }

// add puts a log in line, whose inLine has just ceased to be notInLine.
func (s *syncer) add(l *Log) {
	s.mu.Lock()
	s.line = append(s.line, l)
	first := len(s.line) == 1
	s.mu.Unlock()
	// One that has become urgent before it was in line was not found there by the syncer that was woken for it.
	if first || l.inLine.Load() == urgentInLine || l.flush.wait.Load() > 0 {
		s.kick()
	}
}

// ask says that one more waits for logs in line.
func (s *syncer) ask() {
	if s.asked.Add(1) >= s.enough.Load() {
		s.kick()
	}
}

// take takes the urgent logs out of the line, or all, and tells how long those that are left may wait: at most as long as
// most, 0 if there are none.
func (s *syncer) take(all bool, most time.Duration) (round []*Log, left time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	round = s.logs[:0]
	stay := s.line[:0]
	for _, l := range s.line {
		if !all && l.inLine.Load() != urgentInLine {
			stay = append(stay, l)
			if left = cmp.Or(left, most); l.flush.wait.Load() > 0 {
				left = min(left, time.Duration(l.flush.wait.Load()))
			}
			continue
		}
		// Before its sync: an append from here on puts the log in line again, and one before is covered.
		l.inLine.Store(notInLine)
		round = append(round, l)
	}
	clear(s.line[len(stay):])
	s.line, s.logs = stay, round
	return round, left
}

// run works until stop is closed. tell tells every log of the directory that it failed.
func (s *syncer) run(stop <-chan struct{}, tell func()) {
	due := newAlarm() // for those in line that are not urgent
	defer due.stop()
	for s.await(stop, due) {
		s.drain(stop, due)
	}
	if !s.d.Online() {
		tell()
	}
}

// await returns true when there may be something to do, false when the work is over.
func (s *syncer) await(stop <-chan struct{}, due *alarm) bool {
	select {
	case <-stop:
	case <-s.d.failed:
	case <-s.wake:
	case <-due.c():
		due.ring()
	}
	// The select takes any of what has come together; what is done about it has an order.
	return s.d.Online() && !received(stop)
}

// drain runs rounds until nothing in line is urgent or due, or the directory has failed.
func (s *syncer) drain(stop <-chan struct{}, due *alarm) {
	wait := lazyTime
	if !s.d.o.FlushBeforeAck {
		wait = s.d.o.LazySyncInterval // only to keep recovery short
	}
	for s.d.Online() {
		round, left := s.take(due.due(), wait)
		if left > 0 {
			due.advance(left)
		}
		if len(round) == 0 {
			return
		}
		s.came.Store(-1)
		served, began := s.asked.Swap(0), s.d.o.Now()
		s.round(round)
		clear(round)
		s.gather(stop, served+max(s.came.Load(), 0), min(s.d.since(began), gatherTime))
	}
}

// gather lets those whom a round has served come back, and wait for the next one together with those who came during it:
// otherwise the clients of a busy broker fall into two halves that wait for each other's rounds, and each sync does half of
// what it could. It takes no longer than most, and no time when enough are there: as many as the round has served, and as
// have come before it served anybody.
func (s *syncer) gather(stop <-chan struct{}, enough int64, most time.Duration) {
	if s.asked.Load() >= enough || most <= 0 {
		return
	}
	s.enough.Store(enough)
	defer s.enough.Store(0)
	if s.over == nil {
		s.over = time.NewTimer(most)
	} else {
		s.over.Reset(most)
	}
	defer s.over.Stop()
	for s.asked.Load() < enough {
		select {
		case <-s.wake:
		case <-s.over.C:
			return
		case <-stop:
			return
		case <-s.d.failed:
			return
		}
	}
}

// done says that a log of the round is synced and its owner is about to hear of it.
func (s *syncer) done() {
	if s.came.Load() < 0 {
		s.came.CompareAndSwap(-1, s.asked.Load())
	}
}

func (s *syncer) round(logs []*Log) {
	s.metrics.rounds.Inc()
	if s.d.whole.worthwhile(len(logs)) && s.syncWhole(logs) {
		return
	}
	if len(logs) == 1 {
		logs[0].sync()
		return
	}
	for some := range slices.Chunk(logs, startAhead) {
		for _, l := range some {
			l.startSync()
		}
		s.sync(some)
	}
}

// syncWhole syncs the logs by a sync of their whole filesystem. It returns false if that takes too long: then nothing has
// been said of any of them.
func (s *syncer) syncWhole(logs []*Log) bool {
	began := s.d.o.Now()
	s.flushes = s.flushes[:0]
	for _, l := range logs {
		s.flushes = append(s.flushes, l.beginSync())
	}
	defer func() { clear(s.flushes) }()
	done, err := s.d.whole.try(len(logs))
	if !done {
		return false
	}
	s.metrics.seconds.Observe(s.d.since(began).Seconds())
	if err != nil {
		return true // the directory has failed, which every log of it is told
	}
	for i, l := range logs {
		l.endSync(s.flushes[i])
	}
	return true
}

// sync syncs logs side by side. One after the other, now that all have begun to write, would take a sixth less CPU on an
// idle machine, but on a busy one each of them waits for its turn at a processor.
func (s *syncer) sync(logs []*Log) {
	var next xsync.Mutex
	var wg sync.WaitGroup
	for range min(len(logs), s.d.o.SyncThreads) {
		wg.Go(func() {
			for {
				next.Lock()
				if len(logs) == 0 || !s.d.Online() {
					next.Unlock()
					return
				}
				l := logs[0]
				logs = logs[1:]
				next.Unlock()
				l.sync()
			}
		})
	}
	wg.Wait()
}

// syncFailed ends the directory: what the failed sync was to write may be gone from memory and never reach the disk,
// and a second sync would not say so.
func (d *Directory) syncFailed(l *Log, err error) {
	d.fail(fmt.Errorf("sync %s: %w", l.tp, err))
}
