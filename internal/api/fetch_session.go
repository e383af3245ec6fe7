package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// session is what a client fetches, remembered between its fetches. One that is made for a single fetch is in no cache
// and has id noSession.
type session struct {
	// Guarded by sessionCache.mu.
	id       int32
	epoch    int32 // that the next request must name
	busy     bool  // a request uses it
	closed   bool  // out of the cache: whoever uses it lets go of everything at the end
	size     int   // partitions, as of the end of the last request
	created  time.Time
	used     time.Time
	follower bool // of a replica: keeps its place when clients crowd in
	owner    kafka.NodeID
	byTopic  bool          // partitions are named by topic id (from version 13)
	knock    chan struct{} // of a follower's session: its request is to be answered now; capacity 1

	// The rest belongs to the request that uses the session.
	partitions map[partitionKey]*fetched
	slots      []*fetched // by slot in the watch; nil: free
	free       []int
	pending    []*fetched // those that are dirty, forgotten ones among them
	spare      []*fetched // of an earlier request; see again
	news       []int      // memory for the slots that the watch has news of
	order      uint64     // of the partition that was last put at the end
	watch      *replica.Watch
	reader     reader // of the last request
}

// reader is what a fetch may see. A session whose reader changes has to look at everything anew.
type reader struct {
	replica   kafka.NodeID
	epoch     int64 // of the replica's broker
	isolation kafka.Isolation
	any       bool   // followers may answer too (from version 11)
	rack      string // where the consumer is, if he may be sent to a follower there
}

// partitionKey names a partition of a session: by name or, if byTopic, by id alone.
type partitionKey struct {
	topic     string
	id        kafka.TopicID
	partition int32
}

// fetched is one partition of a session.
type fetched struct {
	key       partitionKey
	slot      int
	place     uint64 // partitions are visited from the lowest place to the highest
	dirty     bool   // in session.pending
	stale     bool   // to be read: what was read before, if anything, may have changed
	partition *replica.Partition

	// What the client asked for.
	from         kafka.Offset
	maxBytes     int
	epoch        kafka.Epoch  // that the client believes in
	fetchedEpoch kafka.Epoch  // of the client's last record
	readerStart  kafka.Offset // a follower's log start

	// What the client was last told.
	highWatermark kafka.Offset
	logStart      kafka.Offset

	result result // of the current fetch, if that has visited the partition
}

func newSession(byTopic bool, r reader) *session {
	s := &session{
		byTopic: byTopic, reader: r, follower: r.replica >= 0, owner: r.replica,
		partitions: make(map[partitionKey]*fetched),
	}
	if s.follower {
		s.knock = make(chan struct{}, 1)
	}
	return s
}

// maxAgain is the size from which on a session's memory does not serve another request: it would cost small ones more than
// it saves them.
const maxAgain = 1000

// again returns a session like a new one for another request without one, in the memory of s if that is worth it.
func (s *session) again(byTopic bool, r reader) *session {
	if s == nil || len(s.slots) > maxAgain || r.replica >= 0 || s.follower {
		return newSession(byTopic, r)
	}
	clear(s.partitions)
	spare := append(s.spare, s.slots...)
	clear(s.slots)
	*s = session{
		byTopic: byTopic, reader: r, owner: r.replica, partitions: s.partitions,
		slots: s.slots[:0], pending: s.pending[:0], spare: spare, news: s.news,
	}
	return s
}

// name adds the partitions that a request names, or changes what is asked of them; each is dirty then.
func (s *session) name(req *kmsg.FetchRequest) {
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			key := s.key(t.Topic, t.TopicID, p.Partition)
			f, ok := s.partitions[key]
			if !ok {
				f = s.add(key)
			}
			f.from, f.maxBytes = p.FetchOffset, int(p.PartitionMaxBytes)
			f.epoch, f.fetchedEpoch, f.readerStart = p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset
			s.touch(f)
		}
	}
}

// touch makes a partition dirty: there may be something to tell of it.
func (s *session) touch(f *fetched) {
	f.stale = true
	if !f.dirty {
		f.dirty = true
		s.pending = append(s.pending, f)
	}
}

// collect makes dirty what the watch has news of.
func (s *session) collect() {
	if s.watch == nil {
		return
	}
	s.news = s.watch.Take(s.news[:0])
	for _, slot := range s.news {
		if f := s.slots[slot]; f != nil {
			s.touch(f)
		}
	}
}

// forgotten reports whether f is not in the session any more.
func (s *session) forgotten(f *fetched) bool { return s.slots[f.slot] != f }

func (s *session) key(topic string, id kafka.TopicID, partition int32) partitionKey {
	if s.byTopic {
		return partitionKey{id: id, partition: partition}
	}
	return partitionKey{topic: topic, partition: partition}
}

func (s *session) add(key partitionKey) *fetched {
	var f *fetched
	if n := len(s.spare); n > 0 {
		f, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		f = new(fetched)
	}
	*f = fetched{key: key, highWatermark: -1, logStart: -1}
	if n := len(s.free); n > 0 {
		f.slot, s.free = s.free[n-1], s.free[:n-1]
		s.slots[f.slot] = f
	} else {
		f.slot = len(s.slots)
		s.slots = append(s.slots, f)
	}
	s.moveToEnd(f)
	s.partitions[key] = f
	return f
}

func (s *session) moveToEnd(f *fetched) {
	s.order++
	f.place = s.order
}

// forget drops the partitions that a request no longer wants.
func (s *session) forget(req *kmsg.FetchRequest) {
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, partition := range t.Partitions {
			f, ok := s.partitions[s.key(t.Topic, t.TopicID, partition)]
			if !ok {
				continue
			}
			f.attach(nil, s)
			delete(s.partitions, f.key)
			s.slots[f.slot] = nil
			s.free = append(s.free, f.slot)
		}
	}
}

// attach has the session told of news of p, and of no other partition under f's slot.
func (f *fetched) attach(p *replica.Partition, s *session) {
	if f.partition == p {
		return
	}
	if f.partition != nil && s.watch != nil {
		f.partition.Detach(s.watch)
	}
	f.partition = p
	if p != nil && s.watch != nil {
		kind := replica.Consumer
		if s.follower {
			kind = replica.Follower
		}
		p.Attach(s.watch, f.slot, kind)
	}
}

// detach lets go of everything. The session must not be used any more.
func (s *session) detach() {
	if s.watch != nil {
		s.watch.Close()
	}
}
