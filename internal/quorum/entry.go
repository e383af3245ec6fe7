package quorum

import (
	"encoding/binary"
	"fmt"
	"math"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// Tagged fields that we add to Kafka's control records. Kafka skips tags that it does not know, and takes its own from 0
// upwards.
const (
	// raftIndexTag is on a SnapshotHeader (index of the last entry that the snapshot covers) and on the LeaderChange of a
	// new leader (its own index): eight bytes, big endian.
	raftIndexTag = 10000
	// confChangeTag is on a KRaftVoters record that is a voter change: raft's ConfChangeV2 without its context.
	confChangeTag = 10001
)

// noOpRecord returns Kafka's NoOpRecord as the metadata log frames it: frame version 1, type 20, version 0, no tags.
func noOpRecord() []byte { return []byte{1, 20, 0, 0} }

func indexTag(index uint64) batch.Tag {
	return batch.Tag{ID: raftIndexTag, Value: binary.BigEndian.AppendUint64(nil, index)}
}

// taggedIndex returns the raft index among a record's tags; a record that Apache Kafka wrote has none.
func taggedIndex(tags []batch.Tag) (index uint64, ok bool) {
	for _, t := range tags {
		if t.ID == raftIndexTag && len(t.Value) == 8 {
			return binary.BigEndian.Uint64(t.Value), true
		}
	}
	return 0, false
}

// appendEntry appends to dst the batch that stores e, with offsets not yet assigned. previous is the timestamp of the batch
// before it.
func appendEntry(dst []byte, e *pb.Entry, previous int64) ([]byte, error) {
	switch {
	case e.GetType() == pb.EntryConfChangeV2:
		b, err := votersBatch(e.GetData())
		return append(dst, b...), err
	case e.GetType() != pb.EntryNormal:
		return dst, fmt.Errorf("raft entry %d has type %v, which nothing here proposes", e.GetIndex(), e.GetType())
	case len(e.GetData()) == 0:
		// All voters must write the same bytes, so the time is not now but what the log says already.
		return append(dst, dataBatch([][]byte{noOpRecord()}, previous)...), nil
	}
	return append(dst, e.GetData()...), nil
}

// readEntry is the way back: the entry that b stores. It copies b.
func readEntry(b batch.Batch, index uint64) (*pb.Entry, error) {
	e := &pb.Entry{Index: new(index), Term: new(uint64(b.LeaderEpoch())), Type: pb.EntryNormal.Enum()}
	if b.Control() {
		data, ok, err := confChange(b)
		if err != nil {
			return nil, err
		}
		if ok {
			e.Type, e.Data = pb.EntryConfChangeV2.Enum(), data
			return e, nil
		}
	}
	// Base offset and epoch are not part of an entry: Data has the zeros that Propose's batch had.
	data := append(batch.Batch{}, b...)
	data.Assign(0, 0)
	e.Data = data
	return e, nil
}

// dataBatch builds the batch of an entry that carries records.
func dataBatch(records [][]byte, timestamp int64) batch.Batch {
	b := batch.NewBuilder(batch.BuildOptions{})
	for _, r := range records {
		b.Add(batch.Record{Timestamp: timestamp, Value: r})
	}
	return b.Build()
}

// controlRecord is a control record: its kind and its encoded value.
type controlRecord struct {
	kind  batch.ControlType
	value []byte
}

func controlBatch(o batch.BuildOptions, timestamp int64, records ...controlRecord) batch.Batch {
	o.Control = true
	b := batch.NewBuilder(o)
	for _, r := range records {
		b.Add(batch.Record{Timestamp: timestamp, Key: r.kind.Key(), Value: r.value})
	}
	return b.Build()
}

// eachControl calls f for every control record of b.
func eachControl(b batch.Batch, f func(kind batch.ControlType, value []byte) error) error {
	return b.Each(func(r batch.Record) error {
		kind, _, err := batch.ParseControl(r)
		if err != nil {
			return err
		}
		return f(kind, r.Value)
	})
}

// leaderChangeBatch is what a new leader proposes first. A leader that finds no voter set in the log adds the one that the
// log was formed with, and the level of kraft.version, in the same batch, as Apache Kafka does.
// Mirrors LeaderState.appendStartOfEpochControlRecords; KIP-853.
func leaderChangeBatch(index uint64, leader kafka.NodeID, voters, granting []Voter, withVoters bool, timestamp int64) batch.Batch {
	// Version 0, without directory ids, is what Apache Kafka writes and what its tools read, whatever a record says.
	change := batch.LeaderChange{LeaderID: leader, Tags: []batch.Tag{indexTag(index)}}
	for _, v := range voters {
		change.Voters = append(change.Voters, batch.LeaderChangeVoter{ID: v.ID})
	}
	for _, v := range granting {
		change.GrantingVoters = append(change.GrantingVoters, batch.LeaderChangeVoter{ID: v.ID})
	}
	records := []controlRecord{{batch.ControlLeaderChange, change.AppendTo(nil)}}
	if withVoters {
		records = append(records, kraftVersionRecord(), votersRecord(voters))
	}
	return controlBatch(batch.BuildOptions{}, timestamp, records...)
}

func kraftVersionRecord() controlRecord {
	v := batch.KRaftVersion{KRaftVersion: KRaftLevel}
	return controlRecord{batch.ControlKRaftVersion, v.AppendTo(nil)}
}

func votersRecord(voters []Voter, tags ...batch.Tag) controlRecord {
	record := batch.KRaftVoters{Tags: tags}
	for _, v := range voters {
		voter := batch.KRaftVoter{ID: v.ID, Dir: v.DirID, MaxVersion: KRaftLevel}
		for _, e := range v.Endpoints {
			voter.Endpoints = append(voter.Endpoints, batch.KRaftEndpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		record.Voters = append(record.Voters, voter)
	}
	return controlRecord{batch.ControlKRaftVoters, record.AppendTo(nil)}
}

func parseVoters(value []byte) ([]Voter, []batch.Tag, error) {
	var record batch.KRaftVoters
	if err := record.ReadFrom(value); err != nil {
		return nil, nil, err
	}
	var voters []Voter
	for _, v := range record.Voters {
		voter := Voter{ID: v.ID, DirID: v.Dir}
		for _, e := range v.Endpoints {
			voter.Endpoints = append(voter.Endpoints, Endpoint{Name: e.Name, Host: e.Host, Port: e.Port})
		}
		voters = append(voters, voter)
	}
	sortVoters(voters)
	return voters, record.Tags, checkVoters(voters)
}

// A voter change travels through raft as a ConfChangeV2 whose context holds what else the batch needs: the timestamp, eight
// bytes big endian, and the value of the KRaftVoters record.

func encodeConfChange(change *pb.ConfChangeV2, voters []Voter, timestamp int64) *pb.ConfChangeV2 {
	change.Context = binary.BigEndian.AppendUint64(nil, uint64(timestamp))
	change.Context = append(change.Context, votersRecord(voters).value...)
	return change
}

// confChangeVoters returns the voter set that a voter change leads to.
func confChangeVoters(data []byte) (*pb.ConfChangeV2, []Voter, error) {
	change := &pb.ConfChangeV2{}
	if err := proto.Unmarshal(data, change); err != nil {
		return nil, nil, fmt.Errorf("voter change: %w", err)
	}
	if len(change.GetContext()) < 8 {
		return nil, nil, fmt.Errorf("voter change without a voter set")
	}
	voters, _, err := parseVoters(change.GetContext()[8:])
	return change, voters, err
}

func votersBatch(data []byte) (batch.Batch, error) {
	change, voters, err := confChangeVoters(data)
	if err != nil {
		return nil, err
	}
	timestamp := int64(binary.BigEndian.Uint64(change.GetContext()))
	change.Context = nil
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(change)
	if err != nil {
		return nil, fmt.Errorf("voter change: %w", err)
	}
	tag := batch.Tag{ID: confChangeTag, Value: raw}
	return controlBatch(batch.BuildOptions{}, timestamp, votersRecord(voters, tag)), nil
}

// confChange is the inverse of votersBatch; ok is false when b is another control batch.
func confChange(b batch.Batch) (data []byte, ok bool, err error) {
	err = eachControl(b, func(kind batch.ControlType, value []byte) error {
		if kind != batch.ControlKRaftVoters {
			return nil
		}
		voters, tags, err := parseVoters(value)
		if err != nil {
			return err
		}
		for _, t := range tags {
			if t.ID != confChangeTag {
				continue
			}
			change := &pb.ConfChangeV2{}
			if err := proto.Unmarshal(t.Value, change); err != nil {
				return fmt.Errorf("voter change at offset %d: %w", b.BaseOffset(), err)
			}
			ok = true
			data, err = proto.MarshalOptions{Deterministic: true}.Marshal(encodeConfChange(change, voters, b.MaxTimestamp()))
			return err
		}
		return nil
	})
	return data, ok, err
}

// epochOf converts a raft term. Terms grow by one per election, so they never come near the limit.
func epochOf(term uint64) (kafka.Epoch, error) {
	if term > math.MaxInt32 {
		return 0, fmt.Errorf("raft term %d is not a leader epoch", term)
	}
	return kafka.Epoch(term), nil
}
