package group

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// shard is the groups of one partition of __consumer_offsets.
type shard struct {
	c      *Coordinator
	groups map[string]*group
	expiry coordinator.Timer
}

var _ coordinator.Machine = (*shard)(nil)

// Replay applies a record. Kinds that are not known, such as those of groups of the new protocol, are passed over: they
// are of groups that this version of the program does not serve.
func (s *shard) Replay(r coordinator.Record) error {
	key := reader{b: r.Key}
	switch key.int16() {
	case keyOffset, keyOffsetOld:
		return s.replayOffset(r)
	case keyGroup:
		return s.replayGroup(r)
	}
	return key.err("key of a record")
}

func (s *shard) replayOffset(r coordinator.Record) error {
	k, err := readOffsetKey(r.Key)
	if err != nil {
		return err
	}
	g := s.groups[string(k.group)]
	if r.Value == nil {
		if g != nil {
			g.forget(string(k.topic), k.partition)
		}
		return nil
	}
	c, err := readOffset(r.Value)
	if err != nil {
		return err
	}
	if g == nil {
		g = newGroup(string(k.group), &s.c.held)
		s.groups[g.id] = g
	}
	of := g.offsets[string(k.topic)]
	if of == nil {
		of = partition{}
		g.offsets[string(k.topic)] = of
	}
	of[k.partition] = c
	return nil
}

func (g *group) forget(topic string, p int32) {
	of := g.offsets[topic]
	delete(of, p)
	if len(of) == 0 {
		delete(g.offsets, topic)
	}
}

// replayGroup makes a group what its record says. A live group has the record's members already, and keeps of them what
// the record does not hold: the assignors that were not chosen, timers, and who waits for what.
func (s *shard) replayGroup(r coordinator.Record) error {
	id, err := readGroupKey(r.Key)
	if err != nil {
		return err
	}
	g := s.groups[string(id)]
	if r.Value == nil {
		if g != nil {
			g.hold(-g.heldBytes)
			delete(s.groups, g.id)
		}
		return nil
	}
	v, err := readGroup(r.Value)
	if err != nil {
		return err
	}
	if g == nil {
		g = newGroup(string(id), &s.c.held)
		s.groups[g.id] = g
	}
	g.protocolType, g.generation, g.protocol = v.ProtocolType, v.Generation, v.Protocol
	g.restoreMembers(v)
	g.leader = ""
	if v.Leader != nil {
		g.leader = *v.Leader
	}
	state := empty
	if len(g.order) > 0 {
		state = stable
	}
	g.become(state, v.CurrentStateTimestamp)
	g.readSubscriptions()
	return nil
}

func (g *group) restoreMembers(v *kmsg.GroupMetadataValue) {
	stored := make(map[string]bool, len(v.Members))
	for _, from := range v.Members {
		stored[from.MemberID] = true
	}
	for _, m := range slices.Clone(g.order) {
		if !stored[m.id] {
			g.remove(m)
		}
	}
	for _, from := range v.Members {
		m := g.members[from.MemberID]
		if m == nil {
			m = &member{
				id: from.MemberID, instance: from.InstanceID, client: Client{from.ClientID, from.ClientHost},
				rebalance: from.RebalanceTimeoutMillis, session: from.SessionTimeoutMillis,
			}
			if v.Protocol != nil {
				m.protocols = []protocol{{*v.Protocol, slices.Clone(from.Subscription)}}
			}
			g.add(m)
		}
		m.assignment = slices.Clone(from.Assignment)
	}
}

// Mark is the end of an offset that no group has committed: no topic has an empty name.
func (s *shard) Mark() coordinator.Record { return offsetRecord("", "", 0, nil) }

// Loaded gives every member a full session from now on: who has died meanwhile will be missed.
func (s *shard) Loaded(t *coordinator.Turn) {
	for _, g := range s.sorted() {
		for _, m := range g.order {
			s.expectHeartbeat(t, g, m, m.session)
		}
		if len(g.order) > int(s.c.o.MaxSize) {
			// The limit was lowered: whoever does not fit will be turned away as all join again.
			s.prepare(t, g)
		}
	}
	topics := s.c.o.Image().Topics
	s.forget(t, func(topic string) bool { // while nobody coordinated, or before a crash
		_, ok := topics.ByName(topic)
		return !ok
	})
	s.scheduleExpiry(t)
}

// Unloaded sends everybody who waits to the new coordinator.
func (s *shard) Unloaded(t *coordinator.Turn) {
	for _, g := range s.sorted() {
		for _, m := range g.order {
			s.answerJoin(t, m, &kmsg.JoinGroupResponse{ErrorCode: kerr.NotCoordinator.Code, Generation: -1, MemberID: m.id})
			s.answerSync(t, m, &kmsg.SyncGroupResponse{ErrorCode: kerr.NotCoordinator.Code})
		}
		g.hold(-g.heldBytes)
	}
}

// sorted is all groups in the order of their ids, so that no map decides what comes first.
func (s *shard) sorted() []*group {
	out := make([]*group, 0, len(s.groups))
	for _, id := range slices.Sorted(maps.Keys(s.groups)) {
		out = append(out, s.groups[id])
	}
	return out
}

// drop forgets the timers of a group that has been deleted.
func (s *shard) drop(t *coordinator.Turn, g *group) {
	t.Cancel(&g.timer)
	for _, id := range slices.Sorted(maps.Keys(g.pending)) {
		t.Cancel(&g.pending[id].timeout)
	}
}

func milliseconds(ms int32) time.Duration { return time.Duration(ms) * time.Millisecond }
