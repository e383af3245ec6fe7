package quorum

import (
	"bytes"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

func testVoters() []Voter {
	return []Voter{
		{ID: 0, DirID: kafka.DirID{1, 2, 3}, Endpoints: []Endpoint{{Name: "CONTROLLER", Host: "a.example", Port: 9093}}},
		{ID: 7, DirID: kafka.DirID{9: 4}, Endpoints: []Endpoint{{Name: "CONTROLLER", Host: "b.example", Port: 65535}}},
	}
}

// TestEntriesComeBack: an entry that is stored as a batch and read back is the same entry, and stores as the same bytes.
func TestEntriesComeBack(t *testing.T) {
	change := &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeAddNode.Enum(), NodeId: new(uint64(77))}}}
	changeData, err := proto.Marshal(encodeConfChange(change, testVoters(), 1234))
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]*pb.Entry{
		"data":          {Data: dataBatch([][]byte{[]byte("a"), []byte("bc")}, 5)},
		"leader change": {Data: leaderChangeBatch(3, 7, testVoters(), testVoters()[:1], true, 99)},
		"voter change":  {Type: pb.EntryConfChangeV2.Enum(), Data: changeData},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := appendEntry(nil, e, 1)
			if err != nil {
				t.Fatal(err)
			}
			b := batch.Batch(stored)
			b.Assign(1000, 4)
			if err := b.VerifyCRC(); err != nil {
				t.Fatal(err)
			}
			back, err := readEntry(b, 12)
			if err != nil {
				t.Fatal(err)
			}
			if back.GetIndex() != 12 || back.GetTerm() != 4 || back.GetType() != e.GetType() {
				t.Fatalf("came back as %v", back)
			}
			if b.BaseOffset() != 1000 {
				t.Fatal("reading changed the stored batch")
			}
			again, err := appendEntry(nil, back, 1)
			if err != nil {
				t.Fatal(err)
			}
			batch.Batch(again).Assign(1000, 4)
			if !bytes.Equal(stored, again) {
				t.Fatalf("stored again as\n%x\nfirst as\n%x", again, stored)
			}
		})
	}
}

// TestVoterChangeCarriesTheSet: what raft applies names the whole new voter set.
func TestVoterChangeCarriesTheSet(t *testing.T) {
	change := &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{{Type: pb.ConfChangeRemoveNode.Enum(), NodeId: new(uint64(5))}}}
	data, err := proto.Marshal(encodeConfChange(change, testVoters(), 1))
	if err != nil {
		t.Fatal(err)
	}
	stored, err := appendEntry(nil, &pb.Entry{Type: pb.EntryConfChangeV2.Enum(), Data: data}, 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := readEntry(batch.Batch(stored), 1)
	if err != nil {
		t.Fatal(err)
	}
	got, voters, err := confChangeVoters(e.GetData())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.GetChanges()) != 1 || got.GetChanges()[0].GetType() != pb.ConfChangeRemoveNode || got.GetChanges()[0].GetNodeId() != 5 {
		t.Errorf("change came back as %v", got)
	}
	if !slices.EqualFunc(voters, testVoters(), SameVoter) {
		t.Errorf("voters came back as %v", voters)
	}
}

// TestEmptyEntryFollowsFromTheLog: every voter writes the same bytes for raft's own entry, whatever its clock says.
func TestEmptyEntryFollowsFromTheLog(t *testing.T) {
	one, err := appendEntry(nil, &pb.Entry{}, 42)
	if err != nil {
		t.Fatal(err)
	}
	b := batch.Batch(one)
	if b.Count() != 1 || b.MaxTimestamp() != 42 || b.Control() {
		t.Fatalf("NoOp batch has %d records, timestamp %d, control %v", b.Count(), b.MaxTimestamp(), b.Control())
	}
	other, _ := appendEntry(nil, &pb.Entry{Data: []byte{}}, 42)
	if !bytes.Equal(one, other) {
		t.Fatal("two empty entries differ")
	}
}

// TestRefusesForeignEntries: an entry that nothing here proposes is an error and no batch.
func TestRefusesForeignEntries(t *testing.T) {
	for _, e := range []*pb.Entry{
		{Type: pb.EntryConfChange.Enum(), Data: []byte{1}},
		{Type: pb.EntryConfChangeV2.Enum()},
		{Type: pb.EntryConfChangeV2.Enum(), Data: []byte("not protobuf")},
	} {
		if _, err := appendEntry(nil, e, 1); err == nil {
			t.Errorf("stored %v", e)
		}
	}
}

func TestRaftIDs(t *testing.T) {
	ids := map[uint64]bool{}
	for range 1000 {
		id := raftID(kafka.NewUUID())
		if id == 0 || id >= 1<<64-2 || ids[id] {
			t.Fatalf("raft id %x", id)
		}
		ids[id] = true
	}
	same := kafka.DirID{0: 5, 8: 5}
	if raftID(same) != 1 || raftID(kafka.DirID{0: 255, 1: 255, 2: 255, 3: 255, 4: 255, 5: 255, 6: 255, 7: 255}) != 1 {
		t.Error("an id that raft reserves")
	}
}

func TestMembersHistory(t *testing.T) {
	set := func(ids ...kafka.NodeID) (voters []Voter) {
		for _, id := range ids {
			voters = append(voters, Voter{ID: id})
		}
		return voters
	}
	m := members{sets: []votersAt{{index: 1, voters: set(1)}}}
	m.add(5, set(1, 2))
	m.add(9, set(1, 2, 3))
	for index, want := range map[uint64]int{0: 1, 1: 1, 4: 1, 5: 2, 8: 2, 9: 3, 100: 3} {
		if got := len(m.at(index).voters); got != want {
			t.Errorf("at %d: %d voters, want %d", index, got, want)
		}
	}
	m.forget(8)
	if len(m.sets) != 2 || len(m.at(8).voters) != 2 || len(m.at(9).voters) != 3 {
		t.Errorf("after forgetting before 8: %v", m.sets)
	}
	m.forget(1000)
	if len(m.newest().voters) != 3 || !m.newest().inLog {
		t.Errorf("after forgetting all: %v", m.sets)
	}
}
