package zookeeper

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/peer"
	"moldau/internal/wire"
	"moldau/internal/znode"
)

// offsetsPause is how long to wait before the tree is looked for again.
const offsetsPause = 50 * time.Millisecond

// errNotHere is the answer of a node that does not serve the tree.
var errNotHere = errors.New("the ZooKeeper tree is not served there")

// Offsets answers OffsetCommit and OffsetFetch of version 0, which are about the offsets that consumers keep in the tree. The
// node that serves it is asked if it is not this one. Which partitions there are this node says, since its clients know them
// from it. An error says that the tree was not found before ctx ended.
func (s *Server) Offsets(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	image := s.o.Image()
	there := func(topic string, partition int32) bool {
		_, _, ok := image.Topics.Partition(kafka.TopicPartition{Topic: topic, Partition: partition})
		return ok
	}
	if commit, ok := req.(*kmsg.OffsetCommitRequest); ok {
		return s.commit(ctx, commit, there)
	}
	resp, err := s.find(ctx, req)
	if fetched, ok := resp.(*kmsg.OffsetFetchResponse); ok {
		for _, t := range fetched.Topics {
			for i := range t.Partitions {
				if p := &t.Partitions[i]; !there(t.Topic, p.Partition) {
					p.Offset, p.ErrorCode = znode.NoOffset, kerr.UnknownTopicOrPartition.Code
				}
			}
		}
	}
	return resp, err
}

// commit leaves out of a request the partitions that are not there.
func (s *Server) commit(ctx context.Context, req *kmsg.OffsetCommitRequest, there func(string, int32) bool) (kmsg.Response, error) {
	kept := kmsg.NewPtrOffsetCommitRequest()
	kept.Group = req.Group
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			if there(t.Topic, p.Partition) {
				topic.Partitions = append(topic.Partitions, p)
			}
		}
		kept.Topics = append(kept.Topics, topic)
	}
	found, err := s.find(ctx, kept)
	if err != nil {
		return nil, err
	}
	codes := map[kafka.TopicPartition]int16{}
	for _, t := range found.(*kmsg.OffsetCommitResponse).Topics {
		for _, p := range t.Partitions {
			codes[kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = p.ErrorCode
		}
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			code, answered := codes[kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}]
			switch {
			case !there(t.Topic, p.Partition):
				code = kerr.UnknownTopicOrPartition.Code
			case !answered:
				code = kerr.UnknownServerError.Code
			}
			answer := kmsg.NewOffsetCommitResponseTopicPartition()
			answer.Partition, answer.ErrorCode = p.Partition, code
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

// find has the node that serves the tree answer a request, and looks for it as long as it takes.
func (s *Server) find(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	err := errNotHere
	for ctx.Err() == nil {
		now, moved := s.leader()
		serving, changed := s.o.Tree.Serving()
		var resp kmsg.Response
		switch _, fetch := req.(*kmsg.OffsetFetchRequest); {
		case now.node == s.o.NodeID && serving:
			resp, err = s.offsetsHere(ctx, req)
		case now.node == s.o.NodeID:
		case now.node != kafka.NoNode:
			resp, err = s.offsetsThere(ctx, now.node, req)
		case !now.topic && fetch:
			return noOffsets(req), nil
		case !now.topic:
			err = s.o.Create(ctx)
		}
		if resp != nil {
			return resp, nil
		}
		pause := time.NewTimer(offsetsPause)
		select {
		case <-moved:
		case <-changed:
		case <-pause.C:
		case <-ctx.Done():
		}
		pause.Stop()
	}
	return nil, fmt.Errorf("%s of a consumer of ZooKeeper's: %w", kmsg.NameForKey(req.Key()), err)
}

// PassedOffsets answers a request for Offsets that another node passed on, if this node serves the tree; else the answer is
// empty. Both are bodies under wire.ZooKeeperOffsetsKey.
func (s *Server) PassedOffsets(ctx context.Context, body []byte) ([]byte, error) {
	req, err := parseOffsets(body)
	if err != nil {
		return nil, err
	}
	if resp, err := s.offsetsHere(ctx, req); err == nil {
		return resp.AppendTo(nil), nil
	}
	return nil, nil
}

// appendOffsets appends the body of a request that is passed on: which it is, and what it says in version 0.
func appendOffsets(b []byte, req kmsg.Request) []byte {
	return req.AppendTo(binary.BigEndian.AppendUint16(b, uint16(req.Key())))
}

func parseOffsets(b []byte) (kmsg.Request, error) {
	if len(b) < 2 {
		return nil, errRequest
	}
	var req kmsg.Request
	switch kmsg.Key(binary.BigEndian.Uint16(b)) {
	case kmsg.OffsetCommit:
		req = kmsg.NewPtrOffsetCommitRequest()
	case kmsg.OffsetFetch:
		req = kmsg.NewPtrOffsetFetchRequest()
	default:
		return nil, errRequest
	}
	req.SetVersion(0)
	return req, req.ReadFrom(b[2:])
}

// offsetsThere asks another node.
func (s *Server) offsetsThere(ctx context.Context, node kafka.NodeID, req kmsg.Request) (kmsg.Response, error) {
	conn, err := s.link.to(ctx, node, s.o.Dial)
	if err != nil {
		return nil, err
	}
	answer, err := conn.DoPrivate(ctx, wire.ZooKeeperOffsetsKey, appendOffsets(nil, req))
	if err != nil {
		return nil, err
	}
	if len(answer) == 0 {
		return nil, errNotHere
	}
	resp := req.ResponseKind()
	resp.SetVersion(0)
	if err := resp.ReadFrom(answer); err != nil {
		return nil, fmt.Errorf("answer of node %d: %w", node, err)
	}
	return resp, nil
}

// link is the connection by which another node is asked for offsets: one at most, made when it is needed.
type link struct {
	turn chan struct{} // holding its one slot is the right to what follows
	conn *peer.Conn
	node kafka.NodeID
}

// to returns a connection to a node.
func (l *link) to(ctx context.Context, node kafka.NodeID, dial func(context.Context, kafka.NodeID) (net.Conn, error)) (*peer.Conn, error) {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.conn != nil && l.node == node && l.conn.Err() == nil {
		return l.conn, nil
	}
	l.hangUp()
	conn, err := peer.Dial(ctx, fmt.Sprintf("node %d", node), peer.Options{ClientID: "zookeeper", Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		return dial(ctx, node)
	}})
	if err == nil {
		l.conn, l.node = conn, node
	}
	return conn, err
}

