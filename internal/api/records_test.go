package api

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
)

// recordTime is when a bubble's clock begins, in ms.
const recordTime = 946684800000

// records is a batch of count records whose values tell their number.
func records(count int, o batch.BuildOptions) []byte {
	return recordsAt(recordTime, []byte("k"), count, o)
}

func recordsAt(ms int64, key []byte, count int, o batch.BuildOptions) []byte {
	b := batch.NewBuilder(o)
	for i := range count {
		b.Add(batch.Record{Timestamp: ms, Key: key, Value: fmt.Appendf(nil, "v%d", i)})
	}
	return b.Build()
}

func plain() batch.BuildOptions {
	return batch.BuildOptions{}
}

// produceRequest is a Produce of one partition.
func (n *testNode) produceRequest(version int16, acks int16, topic string, partition int32, data []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, acks, 5000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	if version >= 13 {
		t.TopicID = n.topicID(topic)
	}
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, data
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// produce appends records and returns the answer of the partition.
func (n *testNode) produce(topic string, partition int32, data []byte) kmsg.ProduceResponseTopicPartition {
	n.t.Helper()
	resp := n.ask(n.produceRequest(9, -1, topic, partition, data)).(*kmsg.ProduceResponse)
	return resp.Topics[0].Partitions[0]
}

// mustProduce appends count records.
func (n *testNode) mustProduce(topic string, partition int32, count int) {
	n.t.Helper()
	if p := n.produce(topic, partition, records(count, plain())); p.ErrorCode != 0 {
		n.t.Fatalf("produce to %s-%d: error %d", topic, partition, p.ErrorCode)
	}
}

// fetchOptions is a Fetch of some partitions.
type fetchOptions struct {
	version        int16
	maxWaitMs      int32
	minBytes       int32
	maxBytes       int32
	partitionMax   int32
	session, epoch int32
	committed      bool
	forget         []int32 // partitions of the same topic
}

func (n *testNode) fetchRequest(o fetchOptions, topic string, from map[int32]int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = o.version
	if o.version == 0 {
		req.Version = 12
	}
	req.ReplicaState.ID, req.ReplicaID = -1, -1
	req.MaxWaitMillis, req.MinBytes = o.maxWaitMs, o.minBytes
	req.MaxBytes = 1 << 20
	if o.maxBytes != 0 {
		req.MaxBytes = o.maxBytes
	}
	req.SessionID, req.SessionEpoch = o.session, o.epoch
	if o.committed {
		req.IsolationLevel = 1
	}
	var id [16]byte
	if req.Version >= 13 {
		id = n.topicID(topic)
	}
	if len(from) > 0 {
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = topic, id
		for i := range int32(100) { // in order
			offset, ok := from[i]
			if !ok {
				continue
			}
			p := kmsg.NewFetchRequestTopicPartition()
			p.Partition, p.FetchOffset, p.PartitionMaxBytes = i, offset, 1<<20
			if o.partitionMax != 0 {
				p.PartitionMaxBytes = o.partitionMax
			}
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	if len(o.forget) > 0 {
		t := kmsg.NewFetchRequestForgottenTopic()
		t.Topic, t.TopicID, t.Partitions = topic, id, o.forget
		req.ForgottenTopics = append(req.ForgottenTopics, t)
	}
	return req
}

// told is what a Fetch answer says of the partitions of its topics, in order.
func told(resp *kmsg.FetchResponse) []kmsg.FetchResponseTopicPartition {
	var all []kmsg.FetchResponseTopicPartition
	for _, t := range resp.Topics {
		all = append(all, t.Partitions...)
	}
	return all
}

// count is how many records of batches there are.
func count(data []byte) int {
	n := 0
	for len(data) > 0 {
		b, rest, err := batch.Next(data)
		if err != nil {
			return -1
		}
		n += int(b.Count())
		data = rest
	}
	return n
}
