package znode

import (
	"crypto/rand"
	"crypto/subtle"
	"maps"
	"slices"
	"time"

	"moldau/internal/coordinator"
)

// session is one client's, whichever connection it has.
type session struct {
	sessionRecord
	ephemerals map[string]struct{}
	client     *Client       // nil: it has no connection now
	heard      time.Duration // as Elapsed counts, when a connection last said something; that of client may be later
	expiry     coordinator.Timer
}

// Connect is how a client begins. SessionID 0 is a new session, anything else one that the client had.
type Connect struct {
	LastZxid  int64 // that the client has seen
	TimeoutMs int32
	SessionID int64
	Password  []byte
}

// maxSessions is how many there may be at a time: each is kept until it ends or expires.
const maxSessions = 100_000

// connect answers with Connected, or cuts the connection.
func (s *shard) connect(t *coordinator.Turn, c *Client, xid int32, req Connect) error {
	timeoutMs := min(max(req.TimeoutMs, s.c.o.MinTimeoutMs), s.c.o.MaxTimeoutMs)
	if req.SessionID != 0 {
		return s.reconnect(t, c, xid, req, timeoutMs)
	}
	if req.LastZxid > s.zxid || len(s.sessions) >= maxSessions {
		c.cut()
		return nil
	}
	record := sessionRecord{id: s.nextSession(t.NowMs()), timeoutMs: timeoutMs}
	if _, err := rand.Read(record.password[:]); err != nil {
		return err
	}
	if err := s.store(t, record); err != nil {
		return err
	}
	s.attach(t, c, xid, s.sessions[record.id])
	return nil
}

func (s *shard) store(t *coordinator.Turn, record sessionRecord) error {
	x := s.begin(t)
	x.add(entry{kind: entrySession, session: record})
	return x.commit(t)
}

// nextSession is a new id: the server in the top byte, as in ZooKeeper, the time, and a count.
func (s *shard) nextSession(nowMs int64) int64 {
	const server, timeBits = int64(1) << 56, int64(1)<<56 - 1
	return max(s.lastSession+1, server|nowMs<<16&timeBits)
}

// reconnect gives a session to another connection. A session that is not known is over, even for a client that has seen a
// later zxid than there ever was here: ZooKeeper gives that one no answer, and it would ask for ever.
func (s *shard) reconnect(t *coordinator.Turn, c *Client, xid int32, req Connect, timeoutMs int32) error {
	ses := s.sessions[req.SessionID]
	if ses != nil && ses.client != nil {
		s.cut(ses.client) // even if the password is wrong, as in ZooKeeper
	}
	if ses == nil || subtle.ConstantTimeCompare(ses.password[:], req.Password) == 0 {
		s.say(c, Message{Xid: xid, Answer: Connected{}, Close: true})
		return nil
	}
	if req.LastZxid > s.zxid {
		c.cut()
		return nil
	}
	if timeoutMs != ses.timeoutMs {
		record := ses.sessionRecord
		record.timeoutMs = timeoutMs
		if err := s.store(t, record); err != nil {
			return err
		}
	}
	s.attach(t, c, xid, ses)
	return nil
}

func (s *shard) attach(t *coordinator.Turn, c *Client, xid int32, ses *session) {
	ses.client, c.session = c, ses
	s.clients[c.id] = c
	s.expect(t, ses, s.c.o.Runtime.Elapsed())
	s.say(c, Message{Xid: xid, Zxid: s.zxid, Answer: Connected{ses.id, ses.timeoutMs, ses.password}})
}

// cut ends a connection at once.
func (s *shard) cut(c *Client) {
	c.cut()
	s.detach(c)
}

// detach takes a connection from its session, which goes on. What was said to it is still passed on.
func (s *shard) detach(c *Client) {
	s.watches.drop(c)
	delete(s.clients, c.id)
	if ses := c.session; ses != nil && ses.client == c {
		ses.heard, ses.client = max(ses.heard, time.Duration(c.heard.Load())), nil
	}
	c.session = nil
}

// expect gives a session its whole timeout from a time on, which is now or later.
func (s *shard) expect(t *coordinator.Turn, ses *session, from time.Duration) {
	ses.heard = from
	s.expireAfter(t, ses, from+ses.timeout()-s.c.o.Runtime.Elapsed())
}

func (ses *session) timeout() time.Duration { return time.Duration(ses.timeoutMs) * time.Millisecond }

// expireAfter looks later whether the client has been silent for its timeout by then. A sign of life moves no timer: there
// are many more of those.
func (s *shard) expireAfter(t *coordinator.Turn, ses *session, d time.Duration) {
	t.After(&ses.expiry, d, func(t *coordinator.Turn) {
		defer s.flush(t)
		heard := ses.heard
		if c := ses.client; c != nil {
			heard = max(heard, time.Duration(c.heard.Load()))
			if c.ordered {
				heard = s.c.o.Runtime.Elapsed() // it is this node that keeps the client waiting, and nothing is read from it
			}
		}
		if left := heard + ses.timeout() - s.c.o.Runtime.Elapsed(); left > 0 {
			s.expireAfter(t, ses, left)
			return
		}
		if err := s.end(t, ses); err != nil {
			s.c.o.Logger.Warn("a ZooKeeper session cannot be ended; trying again", "session", ses.id, "error", err)
			s.expireAfter(t, ses, time.Second)
			return
		}
		if ses.client != nil {
			s.cut(ses.client)
		}
		s.c.meters.expired.Inc()
	})
}

// end ends a session: its ephemeral nodes go with it. So many that one record cannot hold them go before it.
func (s *shard) end(t *coordinator.Turn, ses *session) error {
	x := s.begin(t)
	for _, path := range slices.Sorted(maps.Keys(ses.ephemerals)) {
		if len(x.value) > maxTransactionSize {
			x.next()
		}
		x.remove(path)
	}
	x.add(entry{kind: entrySessionEnd, session: ses.sessionRecord})
	if err := x.commit(t); err != nil {
		return err
	}
	t.Cancel(&ses.expiry)
	return nil
}
