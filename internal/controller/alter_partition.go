package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// alterPartition mirrors ReplicationControlManager.alterPartition: a leader asks for another ISR.
func (s *state) alterPartition(q *kmsg.AlterPartitionRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.AlterPartitionResponse)
	if _, err := s.checkBrokerEpoch(q.BrokerID, q.BrokerEpoch); err != nil {
		response.ErrorCode, _ = faultOf(err)
		return Result{Response: response}, nil
	}
	var records []metadata.Record
	seen := map[partitionKey]bool{}
	for _, t := range q.Topics {
		outTopic := kmsg.NewAlterPartitionResponseTopic()
		outTopic.Topic, outTopic.TopidID = t.Topic, t.TopicID
		topic, ok := s.image.Topics.ByID(t.TopicID)
		unknown := kerr.UnknownTopicID
		if q.Version < 2 {
			topic, ok = s.image.Topics.ByName(t.Topic)
			unknown = kerr.UnknownTopicOrPartition
		}
		for _, want := range t.Partitions {
			out := kmsg.NewAlterPartitionResponseTopicPartition()
			out.Partition = want.Partition
			var record *metadata.PartitionChangeRecord
			err := error(unknown)
			if ok {
				key := partitionKey{topic.ID, want.Partition}
				if err = kerr.InvalidRequest; !seen[key] { // a second change can not know the epoch that the first makes
					record, err = s.alterOne(q, topic, &want, &out)
				}
				seen[key] = true
			}
			out.ErrorCode, _ = faultOf(err)
			if record != nil {
				records = append(records, record)
			}
			outTopic.Partitions = append(outTopic.Partitions, out)
		}
		response.Topics = append(response.Topics, outTopic)
	}
	return Result{Records: records, Response: response}, nil
}

type partitionKey struct {
	topic     kafka.TopicID
	partition int32
}

func (s *state) alterOne(q *kmsg.AlterPartitionRequest, topic *metadata.Topic, want *kmsg.AlterPartitionRequestTopicPartition,
	out *kmsg.AlterPartitionResponseTopicPartition) (*metadata.PartitionChangeRecord, error) {

	p, ok := topic.Partitions.Get(want.Partition)
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	isr := want.NewISR
	if q.Version >= 3 {
		isr = make([]kafka.NodeID, len(want.NewEpochISR))
		for i, member := range want.NewEpochISR {
			isr[i] = member.BrokerID
		}
	}
	if err := s.checkAlter(q, p, want, isr); err != nil {
		return nil, err
	}
	t := s.keep(topic, p)
	t.isr, t.recovery = isr, want.LeaderRecoveryState
	record := s.change(topic, want.Partition, p, t)
	if record != nil {
		p = p.Change(record)
		if record.Leader != metadata.LeaderUnchanged && record.Leader != q.BrokerID {
			// The new ISR cost the asker its leadership: both a change and an error, so that it looks at the metadata first.
			if q.Version > 1 {
				return record, kerr.NewLeaderElected
			}
			return record, kerr.FencedLeaderEpoch
		}
	}
	out.LeaderID, out.LeaderEpoch = p.Leader, p.LeaderEpoch
	out.ISR = p.ISR
	out.LeaderRecoveryState = p.LeaderRecoveryState
	out.PartitionEpoch = p.PartitionEpoch
	return record, nil
}

func (s *state) checkAlter(q *kmsg.AlterPartitionRequest, p *metadata.PartitionRegistration,
	want *kmsg.AlterPartitionRequestTopicPartition, isr []kafka.NodeID) error {

	switch {
	case want.LeaderEpoch > p.LeaderEpoch || want.PartitionEpoch > p.PartitionEpoch:
		return kerr.NotController // the asker has seen what this controller has not: there must be another one
	case want.LeaderEpoch < p.LeaderEpoch:
		return kerr.FencedLeaderEpoch
	case q.BrokerID != p.Leader:
		return kerr.InvalidRequest
	case want.PartitionEpoch < p.PartitionEpoch:
		return kerr.InvalidUpdateVersion
	case !containsAll(p.Replicas, isr) || len(slices.Compact(slices.Sorted(slices.Values(isr)))) != len(isr):
		return kerr.InvalidRequest
	case !slices.Contains(isr, p.Leader):
		return kerr.InvalidRequest
	case want.LeaderRecoveryState != metadata.LeaderRecovered && want.LeaderRecoveryState != metadata.LeaderRecovering:
		return kerr.InvalidRequest
	case want.LeaderRecoveryState == metadata.LeaderRecovering && len(isr) > 1:
		return kerr.InvalidRequest
	case p.LeaderRecoveryState == metadata.LeaderRecovered && want.LeaderRecoveryState == metadata.LeaderRecovering:
		return kerr.InvalidRequest
	}
	for i, id := range isr {
		b, ok := s.image.Cluster.Broker(id)
		stale := ok && q.Version >= 3 && want.NewEpochISR[i].BrokerEpoch != -1 && want.NewEpochISR[i].BrokerEpoch != b.Epoch
		if !ok || !b.Active() || stale || !s.mayJoin(p, b) {
			if q.Version > 1 {
				return kerr.IneligibleReplica
			}
			return kerr.OperationNotAttempted
		}
	}
	return nil
}

// mayJoin reports whether a broker in service can be in the ISR. One whose directory is, as far as is known, not there could not
// be elected: if the leader fails, an ISR of it alone keeps out everybody else. So it joins after it has told where it lies. One
// that is eligible has a seat to lose, and keeps silent.
func (s *state) mayJoin(p *metadata.PartitionRegistration, b *metadata.Broker) bool {
	return hasOnlineDir(b, p.Directory(b.ID)) || slices.Contains(p.ISR, b.ID) || slices.Contains(p.ELR, b.ID)
}
