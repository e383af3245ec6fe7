package group

import (
	"bytes"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
)

type syncAnswer = coordinator.Promise[*kmsg.SyncGroupResponse]

// sync gives a member its part of the assignment, and takes the assignment from the leader. Mirrors
// classicGroupSyncToClassicGroup.
func (s *shard) sync(t *coordinator.Turn, req *kmsg.SyncGroupRequest, answer *syncAnswer) {
	g := s.groups[req.Group]
	if err := g.checkSync(req); err != nil {
		answer.Fail(t, err)
		return
	}
	m := g.members[req.MemberID]
	switch g.state {
	case preparing:
		answer.Fail(t, kerr.RebalanceInProgress)
	case stable:
		m.owesSync = false
		answer.Give(t, g.synced(m))
		s.allSynced(t, g)
	default: // completing
		s.answerSync(t, m, &kmsg.SyncGroupResponse{ErrorCode: kerr.RebalanceInProgress.Code}) // of a connection that it has given up
		m.sync = answer
		m.owesSync = false
		if m.id == g.leader {
			s.takeAssignment(t, g, req.GroupAssignment)
		}
		s.allSynced(t, g)
	}
}

// allSynced ends the wait for members' syncs when all have come.
func (s *shard) allSynced(t *coordinator.Turn, g *group) {
	if g.state != stable && g.state != completing {
		return
	}
	for _, m := range g.order {
		if m.owesSync {
			return
		}
	}
	t.Cancel(&g.timer)
}

func (g *group) checkSync(req *kmsg.SyncGroupRequest) error {
	if g == nil || g.state == empty {
		return kerr.UnknownMemberID
	}
	if err := g.check(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	switch {
	case req.Generation != g.generation:
		return kerr.IllegalGeneration
	case req.ProtocolType != nil && *req.ProtocolType != g.protocolType,
		req.Protocol != nil && g.protocol != nil && *req.Protocol != *g.protocol:
		return kerr.InconsistentGroupProtocol
	}
	return nil
}

// takeAssignment stores what the leader has worked out, and tells everybody.
func (s *shard) takeAssignment(t *coordinator.Turn, g *group, parts []kmsg.SyncGroupRequestGroupAssignment) {
	assignment := make(map[string][]byte, len(parts))
	for _, p := range parts {
		assignment[p.MemberID] = bytes.Clone(p.MemberAssignment)
	}
	s.assign(t, g, assignment, nil)
}

// assign ends the wait for the assignment: with it, or, where why is set, without.
func (s *shard) assign(t *coordinator.Turn, g *group, assignment map[string][]byte, why *kerr.Error) {
	if why == nil {
		stored := g.value(func(m *member) []byte { return assignment[m.id] })
		stored.CurrentStateTimestamp = t.NowMs()
		if err := t.Append(groupRecord(stored, g.id)); err != nil { // Replay makes the group stable
			s.c.o.Logger.Warn("the assignment of a group could not be stored", "group", g.id, "error", err)
			why = kerr.UnknownServerError
			errors.As(coordinator.Fault(err), &why)
			s.assign(t, g, nil, why)
			s.prepare(t, g)
			return
		}
	}
	for _, m := range g.order {
		resp := &kmsg.SyncGroupResponse{}
		if why != nil {
			m.assignment = nil
			resp.ErrorCode = why.Code
		} else {
			resp = g.synced(m)
		}
		if m.sync != nil {
			s.answerSync(t, m, resp)
			s.expectHeartbeat(t, g, m, m.session)
		}
	}
}

// synced is a member's part.
func (g *group) synced(m *member) *kmsg.SyncGroupResponse {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.MemberAssignment, resp.Protocol, resp.ProtocolType = m.assignment, g.protocol, &g.protocolType
	return resp
}

// heartbeat keeps a member in, and tells it of a rebalance.
func (s *shard) heartbeat(t *coordinator.Turn, req *kmsg.HeartbeatRequest) error {
	g := s.groups[req.Group]
	if g == nil || g.state == empty {
		return kerr.UnknownMemberID
	}
	if err := g.check(req.MemberID, req.InstanceID); err != nil {
		return err
	}
	if req.Generation != g.generation {
		return kerr.IllegalGeneration
	}
	m := g.members[req.MemberID]
	s.expectHeartbeat(t, g, m, m.session)
	if g.state == preparing {
		return kerr.RebalanceInProgress
	}
	return nil
}
