package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// offsetForLeaderEpoch answers OffsetForLeaderEpoch: where the records of an epoch end, by which a reader sees whether
// what it has read was truncated (KIP-320). Mirrors ReplicaManager.lastOffsetForLeaderEpoch.
func (a *API) offsetForLeaderEpoch(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.OffsetForLeaderEpochRequest)
	resp := kmsg.NewPtrOffsetForLeaderEpochResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetForLeaderEpochResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
			answer.Partition = p.Partition
			epoch, end, err := a.endOffset(kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}, p.CurrentLeaderEpoch, p.LeaderEpoch)
			answer.LeaderEpoch, answer.EndOffset, answer.ErrorCode = epoch, end, wire.Code(err)
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return r.Answer(resp)
}

func (a *API) endOffset(tp kafka.TopicPartition, current, asked kafka.Epoch) (kafka.Epoch, kafka.Offset, error) {
	p, err := a.o.Replicas.Partition(tp)
	if err != nil {
		return kafka.NoEpoch, -1, err
	}
	end, err := p.EndOffsetForEpoch(asked, current)
	return end.Epoch, end.EndOffset, err
}
