package quorum

import (
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestTermOutOfNothing: a voter that names a term which nobody can have reached does not take this node there, and one that
// is ahead by what nodes miss does.
func TestTermOutOfNothing(t *testing.T) {
	inWorld(t, 3, func(w *world) {
		w.start(1, 2, 3)
		w.leader()
		victim := w.nodes[1].q
		term := func() uint64 {
			_, epoch, _ := victim.Leader()
			return uint64(epoch)
		}
		before := term()
		send := func(m *pb.Message) {
			t.Helper()
			l := letter{clusterID: testCluster, from: testVoter(2), to: raftID(testVoter(1).DirID), messages: []*pb.Message{m}}
			if err := victim.Receive(l.appendTo(nil)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		far := before + maxTermsAhead + 1
		send(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: &far})
		send(&pb.Message{Type: pb.MsgAppResp.Enum(), Term: &far, Reject: new(true)})
		if now := term(); now != before {
			t.Fatalf("a term of %d was taken: %d, then %d", far, before, now)
		}
		near := before + 1000
		send(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: &near})
		time.Sleep(10 * time.Second)
		if now := term(); now < near {
			t.Errorf("a voter that is %d elections ahead was not believed: term %d", near-before, now)
		}
		if _, _, ok := victim.Leader(); !ok {
			t.Error("no leader afterwards")
		}
	})
}

// TestSnapshotChunks: what another node sends in place of a piece of a file is refused, and so is a file without end.
func TestSnapshotChunks(t *testing.T) {
	const most = 1000
	piece := func(n int, size int64) SnapshotChunk { return SnapshotChunk{Bytes: make([]byte, n), Size: size} }
	for _, c := range []struct {
		what           string
		chunk          SnapshotChunk
		position, size int64
		good           bool
	}{
		{"the first of several", piece(100, 250), 0, 250, true},
		{"the last", piece(50, 250), 200, 250, true},
		{"as large as may be", piece(1000, most), 0, most, true},
		{"nothing", piece(0, 250), 100, 250, false},
		{"more than is left", piece(51, 250), 200, 250, false},
		{"a file that grows", piece(100, 350), 100, 250, false},
		{"a file that is too large", piece(100, most+1), 0, most + 1, false},
		{"a size below nothing", piece(100, -5), 0, -5, false},
		{"a size that overflows", piece(100, 1<<63-1), 1<<63 - 50, 1<<63 - 1, false},
	} {
		if err := checkChunk(c.chunk, c.position, c.size, most); (err == nil) != c.good {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}
