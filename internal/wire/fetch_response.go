package wire

import (
	"io"

	"moldau/internal/kafka"
)

// Region is a piece of records that goes out as it is.
type Region interface {
	// Len returns the bytes that SendTo will write.
	Len() int64
	// SendTo writes the region. It returns an error if it wrote fewer than Len bytes.
	SendTo(dst io.Writer) (int64, error)
}

// Bytes is a Region of memory.
type Bytes []byte

// Len returns len(b).
func (b Bytes) Len() int64 { return int64(len(b)) }

// SendTo writes b.
func (b Bytes) SendTo(dst io.Writer) (int64, error) {
	n, err := dst.Write(b)
	return int64(n), err
}

// FetchResponse is a Fetch response whose records are still where they lie. Versions 0 to 18.
type FetchResponse struct {
	Version       int16
	CorrelationID int32
	ThrottleMs    int32 // v1+
	ErrorCode     int16 // v7+
	SessionID     int32 // v7+
	Topics        []FetchTopic
	NodeEndpoints []FetchEndpoint // v16+: where the leaders are that CurrentLeader names (KIP-951)

	encoder fetchEncoder // of WriteTo: what serves one answer after the other keeps its buffer
}

// Reset makes it an answer that says nothing. It keeps its memory for what Add brings.
func (r *FetchResponse) Reset(version int16, correlationID int32) {
	*r = FetchResponse{Version: version, CorrelationID: correlationID, Topics: r.Topics[:0], encoder: r.encoder}
}

// Add appends what is told of one partition. Partitions of a topic that follow each other share its entry.
func (r *FetchResponse) Add(topic string, id kafka.TopicID, p FetchPartition) {
	n := len(r.Topics)
	if n == 0 || r.Topics[n-1].Topic != topic || r.Topics[n-1].TopicID != id {
		if n < cap(r.Topics) {
			r.Topics = r.Topics[:n+1]
		} else {
			r.Topics = append(r.Topics, FetchTopic{})
		}
		t := &r.Topics[n]
		t.Topic, t.TopicID, t.Partitions = topic, id, t.Partitions[:0]
		n++
	}
	t := &r.Topics[n-1]
	t.Partitions = append(t.Partitions, p)
}

// FetchTopic is the part of a FetchResponse about one topic.
type FetchTopic struct {
	Topic      string        // to v12
	TopicID    kafka.TopicID // v13+
	Partitions []FetchPartition
}

// FetchPartition is the part of a FetchResponse about one partition. NewFetchPartition gives the values for "nothing".
type FetchPartition struct {
	Partition            int32
	ErrorCode            int16
	HighWatermark        kafka.Offset
	LastStableOffset     kafka.Offset      // v4+
	LogStartOffset       kafka.Offset      // v5+
	DivergingEpoch       *EpochEndOffset   // v12+
	CurrentLeader        *LeaderIDAndEpoch // v12+
	SnapshotID           *SnapshotID       // v12+
	AbortedTransactions  []AbortedTxn      // v4+; nil is null
	PreferredReadReplica kafka.NodeID      // v11+; -1 for none
	Records              []Region
}

// EpochEndOffset tells a follower where its log parted from the leader's (KIP-595).
type EpochEndOffset struct {
	Epoch     kafka.Epoch
	EndOffset kafka.Offset
}

// LeaderIDAndEpoch names the current leader.
type LeaderIDAndEpoch struct {
	LeaderID kafka.NodeID
	Epoch    kafka.Epoch
}

// SnapshotID names a metadata snapshot by what it contains: everything below EndOffset.
type SnapshotID struct {
	EndOffset kafka.Offset
	Epoch     kafka.Epoch
}

// AbortedTxn is an aborted transaction that overlaps the fetched range.
type AbortedTxn struct {
	ProducerID  int64
	FirstOffset kafka.Offset
}

// FetchEndpoint is the address of a broker.
type FetchEndpoint struct {
	NodeID kafka.NodeID
	Host   string
	Port   int32
	Rack   *string
}

// NewFetchPartition returns an answer for one partition that says nothing: no error, offsets -1, no records.
func NewFetchPartition(partition int32) FetchPartition {
	return FetchPartition{Partition: partition, HighWatermark: -1, LastStableOffset: -1, LogStartOffset: -1, PreferredReadReplica: kafka.NoNode}
}
