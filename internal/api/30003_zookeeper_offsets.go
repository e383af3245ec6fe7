package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// passedOffsets answers OffsetCommit or OffsetFetch of version 0 for another node.
func (a *API) passedOffsets(r *server.Request) server.Reply {
	req := r.Body.(*wire.PrivateRequest)
	return server.Reply{Wait: func() server.Response {
		ctx, cancel := a.within(r, 0)
		defer cancel()
		body, err := a.o.PassedOffsets(ctx, req.Body)
		if err != nil {
			a.o.Logger.Warn("another node has passed on what cannot be read", "remote", r.Conn.RemoteAddr().String(), "error", err)
		}
		return r.Response(&wire.PrivateResponse{APIKey: req.APIKey, Body: body})
	}}
}

// treeOffsets answers OffsetCommit and OffsetFetch of version 0. Clients of that age keep offsets in ZooKeeper, and so do
// brokers for them: every broker answers, whichever node has the tree.
func (a *API) treeOffsets(r *server.Request) server.Reply {
	return server.Reply{Wait: func() server.Response {
		ctx, cancel := a.within(r, 0)
		defer cancel()
		resp, err := a.o.TreeOffsets(ctx, r.Body)
		if err != nil {
			a.o.Logger.Warn("offsets of a consumer of ZooKeeper's cannot be had", "remote", r.Conn.RemoteAddr().String(), "error", err)
			resp = withoutTree(r.Body, kerr.CoordinatorNotAvailable.Code)
		}
		return r.Response(resp)
	}}
}

// withoutTree is the answer if the tree is not found.
func withoutTree(req kmsg.Request, code int16) kmsg.Response {
	switch req := req.(type) {
	case *kmsg.OffsetCommitRequest:
		resp := kmsg.NewPtrOffsetCommitResponse()
		for _, t := range req.Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.OffsetCommitResponseTopicPartition{Partition: p.Partition, ErrorCode: code})
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	case *kmsg.OffsetFetchRequest:
		resp := kmsg.NewPtrOffsetFetchResponse()
		for _, t := range req.Topics {
			topic := kmsg.NewOffsetFetchResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				topic.Partitions = append(topic.Partitions, kmsg.OffsetFetchResponseTopicPartition{Partition: p, Offset: -1, Metadata: new(string), ErrorCode: code})
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp
	}
	return nil
}
