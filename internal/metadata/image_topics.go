package metadata

import (
	"iter"

	"moldau/internal/kafka"
)

// Topics is all topics, by id and by name.
type Topics struct {
	byID       Tree[kafka.TopicID, *Topic]
	byName     Tree[string, *Topic]
	partitions int
}

// Topic is one topic. Its name never changes.
type Topic struct {
	Name       string
	ID         kafka.TopicID
	Partitions Tree[int32, *PartitionRegistration]
}

// PartitionRegistration is what the controller has decided about one partition.
type PartitionRegistration struct {
	Replicas            []kafka.NodeID // in preferred order
	Directories         []kafka.DirID  // one for each of Replicas
	ISR                 []kafka.NodeID
	RemovingReplicas    []kafka.NodeID
	AddingReplicas      []kafka.NodeID
	ELR                 []kafka.NodeID // eligible to lead although out of sync (KIP-966)
	LastKnownELR        []kafka.NodeID
	Leader              kafka.NodeID // kafka.NoNode: none
	LeaderRecoveryState int8
	LeaderEpoch         kafka.Epoch
	PartitionEpoch      int32
}

// Directory returns the directory of the replica on a broker; kafka.DirMigrating when the broker has no replica.
func (p *PartitionRegistration) Directory(broker kafka.NodeID) kafka.DirID {
	for i, r := range p.Replicas {
		if r == broker {
			return p.Directories[i]
		}
	}
	return kafka.DirMigrating
}

// PreferredLeader returns the first replica, which leads when all is well.
func (p *PartitionRegistration) PreferredLeader() kafka.NodeID {
	if len(p.Replicas) == 0 {
		return kafka.NoNode
	}
	return p.Replicas[0]
}

// Reassigning reports whether the replicas are being changed.
func (p *PartitionRegistration) Reassigning() bool {
	return len(p.AddingReplicas) > 0 || len(p.RemovingReplicas) > 0
}

func emptyTopics() Topics {
	return Topics{byID: newTree[kafka.TopicID, *Topic](compareUUID), byName: newOrderedTree[string, *Topic]()}
}

// ByName returns a topic by its name.
func (t Topics) ByName(name string) (*Topic, bool) { return t.byName.Get(name) }

// ByID returns a topic by its id.
func (t Topics) ByID(id kafka.TopicID) (*Topic, bool) { return t.byID.Get(id) }

// All yields the topics by name.
func (t Topics) All() iter.Seq2[string, *Topic] { return t.byName.All() }

// From yields the topics whose name is at or after a name, by name.
func (t Topics) From(name string) iter.Seq2[string, *Topic] { return t.byName.From(name) }

// Len returns the number of topics.
func (t Topics) Len() int { return t.byID.Len() }

// PartitionCount returns the number of partitions of all topics.
func (t Topics) PartitionCount() int { return t.partitions }

// Partition returns one partition of a topic by name.
func (t Topics) Partition(tp kafka.TopicPartition) (*Topic, *PartitionRegistration, bool) {
	topic, ok := t.byName.Get(tp.Topic)
	if !ok {
		return nil, nil, false
	}
	p, ok := topic.Partitions.Get(tp.Partition)
	return topic, p, ok
}

func (t Topics) with(topic *Topic) Topics {
	if old, ok := t.byID.Get(topic.ID); ok {
		t.partitions -= old.Partitions.Len()
	}
	t.partitions += topic.Partitions.Len()
	t.byID = t.byID.with(topic.ID, topic)
	t.byName = t.byName.with(topic.Name, topic)
	return t
}

func (t Topics) without(topic *Topic) Topics {
	t.partitions -= topic.Partitions.Len()
	t.byID = t.byID.without(topic.ID)
	// A topic of the same name may have come since, under another id.
	if named, ok := t.byName.Get(topic.Name); ok && named.ID == topic.ID {
		t.byName = t.byName.without(topic.Name)
	}
	return t
}

func (t Topics) records(emit func(Record)) {
	for _, topic := range t.byID.All() {
		emit(&TopicRecord{Name: topic.Name, TopicID: topic.ID})
		for partition, p := range topic.Partitions.All() {
			emit(p.Record(topic.ID, partition))
		}
	}
}

// Record returns the record that creates a partition just like this one.
func (p *PartitionRegistration) Record(id kafka.TopicID, partition int32) *PartitionRecord {
	return &PartitionRecord{
		PartitionID:            partition,
		TopicID:                id,
		Replicas:               p.Replicas,
		ISR:                    p.ISR,
		RemovingReplicas:       p.RemovingReplicas,
		AddingReplicas:         p.AddingReplicas,
		Leader:                 p.Leader,
		LeaderRecoveryState:    p.LeaderRecoveryState,
		LeaderEpoch:            p.LeaderEpoch,
		PartitionEpoch:         p.PartitionEpoch,
		Directories:            p.Directories,
		EligibleLeaderReplicas: nilIfEmpty(p.ELR),
		LastKnownELR:           nilIfEmpty(p.LastKnownELR),
	}
}

func nilIfEmpty[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return s
}

// newPartition returns what a PartitionRecord states. Directories that the record does not have are migrating, as in
// PartitionRegistration.defaultToMigrating.
func newPartition(r *PartitionRecord) *PartitionRegistration {
	return &PartitionRegistration{
		Replicas:            r.Replicas,
		Directories:         directoriesFor(r.Directories, len(r.Replicas)),
		ISR:                 r.ISR,
		RemovingReplicas:    nilIfEmpty(r.RemovingReplicas),
		AddingReplicas:      nilIfEmpty(r.AddingReplicas),
		ELR:                 nilIfEmpty(r.EligibleLeaderReplicas),
		LastKnownELR:        nilIfEmpty(r.LastKnownELR),
		Leader:              r.Leader,
		LeaderRecoveryState: r.LeaderRecoveryState,
		LeaderEpoch:         r.LeaderEpoch,
		PartitionEpoch:      r.PartitionEpoch,
	}
}

func directoriesFor(dirs []kafka.DirID, replicas int) []kafka.DirID {
	if len(dirs) == replicas {
		return dirs
	}
	out := make([]kafka.DirID, replicas)
	for i := range out {
		out[i] = kafka.DirMigrating
	}
	return out
}

// Change returns the partition as a record leaves it.
func (p *PartitionRegistration) Change(r *PartitionChangeRecord) *PartitionRegistration {
	next := *p
	next.PartitionEpoch++
	if r.ISR != nil {
		next.ISR = r.ISR
	}
	if r.Leader != LeaderUnchanged {
		next.Leader = r.Leader
		next.LeaderEpoch++
	}
	if r.Replicas != nil {
		next.Replicas = r.Replicas
	}
	if r.Directories != nil {
		next.Directories = r.Directories
	}
	next.Directories = directoriesFor(next.Directories, len(next.Replicas))
	if r.RemovingReplicas != nil {
		next.RemovingReplicas = nilIfEmpty(r.RemovingReplicas)
	}
	if r.AddingReplicas != nil {
		next.AddingReplicas = nilIfEmpty(r.AddingReplicas)
	}
	if r.LeaderRecoveryState != RecoveryUnchanged {
		next.LeaderRecoveryState = r.LeaderRecoveryState
	}
	if r.EligibleLeaderReplicas != nil {
		next.ELR = nilIfEmpty(r.EligibleLeaderReplicas)
	}
	if r.LastKnownELR != nil {
		next.LastKnownELR = nilIfEmpty(r.LastKnownELR)
	}
	return &next
}
