package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// Kinds of coordinator (FindCoordinatorRequest.CoordinatorType).
const (
	coordinatesGroup       = 0
	coordinatesTransaction = 1
)

// leastSegmentBytes is the least that a topic can have. A node may be told less for this one, by an old file.
const leastSegmentBytes = 1 << 20

// findCoordinator answers FindCoordinator: which broker keeps a group. The first to ask has the internal topic created.
// Mirrors KafkaApis.handleFindCoordinatorRequest.
func (a *API) findCoordinator(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.FindCoordinatorRequest)
	resp := kmsg.NewPtrFindCoordinatorResponse()
	if req.Version < 4 {
		found := a.coordinator(r, req.CoordinatorType, req.CoordinatorKey)
		resp.NodeID, resp.Host, resp.Port = found.NodeID, found.Host, found.Port
		resp.ErrorCode, resp.ErrorMessage = found.ErrorCode, found.ErrorMessage
		return r.Answer(resp)
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, a.coordinator(r, req.CoordinatorType, key))
	}
	return r.Answer(resp)
}

func (a *API) coordinator(r *server.Request, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	answer := kmsg.NewFindCoordinatorResponseCoordinator()
	answer.Key, answer.NodeID, answer.Port = key, kafka.NoNode, -1
	id, e, err := a.findGroup(r, kind, key)
	if err != nil {
		answer.ErrorCode, answer.ErrorMessage = wire.Code(err), wire.Message(err)
		return answer
	}
	answer.NodeID, answer.Host, answer.Port = id, e.Host, int32(e.Port)
	return answer
}

func (a *API) findGroup(r *server.Request, kind int8, key string) (kafka.NodeID, metadata.Endpoint, error) {
	var nowhere metadata.Endpoint
	switch kind {
	case coordinatesGroup:
	case coordinatesTransaction:
		// As InitProducerId says: clients take it as fatal and do not ask again.
		return 0, nowhere, fmt.Errorf("transactions are not supported: %w", kerr.UnsupportedVersion)
	default:
		return 0, nowhere, fmt.Errorf("coordinator type %d: %w", kind, kerr.InvalidRequest)
	}
	if err := a.ensureOffsets(r, key); err != nil {
		a.o.Logger.Warn("the topic for consumer groups cannot be created", "topic", group.Topic, "error", err)
		return 0, nowhere, kerr.CoordinatorNotAvailable
	}
	image := a.o.Image()
	leader := leaderOf(image, group.Topic, a.o.Groups.Partition(key), r.Conn.Listener())
	if leader.endpoint == nil {
		return 0, nowhere, kerr.CoordinatorNotAvailable
	}
	return leader.id, *leader.endpoint, nil
}

// ensureOffsets creates the internal topic if it is not there, and waits a moment until it can be used, so that the first
// consumer of a cluster is not sent away.
func (a *API) ensureOffsets(r *server.Request, key string) error {
	image := a.o.Image()
	if _, ok := image.Topics.ByName(group.Topic); ok {
		return nil
	}
	ctx, cancel := a.within(r, 0)
	defer cancel()
	if err := a.autoCreate(ctx, group.Topic); err != nil {
		return err
	}
	ctx, cancelReady := context.WithTimeout(ctx, time.Second)
	defer cancelReady()
	a.o.Groups.Ready(ctx, a.o.Groups.Partition(key))
	return nil
}

// autoCreate creates a topic that somebody has asked for, an internal one in its own shape: a client that reads
// __consumer_offsets may be the first to name it. Mirrors DefaultAutoTopicCreationManager.creatableTopic.
func (a *API) autoCreate(ctx context.Context, topic string) error {
	switch {
	case topic == group.Topic:
		return a.o.Uplink.AutoCreateAs(ctx, a.offsetsTopic())
	case internal(topic):
		return fmt.Errorf("topic %s is nobody's here: %w", topic, kerr.UnknownTopicOrPartition)
	}
	return a.o.Uplink.AutoCreate(ctx, topic)
}

// offsetsTopic is the topic for groups as offsets.topic.* want it, with as many replicas as there are brokers for.
func (a *API) offsetsTopic() kmsg.CreateTopicsRequestTopic {
	image := a.o.Image()
	brokers := int16(0)
	for _, b := range image.Cluster.Brokers() {
		if b.Active() && brokers < a.o.Offsets.ReplicationFactor {
			brokers++
		}
	}
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = group.Topic, a.o.Offsets.Partitions, max(brokers, 1)
	for _, c := range []struct{ name, value string }{
		{"cleanup.policy", "compact"},
		{"compression.type", "producer"},
		{"segment.bytes", strconv.Itoa(max(int(a.o.Offsets.SegmentBytes), leastSegmentBytes))},
	} {
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = c.name, &c.value
		t.Configs = append(t.Configs, entry)
	}
	return t
}
