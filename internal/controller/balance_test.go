package controller

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// beatAll keeps brokers in service for a while.
func beatAll(t *testing.T, c *Controller, log *testLog, epochs map[int32]int64, d time.Duration, ids ...int32) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		for _, id := range ids {
			beat(t, c, id, epochs[id])
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for log.commit(t, 1) > 0 {
		}
	}
}

// createOn creates topics with one partition on the replicas.
func createOn(t *testing.T, c *Controller, log *testLog, topics int, replicas ...int32) {
	t.Helper()
	q := &kmsg.CreateTopicsRequest{Version: 7}
	for i := range topics {
		q.Topics = append(q.Topics, kmsg.CreateTopicsRequestTopic{
			Topic: fmt.Sprintf("t%05d", i), NumPartitions: -1, ReplicationFactor: -1,
			ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: replicas}},
		})
	}
	p := ask(t.Context(), c, q)
	log.commit(t, 1)
	if !p.done || p.err != nil || p.response.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode != 0 {
		t.Fatalf("create: %+v", p)
	}
}

// inSync makes every replica of every partition in sync again, as their leaders would.
func inSync(t *testing.T, c *Controller, log *testLog, epochs map[int32]int64) {
	t.Helper()
	for _, topic := range log.loader.Image().Topics.All() {
		for index, p := range topic.Partitions.All() {
			part := kmsg.AlterPartitionRequestTopicPartition{Partition: index, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch}
			for _, id := range p.Replicas {
				part.NewEpochISR = append(part.NewEpochISR, kmsg.AlterPartitionRequestTopicPartitionNewEpochISR{BrokerID: id, BrokerEpoch: epochs[id]})
			}
			ask(t.Context(), c, &kmsg.AlterPartitionRequest{
				Version: 3, BrokerID: p.Leader, BrokerEpoch: epochs[p.Leader],
				Topics: []kmsg.AlterPartitionRequestTopic{{TopicID: topic.ID, Partitions: []kmsg.AlterPartitionRequestTopicPartition{part}}},
			})
		}
	}
	for log.commit(t, 1) > 0 {
	}
}

func leaders(log *testLog) map[kafka.NodeID]int {
	count := map[kafka.NodeID]int{}
	for _, topic := range log.loader.Image().Topics.All() {
		for _, p := range topic.Partitions.All() {
			count[p.Leader]++
		}
	}
	return count
}

func gauges(t *testing.T, c *Controller) map[string]float64 {
	t.Helper()
	families, err := c.o.Metrics.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		m := f.GetMetric()[0]
		values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return values
}

func expectMetrics(t *testing.T, c *Controller, want map[string]float64) {
	t.Helper()
	got := gauges(t, c)
	for name, value := range want {
		if v, ok := got["moldau_controller_"+name]; !ok || v != value {
			t.Errorf("%s is %v, want %v", name, v, value)
		}
	}
}

// Leadership moves back to the preferred replicas by itself, more at a time than one step takes.
func TestLeadershipMovesBack(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		const topics = 2*maxElections + 100
		createOn(t, c, log, topics, 1, 2)
		l.set("localhost:9001", Refused)
		c.Disconnected(1, epochs[1])
		synctest.Wait()
		for log.commit(t, 1) > 0 {
		}
		expectMetrics(t, c, map[string]float64{
			"active": 1, "brokers_active": 2, "brokers_fenced": 1, "brokers_lost_total": 1, "topics": topics, "partitions": topics,
			"partitions_not_preferred": topics, "partitions_offline": 0, "unclean_elections_total": 0,
		})
		beat(t, c, 1, epochs[1])
		log.commit(t, 1)
		inSync(t, c, log, epochs)
		if n := leaders(log)[1]; n != 0 {
			t.Fatalf("%d leaders moved by themselves before it was time", n)
		}
		beatAll(t, c, log, epochs, balanceMs*time.Millisecond, 1, 2, 3)
		if n := leaders(log)[1]; n != topics {
			t.Errorf("%d leaders moved back, want %d", n, topics)
		}
		c.Resign()
		synctest.Wait()
		expectMetrics(t, c, map[string]float64{"active": 0, "partitions_not_preferred": 0})
		time.Sleep(2 * balanceMs * time.Millisecond)
		synctest.Wait()
		if n := log.commit(t, 1); n != 0 {
			t.Error("a controller that resigned still moves leaders")
		}
	})
}

// Elections of leaders that may lack records are counted, those of eligible ones apart.
func TestUncleanElectionsAreCounted(t *testing.T) {
	withBrokers(t, func(t *testing.T, c *Controller, log *testLog, l *looks, epochs map[int32]int64) {
		createOn(t, c, log, 3, 1, 2)
		for _, id := range []int32{2, 1} {
			l.set(fmt.Sprintf("localhost:900%d", id), Refused)
			c.Disconnected(id, epochs[id])
			synctest.Wait()
			for log.commit(t, 1) > 0 {
			}
		}
		expectMetrics(t, c, map[string]float64{"partitions_offline": 3, "unclean_elections_total": 0})
		yes := "true"
		c.o.Rules.Check = nil
		asked := ask(t.Context(), c, &kmsg.IncrementalAlterConfigsRequest{Version: 1, Resources: []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t00001",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: uncleanElection, Value: &yes}},
		}}})
		log.commit(t, 1)
		if !asked.done || asked.response.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode != 0 {
			t.Fatalf("%+v", asked)
		}
		beat(t, c, 2, epochs[2])
		for log.commit(t, 1) > 0 {
		}
		expectMetrics(t, c, map[string]float64{"partitions_offline": 2, "unclean_elections_total": 1, "eligible_elections_total": 0})
		_, p, _ := log.loader.Image().Topics.Partition(kafka.TopicPartition{Topic: "t00001"})
		if p.Leader != 2 || p.LeaderRecoveryState != metadata.LeaderRecovering {
			t.Errorf("leader %d, recovery %d", p.Leader, p.LeaderRecoveryState)
		}
	})
}
