package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// errTooLarge is what a request gets that would write more than maxRecords.
func errTooLarge() error {
	return faultf(kerr.PolicyViolation, "Unable to perform excessively large batch operation.")
}

// createTopics mirrors ReplicationControlManager.createTopics. Two names in one request that collide are refused like a
// name that collides with an existing topic.
func (s *state) createTopics(q *kmsg.CreateTopicsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.CreateTopicsResponse)
	count := map[string]int{}
	for _, t := range q.Topics {
		count[t.Topic]++
	}
	names := newCollisions(s.image.Topics)
	planned := int32(0) // partitions that this request creates before the topic at hand
	var records []metadata.Record
	for i := range q.Topics {
		t := &q.Topics[i]
		if count[t.Topic] == 0 {
			continue // a repetition of a name that has been answered
		}
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.Configs = t.Topic, 0, []kmsg.CreateTopicsResponseTopicConfig{}
		var created []metadata.Record
		var err error
		switch {
		case count[t.Topic] > 1:
			err = faultf(kerr.InvalidRequest, "Duplicate topic name.")
		case t.Topic == metadataTopic:
			err = faultf(kerr.InvalidRequest, "Creation of internal topic %s is prohibited.", metadataTopic)
		default:
			created, err = s.createTopic(t, names, planned, &out)
			planned += out.NumPartitions
		}
		count[t.Topic] = 0
		if err != nil {
			response.Topics = append(response.Topics, refusedTopic(t.Topic, err))
			continue
		}
		names.add(t.Topic)
		response.Topics = append(response.Topics, out)
		if records = append(records, created...); len(records) > maxRecords {
			return Result{}, errTooLarge()
		}
	}
	if q.ValidateOnly {
		records = nil
	}
	return Result{Records: records, Response: response, Atomic: true}, nil
}

// createTopic returns the records of one topic and fills in its answer, unless it is refused.
func (s *state) createTopic(t *kmsg.CreateTopicsRequestTopic, names collisions, planned int32, out *kmsg.CreateTopicsResponseTopic) ([]metadata.Record, error) {
	if _, ok := s.image.Topics.ByName(t.Topic); ok {
		return nil, faultf(kerr.TopicAlreadyExists, "Topic '%s' already exists.", t.Topic)
	}
	if err := checkTopicName(t.Topic); err != nil {
		return nil, err
	}
	if err := names.check(t.Topic); err != nil {
		return nil, err
	}
	configs, err := s.checkNewConfigs(t.Configs)
	if err != nil {
		return nil, err
	}
	partitions, err := s.newPartitions(t, planned)
	if err != nil {
		return nil, err
	}
	if len(partitions)+len(configs) >= maxRecords {
		return nil, errTooLarge()
	}

	id := s.NewID()
	out.TopicID = id
	out.NumPartitions = int32(len(partitions))
	out.ReplicationFactor = int16(len(partitions[0].Replicas))
	if s.Rules.Effective != nil {
		out.Configs = s.Rules.Effective(configs)
	}
	// Kafka's order: the topic, its configuration, its partitions.
	records := make([]metadata.Record, 0, 1+len(configs)+len(partitions))
	records = append(records, &metadata.TopicRecord{Name: t.Topic, TopicID: id})
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		value := configs[name]
		records = append(records, &metadata.ConfigRecord{
			ResourceType: int8(metadata.ConfigTopic), ResourceName: t.Topic, Name: name, Value: &value,
		})
	}
	for i, p := range partitions {
		records = append(records, p.Record(id, int32(i)))
	}
	return records, nil
}

func (s *state) checkNewConfigs(configs []kmsg.CreateTopicsRequestTopicConfig) (map[string]string, error) {
	values := map[string]string{}
	var null []string
	for _, c := range configs {
		if c.Value == nil {
			null = append(null, c.Name)
		} else {
			values[c.Name] = *c.Value
		}
	}
	if len(null) > 0 {
		return nil, faultf(kerr.InvalidConfig, "Null value not supported for topic configs: %s", strings.Join(null, ","))
	}
	return values, s.checkConfigs(metadata.ConfigResource{Type: metadata.ConfigTopic}, values)
}

