package znode

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
)

// createTopic is a create of /brokers/topics/T. The topic's settings are in the tree already, if it is to have any.
func createTopic(name string, data []byte, stored func(path string) ([]byte, bool)) (*Command, Code) {
	a, ok := read[assignment](data)
	if !ok || len(a.Partitions) == 0 {
		return nil, BadArguments
	}
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, -1, -1
	for _, partition := range slices.Sorted(maps.Keys(a.Partitions)) {
		t.ReplicaAssignment = append(t.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{
			Partition: partition, Replicas: a.Partitions[partition],
		})
	}
	if data, ok := stored(topicConfigPath(name)); ok {
		values, ok := readSettings(data)
		if !ok {
			return nil, BadArguments
		}
		for _, key := range slices.Sorted(maps.Keys(values)) {
			value := values[key]
			t.Configs = append(t.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: key, Value: &value})
		}
	}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	req.Topics = append(req.Topics, t)
	return &Command{Request: req, Verdict: func(r kmsg.Response) (Code, string) {
		resp, ok := r.(*kmsg.CreateTopicsResponse)
		if !ok || len(resp.Topics) != 1 {
			return unexpected(r)
		}
		return judge(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
	}}, OK
}

// addPartitions is a setData of /brokers/topics/T. Only what is new in it counts: where the old partitions lie may have
// changed since the client looked.
func addPartitions(name string, data []byte, image *metadata.Image) (*Command, Code) {
	a, ok := read[assignment](data)
	topic, there := image.Topics.ByName(name)
	if !there {
		return nil, NoNode
	}
	have := int32(topic.Partitions.Len())
	count := int32(len(a.Partitions))
	if !ok || count < have {
		return nil, BadArguments
	}
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, count
	for partition := range count {
		replicas, ok := a.Partitions[partition]
		if !ok {
			return nil, BadArguments // a gap
		}
		if partition >= have {
			t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
		}
	}
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version = 3
	req.Topics = append(req.Topics, t)
	return &Command{Request: req, Verdict: func(r kmsg.Response) (Code, string) {
		resp, ok := r.(*kmsg.CreatePartitionsResponse)
		if !ok || len(resp.Topics) != 1 {
			return unexpected(r)
		}
		if count == have && resp.Topics[0].ErrorCode == kerr.InvalidPartitions.Code {
			return OK, "" // there was nothing to add
		}
		return judge(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
	}}, OK
}

// deleteTopic is a create of /admin/delete_topics/T. A controller of Kafka 1.1 takes the mark away again, whether there
// is such a topic or not, and also if topics may not be deleted.
func deleteTopic(name string) (*Command, Code) {
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version = 6
	req.Topics = append(req.Topics, t)
	return &Command{Request: req, Marker: true, Verdict: func(r kmsg.Response) (Code, string) {
		resp, ok := r.(*kmsg.DeleteTopicsResponse)
		if !ok || len(resp.Topics) != 1 {
			return unexpected(r)
		}
		code, why := judge(resp.Topics[0].ErrorCode, resp.Topics[0].ErrorMessage)
		switch resp.Topics[0].ErrorCode {
		case kerr.UnknownTopicOrPartition.Code, kerr.TopicDeletionDisabled.Code:
			code = OK
		}
		return code, why
	}}, OK
}
