package api

import (
	"iter"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// describeTopicPartitions answers DescribeTopicPartitions: topics by name, cut into pages of so many partitions, with a
// cursor that says where the next page begins (KIP-966). Mirrors DescribeTopicPartitionsRequestHandler.
func (a *API) describeTopicPartitions(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DescribeTopicPartitionsRequest)
	resp := kmsg.NewPtrDescribeTopicPartitionsResponse()
	from, firstPartition := "", int32(0)
	if c := req.Cursor; c != nil {
		from, firstPartition = c.Topic, c.Partition
		named := len(req.Topics) == 0 || slices.ContainsFunc(req.Topics, func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic == from })
		if firstPartition < 0 || !named {
			for _, t := range req.Topics {
				topic := kmsg.NewDescribeTopicPartitionsResponseTopic()
				topic.Topic, topic.ErrorCode = &t.Topic, kerr.InvalidRequest.Code
				resp.Topics = append(resp.Topics, topic)
			}
			return r.Answer(resp)
		}
	}
	v := view{image: a.o.Image(), listener: r.Conn.Listener()}
	left := max(min(int(req.ResponsePartitionLimit), a.o.MaxPartitions), 1)
	for name := range topicsFrom(v.image, req.Topics, from) {
		if left == 0 {
			resp.NextCursor = cursor(name, 0)
			break
		}
		start := int32(0)
		if name == from {
			start = firstPartition
		}
		topic, next := v.page(name, start, left)
		resp.Topics = append(resp.Topics, topic)
		if next >= 0 {
			resp.NextCursor = cursor(name, next)
			break
		}
		left -= len(topic.Partitions)
	}
	return r.Answer(resp)
}

func cursor(topic string, partition int32) *kmsg.DescribeTopicPartitionsResponseNextCursor {
	c := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	c.Topic, c.Partition = topic, partition
	return &c
}

// topicsFrom yields the names that a request is about, sorted, from one on: those it names, or all.
func topicsFrom(image *metadata.Image, asked []kmsg.DescribeTopicPartitionsRequestTopic, from string) iter.Seq[string] {
	if len(asked) == 0 {
		return func(yield func(string) bool) {
			for name := range image.Topics.From(from) {
				if !yield(name) {
					return
				}
			}
		}
	}
	var names []string
	for _, t := range asked {
		if t.Topic >= from {
			names = append(names, t.Topic)
		}
	}
	slices.Sort(names)
	return slices.Values(slices.Compact(names))
}

// page describes at most limit partitions of a topic, from one on. next is the partition that was cut off, or -1.
func (v view) page(name string, start int32, limit int) (topic kmsg.DescribeTopicPartitionsResponseTopic, next int32) {
	topic = kmsg.NewDescribeTopicPartitionsResponseTopic()
	topic.Topic, topic.IsInternal = &name, internal(name)
	topic.AuthorizedOperations = topicOperations
	t, ok := v.image.Topics.ByName(name)
	if !ok {
		topic.ErrorCode = wire.Code(missing(name))
		return topic, -1
	}
	topic.TopicID = t.ID
	for id, p := range t.Partitions.From(start) {
		if len(topic.Partitions) == limit {
			return topic, id
		}
		answer := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		answer.Partition, answer.LeaderID, answer.LeaderEpoch = id, p.Leader, p.LeaderEpoch
		answer.Replicas, answer.ISR, answer.OfflineReplicas = p.Replicas, p.ISR, v.offline(p)
		answer.EligibleLeaderReplicas, answer.LastKnownELR = noNil(p.ELR), noNil(p.LastKnownELR)
		if b, ok := v.image.Cluster.Broker(p.Leader); !ok || !v.reaches(b) {
			answer.LeaderID = kafka.NoNode
		}
		topic.Partitions = append(topic.Partitions, answer)
	}
	return topic, -1
}

// noNil keeps a list from being null on the wire where Kafka sends an empty one.
func noNil(ids []kafka.NodeID) []kafka.NodeID {
	if ids == nil {
		return []kafka.NodeID{}
	}
	return ids
}
