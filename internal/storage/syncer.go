package storage

import (
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/xsync"
)

// syncer is the group commit of one directory. Its one goroutine takes every log that waits, syncs them side by side,
// lets each one's owner know as soon as it is done, and begins again with what has come meanwhile. There is no delay: the
// time of one round is what gathers appends for the next.
type syncer struct {
	d       *Directory
	metrics *syncMetrics
	wake    chan struct{} // capacity 1

	mu      xsync.Mutex
	waiting []*Log
}

type syncMetrics struct {
	seconds prometheus.Histogram
	rounds  prometheus.Counter
}

func newSyncer(d *Directory) *syncer { return &syncer{d: d, wake: make(chan struct{}, 1)} }

func (s *syncer) kick() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// add puts a log in line. Each log is in line at most once: Log.queued is taken.
func (s *syncer) add(l *Log) {
	s.mu.Lock()
	s.waiting = append(s.waiting, l)
	first := len(s.waiting) == 1
	s.mu.Unlock()
	if first {
		s.kick()
	}
}

// take returns all logs in line and uses spare for those to come.
func (s *syncer) take(spare []*Log) []*Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.waiting
	s.waiting = spare[:0]
	return taken
}

// run works until stop is closed. tell tells every log of the directory that it failed.
func (s *syncer) run(stop <-chan struct{}, tell func()) {
	for s.await(stop) {
		s.drain()
	}
	if !s.d.Online() {
		tell()
	}
}

// await returns true when there is something to sync, false when the work is over.
func (s *syncer) await(stop <-chan struct{}) bool {
	select {
	case <-stop:
		return false
	case <-s.d.failed:
		return false
	case <-s.wake:
	}
	if s.d.o.FlushBeforeAck {
		return s.d.Online() && !received(stop)
	}
	// Nobody waits for the disk: sync now and then only, to keep recovery short.
	lazy := time.NewTimer(s.d.o.LazySyncInterval)
	defer lazy.Stop()
	select {
	case <-stop:
		return false
	case <-s.d.failed:
		return false
	case <-lazy.C:
		return s.d.Online() && !received(stop)
	}
}

// drain runs rounds until no log is in line or the directory has failed.
func (s *syncer) drain() {
	var spare []*Log
	for s.d.Online() {
		round := s.take(spare)
		if len(round) == 0 {
			return
		}
		s.round(round)
		clear(round)
		spare = round
	}
}

func (s *syncer) round(logs []*Log) {
	s.metrics.rounds.Inc()
	for _, l := range logs {
		// Before its sync: an append from here on puts the log in line again, and one before is covered.
		l.queued.Store(false)
	}
	if len(logs) == 1 {
		logs[0].sync()
		return
	}
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
