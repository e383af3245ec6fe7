package quorum

import (
	"encoding/binary"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"moldau/internal/kafka"
)

// TestManyVoters: anybody may send a voter set as large as a letter can be. To look at it takes no longer than to read it.
func TestManyVoters(t *testing.T) {
	voters := make([]Voter, 200_000)
	for i := range voters {
		v := Voter{ID: kafka.NodeID(i), DirID: kafka.DirID{0: 1}}
		binary.BigEndian.PutUint32(v.DirID[12:], uint32(i))
		voters[i] = v
	}
	change := &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(uint64(7))}}}
	data, err := proto.Marshal(encodeConfChange(change, voters, 7))
	if err != nil {
		t.Fatal(err)
	}
	l := letter{clusterID: testCluster, from: testVoter(2), to: 1, messages: []*pb.Message{{
		Type: pb.MsgApp.Enum(), Term: new(uint64(1)), Index: new(uint64(1)), LogTerm: new(uint64(1)),
		Entries: []*pb.Entry{{Index: new(uint64(2)), Term: new(uint64(1)), Type: pb.EntryConfChangeV2.Enum(), Data: data}},
	}}}
	body := l.appendTo(nil)
	if len(body) > MaxMessageBytes {
		t.Fatalf("a letter of %d bytes", len(body))
	}
	began := time.Now()
	_, err = readLetter(body)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s to look at %d voters (%v)", took, len(voters), err)
	}
	twice := append(voters[:1000:1000], voters[500])
	if err := checkVoters(twice); err == nil {
		t.Error("a voter that is there twice was taken")
	}
}
