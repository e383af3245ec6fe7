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

// begin finds or makes the session of a request and brings it up to date. created says that it is to be offered to the
// cache once the answer is known. The caller ends it with end. alone is that of an earlier request which wanted none, if
// there is one whose memory may be used.
func (c *sessionCache) begin(req *kmsg.FetchRequest, r reader, alone *session) (s *session, created bool, err error) {
	if req.SessionEpoch == initialEpoch || req.SessionEpoch == finalEpoch {
		c.close(req.SessionID)
		if created = req.SessionEpoch == initialEpoch; created {
			s = newSession(req.Version >= 13, r)
			s.watch = replica.NewWatch()
		} else {
			s = alone.again(req.Version >= 13, r)
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

// knock has the requests of a replica's sessions answered that wait for news: it has partitions to name there.
func (c *sessionCache) knock(replica kafka.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.byID {
		if s.follower && s.owner == replica && s.busy {
			select {
			case s.knock <- struct{}{}:
			default:
			}
		}
	}
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
	select {
	case <-s.knock: // meant for the request before
	default:
	}
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
