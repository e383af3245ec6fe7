package sim

import (
	"context"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// route is what a client knows of who is where.
type route struct {
	leaders     map[place]string
	epochs      map[place]kafka.Epoch // in which they lead
	coordinator string                // of the group; "": not known
}

// place names a partition of whatever topic has the name now.
type place struct {
	topic  string
	number int32
}

// find returns the address of the node that a request is for. A client of one node has no choice.
func (c *client) find(ctx context.Context, req kmsg.Request) (string, error) {
	if len(c.seeds) == 1 {
		return c.seeds[0], nil
	}
	switch req := req.(type) {
	case *kmsg.ProduceRequest:
		return c.leaderByID(ctx, req.Topics[0].TopicID, req.Topics[0].Partitions[0].Partition)
	case *kmsg.FetchRequest:
		return c.leaderByID(ctx, req.Topics[0].TopicID, req.Topics[0].Partitions[0].Partition)
	case *kmsg.ListOffsetsRequest:
		return c.leader(ctx, place{req.Topics[0].Topic, req.Topics[0].Partitions[0].Partition})
	case *kmsg.DeleteRecordsRequest:
		return c.leader(ctx, place{req.Topics[0].Topic, req.Topics[0].Partitions[0].Partition})
	case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest, *kmsg.HeartbeatRequest, *kmsg.LeaveGroupRequest, *kmsg.OffsetCommitRequest,
		*kmsg.OffsetFetchRequest:
		return c.coordinator(ctx)
	}
	return c.any(), nil
}

func (c *client) any() string { return c.seeds[c.rng.IntN(len(c.seeds))] }

// leaderByID finds the leader of a partition of a topic that the client knows by its id.
func (c *client) leaderByID(ctx context.Context, id kafka.TopicID, number int32) (string, error) {
	for _, p := range c.topics.all() {
		if p.id == id {
			return c.leader(ctx, place{p.topic, number})
		}
	}
	return c.any(), nil // it is deleted, and anybody can say so
}

func (c *client) leader(ctx context.Context, p place) (string, error) {
	if at := c.route.leaders[p]; at != "" {
		return at, nil
	}
	req := kmsg.NewMetadataRequest()
	req.Version = 12
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = &p.topic
	req.Topics = append(req.Topics, t)
	resp, err := c.ask(ctx, c.any(), &req)
	if err != nil {
		return "", err
	}
	answer := resp.(*kmsg.MetadataResponse)
	addresses := make(map[int32]string)
	for _, b := range answer.Brokers {
		addresses[b.NodeID] = fmt.Sprintf("%s:%d", b.Host, b.Port)
	}
	if err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); err != nil {
		return "", err
	}
	if c.route.leaders == nil {
		c.route.leaders, c.route.epochs = make(map[place]string), make(map[place]kafka.Epoch)
	}
	for _, found := range answer.Topics[0].Partitions {
		c.route.epochs[place{p.topic, found.Partition}] = kafka.Epoch(found.LeaderEpoch)
		c.route.leaders[place{p.topic, found.Partition}] = addresses[found.Leader]
	}
	if at := c.route.leaders[p]; at != "" {
		return at, nil
	}
	return "", errors.New("nobody leads it")
}

// epochOf is the epoch of the leader of a partition, as far as the client can find out, which is then the one that it asks.
func (c *client) epochOf(ctx context.Context, p Partition) kafka.Epoch {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	if _, err := c.leader(ctx, place{p.topic, p.number}); err != nil {
		return kafka.NoEpoch
	}
	return c.route.epochs[place{p.topic, p.number}]
}

func (c *client) coordinator(ctx context.Context) (string, error) {
	if c.route.coordinator != "" {
		return c.route.coordinator, nil
	}
	req := kmsg.NewFindCoordinatorRequest()
	req.Version, req.CoordinatorKey = 3, theGroup
	resp, err := c.ask(ctx, c.any(), &req)
	if err != nil {
		return "", err
	}
	answer := resp.(*kmsg.FindCoordinatorResponse)
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return "", err
	}
	c.route.coordinator = fmt.Sprintf("%s:%d", answer.Host, answer.Port)
	return c.route.coordinator, nil
}
