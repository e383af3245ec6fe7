package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

// clusterNodes is how many brokers the workloads of a cluster run on, and how many replicas their topics have.
const clusterNodes = 3

// clusterWorkloads are what is measured on three brokers.
func clusterWorkloads() []workload {
	l := load{recordBytes: 1024, batchBytes: 16 << 10, acks: -1, connections: 1, depth: 5}
	var list []workload
	for _, client := range []string{"replay", "java"} {
		list = append(list, workload{
			name: "cluster-" + client + "-produce",
			about: fmt.Sprintf("three brokers, every partition on all of them: %s (with the replayer to each leader); records of 1024 bytes, batch.size 16 KiB, 6 partitions, acks=all; CPU of all three brokers",
				clientAbout(client)),
			asked: true,
			nodes: clusterNodes,
			run:   produceRun(client, l),
		})
	}
	return append(list, workload{
		name:  "cluster-leader-killed",
		about: "three brokers: kill -9 of the leader of a partition to which one record after the other goes with acks=all; it is not the active controller",
		alone: true, asked: true, nodes: clusterNodes,
		run: func(ctx context.Context, t harness.T, c *cluster, _ scale) ([]figure, error) {
			return runLeaderKilled(ctx, t, c, false)
		},
	}, workload{
		name:  "cluster-leading-controller-killed",
		about: "the same with a leader that is the active controller, too",
		alone: true, asked: true, nodes: clusterNodes,
		run: func(ctx context.Context, t harness.T, c *cluster, _ scale) ([]figure, error) {
			return runLeaderKilled(ctx, t, c, true)
		},
	}, partitionsWorkload())
}

// active returns the broker whose controller is active, as far as any of the brokers knows, and the others.
func (c *cluster) active(ctx context.Context, client *kgo.Client) (*broker, []*broker, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	asked := kmsg.NewDescribeQuorumRequestTopic()
	asked.Topic = "__cluster_metadata"
	asked.Partitions = append(asked.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, asked)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return nil, nil, err
	}
	var (
		found  *broker
		others []*broker
	)
	for _, b := range c.brokers {
		if len(resp.Topics) == 1 && len(resp.Topics[0].Partitions) == 1 && resp.Topics[0].Partitions[0].LeaderID == b.id {
			found = b
		} else {
			others = append(others, b)
		}
	}
	if found == nil {
		return nil, nil, errors.New("no controller is active")
	}
	return found, others, nil
}

// impatient is a client that learns of new leaders as soon as there are any: what it adds to a gap is 50 ms at most.
func impatient(seeds []string, more ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.MetadataMinAge(50 * time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 50 * time.Millisecond }),
		kgo.DialTimeout(time.Second),
	}, more...)...)
}

// runLeaderKilled measures for how long nothing is acknowledged after the leader is gone.
func runLeaderKilled(ctx context.Context, t harness.T, c *cluster, controllerToo bool) ([]figure, error) {
	if _, err := c.start(ctx, t); err != nil {
		return nil, err
	}
	client, err := impatient(c.seeds(), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	victim, others, err := c.active(ctx, client)
	if err != nil {
		return nil, err
	}
	if !controllerToo {
		victim, others[0] = others[0], victim
	}
	const name = "failover"
	if err := createAssigned(ctx, client, name, 1, victim, others...); err != nil {
		return nil, err
	}
	p := &paced{client: client, topic: name, value: make([]byte, 1024)}
	if _, err := p.until(ctx, time.Now().Add(3*time.Second)); err != nil { // warm
		return nil, err
	}
	killed := make(chan struct{})
	timer := time.AfterFunc(500*time.Millisecond, func() {
		victim.Kill(t)
		close(killed)
	})
	defer timer.Stop()
	gap, err := p.until(ctx, time.Now().Add(2*time.Second))
	if err != nil {
		return nil, err
	}
	<-killed
	return []figure{{"longest time without an acknowledged record", "ms", true, milliseconds(gap)}}, nil
}

// paced produces one record after the other.
type paced struct {
	client *kgo.Client
	topic  string
	value  []byte
}

// until produces until a time, at least one record after it, and returns the longest time between two acknowledgements.
func (p *paced) until(ctx context.Context, end time.Time) (longest time.Duration, err error) {
	for last := time.Now(); last.Before(end); {
		err := p.client.ProduceSync(ctx, &kgo.Record{Topic: p.topic, Partition: 0, Value: p.value}).FirstErr()
		if err != nil {
			return 0, err
		}
		now := time.Now()
		longest, last = max(longest, now.Sub(last)), now
	}
	return longest, nil
}

// createAssigned creates a topic all of whose partitions have the same replicas, the first of which leads, and waits until
// all are in sync.
func createAssigned(ctx context.Context, client *kgo.Client, name string, partitions int32, leads *broker, follow ...*broker) error {
	if _, err := createTopics(ctx, client, assigned(name, partitions, leads, follow...)); err != nil {
		return err
	}
	return eventually(ctx, name+" is led and in sync", func() error {
		return checkPartitions(ctx, client, []string{name}, func(p kmsg.MetadataResponseTopicPartition) bool {
			return p.Leader == leads.id && len(p.ISR) == 1+len(follow)
		})
	})
}

func assigned(name string, partitions int32, leads *broker, follow ...*broker) kmsg.CreateTopicsRequestTopic {
	want := kmsg.NewCreateTopicsRequestTopic()
	want.Topic, want.NumPartitions, want.ReplicationFactor = name, -1, -1
	for p := range partitions {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = p, []int32{leads.id}
		for _, b := range follow {
			a.Replicas = append(a.Replicas, b.id)
		}
		want.ReplicaAssignment = append(want.ReplicaAssignment, a)
	}
	return want
}

// checkPartitions asks one broker for topics and tells how many of their partitions are not as they should be.
func checkPartitions(ctx context.Context, client *kgo.Client, topics []string, good func(kmsg.MetadataResponseTopicPartition) bool) error {
	req := kmsg.NewPtrMetadataRequest()
	for _, name := range topics {
		one := kmsg.NewMetadataRequestTopic()
		one.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, one)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	bad, all := 0, 0
	for _, t := range resp.Topics {
		if err := kerr.ErrorForCode(t.ErrorCode); err != nil {
			return fmt.Errorf("topic %v: %w", t.Topic, err)
		}
		for _, p := range t.Partitions {
			all++
			if !good(p) {
				bad++
			}
		}
	}
	if bad > 0 || all == 0 {
		return fmt.Errorf("%d of %d partitions are not so", bad, all)
	}
	return nil
}

// eventually tries until it succeeds or ctx ends. It rests as long as a try took, and at least 20 ms.
func eventually(ctx context.Context, what string, try func() error) error {
	for {
		began := time.Now()
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not in time: %s: %w", what, err)
		case <-time.After(max(20*time.Millisecond, time.Since(began))):
		}
	}
}
