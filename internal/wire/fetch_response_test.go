package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// kmsgBytes encodes the same value with kmsg. Records are gathered, and endpoints left out where Kafka has none.
func kmsgBytes(r *FetchResponse) []byte {
	k := kmsg.FetchResponse{Version: r.Version, ThrottleMillis: r.ThrottleMs, ErrorCode: r.ErrorCode, SessionID: r.SessionID}
	for _, t := range r.Topics {
		kt := kmsg.FetchResponseTopic{Topic: t.Topic, TopicID: t.TopicID}
		for _, p := range t.Partitions {
			kp := kmsg.NewFetchResponseTopicPartition()
			kp.Partition, kp.ErrorCode, kp.PreferredReadReplica = p.Partition, p.ErrorCode, p.PreferredReadReplica
			kp.HighWatermark, kp.LastStableOffset, kp.LogStartOffset = p.HighWatermark, p.LastStableOffset, p.LogStartOffset
			if p.DivergingEpoch != nil {
				kp.DivergingEpoch.Epoch, kp.DivergingEpoch.EndOffset = p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset
			}
			if p.CurrentLeader != nil {
				kp.CurrentLeader.LeaderID, kp.CurrentLeader.LeaderEpoch = p.CurrentLeader.LeaderID, p.CurrentLeader.Epoch
			}
			if p.SnapshotID != nil {
				kp.SnapshotID.EndOffset, kp.SnapshotID.Epoch = p.SnapshotID.EndOffset, p.SnapshotID.Epoch
			}
			if p.AbortedTransactions != nil {
				kp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
			}
			for _, a := range p.AbortedTransactions {
				kp.AbortedTransactions = append(kp.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{
					ProducerID: a.ProducerID, FirstOffset: a.FirstOffset})
			}
			kp.RecordBatches = []byte{}
			for _, region := range p.Records {
				kp.RecordBatches = append(kp.RecordBatches, region.(Bytes)...)
			}
			kt.Partitions = append(kt.Partitions, kp)
		}
		k.Topics = append(k.Topics, kt)
	}
	if r.Version >= 16 {
		for _, n := range r.NodeEndpoints {
			k.Brokers = append(k.Brokers, kmsg.FetchResponseBroker{NodeID: n.NodeID, Host: n.Host, Port: n.Port, Rack: n.Rack})
		}
	}
	return AppendResponse(nil, r.CorrelationID, &k)
}

func checkAgainstKmsg(t *testing.T, r *FetchResponse) {
	t.Helper()
	want := kmsgBytes(r)
	var got bytes.Buffer
	n, err := r.WriteTo(&got)
	if err != nil {
		t.Fatalf("version %d: %v", r.Version, err)
	}
	if n != int64(got.Len()) || r.Size() != n {
		t.Fatalf("version %d: wrote %d bytes, says %d, Size says %d", r.Version, got.Len(), n, r.Size())
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("version %d: differs from kmsg\n got %x\nwant %x", r.Version, got.Bytes(), want)
	}
}

func ptr[T any](v T) *T { return &v }

