package cli

import (
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// perfStats counts acknowledged records.
type perfStats struct {
	w        io.Writer
	interval time.Duration
	warmup   int64 // records with a lower number are not part of the steady state
	shown    *progress

	mu     sync.Mutex
	err    error // the first one is enough to tell
	all    perfWindow
	steady perfWindow // begins when the first record after the warm-up is sent
	window perfWindow // since the last report
}

// perfWindow is what was acknowledged from a time on. Latencies are in ms.
type perfWindow struct {
	since          time.Time
	records, bytes int64
	sum, max       int64
	latencies      sample
}

// sample keeps one in every values, at most half a million of them.
type sample struct {
	kept  []int32
	every int64
}

func (s *sample) add(n int64, ms int64) {
	if s.every = max(s.every, 1); n%s.every != 0 {
		return
	}
	if s.kept = append(s.kept, int32(ms)); len(s.kept) == 500_000 {
		for i := range 250_000 {
			s.kept[i] = s.kept[2*i+1]
		}
		s.kept, s.every = s.kept[:250_000], 2*s.every
	}
}

func newPerfStats(w io.Writer, interval time.Duration, warmup int64, shown *progress) *perfStats {
	now := time.Now()
	return &perfStats{w: w, interval: interval, warmup: warmup, shown: shown, all: perfWindow{since: now}, window: perfWindow{since: now}}
}

func (s *perfStats) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// done counts record number n.
func (s *perfStats) done(n int64, sent time.Time, size int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if s.err == nil {
			s.err = err
		}
		return
	}
	s.shown.add(1)
	ms := time.Since(sent).Milliseconds()
	s.all.add(size, ms, true)
	s.window.add(size, ms, false)
	if s.warmup > 0 && n >= s.warmup {
		if s.steady.since.IsZero() || sent.Before(s.steady.since) {
			s.steady.since = sent
		}
		s.steady.add(size, ms, true)
	}
	if now := time.Now(); now.Sub(s.window.since) >= s.interval {
		w := s.window
		seconds := now.Sub(w.since).Seconds()
		fmt.Fprintf(s.w, "%d records sent, %.1f records/sec (%.2f MB/sec), %.1f ms avg latency, %.1f ms max latency.\n",
			w.records, float64(w.records)/seconds, float64(w.bytes)/seconds/(1<<20), float64(w.sum)/float64(w.records), float64(w.max))
		s.window = perfWindow{since: now}
	}
}

func (w *perfWindow) add(size int, ms int64, keep bool) {
	w.records++
	w.bytes += int64(size)
	w.sum += ms
	w.max = max(w.max, ms)
	if keep {
		w.latencies.add(w.records, ms)
	}
}

// perfTotal is the whole run, or its steady state.
type perfTotal struct {
	Records    int64      `json:"records"`
	PerSecond  float64    `json:"recordsPerSecond"`
	MBPerSec   float64    `json:"mebibytesPerSecond"`
	AvgMs      float64    `json:"avgLatencyMs"`
	MaxMs      int64      `json:"maxLatencyMs"`
	P50        int32      `json:"p50LatencyMs"`
	P95        int32      `json:"p95LatencyMs"`
	P99        int32      `json:"p99LatencyMs"`
	P999       int32      `json:"p999LatencyMs"`
	DurationMs int64      `json:"durationMs"`
	Steady     *perfTotal `json:"steadyState,omitempty"`
}

func (s *perfStats) total() perfTotal {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	total := s.all.total(now)
	if s.steady.records > 0 {
		steady := s.steady.total(now)
		total.Steady = &steady
	}
	return total
}

func (w *perfWindow) total(now time.Time) perfTotal {
	took := now.Sub(w.since)
	kept := w.latencies.kept
	slices.Sort(kept)
	at := func(share float64) int32 {
		if len(kept) == 0 {
			return 0
		}
		return kept[min(len(kept)-1, int(share*float64(len(kept))))]
	}
	return perfTotal{w.records, float64(w.records) / took.Seconds(), float64(w.bytes) / took.Seconds() / (1 << 20),
		float64(w.sum) / float64(max(1, w.records)), w.max, at(0.5), at(0.95), at(0.99), at(0.999), took.Milliseconds(), nil}
}

// print writes the line that ProducerPerformance ends with; of says which records.
func (t *perfTotal) print(w io.Writer, of string) {
	fmt.Fprintf(w, "%d %srecords sent, %.6f records/sec (%.2f MB/sec), %.2f ms avg latency, %.2f ms max latency, %d ms 50th, %d ms 95th, %d ms 99th, %d ms 99.9th.\n",
		t.Records, of, t.PerSecond, t.MBPerSec, t.AvgMs, float64(t.MaxMs), t.P50, t.P95, t.P99, t.P999)
}
