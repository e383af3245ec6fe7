package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// offsetDelete answers OffsetDelete: what a group has committed for topics that its members do not read is forgotten
// (KIP-496). Mirrors KafkaApis.handleOffsetDeleteRequest.
func (a *API) offsetDelete(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.OffsetDeleteRequest)
	resp := kmsg.NewPtrOffsetDeleteResponse()
	var partitions []kafka.TopicPartition
	var codes []*int16 // of partitions, in the response
	image := a.o.Image()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetDeleteResponseTopic()
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.OffsetDeleteResponseTopicPartition, len(t.Partitions)) // its elements are pointed at
		_, count, err := topicOf(image, false, t.Topic, kafka.TopicID{})
		for i, p := range t.Partitions {
			answer := &topic.Partitions[i]
			answer.Partition, answer.ErrorCode = p.Partition, wire.Code(partitionIn(count, p.Partition, err))
			if answer.ErrorCode == 0 {
				partitions = append(partitions, kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition})
				codes = append(codes, &answer.ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	deleted := a.o.Groups.DeleteOffsets(req.Group, partitions)
	return a.after(r, func() kmsg.Response {
		errs, err := outcome(deleted)
		if err != nil {
			failed := kmsg.NewPtrOffsetDeleteResponse()
			failed.ErrorCode = wire.Code(err)
			return failed
		}
		for i, code := range codes {
			*code = wire.Code(errs[i])
		}
		return resp
	}, deleted)
}
