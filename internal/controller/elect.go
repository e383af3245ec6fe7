package controller

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// electLeaders mirrors ReplicationControlManager.electLeaders: type 0 elects preferred leaders, 1 unclean ones. No topics
// means all, and then only partitions where something happened, or should have, are answered.
func (s *state) electLeaders(q *kmsg.ElectLeadersRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.ElectLeadersResponse)
	known := q.ElectionType == 0 || q.ElectionType == 1
	if !known {
		response.ErrorCode = kerr.InvalidRequest.Code
	}
	all, wanted := q.Topics == nil, q.Topics
	if all && known {
		for name, topic := range s.image.Topics.All() {
			t := kmsg.ElectLeadersRequestTopic{Topic: name}
			for index := range topic.Partitions.All() {
				t.Partitions = append(t.Partitions, index)
			}
			wanted = append(wanted, t)
		}
	}
	var records []metadata.Record
	seen := map[kafka.TopicPartition]bool{}
	for _, t := range wanted {
		outTopic := kmsg.NewElectLeadersResponseTopic()
		outTopic.Topic = t.Topic
		for _, index := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: index}
			if seen[tp] {
				continue
			}
			seen[tp] = true
			var record *metadata.PartitionChangeRecord
			err := error(faultf(kerr.InvalidRequest, "There is no election of type %d.", q.ElectionType))
			if known {
				record, err = s.electOne(tp, q.ElectionType == 1)
			}
			if all && err == error(kerr.ElectionNotNeeded) {
				continue
			}
			if record != nil {
				if records = append(records, record); len(records) > maxRecords {
					response.Topics, response.ErrorCode = nil, kerr.PolicyViolation.Code
					return Result{Response: response}, nil
				}
			}
			out := kmsg.NewElectLeadersResponseTopicPartition()
			out.Partition = index
			out.ErrorCode, out.ErrorMessage = faultOf(err)
			outTopic.Partitions = append(outTopic.Partitions, out)
		}
		response.Topics = append(response.Topics, outTopic)
	}
	return Result{Records: records, Response: response}, nil
}

func (s *state) electOne(tp kafka.TopicPartition, unclean bool) (*metadata.PartitionChangeRecord, error) {
	topic, p, ok := s.image.Topics.Partition(tp)
	switch {
	case topic == nil:
		return nil, faultf(kerr.UnknownTopicOrPartition, "No such topic as %s", tp.Topic)
	case !ok:
		return nil, faultf(kerr.UnknownTopicOrPartition, "No such partition as %v", tp)
	case !unclean && p.Leader == p.PreferredLeader(), unclean && p.Leader != kafka.NoNode:
		return nil, kerr.ElectionNotNeeded
	}
	t := s.keep(topic, p)
	t.election = electPreferred
	if unclean {
		t.election = electUnclean
	}
	record := s.change(topic, tp.Partition, p, t)
	if record == nil && unclean {
		return nil, kerr.EligibleLeadersNotAvailable
	}
	if record == nil {
		return nil, kerr.PreferredLeaderNotAvailable
	}
	return record, nil
}
