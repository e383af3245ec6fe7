package api

import (
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/replica"
)

// Session ids and epochs with a meaning of their own (FetchMetadata; KIP-227).
const (
	noSession    int32 = 0
	initialEpoch int32 = 0  // a full fetch that wants a session
	finalEpoch   int32 = -1 // a full fetch that wants none
)

// sessionIdle is how long a session must be unused, or must have existed, before another may take its place
// (FetchSession's MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS).
const sessionIdle = 2 * time.Minute

// sessionCache holds the fetch sessions of a node. Mirrors FetchSessionCacheShard.
type sessionCache struct {
	slots int
	now   func() time.Time

	evictions prometheus.Counter

	mu         sync.Mutex
	byID       map[int32]*session
	partitions int // of all sessions
}

func newSessionCache(slots int, now func() time.Time, m *metrics.Set) *sessionCache {
	c := &sessionCache{slots: slots, now: now, byID: make(map[int32]*session)}
	c.evictions = m.Counter("moldau_fetch_session_evictions_total", "Fetch sessions that had to make room for others.")
	m.GaugeFunc("moldau_fetch_sessions", "Fetch sessions in the cache.", func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(len(c.byID))
	})
	m.GaugeFunc("moldau_fetch_session_partitions", "Partitions of the fetch sessions in the cache.", func() float64 {
		c.mu.Lock()
		defer c.mu.Unlock()
		return float64(c.partitions)
	})
	return c
}

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
	byTopic  bool // partitions are named by topic id (from version 13)

	// The rest belongs to the request that uses the session.
	partitions map[partitionKey]*fetched
	slots      []*fetched // by slot in the watch; nil: free
	free       []int
	pending    []*fetched // those that are dirty, forgotten ones among them
	order      uint64     // of the partition that was last put at the end
	watch      *replica.Watch
	reader     reader // of the last request
}

// reader is what a fetch may see. A session whose reader changes has to look at everything anew.
type reader struct {
	replica   kafka.NodeID
	isolation kafka.Isolation
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
	return &session{
		byTopic: byTopic, reader: r, follower: r.replica >= 0,
		partitions: make(map[partitionKey]*fetched),
	}
}

// begin finds or makes the session of a request and brings it up to date. created says that it is to be offered to the
// cache once the answer is known. The caller ends it with end.
func (c *sessionCache) begin(req *kmsg.FetchRequest, r reader) (s *session, created bool, err error) {
	if req.SessionEpoch == initialEpoch || req.SessionEpoch == finalEpoch {
		c.close(req.SessionID)
		s = newSession(req.Version >= 13, r)
		if created = req.SessionEpoch == initialEpoch; created {
			s.watch = replica.NewWatch()
		}
		s.name(req)
		return s, created, nil
	}
	s, err = c.take(req)
	if err != nil {
		return nil, false, err
	}
	s.name(req)
	s.forget(req)
	if r != s.reader {
		s.reader = r
		for _, f := range s.slots {
			if f != nil {
				s.touch(f)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(s.partitions) == 0 && !s.closed {
		c.removeLocked(s)
	}
	if s.closed {
		s.id = noSession
		return s, false, nil
	}
	c.resizeLocked(s)
	return s, false, nil
}

// take gives the session that a request names to that request.
func (c *sessionCache) take(req *kmsg.FetchRequest) (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.byID[req.SessionID]
	switch {
	case !ok:
		return nil, kerr.FetchSessionIDNotFound
	case s.epoch != req.SessionEpoch || s.busy:
		// Busy: the client has given up on its last fetch and yet goes on as if it had been answered.
		return nil, kerr.InvalidFetchSessionEpoch
	case s.byTopic != (req.Version >= 13):
		return nil, kerr.FetchSessionTopicIDError
	}
	s.busy = true
	s.used = c.now()
	s.epoch = nextEpoch(s.epoch)
	return s, nil
}

// nextEpoch wraps to 1, because 0 asks for a new session.
func nextEpoch(e int32) int32 {
	if e <= 0 || e == 1<<31-1 {
		return 1
	}
	return e + 1
}

// offer puts a new session into the cache if there is room or a lesser one can go. Otherwise it stays without an id.
func (c *sessionCache) offer(s *session) {
	evicted, ok := c.insert(s)
	if ok && evicted != nil {
		evicted.detach()
	}
}

func (c *sessionCache) insert(s *session) (evicted *session, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if len(c.byID) >= c.slots {
		victim := c.victimLocked(s, now)
		if victim == nil {
			return nil, false
		}
		c.evictions.Inc()
		c.removeLocked(victim)
		if !victim.busy {
			evicted = victim
		}
	}
	for s.id == noSession || c.byID[s.id] != nil {
		var b [4]byte
		_, _ = rand.Read(b[:]) // never fails since Go 1.24
		s.id = int32(binary.BigEndian.Uint32(b[:]) & 0x7fffffff)
	}
	s.created, s.used, s.epoch, s.busy = now, now, nextEpoch(initialEpoch), true
	c.byID[s.id] = s
	c.resizeLocked(s)
	return evicted, true
}

// victimLocked is the session that s may replace: one that is stale, else the one that is worth least, if that is less
// than s: a client's is worth less than a follower's, a small one less than a large one, and a young one is spared by its
// like. Ties go by id, so that the choice is the same every time. Mirrors FetchSessionCacheShard.tryEvict.
func (c *sessionCache) victimLocked(s *session, now time.Time) *session {
	var oldest, least *session
	for _, other := range c.byID {
		if oldest == nil || other.used.Before(oldest.used) || other.used.Equal(oldest.used) && other.id < oldest.id {
			oldest = other
		}
		young := now.Sub(other.created) <= sessionIdle
		if young && (!s.follower || other.follower) {
			continue
		}
		if least == nil || worth(other, least) < 0 {
			least = other
		}
	}
	switch {
	case oldest == nil:
		return nil
	case now.Sub(oldest.used) > sessionIdle:
		return oldest
	case least != nil && (s.follower && !least.follower || s.follower == least.follower && len(s.partitions) > least.size):
		return least
	}
	return nil
}

// worth compares sessions by what losing them would cost.
func worth(a, b *session) int {
	switch {
	case a.follower != b.follower:
		if b.follower {
			return -1
		}
		return 1
	case a.size != b.size:
		return a.size - b.size
	}
	return int(int64(a.id) - int64(b.id))
}

// end gives a session back after a request.
func (c *sessionCache) end(s *session) {
	c.mu.Lock()
	s.busy = false
	letGo := s.closed || s.id == noSession
	c.mu.Unlock()
	if letGo {
		s.detach()
	}
}

// close removes a session that a client has no more use for.
func (c *sessionCache) close(id int32) {
	c.mu.Lock()
	s := c.byID[id]
	idle := s != nil && !s.busy
	if s != nil {
		c.removeLocked(s)
	}
	c.mu.Unlock()
	if idle {
		s.detach()
	}
}

// removeLocked takes a session out of the cache. If it is not busy the caller has it let go of its partitions, outside
// the lock; else the request that uses it does at its end.
func (c *sessionCache) removeLocked(s *session) {
	delete(c.byID, s.id)
	c.partitions -= s.size
	s.size = 0
	s.closed = true
}

func (c *sessionCache) resizeLocked(s *session) {
	c.partitions += len(s.partitions) - s.size
	s.size = len(s.partitions)
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
	for _, slot := range s.watch.Take() {
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
	f := &fetched{key: key, highWatermark: -1, logStart: -1}
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
