package controller

import (
	"context"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// NextNodeID gives a number, least or more, that no node has and that none was ever given: once it is committed, no controller gives it
// again. Errors: NOT_CONTROLLER, INVALID_REQUEST, and ctx's.
func (c *Controller) NextNodeID(ctx context.Context, least kafka.NodeID) (kafka.NodeID, error) {
	answer := make(chan outcome, 1)
	if !c.post(unnumbered{least: least, answer: answer}) {
		return kafka.NoNode, kerr.NotController
	}
	o, err := await(ctx, answer)
	if err != nil {
		return kafka.NoNode, err
	}
	return o.nodeID, o.err
}

// number answers a node that has no number.
func (l *loop) number(u unnumbered) {
	if !l.leading {
		u.answer <- outcome{err: kerr.NotController}
		return
	}
	id, records, err := l.state().nextNodeID(u.least)
	if err == nil {
		err = l.propose(records, true)
	}
	l.release(outcome{nodeID: id, err: err}, u.answer)
}

// nextNodeID mirrors ZkData.GenerateBrokerId of Kafka before 4.0, which counted in a node of ZooKeeper's.
func (s *state) nextNodeID(least kafka.NodeID) (kafka.NodeID, []metadata.Record, error) {
	if least < 0 {
		return kafka.NoNode, nil, fmt.Errorf("node ids from %d on: %w", least, kerr.InvalidRequest)
	}
	id := s.image.Cluster.NextNodeID(least)
	if id == math.MaxInt32 {
		return kafka.NoNode, nil, fmt.Errorf("there are no more node ids: %w", kerr.InvalidRequest)
	}
	return id, []metadata.Record{&metadata.NoOpRecord{NextNodeID: id + 1}}, nil
}
