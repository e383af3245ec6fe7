package quorum

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/metrics"
)

// quorumMetrics counts what the loop does. A nil one counts nothing.
type quorumMetrics struct {
	entries prometheus.Counter
	bytes   prometheus.Counter
	seconds prometheus.Histogram
}

func newMetrics(set *metrics.Set, q *Quorum) *quorumMetrics {
	set.GaugeFunc("moldau_metadata_log_end_offset", "Offset after the last record of the metadata log.",
		func() float64 { return float64(q.store.log.LogEnd()) })
	set.GaugeFunc("moldau_metadata_high_watermark", "Offset after the last committed record of the metadata log.",
		func() float64 { return float64(q.Status().HighWatermark) })
	set.GaugeFunc("moldau_metadata_leader_epoch", "Leader epoch of the metadata quorum, which is raft's term.",
		func() float64 { return float64(q.Status().Epoch) })
	return &quorumMetrics{
		entries: set.Counter("moldau_metadata_appended_batches_total", "Batches stored in the metadata log."),
		bytes:   set.Counter("moldau_metadata_appended_bytes_total", "Bytes stored in the metadata log."),
		seconds: set.Seconds("moldau_metadata_append_seconds", "Time to write and sync a group of metadata batches."),
	}
}

func (m *quorumMetrics) appended(entries, bytes int, took time.Duration) {
	if m == nil {
		return
	}
	m.entries.Add(float64(entries))
	m.bytes.Add(float64(bytes))
	m.seconds.Observe(took.Seconds())
}
