package quorum

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/metrics"
)

// quorumMetrics counts what the loop does. A nil one counts nothing.
type quorumMetrics struct {
	entries   prometheus.Counter
	bytes     prometheus.Counter
	seconds   prometheus.Histogram
	committed prometheus.Histogram
	changes   prometheus.Counter
}

func newMetrics(set *metrics.Set, q *Quorum) *quorumMetrics {
	set.GaugeFunc("moldau_metadata_log_end_offset", "Offset after the last record of the metadata log.",
		func() float64 { return float64(q.store.log.LogEnd()) })
	set.GaugeFunc("moldau_metadata_high_watermark", "Offset after the last committed record of the metadata log.",
		func() float64 { return float64(q.Status().HighWatermark) })
	set.GaugeFunc("moldau_metadata_leader_epoch", "Leader epoch of the metadata quorum, which is raft's term.",
		func() float64 { return float64(q.Status().Epoch) })
	set.GaugeFunc("moldau_metadata_leader_id", "Node id of the leader of the metadata quorum; -1 if it is not known here.",
		func() float64 { return float64(q.Status().LeaderID) })
	set.GaugeFunc("moldau_metadata_voters", "Voters of the metadata quorum.",
		func() float64 { return float64(len(q.Status().VoterSet)) })
	set.GaugeFunc("moldau_metadata_max_voter_lag", "On the leader: records that the voter furthest behind does not have.",
		func() float64 { return float64(q.maxLag()) })
	return &quorumMetrics{
		entries:   set.Counter("moldau_metadata_appended_batches_total", "Batches stored in the metadata log."),
		bytes:     set.Counter("moldau_metadata_appended_bytes_total", "Bytes stored in the metadata log."),
		seconds:   set.Seconds("moldau_metadata_append_seconds", "Time to write and sync a group of metadata batches."),
		committed: set.Seconds("moldau_metadata_commit_seconds", "On the leader: time from a proposal until it is committed and applied here."),
		changes:   set.Counter("moldau_metadata_leader_changes_total", "How often another node became the leader of the metadata quorum, or it lost its leader."),
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

func (m *quorumMetrics) commit(took time.Duration) {
	if m != nil {
		m.committed.Observe(took.Seconds())
	}
}

func (m *quorumMetrics) leaderChanged() {
	if m != nil {
		m.changes.Inc()
	}
}

// maxLag is how many records the voter furthest behind lacks; 0 on anybody but the leader.
func (q *Quorum) maxLag() int64 {
	s := q.Status()
	lag := int64(0)
	for _, v := range s.Voters {
		if s.LeaderID == q.self.ID {
			lag = max(lag, s.LogEnd-max(v.LogEnd, 0))
		}
	}
	return lag
}
