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
}

// createTopic creates a topic and waits until it can be used.
func createTopic(ctx context.Context, addr, name string, partitions int32) (topic, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		return topic{}, err
	}
	defer client.Close()
	want := kmsg.NewCreateTopicsRequestTopic()
	want.Topic, want.NumPartitions, want.ReplicationFactor = name, partitions, 1
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Topics, req.TimeoutMillis = append(req.Topics, want), 30_000
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return topic{}, fmt.Errorf("create topic %s: %w", name, err)
	}
	if len(resp.Topics) != 1 {
		return topic{}, fmt.Errorf("create topic %s: %d topics answered", name, len(resp.Topics))
	}
	if err := kerr.ErrorForCode(resp.Topics[0].ErrorCode); err != nil {
		return topic{}, fmt.Errorf("create topic %s: %w", name, err)
	}
	t := topic{name: name, id: resp.Topics[0].TopicID, partitions: partitions}
	return t, awaitLeaders(ctx, client, t)
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
func (b *broker) deleteTopic(ctx context.Context, name string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(b.addr))
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
