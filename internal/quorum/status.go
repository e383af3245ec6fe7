package quorum

import "moldau/internal/kafka"

// Status is what DescribeQuorum tells.
type Status struct {
	LeaderID      kafka.NodeID // -1 if unknown
	Epoch         kafka.Epoch
	HighWatermark kafka.Offset
	LogStart      kafka.Offset
	LogEnd        kafka.Offset
	Voters        []Replica // by node id
	Observers     []Replica // by node id
	VoterSet      []Voter   // by node id
	LatestID      SnapshotID
}

// Replica is how far one voter or observer has come, as its leader knows it.
type Replica struct {
	ID             kafka.NodeID
	DirID          kafka.DirID
	LogEnd         kafka.Offset // -1 if unknown
	LastFetchMs    int64        // when it last fetched, ms since 1970; -1 if never
	LastCaughtUpMs int64        // when it last had everything, ms since 1970; -1 if never
}

// Status returns the state of the quorum as this node sees it.
func (q *Quorum) Status() Status { return Status{} }
