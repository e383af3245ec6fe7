package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// describeProducers answers DescribeProducers: the idempotent producers that a partition knows (KIP-664).
func (a *API) describeProducers(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DescribeProducersRequest)
	resp := kmsg.NewPtrDescribeProducersResponse()
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeProducersResponseTopic()
		topic.Topic = t.Topic
		for _, id := range t.Partitions {
			topic.Partitions = append(topic.Partitions, a.producersOf(t.Topic, id))
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return r.Answer(resp)
}

func (a *API) producersOf(topic string, partition int32) kmsg.DescribeProducersResponseTopicPartition {
	answer := kmsg.NewDescribeProducersResponseTopicPartition()
	answer.Partition = partition
	if err := a.addProducers(&answer, topic, partition); err != nil {
		answer.ErrorCode, answer.ErrorMessage = wire.Code(err), wire.Message(err)
	}
	return answer
}

func (a *API) addProducers(answer *kmsg.DescribeProducersResponseTopicPartition, topic string, partition int32) error {
	if err := checkTopicName(topic); err != nil {
		return err
	}
	p, err := a.o.Replicas.Partition(kafka.TopicPartition{Topic: topic, Partition: partition})
	if err != nil {
		return err
	}
	states, err := p.Producers()
	if err != nil {
		return err
	}
	for _, s := range states {
		producer := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		producer.ProducerID, producer.ProducerEpoch = s.ProducerID, int32(s.ProducerEpoch)
		producer.LastSequence, producer.LastTimestamp = s.LastSequence, s.LastTimestamp
		producer.CoordinatorEpoch, producer.CurrentTxnStartOffset = s.CoordinatorEpoch, s.TxnStart
		answer.ActiveProducers = append(answer.ActiveProducers, producer)
	}
	return nil
}