func (s *state) newPartitions(t *kmsg.CreateTopicsRequestTopic, planned int32) ([]*metadata.PartitionRegistration, error) {
	if len(t.ReplicaAssignment) > 0 {
		return s.assignedPartitions(t)
	}
	switch {
	case t.ReplicationFactor < -1 || t.ReplicationFactor == 0:
		return nil, faultf(kerr.InvalidReplicationFactor, "Replication factor must be larger than 0, or -1 to use the default value.")
	case t.NumPartitions < -1 || t.NumPartitions == 0:
		return nil, faultf(kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value.")
	}
	count, factor := t.NumPartitions, t.ReplicationFactor
	if count == -1 {
		count = s.Config.NumPartitions
	}
	if factor == -1 {
		factor = s.Config.DefaultReplicationFactor
	}
	if count >= maxRecords {
		return nil, errTooLarge() // before a placement for billions of partitions is computed
	}
	assignments, err := s.place(planned, count, factor)
	if err != nil {
		return nil, err
	}
	partitions := make([]*metadata.PartitionRegistration, len(assignments))
	for i, replicas := range assignments {
		partitions[i] = s.newPartition(replicas)
	}
	return partitions, nil
}

func (s *state) assignedPartitions(t *kmsg.CreateTopicsRequestTopic) ([]*metadata.PartitionRegistration, error) {
	if t.ReplicationFactor != -1 {
		return nil, faultf(kerr.InvalidRequest, "A manual partition assignment was specified, but replication factor was not set to -1.")
	}
	if t.NumPartitions != -1 {
		return nil, faultf(kerr.InvalidRequest, "A manual partition assignment was specified, but numPartitions was not set to -1.")
	}
	byIndex := map[int32]*metadata.PartitionRegistration{}
	factor := 0
	for _, a := range t.ReplicaAssignment {
		if _, ok := byIndex[a.Partition]; ok {
			return nil, faultf(kerr.InvalidReplicaAssignment, "Found multiple manual partition assignments for partition %d", a.Partition)
		}
		p, err := s.assignedPartition(a.Partition, a.Replicas, factor)
		if err != nil {
			return nil, err
		}
		factor = len(a.Replicas)
		byIndex[a.Partition] = p
	}
	partitions := make([]*metadata.PartitionRegistration, len(byIndex))
	for i := range partitions {
		p, ok := byIndex[int32(i)]
		if !ok {
			return nil, faultf(kerr.InvalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence")
		}
		partitions[i] = p
	}
	return partitions, nil
}

// assignedPartition returns a partition on replicas that a client chose. A factor of 0 is not known yet.
func (s *state) assignedPartition(index int32, replicas []kafka.NodeID, factor int) (*metadata.PartitionRegistration, error) {
	if err := s.checkReplicas(replicas); err != nil {
		return nil, err
	}
	if factor != 0 && len(replicas) != factor {
		return nil, faultf(kerr.InvalidReplicaAssignment,
			"The manual partition assignment includes a partition with %d replica(s), but this is not consistent with previous partitions, which have %d replica(s).",
			len(replicas), factor)
	}
	p := s.newPartition(replicas)
	if len(p.ISR) == 0 {
		return nil, faultf(kerr.InvalidReplicaAssignment,
			"All brokers specified in the manual partition assignment for partition %d are fenced or in controlled shutdown.", index)
	}
	return p, nil
}

// checkReplicas refuses replicas that no partition can have. Mirrors
// ReplicationControlManager.validateManualPartitionAssignment.
func (s *state) checkReplicas(replicas []kafka.NodeID) error {
	if len(replicas) == 0 {
		return faultf(kerr.InvalidReplicaAssignment, "The manual partition assignment includes an empty replica list.")
	}
	sorted := slices.Sorted(slices.Values(replicas))
	for i, id := range sorted {
		if _, ok := s.image.Cluster.Broker(id); !ok {
			return faultf(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes broker %d, but no such broker is registered.", id)
		}
		if i > 0 && sorted[i-1] == id {
			return faultf(kerr.InvalidReplicaAssignment,
				"The manual partition assignment includes the broker %d more than once.", id)
		}
	}
	return nil
}

// newPartition returns a partition on the given replicas, in sync where they are active.
func (s *state) newPartition(replicas []kafka.NodeID) *metadata.PartitionRegistration {
	p := &metadata.PartitionRegistration{Replicas: replicas, Leader: kafka.NoNode}
	for _, id := range replicas {
		p.Directories = append(p.Directories, s.defaultDir(id))
		if s.image.Cluster.Active(id) {
			p.ISR = append(p.ISR, id)
		}
	}
	if len(p.ISR) > 0 {
		p.Leader = p.ISR[0]
	}
	return p
}

// deleteTopics mirrors ControllerApis.deleteTopics, except that the answers come in the order of the request, and that a
// topic that is named both by name and by id gets an answer for each.
func (s *state) deleteTopics(q *kmsg.DeleteTopicsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.DeleteTopicsResponse)
	wanted := q.Topics
	if q.Version < 6 {
		wanted = nil
		for _, name := range q.TopicNames {
			wanted = append(wanted, kmsg.DeleteTopicsRequestTopic{Topic: &name})
		}
	}
	asked := map[deletionKey]int{}    // how often each name and each id is given
	named := map[kafka.TopicID]bool{} // topics that are given by name
	for _, t := range wanted {
		asked[keyOf(t)]++
		if topic, err := s.topicToDelete(t); err == nil && t.Topic != nil {
			named[topic.ID] = true
		}
	}
	var records []metadata.Record
	for _, t := range wanted {
		if asked[keyOf(t)] == 0 {
			continue // a repetition of what has been answered
		}
		topic, err := s.topicToDelete(t)
		switch {
		case s.Config.TopicDeletionDisabled && q.Version < 3:
			err = faultf(kerr.InvalidRequest, "Topic deletion is disabled.")
		case s.Config.TopicDeletionDisabled:
			err = kerr.TopicDeletionDisabled
		case keyOf(t) == deletionKey{}: // it names nothing
		case asked[keyOf(t)] > 1 && t.Topic != nil:
			err = faultf(kerr.InvalidRequest, "Duplicate topic name.")
		case asked[keyOf(t)] > 1:
			err = faultf(kerr.InvalidRequest, "Duplicate topic id.")
		case err == nil && named[topic.ID] && asked[deletionKey{id: topic.ID}] > 0:
			err = faultf(kerr.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
		}
		if keyOf(t) != (deletionKey{}) && asked[keyOf(t)] > 1 {
			asked[keyOf(t)] = 0
		}
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = t.Topic, t.TopicID
		out.ErrorCode, out.ErrorMessage = faultOf(err)
		if err == nil {
			out.Topic, out.TopicID = &topic.Name, topic.ID
			records = append(records, &metadata.RemoveTopicRecord{TopicID: topic.ID})
		}
		response.Topics = append(response.Topics, out)
	}
	if len(records) > maxRecords {
		return Result{}, errTooLarge()
	}
	return Result{Records: records, Response: response, Atomic: true}, nil
}

// deletionKey is what a deletion names: a name, or an id, or, wrongly, both or neither.
type deletionKey struct {
	named bool
	name  string
	id    kafka.TopicID
}

func keyOf(t kmsg.DeleteTopicsRequestTopic) deletionKey {
	if t.Topic == nil {
		return deletionKey{id: t.TopicID}
	}
	return deletionKey{named: true, name: *t.Topic, id: t.TopicID}
}

func (s *state) topicToDelete(t kmsg.DeleteTopicsRequestTopic) (*metadata.Topic, error) {
	id := kafka.UUID(t.TopicID)
	switch {
	case t.Topic == nil && id.IsZero():
		return nil, faultf(kerr.InvalidRequest, "Neither topic name nor id were specified.")
	case t.Topic != nil && !id.IsZero():
		return nil, faultf(kerr.InvalidRequest, "You may not specify both topic name and topic id.")
	case t.Topic != nil:
		if topic, ok := s.image.Topics.ByName(*t.Topic); ok {
			return topic, nil
		}
		return nil, kerr.UnknownTopicOrPartition
	}
	if topic, ok := s.image.Topics.ByID(id); ok {
		return topic, nil
	}
	return nil, kerr.UnknownTopicID
}

// createPartitions mirrors ReplicationControlManager.createPartitions.
func (s *state) createPartitions(q *kmsg.CreatePartitionsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.CreatePartitionsResponse)
	count := map[string]int{}
	for _, t := range q.Topics {
		count[t.Topic]++
	}
	var records []metadata.Record
	for _, t := range q.Topics {
		if count[t.Topic] == 0 {
			continue // a repetition of a name that has been answered
		}
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = t.Topic
		var added []metadata.Record
		var err error
		if count[t.Topic] > 1 {
			err = faultf(kerr.InvalidRequest, "Duplicate topic name.")
		} else {
			added, err = s.addPartitions(t, int32(len(records)))
		}
		count[t.Topic] = 0
		if err == nil && len(records)+len(added) > maxRecords {
			added, err = nil, errTooLarge()
		}
		out.ErrorCode, out.ErrorMessage = faultOf(err)
		response.Topics = append(response.Topics, out)
		records = append(records, added...)
	}
	if q.ValidateOnly {
		records = nil
	}
	return Result{Records: records, Response: response, Atomic: true}, nil
}

func (s *state) addPartitions(t kmsg.CreatePartitionsRequestTopic, planned int32) ([]metadata.Record, error) {
	topic, ok := s.image.Topics.ByName(t.Topic)
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	have := int32(topic.Partitions.Len())
	switch {
	case t.Count == have:
		return nil, faultf(kerr.InvalidPartitions, "Topic already has %d partition(s).", have)
	case t.Count < have:
		return nil, faultf(kerr.InvalidPartitions, "The topic %s currently has %d partition(s); %d would not be an increase.",
			t.Topic, have, t.Count)
	case t.Count-have > maxRecords:
		return nil, errTooLarge()
	case t.Assignment != nil && len(t.Assignment) != int(t.Count-have):
		return nil, faultf(kerr.InvalidReplicaAssignment,
			"Attempted to add %d additional partition(s), but only %d assignment(s) were specified.", t.Count-have, len(t.Assignment))
	}
	factor := 0
	for _, p := range topic.Partitions.All() {
		factor = len(except(p.Replicas, p.RemovingReplicas)) // what it shall have, if it is being reassigned
		break
	}
	if factor == 0 {
		return nil, fmt.Errorf("topic %s has no partition 0", t.Topic)
	}
	var records []metadata.Record
	if t.Assignment != nil {
		for i, a := range t.Assignment {
			p, err := s.assignedPartition(have+int32(i), a.Replicas, factor)
			if err != nil {
				return nil, err
			}
			records = append(records, p.Record(topic.ID, have+int32(i)))
		}
		return records, nil
	}
	assignments, err := s.place(planned, t.Count-have, int16(factor))
	if err != nil {
		return nil, err
	}
	for i, replicas := range assignments {
		records = append(records, s.newPartition(replicas).Record(topic.ID, have+int32(i)))
	}
	return records, nil
}