// fetchResponse draws a response. All sizes stay small unless large is set: then one is not.
func fetchResponse(rng *rand.Rand, version int16, large bool) *FetchResponse {
	r := &FetchResponse{
		Version: version, CorrelationID: int32(rng.Uint32()), ThrottleMs: int32(rng.Uint32()),
		ErrorCode: int16(rng.Uint32()), SessionID: int32(rng.Uint32()),
	}
	few := func() int {
		if large && rng.IntN(8) == 0 {
			large = false // at most one long list or string per response, so that sizes do not multiply
			return 100 + rng.IntN(400)
		}
		return rng.IntN(4)
	}
	// small draws -1, the default of the tagged fields, often.
	small := func() int64 { return int64(rng.IntN(3) - 1) }
	for range few() {
		topic := FetchTopic{Topic: string(make([]byte, few()*60)), TopicID: kafka.UUID{byte(rng.Uint32()), 15: byte(rng.Uint32())}}
		for i := range few() {
			p := NewFetchPartition(int32(i))
			p.ErrorCode, p.PreferredReadReplica = int16(rng.Uint32()), int32(small())
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset = rng.Int64(), rng.Int64(), small()
			if rng.IntN(2) == 0 {
				p.DivergingEpoch = &EpochEndOffset{int32(small()), small()}
			}
			if rng.IntN(2) == 0 {
				p.CurrentLeader = &LeaderIDAndEpoch{int32(small()), int32(small())}
			}
			if rng.IntN(2) == 0 {
				p.SnapshotID = &SnapshotID{small(), int32(small())}
			}
			if rng.IntN(2) == 0 {
				p.AbortedTransactions = make([]AbortedTxn, few())
				for j := range p.AbortedTransactions {
					p.AbortedTransactions[j] = AbortedTxn{rng.Int64(), rng.Int64()}
				}
			}
			for range rng.IntN(3) {
				region := make(Bytes, few()*50)
				for j := range region {
					region[j] = byte(rng.Uint32())
				}
				p.Records = append(p.Records, region)
			}
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
	}
	for range rng.IntN(3) {
		n := FetchEndpoint{NodeID: int32(rng.Uint32()), Host: string(make([]byte, few()*50)), Port: int32(rng.Uint32())}
		if rng.IntN(2) == 0 {
			n.Rack = ptr("rack")
		}
		r.NodeEndpoints = append(r.NodeEndpoints, n)
	}
	return r
}

func TestFetchResponseIsByteForByteKmsgs(t *testing.T) {
	for version := int16(0); version <= 18; version++ {
		rng := rand.New(rand.NewPCG(7, uint64(version)))
		checkAgainstKmsg(t, &FetchResponse{Version: version})
		checkAgainstKmsg(t, &FetchResponse{Version: version, Topics: []FetchTopic{{Topic: "t", Partitions: []FetchPartition{NewFetchPartition(3)}}}})
		for i := range 300 {
			checkAgainstKmsg(t, fetchResponse(rng, version, i%10 == 0))
		}
	}
}

func FuzzFetchResponse(f *testing.F) {
	for version := range uint8(15) {
		f.Add(uint64(version), uint64(1), version, version%2 == 0)
	}
	f.Fuzz(func(t *testing.T, seed1, seed2 uint64, version uint8, large bool) {
		checkAgainstKmsg(t, fetchResponse(rand.New(rand.NewPCG(seed1, seed2)), int16(version%19), large))
	})
}

// A response reads back through kmsg as what was put in: guards against the same mistake in kmsgBytes and the encoder.
func TestFetchResponseReadsBack(t *testing.T) {
	p := NewFetchPartition(2)
	p.HighWatermark, p.LastStableOffset, p.LogStartOffset = 30, 20, 10
	p.Records = []Region{Bytes("abc"), Bytes("defg")}
	p.CurrentLeader = &LeaderIDAndEpoch{LeaderID: 5, Epoch: 6}
	p.AbortedTransactions = []AbortedTxn{{ProducerID: 7, FirstOffset: 8}}
	r := FetchResponse{Version: 17, CorrelationID: 9, SessionID: 11, NodeEndpoints: []FetchEndpoint{{NodeID: 5, Host: "five", Port: 9092}},
		Topics: []FetchTopic{{TopicID: kafka.UUID{1}, Partitions: []FetchPartition{p}}}}
	var out bytes.Buffer
	if _, err := r.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	frame, err := ReadFrame(&out, 1<<20, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewFetchResponse()
	resp.Version = 17
	id, err := ReadResponse(frame, &resp)
	if err != nil || id != 9 || resp.SessionID != 11 {
		t.Fatalf("correlation %d, session %d, %v", id, resp.SessionID, err)
	}
	got := resp.Topics[0].Partitions[0]
	if string(got.RecordBatches) != "abcdefg" || got.HighWatermark != 30 || got.LastStableOffset != 20 || got.LogStartOffset != 10 ||
		got.CurrentLeader.LeaderID != 5 || got.AbortedTransactions[0].FirstOffset != 8 || resp.Brokers[0].Host != "five" {
		t.Fatalf("read back %+v", resp)
	}
}

// shortRegion promises more than it gives, as a file that was cut does.
type shortRegion struct{ promised, given int64 }

func (s shortRegion) Len() int64 { return s.promised }
func (s shortRegion) SendTo(w io.Writer) (int64, error) {
	n, err := w.Write(make([]byte, s.given))
	return int64(n), err
}

func TestFetchResponseFailsOnShortRegion(t *testing.T) {
	p := NewFetchPartition(0)
	p.Records = []Region{shortRegion{100, 99}}
	q := NewFetchPartition(1)
	q.Records = []Region{Bytes("must not be written")}
	r := FetchResponse{Version: 12, Topics: []FetchTopic{{Topic: "t", Partitions: []FetchPartition{p, q}}}}
	var out bytes.Buffer
	n, err := r.WriteTo(&out)
	if !errors.Is(err, io.ErrUnexpectedEOF) || n != int64(out.Len()) {
		t.Fatalf("n %d of %d, err %v", n, out.Len(), err)
	}
	if bytes.Contains(out.Bytes(), []byte("must not")) {
		t.Fatal("went on writing after the short region")
	}
}

type brokenWriter struct{ left int }

func (w *brokenWriter) Write(b []byte) (int, error) {
	if len(b) > w.left {
		n := w.left
		w.left = 0
		return n, fmt.Errorf("connection is gone")
	}
	w.left -= len(b)
	return len(b), nil
}

func TestFetchResponseStopsAtWriteError(t *testing.T) {
	r := fetchResponse(rand.New(rand.NewPCG(3, 4)), 17, false)
	if r.Size() < 200 {
		t.Fatalf("the response drawn has only %d bytes", r.Size())
	}
	for left := range int(r.Size()) {
		n, err := r.WriteTo(&brokenWriter{left})
		if err == nil || n != int64(left) {
			t.Fatalf("writer that breaks after %d: n %d, err %v", left, n, err)
		}
	}
}

func TestFetchResponseRefusesWhatNoFrameHolds(t *testing.T) {
	p := NewFetchPartition(0)
	p.Records = []Region{shortRegion{promised: 1 << 31}}
	r := FetchResponse{Version: 4, Topics: []FetchTopic{{Topic: "t", Partitions: []FetchPartition{p}}}}
	if n, err := r.WriteTo(io.Discard); err == nil || n != 0 {
		t.Fatalf("n %d, err %v", n, err)
	}
}

func TestFetchResponseAllocatesOneBuffer(t *testing.T) {
	r := FetchResponse{Version: 18}
	for i := range 40 {
		topic := FetchTopic{TopicID: kafka.UUID{byte(i)}}
		for j := range 25 {
			p := NewFetchPartition(int32(j))
			p.Records = []Region{Bytes(make([]byte, 100))}
			p.CurrentLeader = &LeaderIDAndEpoch{1, 2}
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
	}
	if n := testing.AllocsPerRun(20, func() { _, _ = r.WriteTo(io.Discard) }); n > 1 {
		t.Fatalf("1,000 partitions: %v allocations, want 1", n)
	}
}

// writes counts the writes that a response takes.
type writes struct{ n int }

func (w *writes) Write(b []byte) (int, error) {
	w.n++
	return len(b), nil
}

// TestFetchResponseGathers: few records go out with what is around them, in one write; many go by themselves, in writes that leave
// together unless they are large.
func TestFetchResponseGathers(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []int // bytes, a partition each
		writes  int
		pieces  bool
	}{
		{"nothing", []int{0}, 1, false},
		{"a record", []int{1100}, 1, false},
		{"a record in each of three partitions", []int{1100, 1100, 1100}, 1, false},
		{"two that do not fit together", []int{3000, 3000}, 2, true},
		{"as much as is gathered", []int{flushBytes}, 2, true},
		{"a batch", []int{16 << 10}, 3, true},
		{"a batch and a record", []int{16 << 10, 1100}, 3, true},
		{"much", []int{1 << 20}, 3, false},
	} {
		r := FetchResponse{Version: 17, Topics: []FetchTopic{{}}}
		for i, n := range c.records {
			p := NewFetchPartition(int32(i))
			p.Records = []Region{Bytes(make([]byte, n))}
			r.Topics[0].Partitions = append(r.Topics[0].Partitions, p)
		}
		var w writes
		if _, err := r.WriteTo(&w); err != nil {
			t.Fatal(err)
		}
		if w.n != c.writes || r.InPieces() != c.pieces {
			t.Errorf("%s: %d writes, in pieces %v, want %d, %v", c.name, w.n, r.InPieces(), c.writes, c.pieces)
		}
	}
}
