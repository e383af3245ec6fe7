package quorum

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"moldau/internal/kafka"
)

// randomMessage makes a message that may or may not make sense to a node whose raft is in that state.
func randomMessage(rng *rand.Rand, term, last uint64) *pb.Message {
	types := []pb.MessageType{pb.MsgApp, pb.MsgApp, pb.MsgApp, pb.MsgAppResp, pb.MsgAppResp, pb.MsgVote, pb.MsgVoteResp, pb.MsgVoteResp, pb.MsgPreVote,
		pb.MsgPreVoteResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp, pb.MsgTimeoutNow, pb.MsgSnap,
		pb.MsgHup, pb.MsgProp, pb.MsgReadIndex, pb.MsgTransferLeader, pb.MsgUnreachable, pb.MsgStorageAppendResp, pb.MessageType(200)}
	near := func(v uint64) *uint64 {
		switch rng.IntN(60) {
		case 0:
			return new(uint64(0))
		case 1:
			return new(uint64(math.MaxUint64))
		case 2:
			return new(rng.Uint64())
		}
		return new(v + uint64(rng.IntN(5)) - min(v, 2))
	}
	m := &pb.Message{Type: types[rng.IntN(len(types))].Enum(), Term: near(term), LogTerm: near(term), Index: near(last), Commit: near(last), RejectHint: near(last), Reject: new(rng.IntN(3) == 0)}
	if rng.IntN(10) == 0 {
		m.Context = []byte(campaignTransfer)
	}
	if m.GetType() == pb.MsgSnap || rng.IntN(50) == 0 {
		m.Snapshot = &pb.Snapshot{Data: []byte(SnapshotID{EndOffset: int64(rng.IntN(100)), Epoch: kafka.Epoch(rng.IntN(3))}.String())}
	}
	if m.GetType() != pb.MsgApp && rng.IntN(50) > 0 {
		return m
	}
	for i := range uint64(rng.IntN(4)) {
		e := &pb.Entry{Index: new(m.GetIndex() + 1 + i), Term: near(term), Type: pb.EntryType(rng.IntN(20) / 18 * 2).Enum()}
		switch rng.IntN(8) {
		case 0:
		case 1:
			e.Data = []byte("not a batch")
		case 2:
			e.Data = leaderChangeBatch(e.GetIndex()+uint64(rng.IntN(2)), 1, testVoters(), nil, rng.IntN(2) == 0, 5)
		case 3:
			e.Type = pb.EntryConfChangeV2.Enum()
			change := &pb.ConfChangeV2{}
			for range rng.IntN(3) {
				change.Changes = append(change.Changes, &pb.ConfChangeSingle{Type: pb.ConfChangeType(rng.IntN(5)).Enum(), NodeId: near(raftID(testVoter(1).DirID))})
			}
			voters := []Voter{testVoter(1), testVoter(2), testVoter(3), testVoter(4)}[:rng.IntN(5)]
			e.Data, _ = proto.Marshal(encodeConfChange(change, voters, 7))
		case 4:
			b := dataBatch(values("x"), 3)
			b[rng.IntN(len(b))]++
			e.Data = b
		default:
			e.Data = dataBatch(values("x", "y"), 3)
		}
		m.Entries = append(m.Entries, e)
	}
	return m
}

// TestHostileMessages: whatever a peer sends, in whosever name, nothing panics, and the quorum does not end over it unless what it
// was told to commit cannot be: a voter set out of nothing.
func TestHostileMessages(t *testing.T) {
	accepted := 0
	for seed := range uint64(60) {
		inWorld(t, 3, func(w *world) {
			rng := rand.New(rand.NewPCG(seed, 1))
			if seed%2 == 0 {
				w.start(1) // alone: messages are all that it hears
			} else {
				w.start(1, 2, 3)
				w.leader()
			}
			victim := w.nodes[1].q
			names := []Voter{testVoter(2), testVoter(3), testVoter(4), testVoter(1), {ID: 2}}
			for range 150 {
				last, _ := victim.store.LastIndex()
				_, epoch, _ := victim.Leader()
				l := letter{clusterID: testCluster, from: names[rng.IntN(len(names))], to: raftID(testVoter(1).DirID)}
				if rng.IntN(10) == 0 {
					l.from.DirID[5] = byte(rng.IntN(256)) // yet another stranger
				}
				for range 1 + rng.IntN(5)/4 {
					l.messages = append(l.messages, randomMessage(rng, uint64(max(epoch, 1)), last))
				}
				body := l.appendTo(nil)
				if rng.IntN(10) == 0 {
					body[rng.IntN(len(body))] ^= 1 << rng.IntN(8)
				}
				if rng.IntN(20) == 0 {
					body = body[:rng.IntN(len(body))]
				}
				err := victim.Receive(body)
				if err == nil {
					accepted++
				} else if !errors.As(err, new(*kerr.Error)) {
					t.Fatalf("a refusal that is no Kafka error: %v", err)
				}
				if rng.IntN(4) == 0 {
					time.Sleep(time.Duration(rng.IntN(100)) * time.Millisecond)
				}
			}
			time.Sleep(time.Second)
			if err := victim.Err(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if len(victim.strangers) > maxStrangers+1 {
				t.Fatalf("%d strangers are remembered", len(victim.strangers))
			}
		})
	}
	t.Logf("%d letters taken", accepted)
	if accepted < 1500 {
		t.Errorf("only %d letters were taken: the test tests little", accepted)
	}
}

// FuzzLetter: no bytes panic, and what can be read is written as the same bytes.
func FuzzLetter(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		l := letter{clusterID: testCluster, from: testVoter(2), to: 7}
		for range rng.IntN(3) {
			l.messages = append(l.messages, randomMessage(rng, 3, 9))
		}
		f.Add(l.appendTo(nil))
	}
	f.Add((&nodeInfo{node: testVoter(1), listed: []string{"a:1"}, clusterID: "c", voters: testVoters()}).appendTo(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		if l, err := readLetter(body); err == nil {
			again, err := readLetter(l.appendTo(nil))
			if err != nil || !bytes.Equal(again.appendTo(nil), l.appendTo(nil)) {
				t.Fatalf("%v read again as %v, %v", l, again, err)
			}
		}
		if i, err := readNodeInfo(body); err == nil {
			again, err := readNodeInfo(i.appendTo(nil))
			if err != nil || !bytes.Equal(again.appendTo(nil), i.appendTo(nil)) {
				t.Fatalf("%v read again as %v, %v", i, again, err)
			}
		}
	})
}
