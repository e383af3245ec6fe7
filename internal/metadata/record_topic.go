package metadata

import "moldau/internal/kafka"

// Special values in PartitionChangeRecord that stand for "as it was".
const (
	LeaderUnchanged   kafka.NodeID = -2
	RecoveryUnchanged int8         = -1
)

// States of a leader after its election (Kafka's LeaderRecoveryState, KIP-704).
const (
	LeaderRecovered  int8 = 0 // elected from the ISR, or recovered since
	LeaderRecovering int8 = 1 // elected uncleanly, and has not yet reported that it is done with recovery
)

// TopicRecord creates a topic without partitions; its PartitionRecords follow.
type TopicRecord struct {
	Name    string
	TopicID kafka.TopicID
}

// Type is 2.
func (r *TopicRecord) Type() int16 { return TypeTopic }

func (r *TopicRecord) walk(c *codec) {
	c.string(&r.Name)
	c.uuid(&r.TopicID)
	c.tags()
}

// RemoveTopicRecord deletes a topic, its partitions and its configuration.
type RemoveTopicRecord struct {
	TopicID kafka.TopicID
}

// Type is 9.
func (r *RemoveTopicRecord) Type() int16 { return TypeRemoveTopic }

func (r *RemoveTopicRecord) walk(c *codec) {
	c.uuid(&r.TopicID)
	c.tags()
}

// PartitionRecord creates a partition, or states all of it in a snapshot.
type PartitionRecord struct {
	PartitionID            int32
	TopicID                kafka.TopicID
	Replicas               []kafka.NodeID // in preferred order
	ISR                    []kafka.NodeID
	RemovingReplicas       []kafka.NodeID
	AddingReplicas         []kafka.NodeID
	Leader                 kafka.NodeID // kafka.NoNode: none
	LeaderRecoveryState    int8
	LeaderEpoch            kafka.Epoch
	PartitionEpoch         int32
	Directories            []kafka.DirID  // version 1+: one for each of Replicas
	EligibleLeaderReplicas []kafka.NodeID // version 2+, KIP-966; nil when there are none
	LastKnownELR           []kafka.NodeID // version 2+, KIP-966; nil when there are none
}

// Type is 3.
func (r *PartitionRecord) Type() int16 { return TypePartition }

func (r *PartitionRecord) walk(c *codec) {
	c.int32(&r.PartitionID)
	c.uuid(&r.TopicID)
	c.int32s(&r.Replicas)
	c.int32s(&r.ISR)
	c.int32s(&r.RemovingReplicas)
	c.int32s(&r.AddingReplicas)
	c.int32(&r.Leader)
	c.int32(&r.LeaderEpoch)
	c.int32(&r.PartitionEpoch)
	if c.version >= 1 {
		c.uuids(&r.Directories)
	}
	recovery := tagged{0, r.LeaderRecoveryState != LeaderRecovered, func() { c.int8(&r.LeaderRecoveryState) }}
	if c.version < 2 {
		c.tags(recovery)
		return
	}
	c.tags(recovery,
		tagged{1, r.EligibleLeaderReplicas != nil, func() { c.nullableInt32s(&r.EligibleLeaderReplicas) }},
		tagged{2, r.LastKnownELR != nil, func() { c.nullableInt32s(&r.LastKnownELR) }})
}

// PartitionChangeRecord changes some of a partition. A nil slice leaves that part as it was; an empty one empties it.
// Each such record adds one to the partition epoch, and one that names a leader adds one to the leader epoch.
type PartitionChangeRecord struct {
	PartitionID            int32
	TopicID                kafka.TopicID
	ISR                    []kafka.NodeID
	Leader                 kafka.NodeID // LeaderUnchanged, or the new leader, or kafka.NoNode
	Replicas               []kafka.NodeID
	RemovingReplicas       []kafka.NodeID
	AddingReplicas         []kafka.NodeID
	LeaderRecoveryState    int8           // RecoveryUnchanged, or the new state
	EligibleLeaderReplicas []kafka.NodeID // version 2+
	LastKnownELR           []kafka.NodeID // version 2+
	Directories            []kafka.DirID  // version 1+
}

// Type is 5.
func (r *PartitionChangeRecord) Type() int16 { return TypePartitionChange }

func (r *PartitionChangeRecord) walk(c *codec) {
	c.int32(&r.PartitionID)
	c.uuid(&r.TopicID)
	fields := []tagged{
		{0, r.ISR != nil, func() { c.nullableInt32s(&r.ISR) }},
		{1, r.Leader != LeaderUnchanged, func() { c.int32(&r.Leader) }},
		{2, r.Replicas != nil, func() { c.nullableInt32s(&r.Replicas) }},
		{3, r.RemovingReplicas != nil, func() { c.nullableInt32s(&r.RemovingReplicas) }},
		{4, r.AddingReplicas != nil, func() { c.nullableInt32s(&r.AddingReplicas) }},
		{5, r.LeaderRecoveryState != RecoveryUnchanged, func() { c.int8(&r.LeaderRecoveryState) }},
	}
	if c.version >= 2 {
		fields = append(fields,
			tagged{6, r.EligibleLeaderReplicas != nil, func() { c.nullableInt32s(&r.EligibleLeaderReplicas) }},
			tagged{7, r.LastKnownELR != nil, func() { c.nullableInt32s(&r.LastKnownELR) }})
	}
	if c.version >= 1 {
		fields = append(fields, tagged{8, r.Directories != nil, func() { c.nullableUUIDs(&r.Directories) }})
	}
	c.tags(fields...)
}

// ClearElrRecord empties the eligible leader replicas and the last known ones of a topic, or of all topics when the name
// is empty (KIP-966).
type ClearElrRecord struct {
	TopicName string
}

// Type is 28.
func (r *ClearElrRecord) Type() int16 { return TypeClearElr }

func (r *ClearElrRecord) walk(c *codec) {
	c.string(&r.TopicName)
	c.tags()
}
