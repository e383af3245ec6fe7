package kafka

import "strconv"

type (
	// Offset is the position of a record in a partition, counted from 0. Ranges of offsets are half open.
	Offset = int64
	// Epoch is a leader epoch: it grows by one with every change of a partition's leader. -1 means unknown.
	Epoch = int32
	// NodeID names a broker or controller. Legal ids are 0 and above; -1 means none.
	NodeID = int32
)

// NoNode is the node id that stands for "no node", such as the leader of an offline partition.
const NoNode NodeID = -1

// NoEpoch is the leader epoch of a batch or request that carries none.
const NoEpoch Epoch = -1

// Special timestamps of ListOffsets (ListOffsetsRequest, KIP-734, KIP-405, KIP-1023).
const (
	LatestTimestamp          int64 = -1
	EarliestTimestamp        int64 = -2
	MaxTimestamp             int64 = -3
	EarliestLocalTimestamp   int64 = -4
	LatestTieredTimestamp    int64 = -5
	EarliestPendingTimestamp int64 = -6
)

// Special replica ids of a Fetch or ListOffsets request (FetchRequest).
const (
	ConsumerReplica NodeID = -1 // an ordinary consumer
	DebugReplica    NodeID = -2 // reads like a consumer that may see everything; never counts as a replica
)

// Acks is how far a record must have come before Produce answers.
type Acks int16

// The three legal values of Acks.
const (
	AcksNone   Acks = 0  // no answer at all
	AcksLeader Acks = 1  // the leader has written it
	AcksAll    Acks = -1 // the high watermark has passed it
)

// Isolation is what a reader may see.
type Isolation int8

// The two isolation levels of Fetch and ListOffsets (KIP-98).
const (
	ReadUncommitted Isolation = 0 // up to the high watermark
	ReadCommitted   Isolation = 1 // up to the last stable offset
)

// TopicPartition names a partition by topic name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String returns "topic-partition", which is also the name of the partition's folder.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}
