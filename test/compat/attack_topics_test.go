package compat

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wish is a request that should not be granted, mostly. Its answer is one error code.
type wish struct {
	name string
	ask  func(r *raw) (int16, error)
}

func creation(change func(topic *kmsg.CreateTopicsRequestTopic)) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = 6, 30000
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = fmt.Sprintf("wish-%d", time.Now().UnixNano()), 1, 1
		change(&topic)
		req.Topics = append(req.Topics, topic)
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		return resp.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode, nil
	}
}

func assigned(partitions ...[]int32) func(topic *kmsg.CreateTopicsRequestTopic) {
	return func(topic *kmsg.CreateTopicsRequestTopic) {
		topic.NumPartitions, topic.ReplicationFactor = -1, -1
		for i, replicas := range partitions {
			topic.ReplicaAssignment = append(topic.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: int32(i), Replicas: replicas})
		}
	}
}

func grown(count int32, change func(topic *kmsg.CreatePartitionsRequestTopic)) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.TimeoutMillis = 2, 30000
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = "attack-plain", count
		if change != nil {
			change(&topic)
		}
		req.Topics = append(req.Topics, topic)
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		return resp.(*kmsg.CreatePartitionsResponse).Topics[0].ErrorCode, nil
	}
}

func produced(topic string, partition int32, version int16, acks int16) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrProduceRequest()
		req.Version, req.Acks, req.TimeoutMillis = version, acks, 5000
		t := kmsg.NewProduceRequestTopic()
		t.Topic = topic
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = partition, sealed(plainBatch(time.Now(), "x"))
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, nil
	}
}

func looked(version int16, create bool, names ...string) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = version, create
		for _, name := range names {
			req.Topics = append(req.Topics, kmsg.MetadataRequestTopic{Topic: &name})
		}
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		return resp.(*kmsg.MetadataResponse).Topics[0].ErrorCode, nil
	}
}

func fetched(change func(req *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition)) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MaxBytes, req.SessionEpoch = 12, 10, 1<<20, -1
		t := kmsg.NewFetchRequestTopic()
		t.Topic = "attack-plain"
		p := kmsg.NewFetchRequestTopicPartition()
		p.PartitionMaxBytes = 1 << 20
		change(req, &p)
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		f := resp.(*kmsg.FetchResponse)
		if f.ErrorCode != 0 || len(f.Topics) == 0 {
			return f.ErrorCode, nil
		}
		return f.Topics[0].Partitions[0].ErrorCode, nil
	}
}

func listed(partition int32, timestamp int64, epoch int32) func(r *raw) (int16, error) {
	return listedIn("attack-plain", partition, timestamp, epoch)
}

func listedIn(topic string, partition int32, timestamp int64, epoch int32) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 7, -1
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, epoch
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		return resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode, nil
	}
}

func deletedRecords(topic string, partition int32, offset int64) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version, req.TimeoutMillis = 2, 3000
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = topic
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		return resp.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0].ErrorCode, nil
	}
}

func deleted(name string) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrDeleteTopicsRequest()
		req.Version, req.TimeoutMillis, req.TopicNames = 5, 3000, []string{name}
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		return resp.(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, nil
	}
}

func altered(kind kmsg.ConfigResourceType, resource, key string, value *string, op kmsg.IncrementalAlterConfigOp) func(r *raw) (int16, error) {
	return func(r *raw) (int16, error) {
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = kind, resource
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value, c.Op = key, value, op
		res.Configs = append(res.Configs, c)
		req.Resources = append(req.Resources, res)
		resp, err := r.ask(req)
		if err != nil {
			return 0, err
		}
		return resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode, nil
	}
}