func (l *link) hangUp() {
	if l.conn != nil {
		l.conn.Close()
		l.conn = nil
	}
}

// close ends the connection. Nobody may ask for it any more but those whose context has ended.
func (l *link) close() {
	l.turn <- struct{}{}
	l.hangUp()
}

// offsetsHere asks the tree of this node. An error says that it is not here, or no longer.
func (s *Server) offsetsHere(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	switch req := req.(type) {
	case *kmsg.OffsetCommitRequest:
		return s.commitHere(ctx, req)
	case *kmsg.OffsetFetchRequest:
		return s.fetchHere(ctx, req)
	}
	return nil, errRequest
}

func (s *Server) commitHere(ctx context.Context, req *kmsg.OffsetCommitRequest) (kmsg.Response, error) {
	var partitions []kafka.TopicPartition
	var offsets []kafka.Offset
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			partitions, offsets = append(partitions, kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}), append(offsets, p.Offset)
		}
	}
	_, err := await(ctx, s.o.Tree.CommitOffsets(req.Group, partitions, offsets))
	if isElsewhere(err) {
		return nil, err
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewOffsetCommitResponseTopicPartition()
			answer.Partition, answer.ErrorCode = p.Partition, wire.Code(err)
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp, nil
}

func (s *Server) fetchHere(ctx context.Context, req *kmsg.OffsetFetchRequest) (kmsg.Response, error) {
	var partitions []kafka.TopicPartition
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			partitions = append(partitions, kafka.TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	offsets, err := await(ctx, s.o.Tree.FetchOffsets(req.Group, partitions))
	if isElsewhere(err) {
		return nil, err
	}
	resp := noOffsets(req)
	for i, t := range req.Topics {
		for j := range t.Partitions {
			answer := &resp.Topics[i].Partitions[j]
			switch {
			case err != nil:
				answer.ErrorCode = wire.Code(err)
			case offsets[0] != znode.NoOffset:
				answer.Offset, answer.ErrorCode = offsets[0], 0
			}
			if err == nil {
				offsets = offsets[1:]
			}
		}
	}
	return resp, nil
}

// noOffsets is the answer to OffsetFetch where there are none; version 0 calls that an unknown partition.
func noOffsets(r kmsg.Request) *kmsg.OffsetFetchResponse {
	resp := kmsg.NewPtrOffsetFetchResponse()
	for _, t := range r.(*kmsg.OffsetFetchRequest).Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewOffsetFetchResponseTopicPartition()
			answer.Partition, answer.Offset, answer.Metadata, answer.ErrorCode = p, znode.NoOffset, new(string), kerr.UnknownTopicOrPartition.Code
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return resp
}

// isElsewhere reports whether the tree has to be looked for again.
func isElsewhere(err error) bool {
	return errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.CoordinatorNotAvailable)
}

// await is what a promise comes to.
func await[T any](ctx context.Context, p *coordinator.Promise[T]) (T, error) {
	for _, done := range []func() <-chan struct{}{p.Given, p.Committed} {
		if c := done(); c != nil {
			select {
			case <-c:
			case <-ctx.Done():
				var none T
				return none, kerr.CoordinatorNotAvailable
			}
		}
	}
	return p.Answer()
}
