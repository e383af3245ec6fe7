package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/wire"
)

// The versions that members speak: those of a client of Apache Kafka 4.4 with the classic protocol.
const (
	joinVersion      = 9
	syncVersion      = 5
	heartbeatVersion = 4
	leaveVersion     = 5
	findVersion      = 4
)

// member is one member of a crowd's group: a connection that does what a consumer's does, and fetches nothing.
type member struct {
	crowd   *crowd
	leaves  chan struct{} // closed: it leaves with a LeaveGroup
	dies    chan struct{} // closed: its connection ends
	conn    net.Conn
	answers *frameReader
	number  int32 // of the last request
	id      string
	age     int32 // its generation
}

func newMember(g *crowd) *member {
	return &member{crowd: g, leaves: make(chan struct{}), dies: make(chan struct{})}
}

// live is a member's life, from its first JoinGroup to its end.
func (m *member) live(ctx context.Context) {
	err := m.belong(ctx)
	if ctx.Err() != nil {
		err = nil // whatever happens when all is over
	}
	m.crowd.gone(m, err)
}

func (m *member) belong(ctx context.Context) error {
	conn, err := dial(ctx, m.crowd.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	m.conn, m.answers = conn, newFrameReader(conn)
	if err := m.join(); err != nil {
		return err
	}
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.dies:
			return nil
		case <-m.leaves:
			return m.leave()
		case <-beat.C:
		}
		err := m.heartbeat()
		if errors.Is(err, kerr.RebalanceInProgress) || errors.Is(err, kerr.IllegalGeneration) {
			err = m.join()
		}
		if err != nil {
			return err
		}
	}
}

// ask sends a request and waits for its answer.
func (m *member) ask(req kmsg.Request, version int16, resp kmsg.Response) error {
	m.number++
	client := "moldau-bench"
	req.SetVersion(version)
	if _, err := m.conn.Write(wire.AppendRequest(nil, m.number, &client, req)); err != nil {
		return err
	}
	frame, err := m.answers.next()
	if err != nil {
		return err
	}
	resp.SetVersion(version)
	_, err = wire.ReadResponse(frame, resp)
	return err
}

// join joins until there is an assignment.
func (m *member) join() error {
	for {
		joined, err := m.joinGroup()
		if errors.Is(err, kerr.MemberIDRequired) {
			m.id = joined.MemberID
			continue
		}
		if err != nil {
			return fmt.Errorf("join: %w", err)
		}
		m.id, m.age = joined.MemberID, joined.Generation
		err = m.syncGroup(joined)
		if errors.Is(err, kerr.RebalanceInProgress) {
			continue
		}
		if err != nil {
			return fmt.Errorf("sync: %w", err)
		}
		m.crowd.has(m, m.age)
		return nil
	}
}

func (m *member) joinGroup() (*kmsg.JoinGroupResponse, error) {
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Version, subscription.Topics = 3, []string{m.crowd.topic}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.ProtocolType = m.crowd.group, m.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = sessionTimeoutMs, rebalanceTimeoutMs
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = "range", subscription.AppendTo(nil)
	req.Protocols = append(req.Protocols, protocol)
	resp := kmsg.NewPtrJoinGroupResponse()
	if m.id != "" {
		m.crowd.joins()
	}
	if err := m.ask(req, joinVersion, resp); err != nil {
		return nil, err
	}
	return resp, kerr.ErrorForCode(resp.ErrorCode)
}

// syncGroup asks for the assignment, and brings those of all members when it leads.
func (m *member) syncGroup(joined *kmsg.JoinGroupResponse) error {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Generation, req.MemberID = m.crowd.group, m.age, m.id
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), joined.Protocol
	if joined.LeaderID == m.id {
		next := int32(0)
		for _, other := range joined.Members {
			mine := kmsg.NewConsumerMemberAssignmentTopic()
			mine.Topic = m.crowd.topic
			for range partitionsPerMember {
				mine.Partitions = append(mine.Partitions, next)
				next++
			}
			assignment := kmsg.NewConsumerMemberAssignment()
			assignment.Topics = append(assignment.Topics, mine)
			one := kmsg.NewSyncGroupRequestGroupAssignment()
			one.MemberID, one.MemberAssignment = other.MemberID, assignment.AppendTo(nil)
			req.GroupAssignment = append(req.GroupAssignment, one)
		}
	}
	resp := kmsg.NewPtrSyncGroupResponse()
	if err := m.ask(req, syncVersion, resp); err != nil {
		return err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	var got kmsg.ConsumerMemberAssignment
	if err := got.ReadFrom(resp.MemberAssignment); err != nil {
		return err
	}
	if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != partitionsPerMember {
		return fmt.Errorf("member %s was assigned %v", m.id, got.Topics)
	}
	return nil
}

func (m *member) heartbeat() error {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = m.crowd.group, m.age, m.id
	resp := kmsg.NewPtrHeartbeatResponse()
	if err := m.ask(req, heartbeatVersion, resp); err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

func (m *member) leave() error {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = m.crowd.group
	one := kmsg.NewLeaveGroupRequestMember()
	one.MemberID = m.id
	req.Members = append(req.Members, one)
	resp := kmsg.NewPtrLeaveGroupResponse()
	if err := m.ask(req, leaveVersion, resp); err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.ErrorCode)
}

// awaitCoordinator waits until the broker coordinates the group: the topic of offsets has to be made first.
func (g *crowd) awaitCoordinator(ctx context.Context) error {
	return eventually(ctx, "there is a coordinator", func() error {
		conn, err := dial(ctx, g.addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		m := &member{crowd: g, conn: conn, answers: newFrameReader(conn)}
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKeys = []string{g.group}
		found := kmsg.NewPtrFindCoordinatorResponse()
		if err := m.ask(find, findVersion, found); err != nil {
			return err
		}
		if len(found.Coordinators) != 1 {
			return fmt.Errorf("%d coordinators", len(found.Coordinators))
		}
		if err := kerr.ErrorForCode(found.Coordinators[0].ErrorCode); err != nil {
			return err
		}
		// It may have to load the group yet.
		if err := m.heartbeat(); !errors.Is(err, kerr.UnknownMemberID) {
			return fmt.Errorf("heartbeat of nobody: %w", err)
		}
		return nil
	})
}
