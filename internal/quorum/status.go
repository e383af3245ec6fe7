package quorum

import "moldau/internal/kafka"

// Status is what DescribeQuorum tells.
type Status struct {
	Self          Voter        // this node, as it is known in the quorum
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
	s := Status{Self: q.self, LogStart: q.store.log.LogStart(), LogEnd: q.store.log.LogEnd(), LatestID: q.store.newestSnapshot().id}
	q.mu.Lock()
	defer q.mu.Unlock()
	s.LeaderID, s.Epoch, s.HighWatermark = q.leader.ID, q.epoch, q.highWatermark
	s.VoterSet = q.members.newest().voters
	s.Observers = q.observersLocked(now)
	for _, v := range s.VoterSet {
		r := Replica{ID: v.ID, DirID: v.DirID, LogEnd: -1, LastFetchMs: -1, LastCaughtUpMs: -1}
		if v.ID == q.self.ID && v.DirID == q.self.DirID {
			r.LogEnd = s.LogEnd
			if q.leadsLocked() {
				r.LastFetchMs, r.LastCaughtUpMs = now, now // a leader keeps up with itself; Kafka says so too
			}
		} else if p, ok := q.peers[raftID(v.DirID)]; ok && q.leadsLocked() {
			r.LogEnd, r.LastFetchMs, r.LastCaughtUpMs = p.LogEnd, p.LastFetchMs, p.LastCaughtUpMs
		}
		s.Voters = append(s.Voters, r)
	}
	return s
}

// Leader returns the leader of the metadata quorum and its epoch, as far as it is known here: its id, directory and controller
// listeners. Changed is closed when that changes.
func (q *Quorum) Leader() (v Voter, epoch kafka.Epoch, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.leader, q.epoch, q.leader.ID != kafka.NoNode
}
