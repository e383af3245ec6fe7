package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

// rebalance begins one, or goes on with the one under way. Mirrors maybePrepareRebalanceOrCompleteJoin.
func (s *shard) rebalance(t *coordinator.Turn, g *group) {
	if g.state != preparing {
		s.prepare(t, g)
		return
	}
	s.completeIfAllJoined(t, g)
}

// prepare asks all members to join again. An empty group's first members wait for more to come, so that a fleet that
// starts up is not assigned again with each of its members (KIP-134).
func (s *shard) prepare(t *coordinator.Turn, g *group) {
	if g.state == completing {
		s.assign(t, g, nil, kerr.RebalanceInProgress)
	}
	for _, m := range g.order {
		m.owesSync = false
	}
	t.Cancel(&g.timer)
	g.first = g.state == empty
	g.newcomer = false
	g.become(preparing, t.NowMs())
	if g.first {
		delay := s.c.o.InitialDelayMs
		s.awaitMore(t, g, delay, max(g.rebalanceMs()-delay, 0))
		return
	}
	if g.allJoined() {
		s.complete(t, g)
		return
	}
	t.After(&g.timer, milliseconds(g.rebalanceMs()), func(t *coordinator.Turn) { s.complete(t, g) })
}

// awaitMore lets an empty group's first rebalance wait another while for as long as members keep coming.
func (s *shard) awaitMore(t *coordinator.Turn, g *group, delayMs, remainingMs int32) {
	t.After(&g.timer, milliseconds(delayMs), func(t *coordinator.Turn) {
		if !g.newcomer || remainingMs == 0 {
			s.complete(t, g)
			return
		}
		g.newcomer = false
		s.awaitMore(t, g, min(s.c.o.InitialDelayMs, remainingMs), max(remainingMs-delayMs, 0))
	})
}

// completeIfAllJoined ends the join early when there is nobody left to wait for. The first join of an empty group always
// takes its time.
func (s *shard) completeIfAllJoined(t *coordinator.Turn, g *group) {
	if g.state == preparing && !g.first && g.allJoined() {
		s.complete(t, g)
	}
}

// complete ends the join: whoever has joined makes up the next generation. Static members that have not are kept, as they
// may be on their way back; dynamic ones are not. Mirrors completeClassicGroupJoin.
func (s *shard) complete(t *coordinator.Turn, g *group) {
	t.Cancel(&g.timer)
	for _, m := range slices.Clone(g.order) {
		if m.join == nil && !m.static() {
			s.expel(t, g, m)
		}
	}
	if len(g.order) > 0 && !g.electJoined() {
		// Static members only, and none is here: wait for them again. Their sessions end it, if they do not come.
		t.After(&g.timer, milliseconds(g.rebalanceMs()), func(t *coordinator.Turn) { s.complete(t, g) })
		return
	}
	g.first, g.newcomer = false, false
	g.generation++
	s.c.meters.rebalances.Inc()
	if len(g.order) == 0 {
		s.c.o.Logger.Info("a group has no members any more", "group", g.id, "generation", g.generation)
		g.protocol, g.leader = nil, ""
		g.become(empty, t.NowMs())
		g.readSubscriptions()
		if err := t.Append(groupRecord(g.value((*member).part), g.id)); err != nil {
			// What is stored are members that are gone; a coordinator that loads it will miss them and come here again.
			s.c.o.Logger.Warn("that a group is empty could not be stored", "group", g.id, "error", err)
		}
		return
	}
	name := g.choose()
	g.protocol = &name
	g.become(completing, t.NowMs())
	g.readSubscriptions()
	s.c.o.Logger.Info("a group has a new generation", "group", g.id, "generation", g.generation, "members", len(g.order), "protocol", name)
	for _, m := range g.order {
		s.answerJoin(t, m, g.joined(m))
		s.expectHeartbeat(t, g, m, m.session)
		m.isNew, m.owesSync = false, true
	}
	t.After(&g.timer, milliseconds(g.rebalanceMs()), func(t *coordinator.Turn) { s.expireSync(t, g) })
}

// expireSync gives up members that have joined a generation and never asked for their part (KAFKA-9752).
func (s *shard) expireSync(t *coordinator.Turn, g *group) {
	late := false
	for _, m := range slices.Clone(g.order) {
		if m.owesSync {
			s.expel(t, g, m)
			late = true
		}
	}
	if late {
		s.prepare(t, g)
	}
}

// expel takes a member out of its group. What that means for the rest is the caller's.
func (s *shard) expel(t *coordinator.Turn, g *group, m *member) {
	s.answerJoin(t, m, &kmsg.JoinGroupResponse{ErrorCode: kerr.UnknownMemberID.Code, Generation: -1})
	s.answerSync(t, m, &kmsg.SyncGroupResponse{ErrorCode: kerr.UnknownMemberID.Code})
	t.Cancel(&m.heartbeat)
	g.remove(m)
}

// bereave tells a group that it has lost members.
func (s *shard) bereave(t *coordinator.Turn, g *group) {
	switch g.state {
	case stable, completing:
		s.prepare(t, g)
	case preparing:
		s.completeIfAllJoined(t, g)
	}
}

// expectHeartbeat gives a member so long until it is taken for dead.
func (s *shard) expectHeartbeat(t *coordinator.Turn, g *group, m *member, ms int32) {
	t.After(&m.heartbeat, milliseconds(ms), func(t *coordinator.Turn) {
		if m.excused() {
			return // the end of the join, or of the sync, begins a new session
		}
		s.c.o.Logger.Info("a member of a group has died", "group", g.id, "member", m.id, "sessionTimeoutMs", m.session)
		s.expel(t, g, m)
		s.bereave(t, g)
	})
}

func (s *shard) answerJoin(t *coordinator.Turn, m *member, resp *kmsg.JoinGroupResponse) {
	if m.join != nil {
		m.join.Give(t, resp)
		m.join = nil
	}
}

func (s *shard) answerSync(t *coordinator.Turn, m *member, resp *kmsg.SyncGroupResponse) {
	if m.sync != nil {
		m.sync.Give(t, resp)
		m.sync = nil
	}
}
