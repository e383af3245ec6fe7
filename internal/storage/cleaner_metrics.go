package storage

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/commitlog"
)

// cleanerMetrics is what the node counts about compaction.
type cleanerMetrics struct {
	passes, read, written, dropped prometheus.Counter

	broken   atomic.Int64
	lookedMs atomic.Int64
	dirtiest atomic.Uint64 // bits of a float64
}

func (c *cleaner) declareMetrics() {
	m := c.s.o.Metrics
	c.metrics = &cleanerMetrics{
		passes:  m.Counter("moldau_log_cleaner_passes_total", "Compactions of a partition that have ended, whatever came of them."),
		read:    m.Counter("moldau_log_cleaner_read_bytes_total", "Bytes that compaction has read."),
		written: m.Counter("moldau_log_cleaner_written_bytes_total", "Bytes that compaction has written."),
		dropped: m.Counter("moldau_log_cleaner_dropped_records_total", "Records that compaction has left out of what it wrote."),
	}
	c.metrics.lookedMs.Store(c.s.o.Now().UnixMilli())
	m.GaugeFunc("moldau_log_cleaner_dirtiest_ratio", "Largest part of a compacted partition that compaction has not seen, of those it could look at.",
		func() float64 { return math.Float64frombits(c.metrics.dirtiest.Load()) })
	m.GaugeFunc("moldau_log_cleaner_seconds_since_look", "Time since compaction last looked for work.", func() float64 {
		return max(0, float64(c.s.o.Now().UnixMilli()-c.metrics.lookedMs.Load())/1000)
	})
	m.GaugeFunc("moldau_log_cleaner_uncleanable_partitions", "Partitions that compaction cannot read.",
		func() float64 { return float64(c.metrics.broken.Load()) })
}

func (m *cleanerMetrics) looked(now time.Time, dirtiest float64) {
	m.lookedMs.Store(now.UnixMilli())
	m.dirtiest.Store(math.Float64bits(dirtiest))
}

func (m *cleanerMetrics) count(done commitlog.Compacted) {
	m.passes.Inc()
	m.read.Add(float64(done.ReadBytes))
	m.written.Add(float64(done.WrittenBytes))
	m.dropped.Add(float64(done.RecordsRead - done.RecordsKept))
}
