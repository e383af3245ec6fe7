package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// metadataTopicID is the fixed id of __cluster_metadata (Uuid.METADATA_TOPIC_ID).
var metadataTopicID = kafka.TopicID{15: 1}

// observing is a Fetch of the metadata partition under way.
type observing struct {
	a     *API
	r     *server.Request
	req   *kmsg.FetchRequest
	topic *kmsg.FetchRequestTopic
	timer *time.Timer
}

// fetchMetadata answers Fetch on a controller's listener: brokers and controllers that do not vote follow the metadata
// log with it (KIP-595). It has no sessions. Mirrors KafkaRaftClient.handleFetchRequest.
func (a *API) fetchMetadata(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.FetchRequest)
	refuse := func(err *kerr.Error) server.Reply {
		return server.Reply{Response: &wire.FetchResponse{Version: req.Version, CorrelationID: r.Header.CorrelationID, ErrorCode: err.Code}}
	}
	if !a.sameCluster(req.ClusterID) {
		return refuse(kerr.InconsistentClusterID)
	}
	// One topic with one partition: everything else is a client that has the wrong address.
	if len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 {
		return refuse(kerr.InvalidRequest)
	}
	o := &observing{a: a, r: r, req: req, topic: &req.Topics[0]}
	changed := a.o.Quorum.Changed()
	resp, enough := o.look()
	if enough || req.MaxWaitMillis <= 0 {
		return server.Reply{Response: resp}
	}
	o.timer = time.NewTimer(time.Duration(req.MaxWaitMillis) * time.Millisecond)
	return server.Reply{Wait: func() server.Response { return o.wait(resp, changed) }}
}

func (o *observing) wait(resp *fetchReply, changed <-chan struct{}) server.Response {
	defer o.timer.Stop()
	for {
		select {
		case <-changed:
			changed = o.a.o.Quorum.Changed()
			resp.Release()
			var enough bool
			if resp, enough = o.look(); enough {
				return resp
			}
		case <-o.timer.C:
			return resp
		case <-o.r.Closing():
			return resp
		}
	}
}

// look makes the answer as of now. enough says that there is something in it.
func (o *observing) look() (resp *fetchReply, enough bool) {
	resp = &fetchReply{FetchResponse: wire.FetchResponse{Version: o.req.Version, CorrelationID: o.r.Header.CorrelationID}}
	asked := &o.topic.Partitions[0]
	answer := wire.NewFetchPartition(asked.Partition)
	topic := wire.FetchTopic{Topic: o.topic.Topic, TopicID: o.topic.TopicID}
	add := func() { topic.Partitions = append(topic.Partitions, answer); resp.Topics = append(resp.Topics, topic) }
	named := o.topic.Topic == quorum.TopicName
	if o.req.Version >= 13 {
		named = kafka.TopicID(o.topic.TopicID) == metadataTopicID
	}
	if !named || asked.Partition != 0 {
		answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
		if o.req.Version >= 13 && !named {
			answer.ErrorCode = kerr.UnknownTopicID.Code
		}
		add()
		return resp, true
	}
	who := o.req.ReplicaID
	if o.req.Version >= 15 {
		who = o.req.ReplicaState.ID
	}
	found, err := o.a.o.Quorum.Fetch(quorum.FetchRequest{
		ReplicaID:        who,
		ReplicaDirID:     asked.ReplicaDirectoryID,
		CurrentEpoch:     asked.CurrentLeaderEpoch,
		Offset:           asked.FetchOffset,
		LastFetchedEpoch: asked.LastFetchedEpoch,
		MaxBytes:         max(min(int(o.req.MaxBytes), int(asked.PartitionMaxBytes)), 1),
	})
	answer.ErrorCode = wire.Code(err)
	answer.CurrentLeader = &wire.LeaderIDAndEpoch{LeaderID: found.LeaderID, Epoch: found.LeaderEpoch}
	o.point(resp, found.LeaderID)
	if err != nil {
		add()
		return resp, true
	}
	answer.HighWatermark, answer.LogStartOffset = found.HighWatermark, found.LogStart
	if d := found.Diverging; d != nil {
		answer.DivergingEpoch = &wire.EpochEndOffset{Epoch: d.Epoch, EndOffset: d.EndOffset}
		enough = true
	}
	if s := found.SnapshotID; s != nil {
		answer.SnapshotID = &wire.SnapshotID{EndOffset: s.EndOffset, Epoch: s.Epoch}
		enough = true
	}
	if found.Region != nil {
		resp.regions = append(resp.regions, found.Region)
		answer.Records = resp.regions
		enough = true
	}
	add()
	return resp, enough
}

// point adds the leader's address on this listener (from version 17 on followers find it there; KIP-853).
func (o *observing) point(resp *fetchReply, leader kafka.NodeID) {
	if o.req.Version < 17 {
		return
	}
	for _, v := range o.a.o.Quorum.Status().VoterSet {
		if v.ID != leader {
			continue
		}
		for _, e := range v.Endpoints {
			if e.Name == o.r.Conn.Listener() {
				resp.NodeEndpoints = append(resp.NodeEndpoints, wire.FetchEndpoint{NodeID: v.ID, Host: e.Host, Port: int32(e.Port)})
			}
		}
	}
}
