package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topic is a topic that one run writes or reads.
type topic struct {
	name       string
	id         [16]byte
	partitions int32
	leaders    []leader // who lead at the start, in the order of their ids
}

// leader is a broker with the partitions of a topic that it leads.
type leader struct {
	addr       string
	partitions []int32
}

// createTopic creates a topic and waits until it can be used. Partition by partition the next broker leads and the others
// follow.
func (c *cluster) createTopic(ctx context.Context, name string, partitions int32) (topic, error) {
	t := topic{name: name, partitions: partitions, leaders: make([]leader, len(c.brokers))}
	want := kmsg.NewCreateTopicsRequestTopic()
	want.Topic, want.NumPartitions, want.ReplicationFactor = name, -1, -1
	for p := range partitions {
		first := int(p) % len(c.brokers)
		t.leaders[first].addr = c.brokers[first].addr
		t.leaders[first].partitions = append(t.leaders[first].partitions, p)
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition = p
		for i := range c.brokers {
			a.Replicas = append(a.Replicas, c.brokers[(first+i)%len(c.brokers)].id)
		}
		want.ReplicaAssignment = append(want.ReplicaAssignment, a)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...))
	if err != nil {
		return topic{}, err
	}
	defer client.Close()
	made, err := createTopics(ctx, client, want)
	if err != nil {
		return topic{}, err
	}
	t.id = made[0].TopicID
	return t, awaitLeaders(ctx, client, t)
}

func createTopics(ctx context.Context, client *kgo.Client, want ...kmsg.CreateTopicsRequestTopic) ([]kmsg.CreateTopicsResponseTopic, error) {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = want, 60_000
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("create topic %s: %w", want[0].Topic, err)
	}
	if len(resp.Topics) != len(want) {
		return nil, fmt.Errorf("create %d topics: %d answered", len(want), len(resp.Topics))
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return nil, fmt.Errorf("create topic %s: %w", t.Topic, err)
		}
	}
	return resp.Topics, nil
}

// awaitLeaders waits until every partition of a topic has a leader that answers for it: a topic is created when the
// controller has written it down, which is before its broker serves it.
func awaitLeaders(ctx context.Context, client *kgo.Client, t topic) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	var last error
	for ctx.Err() == nil {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		asked := kmsg.NewListOffsetsRequestTopic()
		asked.Topic = t.name
		for i := range t.partitions {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition, p.Timestamp = i, -1
			asked.Partitions = append(asked.Partitions, p)
		}
		req.Topics = append(req.Topics, asked)
		shards := client.RequestSharded(ctx, req)
		if last = leadersAnswered(shards, int(t.partitions)); last == nil {
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return fmt.Errorf("topic %s has no leaders: %w", t.name, last)
}

func leadersAnswered(shards []kgo.ResponseShard, want int) error {
	good := 0
	for _, shard := range shards {
		if shard.Err != nil {
			return shard.Err
		}
		for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("partition %d: %w", p.Partition, err)
				}
				good++
			}
		}
	}
	if good != want {
		return fmt.Errorf("%d of %d partitions answered", good, want)
	}
	return nil
}

// deleteTopic deletes a topic and waits until its files are gone.
func (c *cluster) deleteTopic(ctx context.Context, name string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(c.seeds()...))
	if err != nil {
		return err
	}
	defer client.Close()
	req := kmsg.NewPtrDeleteTopicsRequest()
	one := kmsg.NewDeleteTopicsRequestTopic()
	one.Topic = kmsg.StringPtr(name)
	req.TopicNames, req.Topics, req.TimeoutMillis = []string{name}, append(req.Topics, one), 30_000
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return fmt.Errorf("delete topic %s: %w", name, err)
	}
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("delete topic %s: %w", name, err)
		}
	}
	for _, b := range c.brokers {
		if err := b.awaitGone(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

func (b *broker) awaitGone(ctx context.Context, name string) error {
	for {
		left, err := filepath.Glob(filepath.Join(b.dir, name+"-*"))
		if err != nil || len(left) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("topic %s is deleted, but not its files: %w", name, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
