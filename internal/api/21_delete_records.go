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
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			remove := func() {
				low, waiter, err := a.deleteBefore(tp, p.Offset)
				answer.LowWatermark, answer.ErrorCode = low, wire.Code(err)
				if waiter != nil {
					waits.add(waiter, func(err error) { failDelete(answer, err) })
				}
			}
			// What a producer was acked can be deleted, although the disk may not have it yet.
			if synced := a.awaitEnd(tp); synced != nil {
				waits.add(synced, func(err error) {
					if failDelete(answer, err); err == nil {
						remove()
					}
				})
			} else {
				remove()
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return waits.reply(r, time.Duration(req.TimeoutMillis)*time.Millisecond, resp)
}

func failDelete(answer *kmsg.DeleteRecordsResponseTopicPartition, err error) {
	answer.ErrorCode = wire.Code(err)
	if err != nil {
		answer.LowWatermark = -1
	}
}

// awaitEnd is a waiter for the watermark to cover what was acked up to now, nil if it does.
func (a *API) awaitEnd(tp kafka.TopicPartition) *replica.Waiter {
	p, err := a.o.Replicas.Partition(tp)
	if err != nil {
		return nil
	}
	return p.AwaitEnd()
}

func (a *API) deleteBefore(tp kafka.TopicPartition, offset kafka.Offset) (kafka.Offset, *replica.Waiter, error) {
	p, err := a.o.Replicas.Partition(tp)
	if err != nil {
		return -1, nil, err
	}
	if internal(tp.Topic) {
		return -1, nil, kerr.InvalidTopicException
	}
	low, waiter, err := p.DeleteRecords(offset)
	if err != nil {
		return -1, nil, err
	}
	return low, waiter, nil
}
