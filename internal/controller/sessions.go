package controller

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"moldau/internal/kafka"
)

// contact is what the controller remembers of a broker's heartbeats. Nothing of it is in the metadata log: a new leader
// starts over.
type contact struct {
	Live           bool  // heard of within the session timeout
	MetadataOffset int64 // that the broker last said it had applied, -1 if it did not say yet
	ShutdownOffset int64 // of the last record that moved leaders away from it while it shuts down, -1 if it does not

	Failed []kafka.DirID // directories that it has and cannot use, as its heartbeats tell
}

// contactNote is how a decision changes a contact.
type contactNote struct {
	Broker         kafka.NodeID
	MetadataOffset int64
	Failed         []kafka.DirID // nil: it is no heartbeat, and there is no news
	New            bool          // another incarnation: forget the one before
	ShuttingDown   bool          // leaders were, or may have been, moved by this decision's records
	Gone           bool          // the broker is unregistered or may shut down now
}

// sessions holds a timer and a contact for every broker that was heard of. It belongs to the loop.
type sessions struct {
	timeout  time.Duration
	probe    func(ctx context.Context, addresses []string) ProbeResult
	post     func(lost)
	timers   map[kafka.NodeID]*session
	contacts map[kafka.NodeID]contact
	next     int64 // generation of the next session
	probing  sync.WaitGroup
}

type session struct {
	timer      *time.Timer
	generation int64              // tells an end that was on its way when the session was renewed
	endProbe   context.CancelFunc // nil: the broker is not being probed
}

// lost says that a session is over: it timed out, or nothing listens where the broker did.
type lost struct {
	broker     kafka.NodeID
	generation int64
	refused    bool
}

func newSessions(o *Options, post func(lost)) sessions {
	return sessions{
		timeout:  time.Duration(o.Config.SessionTimeoutMs) * time.Millisecond,
		probe:    o.Probe,
		post:     post,
		timers:   map[kafka.NodeID]*session{},
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
	s.arm(broker, s.timeout)
}

// arm has the session of a broker end in a while.
func (s *sessions) arm(broker kafka.NodeID, in time.Duration) {
	s.disarm(broker)
	s.next++
	e := lost{broker: broker, generation: s.next}
	// Sessions that begin in the same instant, as on a new leader, end a little apart, in a fixed order.
	phase := time.Duration(len(s.timers)) * time.Microsecond
	s.timers[broker] = &session{timer: time.AfterFunc(in+phase, func() { s.post(e) }), generation: e.generation}
}

func (s *sessions) disarm(broker kafka.NodeID) {
	t, ok := s.timers[broker]
	if !ok {
		return
	}
	t.timer.Stop()
	if t.endProbe != nil {
		t.endProbe()
	}
	delete(s.timers, broker)
}

// The first look at a broker comes at once; the next ones, while it stays silent, each after twice the time. A process
// that dies may well close its connections before its listeners, so that one look is not enough.
const (
	firstProbeWait = 50 * time.Millisecond
	lastProbeWait  = time.Second
	probeTimeout   = time.Second
)

// suspect probes a broker until it is heard of, its session ends, or nothing listens where it did, which ends the session.
func (s *sessions) suspect(broker kafka.NodeID, addresses []string) {
	t, ok := s.timers[broker]
	if !ok || t.endProbe != nil || s.probe == nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.endProbe = cancel
	e := lost{broker: broker, generation: t.generation, refused: true}
	s.probing.Go(func() {
		for wait := firstProbeWait; ; wait = min(2*wait, lastProbeWait) {
			attempt, done := context.WithTimeout(ctx, probeTimeout)
			result := s.probe(attempt, addresses)
			done()
			if ctx.Err() != nil {
				return
			}
			if result == Refused {
				s.post(e)
				return
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
	})
}

// end ends the session that the event is about; false when the session has been renewed since.
func (s *sessions) end(e lost) bool {
	t, ok := s.timers[e.broker]
	if !ok || t.generation != e.generation {
		return false
	}
	s.disarm(e.broker)
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
		s.disarm(n.Broker)
		delete(s.contacts, n.Broker)
	}
	if n.Gone {
		return
	}
	s.touch(n.Broker, n.MetadataOffset)
	k := s.contacts[n.Broker]
	if n.ShuttingDown {
		k.ShutdownOffset = max(k.ShutdownOffset, lastOffset)
	}
	if n.Failed != nil {
		k.Failed = n.Failed
	}
	s.contacts[n.Broker] = k
}

func (s *sessions) clear() {
	for _, broker := range slices.Sorted(maps.Keys(s.timers)) {
		s.disarm(broker)
	}
	clear(s.contacts)
}
