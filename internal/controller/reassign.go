package controller

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// While a partition is reassigned its replicas are all that it had and all that it shall have (KIP-455). Those that it
// shall have come first, in their new order. Adding holds the ones that it did not have before the reassignment began,
// removing the ones that it shall not have: replicas without removing is where it goes, and replicas without adding where a
// cancellation takes it back to. A replica that one reassignment brought and the next, while the first was under way, does
// not want is in both.

// completeReassignment drops the replicas that are to go, once all that are to stay are in sync. Mirrors
// PartitionReassignmentReplicas.maybeCompleteReassignment.
func (t *partitionTarget) completeReassignment() {
	if len(t.adding) == 0 && len(t.removing) == 0 {
		return
	}
	replicas, isr := except(t.replicas, t.removing), except(t.isr, t.removing)
	if len(replicas) == 0 || len(isr) == 0 || !containsAll(isr, replicas) {
		return
	}
	t.replicas, t.isr, t.adding, t.removing = replicas, isr, nil, nil
}

// alterReassignments mirrors ReplicationControlManager.alterPartitionReassignments: starts, changes and cancels.
func (s *state) alterReassignments(q *kmsg.AlterPartitionAssignmentsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.AlterPartitionAssignmentsResponse)
	response.AllowReplicationFactorChange = q.AllowReplicationFactorChange
	var records []metadata.Record
	seen := map[kafka.TopicPartition]bool{}
	for _, t := range q.Topics {
		outTopic := kmsg.NewAlterPartitionAssignmentsResponseTopic()
		outTopic.Topic = t.Topic
		for _, want := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: want.Partition}
			var record *metadata.PartitionChangeRecord
			err := faultf(kerr.InvalidRequest, "Partition %v is named more than once.", tp)
			if !seen[tp] { // two changes of one partition can not both be right
				record, err = s.alterReassignment(tp, want.Replicas, q.Version == 0 || q.AllowReplicationFactorChange)
			}
			seen[tp] = true
			if record != nil {
				if records = append(records, record); len(records) > maxRecords {
					return Result{}, errTooLarge()
				}
			}
			out := kmsg.NewAlterPartitionAssignmentsResponseTopicPartition()
			out.Partition = want.Partition
			out.ErrorCode, out.ErrorMessage = faultOf(err)
			outTopic.Partitions = append(outTopic.Partitions, out)
		}
		response.Topics = append(response.Topics, outTopic)
	}
	return Result{Records: records, Response: response, Atomic: true}, nil
}

func (s *state) alterReassignment(tp kafka.TopicPartition, replicas []kafka.NodeID, anyFactor bool) (*metadata.PartitionChangeRecord, error) {
	topic, p, ok := s.image.Topics.Partition(tp)
	switch {
	case topic == nil:
		return nil, faultf(kerr.UnknownTopicOrPartition, "Unable to find a topic named %s.", tp.Topic)
	case !ok:
		return nil, faultf(kerr.UnknownTopicOrPartition, "Unable to find partition %s:%d.", tp.Topic, tp.Partition)
	case replicas == nil:
		return s.cancelReassignment(tp, topic, p)
	}
	if err := s.checkReplicas(replicas); err != nil {
		return nil, err
	}
	if had := len(p.Replicas) - len(p.RemovingReplicas); !anyFactor && len(replicas) != had {
		return nil, faultf(kerr.InvalidReplicationFactor, "The replication factor is changed from %d to %d", had, len(replicas))
	}
	return s.reassign(topic, tp.Partition, p, replicas), nil
}

// reassign begins a reassignment, or leads the one that is under way elsewhere. It may be complete at once.
func (s *state) reassign(topic *metadata.Topic, index int32, p *metadata.PartitionRegistration, replicas []kafka.NodeID) *metadata.PartitionChangeRecord {
	t := s.keep(topic, p)
	began := except(p.Replicas, p.AddingReplicas)
	t.removing = slices.Sorted(slices.Values(except(p.Replicas, replicas)))
	t.replicas = slices.Concat(replicas, t.removing)
	t.adding = slices.Sorted(slices.Values(except(t.replicas, began)))
	return s.change(topic, index, p, t)
}

// cancelReassignment takes a partition back to the replicas that it had. Mirrors PartitionReassignmentRevert.
func (s *state) cancelReassignment(tp kafka.TopicPartition, topic *metadata.Topic, p *metadata.PartitionRegistration) (*metadata.PartitionChangeRecord, error) {
	if !p.Reassigning() {
		return nil, kerr.NoReassignmentInProgress
	}
	t := s.keep(topic, p)
	t.replicas, t.isr = except(p.Replicas, p.AddingReplicas), except(p.ISR, p.AddingReplicas)
	t.adding, t.removing = nil, nil
	eligible := s.elrEnabled() && slices.ContainsFunc(t.replicas, func(id kafka.NodeID) bool { return slices.Contains(p.ELR, id) })
	if len(t.isr) > 0 || eligible {
		return s.change(topic, tp.Partition, p, t), nil
	}
	// All that is in sync is new.
	if t.election != electUnclean {
		return nil, faultf(kerr.InvalidReplicaAssignment,
			"Unable to revert partition assignment for %s:%d because it would require an unclean leader election.", tp.Topic, tp.Partition)
	}
	if !slices.ContainsFunc(t.replicas, t.acceptable) {
		return nil, faultf(kerr.InvalidReplicaAssignment,
			"Unable to revert partition assignment for %s:%d because none of the replicas that it had is in service.", tp.Topic, tp.Partition)
	}
	return s.change(topic, tp.Partition, p, t), nil
}

// listReassignments mirrors ReplicationControlManager.listPartitionReassignments. What does not exist, or is not being
// reassigned, is not answered.
func (s *state) listReassignments(q *kmsg.ListPartitionReassignmentsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.ListPartitionReassignmentsResponse)
	list := func(topic *metadata.Topic, wanted func(int32) bool) {
		out := kmsg.NewListPartitionReassignmentsResponseTopic()
		out.Topic = topic.Name
		for index, p := range topic.Partitions.All() {
			if !p.Reassigning() || !wanted(index) {
				continue
			}
			part := kmsg.NewListPartitionReassignmentsResponseTopicPartition()
			part.Partition, part.Replicas = index, p.Replicas
			part.AddingReplicas, part.RemovingReplicas = p.AddingReplicas, p.RemovingReplicas
			out.Partitions = append(out.Partitions, part)
		}
		if len(out.Partitions) > 0 {
			response.Topics = append(response.Topics, out)
		}
	}
	if q.Topics == nil {
		for _, topic := range s.image.Topics.All() {
			list(topic, func(int32) bool { return true })
		}
	}
	for _, t := range q.Topics {
		if topic, ok := s.image.Topics.ByName(t.Topic); ok {
			list(topic, func(index int32) bool { return slices.Contains(t.Partitions, index) })
		}
	}
	return Result{Response: response}, nil
}

// except returns the ids that are not among others, in their order.
func except(ids, others []kafka.NodeID) []kafka.NodeID {
	var out []kafka.NodeID
	for _, id := range ids {
		if !slices.Contains(others, id) {
			out = append(out, id)
		}
	}
	return out
}
