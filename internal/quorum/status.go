package quorum

import (
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// Status is what DescribeQuorum tells.
type Status struct {
	LeaderID      kafka.NodeID // -1 if unknown
	Epoch         kafka.Epoch
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
	LogEnd        kafka.Offset
	Voters        []Replica  // by node id
	Observers     []Replica  // by node id
	VoterSet      []Voter    // by node id
	LatestID      SnapshotID // of the newest snapshot
}

// Replica is how far one voter or observer has come, as its leader knows it.
type Replica struct {
	ID             kafka.NodeID
	DirID          kafka.DirID
	LogEnd         kafka.Offset // -1 if unknown
	LastFetchMs    int64        // when it last fetched, ms since 1970; -1 if never
	LastCaughtUpMs int64        // when it last had everything, ms since 1970; -1 if never
}

// Status returns the state of the quorum as this node sees it.
func (q *Quorum) Status() Status {
	now := q.o.Now().UnixMilli()
	s := Status{LogStart: q.store.log.LogStart(), LogEnd: q.store.log.LogEnd(), LatestID: q.store.newestSnapshot().id}
	q.mu.Lock()
	defer q.mu.Unlock()
	s.LeaderID, s.Epoch, s.HighWatermark = q.leader, q.epoch, q.highWatermark
	s.VoterSet = q.members.newest().voters
	s.Observers = q.observersLocked(now)
	for _, v := range s.VoterSet {
		r := Replica{ID: v.ID, DirID: v.DirID, LogEnd: -1, LastFetchMs: -1, LastCaughtUpMs: -1}
		if v.ID == q.self.ID && v.DirID == q.self.DirID {
			r.LogEnd = s.LogEnd
			if q.leader == q.self.ID {
				r.LastFetchMs, r.LastCaughtUpMs = now, now // a leader keeps up with itself; Kafka says so too
			}
		}
		s.Voters = append(s.Voters, r)
	}
	return s
}

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
