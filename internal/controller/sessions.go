package controller

import (
	"time"

	"moldau/internal/kafka"
)

// contact is what the controller remembers of a broker's heartbeats. Nothing of it is in the metadata log: a new leader
// starts over.
type contact struct {
	Live           bool  // heard of within the session timeout
	MetadataOffset int64 // that the broker last said it had applied, -1 if it did not say yet
	ShutdownOffset int64 // of the last record that moved leaders away from it while it shuts down, -1 if it does not
}

// contactNote is how a decision changes a contact.
type contactNote struct {
	Broker         kafka.NodeID
	MetadataOffset int64
	New            bool // another incarnation: forget the one before
	ShuttingDown   bool // leaders were, or may have been, moved by this decision's records
	Gone           bool // the broker is unregistered or may shut down now
}

// sessions holds a timer and a contact for every broker that was heard of. It belongs to the loop.
type sessions struct {
	timeout  time.Duration
	post     func(expired)
	timers   map[kafka.NodeID]*sessionTimer
	contacts map[kafka.NodeID]contact
	next     int64 // generation of the next timer
}

type sessionTimer struct {
	timer      *time.Timer
	generation int64 // tells an expiry that was on its way when the session was renewed
}

func newSessions(timeoutMs int64, post func(expired)) sessions {
	return sessions{
		timeout:  time.Duration(timeoutMs) * time.Millisecond,
		post:     post,
		timers:   map[kafka.NodeID]*sessionTimer{},
		contacts: map[kafka.NodeID]contact{},
	}
}

// touch begins or renews a session.
func (s *sessions) touch(broker kafka.NodeID, metadataOffset int64) {
	k, known := s.contacts[broker]
	if !known {
		k = contact{MetadataOffset: -1, ShutdownOffset: -1}
	}
	k.Live = true
	k.MetadataOffset = max(k.MetadataOffset, metadataOffset)
	s.contacts[broker] = k

	s.stopTimer(broker)
	s.next++
	e := expired{broker, s.next}
	// Sessions that begin in the same instant, as on a new leader, end a little apart, in a fixed order.
	phase := time.Duration(len(s.timers)) * time.Microsecond
	s.timers[broker] = &sessionTimer{time.AfterFunc(s.timeout+phase, func() { s.post(e) }), e.generation}
}

func (s *sessions) stopTimer(broker kafka.NodeID) {
	if t, ok := s.timers[broker]; ok {
		t.timer.Stop()
		delete(s.timers, broker)
	}
}

// expire ends the session that the event is about; false when the session has been renewed since.
func (s *sessions) expire(e expired) bool {
	t, ok := s.timers[e.broker]
	if !ok || t.generation != e.generation {
		return false
	}
	delete(s.timers, e.broker)
	k := s.contacts[e.broker]
	k.Live = false
	s.contacts[e.broker] = k
	return true
}

// note takes over what a decision says, once its records are proposed; the last of them has the given offset.
func (s *sessions) note(n *contactNote, lastOffset int64) {
	if n == nil {
		return
	}
	if n.New || n.Gone {
		s.stopTimer(n.Broker)
		delete(s.contacts, n.Broker)
	}
	if n.Gone {
		return
	}
	s.touch(n.Broker, n.MetadataOffset)
	if n.ShuttingDown {
		k := s.contacts[n.Broker]
		k.ShutdownOffset = max(k.ShutdownOffset, lastOffset)
		s.contacts[n.Broker] = k
	}
}

func (s *sessions) clear() {
	for _, t := range s.timers {
		t.timer.Stop()
	}
	clear(s.timers)
	clear(s.contacts)
}
