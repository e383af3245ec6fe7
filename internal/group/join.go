package group

import (
	"crypto/rand"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

const (
	// newMemberJoinMs is how long a member that joins for the first time is waited for: no heartbeat of it can be
	// expected (classicGroupNewMemberJoinTimeoutMs).
	newMemberJoinMs = 5 * 60 * 1000

	// What clients can make a group hold. A group's record has to fit in one batch of the topic, 1 MiB by default, and
	// holds one of several subscriptions of each member, so that none of this stands in the way of a group that works.
	maxMemberBytes = 4 << 20
	maxGroupBytes  = 64 << 20
	maxNodeBytes   = 256 << 20 // of all groups of the node
	maxPending     = 10_000

	// skippingVersion is the first version of JoinGroup that can tell a leader not to assign (KIP-814).
	skippingVersion = 9
	// knownIDVersion is the first version in which a member comes with an id that it was given (KIP-394).
	knownIDVersion = 4
)

// joiner is one request to join.
type joiner struct {
	req    *kmsg.JoinGroupRequest
	client Client
	answer *coordinator.Promise[*kmsg.JoinGroupResponse]
}

func (j joiner) fail(t *coordinator.Turn, id string, err *kerr.Error) {
	j.answer.Give(t, &kmsg.JoinGroupResponse{ErrorCode: err.Code, Generation: -1, MemberID: id})
}

// join mirrors GroupMetadataManager.classicGroupJoinToClassicGroup.
func (s *shard) join(t *coordinator.Turn, j joiner) {
	req := j.req
	g := s.groups[req.Group]
	if g == nil {
		if req.MemberID != "" {
			j.fail(t, req.MemberID, kerr.UnknownMemberID)
			return
		}
		if req.ProtocolType == "" || len(req.Protocols) == 0 {
			j.fail(t, "", kerr.InconsistentGroupProtocol)
			return
		}
		// Stored before anybody is in it, so that a coordinator that loads knows of every group.
		if err := t.Append(groupRecord(&kmsg.GroupMetadataValue{CurrentStateTimestamp: t.NowMs()}, req.Group)); err != nil {
			j.answer.Fail(t, coordinator.Fault(err))
			return
		}
		g = s.groups[req.Group]
	}
	switch {
	case !g.takes(req.MemberID, int(s.c.o.MaxSize)):
		if m := g.members[req.MemberID]; m != nil {
			s.expel(t, g, m)
			s.completeIfAllJoined(t, g)
		}
		j.fail(t, "", kerr.GroupMaxSizeReached)
	case !g.holds(j):
		j.fail(t, req.MemberID, kerr.GroupMaxSizeReached)
	case !g.supports(req.ProtocolType, req.Protocols):
		j.fail(t, req.MemberID, kerr.InconsistentGroupProtocol)
	case req.MemberID == "" && req.InstanceID != nil:
		s.joinStatic(t, g, j)
	case req.MemberID == "":
		s.joinDynamic(t, g, j)
	case g.pending[req.MemberID] != nil && req.InstanceID != nil:
		j.fail(t, req.MemberID, kerr.InvalidRequest) // ids are given to dynamic members only
	case g.pending[req.MemberID] != nil:
		t.Cancel(&g.pending[req.MemberID].timeout)
		s.enter(t, g, j, req.MemberID)
	default:
		s.joinAgain(t, g, j)
	}
}

// takes reports whether a group is not full for somebody. Mirrors GroupMetadataManager.acceptJoiningMember.
func (g *group) takes(id string, most int) bool {
	m := g.members[id]
	switch g.state {
	case preparing:
		return m != nil && m.join != nil || len(g.order) < most || g.joining() < most // counted only where it matters: each of them asks
	case completing, stable:
		return m != nil || len(g.order) < most
	}
	return true
}

// holds reports whether a group can hold what somebody brings.
func (g *group) holds(j joiner) bool {
	n := memberBytes + len(j.client.ID)
	for _, p := range j.req.Protocols {
		n += len(p.Name) + len(p.Metadata)
	}
	if m := g.members[j.req.MemberID]; m != nil {
		n -= m.bytes()
	}
	return n <= maxMemberBytes && g.heldBytes+n <= maxGroupBytes && g.held.Load()+int64(n) <= maxNodeBytes
}

// joinStatic lets a static member in that has no id yet: it is new, or it has been restarted and takes its old place.
func (s *shard) joinStatic(t *coordinator.Turn, g *group, j joiner) {
	id := newMemberID(*j.req.InstanceID)
	if old := g.instances[*j.req.InstanceID]; old != nil {
		s.replace(t, g, j, old, id)
		return
	}
	s.enter(t, g, j, id)
}

// joinDynamic lets a dynamic member in, or gives it an id first, so that one whose answer is lost leaves nothing behind
// but an id (KIP-394).
func (s *shard) joinDynamic(t *coordinator.Turn, g *group, j joiner) {
	id := newMemberID(j.client.ID)
	if j.req.Version < knownIDVersion {
		s.enter(t, g, j, id)
		return
	}
	if len(g.pending) >= maxPending {
		j.fail(t, "", kerr.GroupMaxSizeReached)
		return
	}
	p := &pending{}
	g.pending[id] = p
	t.After(&p.timeout, milliseconds(j.req.SessionTimeoutMillis), func(t *coordinator.Turn) {
		delete(g.pending, id)
		s.completeIfAllJoined(t, g)
	})
	j.fail(t, id, kerr.MemberIDRequired)
}

// enter makes somebody a member.
func (s *shard) enter(t *coordinator.Turn, g *group, j joiner, id string) {
	m := &member{
		id: id, instance: j.req.InstanceID, client: j.client, protocols: protocolsOf(j.req.Protocols),
		rebalance: j.req.RebalanceTimeoutMillis, session: j.req.SessionTimeoutMillis, join: j.answer, isNew: true,
	}
	if len(g.order) == 0 {
		g.protocolType = j.req.ProtocolType
	}
	g.newcomer = g.newcomer || g.first
	g.add(m)
	s.expectHeartbeat(t, g, m, newMemberJoinMs)
	s.rebalance(t, g)
}

// joinAgain is a member's answer to a rebalance, or its wish for one. Mirrors classicGroupJoinExistingMember.
func (s *shard) joinAgain(t *coordinator.Turn, g *group, j joiner) {
	if err := g.check(j.req.MemberID, j.req.InstanceID); err != nil {
		j.fail(t, j.req.MemberID, err.(*kerr.Error))
		return
	}
	m := g.members[j.req.MemberID]
	protocols := protocolsOf(j.req.Protocols)
	unchanged := sameProtocols(m.protocols, protocols)
	// A member that has not changed and missed the answer gets it again; only a leader's wish is enough for a rebalance.
	if unchanged && (g.state == completing || g.state == stable && g.leader != m.id) {
		j.answer.Give(t, g.joined(m))
		return
	}
	s.answerJoin(t, m, &kmsg.JoinGroupResponse{ErrorCode: kerr.UnknownMemberID.Code, Generation: -1}) // of a connection that it has given up
	g.change(m, protocols, j.req.RebalanceTimeoutMillis, j.req.SessionTimeoutMillis)
	m.join = j.answer
	s.rebalance(t, g)
}

// replace puts a static member that has come back in the place of what it was before. Mirrors
// updateStaticMemberThenRebalanceOrCompleteJoin.
func (s *shard) replace(t *coordinator.Turn, g *group, j joiner, old *member, id string) {
	leader := g.leader
	s.answerJoin(t, old, &kmsg.JoinGroupResponse{ErrorCode: kerr.FencedInstanceID.Code, Generation: -1, MemberID: old.id})
	s.answerSync(t, old, &kmsg.SyncGroupResponse{ErrorCode: kerr.FencedInstanceID.Code})
	t.Cancel(&old.heartbeat)
	m := g.succeed(old, id)
	g.change(m, protocolsOf(j.req.Protocols), j.req.RebalanceTimeoutMillis, j.req.SessionTimeoutMillis)
	m.join = j.answer
	s.expectHeartbeat(t, g, m, m.session)
	switch {
	case g.state == stable && g.protocol != nil && g.choose() == *g.protocol:
		// Everybody keeps his part, the one that has come back too: no rebalance.
		if err := t.Append(groupRecord(g.value((*member).part), g.id)); err != nil {
			g.succeed(m, old.id).join = nil
			m.join = nil
			s.expectHeartbeat(t, g, g.members[old.id], m.session)
			j.answer.Fail(t, coordinator.Fault(err))
			return
		}
		resp := g.joined(m)
		resp.SkipAssignment = m.id == g.leader
		if j.req.Version < skippingVersion {
			// It cannot be told to leave the assignment alone, so it must not know that it leads.
			resp.LeaderID, resp.Members, resp.SkipAssignment = leader, nil, false
		}
		s.answerJoin(t, m, resp)
	case g.state == stable:
		s.rebalance(t, g)
	case g.state == completing:
		s.prepare(t, g)
	default:
		s.completeIfAllJoined(t, g)
	}
}

func (m *member) part() []byte { return m.assignment }

// succeed gives a member's place to one with another id, at the same place in the order.
func (g *group) succeed(old *member, id string) *member {
	m := &member{
		id: id, instance: old.instance, client: old.client, rebalance: old.rebalance, session: old.session,
		protocols: old.protocols, assignment: old.assignment, owesSync: old.owesSync,
	}
	delete(g.members, old.id)
	g.members[id] = m
	for i := range g.order {
		if g.order[i] == old {
			g.order[i] = m
		}
	}
	g.instances[*m.instance] = m
	if g.leader == old.id {
		g.leader = id
	}
	g.hold(m.bytes() - old.bytes())
	return m
}

// joined is the answer to a member of the current generation.
func (g *group) joined(m *member) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID, resp.Generation, resp.LeaderID = m.id, g.generation, g.leader
	resp.Protocol = g.protocol
	resp.ProtocolType = &g.protocolType
	if m.id != g.leader || g.protocol == nil {
		return resp
	}
	for _, each := range g.order {
		other := kmsg.NewJoinGroupResponseMember()
		other.MemberID, other.InstanceID, other.ProtocolMetadata = each.id, each.instance, each.metadata(*g.protocol)
		resp.Members = append(resp.Members, other)
	}
	return resp
}

// newMemberID is a name and a random number, in the form that Apache Kafka gives it.
func newMemberID(name string) string {
	var u [16]byte
	_, _ = rand.Read(u[:]) // never fails since Go 1.24
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", name, u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
