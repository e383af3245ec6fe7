package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/replica"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// deleteRecords answers DeleteRecords: partitions' log starts move up, and the answer comes when every replica's has
// (KIP-107). Mirrors KafkaApis.handleDeleteRecordsRequest.
func (a *API) deleteRecords(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DeleteRecordsRequest)
	resp := kmsg.NewPtrDeleteRecordsResponse()
	var waits waits
	for _, t := range req.Topics {
		topic := kmsg.NewDeleteRecordsResponseTopic()
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.DeleteRecordsResponseTopicPartition, len(t.Partitions)) // its elements are pointed at
		for i, p := range t.Partitions {
			answer := &topic.Partitions[i]
			answer.Default()
			answer.Partition = p.Partition
			low, waiter, err := a.deleteBefore(t.Topic, p.Partition, p.Offset)
			answer.LowWatermark, answer.ErrorCode = low, wire.Code(err)
			if err == nil && waiter != nil {
				waits.add(waiter, func(err error) {
					answer.ErrorCode = wire.Code(err)
					if err != nil {
						answer.LowWatermark = -1
					}
				})
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return waits.reply(r, time.Duration(req.TimeoutMillis)*time.Millisecond, resp)
}

func (a *API) deleteBefore(topic string, partition int32, offset kafka.Offset) (kafka.Offset, *replica.Waiter, error) {
	if internal(topic) {
		return -1, nil, kerr.InvalidTopicException
	}
	p, err := a.o.Replicas.Partition(kafka.TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return -1, nil, err
	}
	low, waiter, err := p.DeleteRecords(offset)
	if err != nil {
		return -1, nil, err
	}
	return low, waiter, nil
}
