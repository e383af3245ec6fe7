package quorum

import (
	"encoding/binary"
	"math"
	"syscall"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"moldau/internal/kafka"
)

// TestManyVoters: anybody may send a voter set as large as a letter may be. To look at it takes no longer than to read it: ten
// times the voters take ten times the work, not a hundred.
func TestManyVoters(t *testing.T) {
	body, voters := letterOfVoters(t, 50_000)
	tenth, _ := letterOfVoters(t, 5_000)
	if many, few := cpuToRead(t, body), cpuToRead(t, tenth); many > 50*few {
		t.Errorf("it took %s to look at %d voters, and %s to look at a tenth of them", many, len(voters), few)
	}
	twice := append(voters[:1000:1000], voters[500])
	if err := checkVoters(twice); err == nil {
		t.Error("a voter that is there twice was taken")
	}
}

// letterOfVoters is a letter whose one entry is a change to n voters, and these.
func letterOfVoters(t *testing.T, n int) ([]byte, []Voter) {
	t.Helper()
	voters := make([]Voter, n)
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
	return l.appendTo(nil), voters
}

// cpuToRead is the least processor time of three readings of a letter, which a busy machine does not change as it does the clock's.
func cpuToRead(t *testing.T, body []byte) time.Duration {
	t.Helper()
	least := time.Duration(math.MaxInt64)
	for range 3 {
		before := cpu(t)
		if _, err := readLetter(body); err != nil {
			t.Fatal(err)
		}
		least = min(least, cpu(t)-before)
	}
	return least
}

// cpu is the processor time of this process so far.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
