package storage

import (
	"math"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/commitlog"
)

// cleanerMetrics is what the node counts about compaction.
type cleanerMetrics struct {
	passes, read, written, dropped prometheus.Counter

	broken atomic.Int64
}

func (c *cleaner) declareMetrics() {
	m := c.s.o.Metrics
	c.metrics = &cleanerMetrics{
		passes:  m.Counter("moldau_log_cleaner_passes_total", "Compactions of a partition that have ended, whatever came of them."),
		read:    m.Counter("moldau_log_cleaner_read_bytes_total", "Bytes that compaction has read."),
		written: m.Counter("moldau_log_cleaner_written_bytes_total", "Bytes that compaction has written."),
		dropped: m.Counter("moldau_log_cleaner_dropped_records_total", "Records that compaction has left out of what it wrote."),
	}
	m.GaugeFunc("moldau_log_cleaner_dirtiest_ratio", "Largest part of a compacted partition that compaction has not seen, of those it could look at.",
		func() float64 {
			dirtiest := 0.0
			for _, d := range c.s.dirs {
				dirtiest = max(dirtiest, math.Float64frombits(d.cleaning.dirtiest.Load()))
			}
			return dirtiest
		})
	m.GaugeFunc("moldau_log_cleaner_seconds_since_look", "Time since compaction last looked for work, in the directory where that is longest ago.", func() float64 {
		oldest := int64(math.MaxInt64)
		for _, d := range c.s.dirs {
			if d.Online() {
				oldest = min(oldest, d.cleaning.lookedMs.Load())
			}
		}
		return max(0, float64(c.s.o.Now().UnixMilli()-oldest)/1000)
	})
	m.GaugeFunc("moldau_log_cleaner_uncleanable_partitions", "Partitions that compaction cannot read.",
		func() float64 { return float64(c.metrics.broken.Load()) })
}

func (m *cleanerMetrics) count(done commitlog.Compacted) {
	m.passes.Inc()
	m.read.Add(float64(done.ReadBytes))
	m.written.Add(float64(done.WrittenBytes))
	m.dropped.Add(float64(done.RecordsRead - done.RecordsKept))
}