func wishes() []wish {
	named := func(n string) func(r *raw) (int16, error) {
		return creation(func(t *kmsg.CreateTopicsRequestTopic) { t.Topic = n })
	}
	sized := func(partitions int32, factor int16) func(r *raw) (int16, error) {
		return creation(func(t *kmsg.CreateTopicsRequestTopic) { t.NumPartitions, t.ReplicationFactor = partitions, factor })
	}
	set := func(key, value string) func(r *raw) (int16, error) {
		return creation(func(t *kmsg.CreateTopicsRequestTopic) {
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
		})
	}
	str := func(s string) *string { return &s }
	many := make([][]int32, 3)
	for i := range many {
		many[i] = []int32{1}
	}
	return []wish{
		{"topic ''", named("")}, {"topic .", named(".")}, {"topic ..", named("..")}, {"topic a/b", named("a/b")}, {"topic 'a b'", named("a b")},
		{"topic ä", named("ä")}, {"topic \\x00", named("\x00")}, {"topic 249", named(strings.Repeat("x", 249))}, {"topic 250", named(strings.Repeat("x", 250))},
		{"topic 32767", named(strings.Repeat("x", 32767))}, {"topic again", named("attack-plain")}, {"topic collides", named("attack-plain.x_y")},
		{"topic collides 2", named("attack-plain_x.y")}, {"topic __cluster_metadata", named("__cluster_metadata")},
		{"topic __consumer_offsets", named("__consumer_offsets_x")}, {"topic ...", named("...")}, {"topic -", named("-")}, {"topic utf8", named("\xff")},
		{"0 partitions", sized(0, 1)}, {"-1 partitions", sized(-1, 1)}, {"-2 partitions", sized(-2, 1)}, {"min partitions", sized(math.MinInt32, 1)},
		{"max partitions", sized(math.MaxInt32, 1)}, {"10001 partitions", sized(10001, 1)}, {"million partitions", sized(1000000, 1)},
		{"factor 0", sized(1, 0)}, {"factor -1", sized(1, -1)}, {"factor -2", sized(1, -2)}, {"factor 2", sized(1, 2)}, {"factor max", sized(1, math.MaxInt16)},
		{"both bad", sized(0, 0)}, {"both bad 2", sized(-5, 77)},
		{"assigned unknown", creation(assigned([]int32{99}))}, {"assigned twice", creation(assigned([]int32{1, 1}))}, {"assigned none", creation(assigned([]int32{}))},
		{"assigned negative", creation(assigned([]int32{-1}))}, {"assigned well", creation(assigned(many...))}, {"assigned uneven", creation(assigned([]int32{1}, []int32{1, 2}))},
		{"assigned gap", creation(func(t *kmsg.CreateTopicsRequestTopic) { assigned(many...)(t); t.ReplicaAssignment[0].Partition = 5 })},
		{"assigned double", creation(func(t *kmsg.CreateTopicsRequestTopic) { assigned(many...)(t); t.ReplicaAssignment[0].Partition = 1 })},
		{"assigned negative partition", creation(func(t *kmsg.CreateTopicsRequestTopic) {
			assigned(many...)(t)
			t.ReplicaAssignment[0].Partition = -1
		})},
		{"assigned and sized", creation(func(t *kmsg.CreateTopicsRequestTopic) { assigned(many...)(t); t.NumPartitions = 3 })},
		{"assigned and factor", creation(func(t *kmsg.CreateTopicsRequestTopic) { assigned(many...)(t); t.ReplicationFactor = 1 })},
		{"config unknown", set("no.such", "1")}, {"config empty name", set("", "1")}, {"config not a number", set("retention.ms", "x")}, {"config huge", set("retention.ms", "9223372036854775808")},
		{"config negative", set("segment.bytes", "-1")}, {"config policy", set("cleanup.policy", "explode")}, {"config empty policy", set("cleanup.policy", "")},
		{"config null", creation(func(t *kmsg.CreateTopicsRequestTopic) {
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms"})
		})},
		{"config twice", creation(func(t *kmsg.CreateTopicsRequestTopic) {
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms", Value: str("5")}, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms", Value: str("6")})
		})},
		{"grow to 0", grown(0, nil)}, {"grow to -1", grown(-1, nil)}, {"grow to 1", grown(1, nil)}, {"grow to max", grown(math.MaxInt32, nil)}, {"grow to 10002", grown(10002, nil)},
		{"grow unknown", grown(5, func(t *kmsg.CreatePartitionsRequestTopic) { t.Topic = "nowhere" })},
		{"grow ..", grown(5, func(t *kmsg.CreatePartitionsRequestTopic) { t.Topic = ".." })},
		{"grow assigned few", grown(5, func(t *kmsg.CreatePartitionsRequestTopic) {
			t.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{1}}}
		})},
		{"grow assigned unknown", grown(2, func(t *kmsg.CreatePartitionsRequestTopic) {
			t.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{7}}}
		})},
		{"grow assigned none", grown(2, func(t *kmsg.CreatePartitionsRequestTopic) {
			t.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: nil}}
		})},
		{"produce nowhere", produced("nowhere", 0, 9, 1)}, {"produce ..", produced("..", 0, 9, 1)}, {"produce -1", produced("attack-plain", -1, 9, 1)},
		{"produce 77", produced("attack-plain", 77, 9, 1)}, {"produce acks 2", produced("attack-plain", 0, 9, 2)}, {"produce acks -2", produced("attack-plain", 0, 9, -2)},
		{"produce metadata", produced("__cluster_metadata", 0, 9, 1)},
		{"metadata ..", looked(9, true, "..")}, {"metadata ''", looked(9, true, "")}, {"metadata a/b", looked(9, true, "a/b")}, {"metadata 250", looked(9, true, strings.Repeat("x", 250))},
		{"metadata unknown", looked(9, false, "nowhere")}, {"metadata bad, no create", looked(9, false, "a/b")},
		{"metadata create __cluster_metadata", looked(9, true, "__cluster_metadata")},
		{"fetch far", fetched(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = math.MaxInt64 })},
		{"fetch negative", fetched(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = -1 })},
		{"fetch min", fetched(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.FetchOffset = math.MinInt64 })},
		{"fetch epoch 99", fetched(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = 99 })},
		{"fetch epoch -7", fetched(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.CurrentLeaderEpoch = -7 })},
		{"fetch last epoch 99", fetched(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.LastFetchedEpoch = 99 })},
		{"fetch partition 99", fetched(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = 99 })},
		{"fetch partition -1", fetched(func(_ *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) { p.Partition = -1 })},
		{"fetch max bytes -1", fetched(func(q *kmsg.FetchRequest, p *kmsg.FetchRequestTopicPartition) {
			q.MaxBytes, p.PartitionMaxBytes = -1, -1
		})},
		{"fetch isolation 9", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.IsolationLevel = 9 })},
		{"fetch as replica 1", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.ReplicaID = 1 })},
		{"fetch as replica 99", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.ReplicaID = 99 })},
		{"fetch as replica -2", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.ReplicaID = -2 })},
		{"fetch as replica -9", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.ReplicaID = -9 })},
		{"fetch session 5", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.SessionID, q.SessionEpoch = 5, 1 })},
		{"fetch session 5 epoch 0", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.SessionID, q.SessionEpoch = 5, 0 })},
		{"fetch session 0 epoch 9", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.SessionID, q.SessionEpoch = 0, 9 })},
		{"fetch session epoch -9", fetched(func(q *kmsg.FetchRequest, _ *kmsg.FetchRequestTopicPartition) { q.SessionEpoch = -9 })},
		{"list -1", listed(0, -1, -1)}, {"list -6", listed(0, -6, -1)}, {"list -99", listed(0, -99, -1)}, {"list min", listed(0, math.MinInt64, -1)}, {"list max", listed(0, math.MaxInt64, -1)},
		{"list -3", listed(0, -3, -1)}, {"list -4", listed(0, -4, -1)},
		{"list epoch 99", listed(0, -1, 99)}, {"list partition -1", listed(-1, -1, -1)}, {"list partition 99", listed(99, -1, -1)},
		{"records beyond", deletedRecords("attack-plain", 0, 1<<40)}, {"records -2", deletedRecords("attack-plain", 0, -2)}, {"records -1", deletedRecords("attack-plain", 0, -1)},
		{"records partition 99", deletedRecords("attack-plain", 99, 0)}, {"records nowhere", deletedRecords("nowhere", 0, 0)}, {"records compacted", deletedRecords("attack-compact", 0, 0)},
		{"delete nowhere", deleted("nowhere")}, {"delete ..", deleted("..")}, {"delete ''", deleted("")}, {"delete __cluster_metadata", deleted("__cluster_metadata")},
		{"alter unknown key", altered(2, "attack-plain", "no.such", str("1"), 0)}, {"alter bad value", altered(2, "attack-plain", "retention.ms", str("x"), 0)},
		{"alter null", altered(2, "attack-plain", "retention.ms", nil, 0)}, {"alter delete", altered(2, "attack-plain", "retention.ms", nil, 1)},
		{"alter append to no list", altered(2, "attack-plain", "retention.ms", str("1"), 2)}, {"alter append", altered(2, "attack-plain", "cleanup.policy", str("compact"), 2)},
		{"alter op 9", altered(2, "attack-plain", "retention.ms", str("1"), 9)}, {"alter nowhere", altered(2, "nowhere", "retention.ms", str("1"), 0)},
		{"alter ..", altered(2, "..", "retention.ms", str("1"), 0)}, {"alter type 77", altered(77, "x", "retention.ms", str("1"), 0)}, {"alter broker x", altered(4, "x", "log.retention.ms", str("1"), 0)},
		{"alter broker 99", altered(4, "99", "log.retention.ms", str("1"), 0)}, {"alter empty key", altered(2, "attack-plain", "", str("1"), 0)}, {"alter empty resource", altered(2, "", "retention.ms", str("1"), 0)},
		{"alter broker fixed", altered(4, "1", "node.id", str("5"), 0)}, {"alter broker bad value", altered(4, "1", "log.retention.ms", str("x"), 0)},
		{"alter brokers listeners", altered(4, "", "listeners", str("PLAINTEXT://:1"), 0)}, {"alter brokers not together", altered(4, "", "max.connections.per.ip", str("0"), 0)},
		{"alter group bound", altered(32, "g", "consumer.session.timeout.ms", str("1"), 0)}, {"alter group ''", altered(32, "", "consumer.session.timeout.ms", str("50000"), 0)},
		{"alter logger", altered(8, "1", "no.such.logger", str("INFO"), 0)}, {"alter logger level", altered(8, "1", "root", str("LOUD"), 0)},
		{"alter metrics", altered(16, "m", "no.such", str("1"), 0)}, {"alter metrics match", altered(16, "m", "match", str("client_id=("), 0)},
	}
}
