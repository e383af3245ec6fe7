package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	pb "go.etcd.io/raft/v3/raftpb"
)

// MaxMessageBytes is the largest body of a request with raft's messages: one entry of the largest size and what goes with it.
const MaxMessageBytes = maxEntryBytes + 1<<20

// letter is the body of a request with wire.RaftKey: messages of one voter for another. docs/format has its bytes.
type letter struct {
	clusterID string
	from      Voter
	to        uint64 // raft id
	messages  []*pb.Message
}

func (l *letter) appendTo(dst []byte) []byte {
	dst = appendShort(dst, l.clusterID)
	dst = appendVoter(dst, l.from)
	dst = binary.BigEndian.AppendUint64(dst, l.to)
	for _, m := range l.messages {
		dst = appendMessage(dst, m)
	}
	return dst
}

func appendMessage(dst []byte, m *pb.Message) []byte {
	reject := byte(0)
	if m.GetReject() {
		reject = 1
	}
	dst = append(dst, byte(m.GetType()), reject)
	for _, v := range []uint64{m.GetTerm(), m.GetLogTerm(), m.GetIndex(), m.GetCommit(), m.GetRejectHint()} {
		dst = binary.BigEndian.AppendUint64(dst, v)
	}
	dst = appendShort(dst, string(m.GetContext()))
	dst = appendShort(dst, string(m.GetSnapshot().GetData()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(m.GetEntries())))
	for _, e := range m.GetEntries() {
		dst = binary.BigEndian.AppendUint64(dst, e.GetTerm())
		dst = append(dst, byte(e.GetType()))
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(e.GetData())))
		dst = append(dst, e.GetData()...)
	}
	return dst
}

// messageBytes is about how much memory a message holds.
func messageBytes(m *pb.Message) int {
	n := 256
	for _, e := range m.GetEntries() {
		n += 128 + len(e.GetData())
	}
	return n
}

// readLetter decodes the body of a request. It copies what it keeps. Every message in it has been looked at: what raft would
// panic on is refused here or, where it takes raft's state to tell, by checkArrival.
func readLetter(body []byte) (l letter, err error) {
	r := reader{rest: body}
	l.clusterID = r.short()
	l.from = r.voter()
	l.to = r.uint64()
	for r.err == nil && len(r.rest) > 0 {
		m := r.message()
		if r.err != nil {
			break
		}
		m.From, m.To = new(raftID(l.from.DirID)), new(l.to)
		if err := checkMessage(m); err != nil {
			return l, fmt.Errorf("raft message %v: %w (%w)", m.GetType(), err, kerr.InvalidRequest)
		}
		l.messages = append(l.messages, m)
	}
	if r.err != nil {
		return l, fmt.Errorf("raft messages: %w (%w)", r.err, kerr.InvalidRequest)
	}
	return l, nil
}

// reader takes values off bytes from outside. After the first error it gives zeros.
type reader struct {
	rest []byte
	err  error
}

var errShort = errors.New("ends early")

func (r *reader) take(n int) []byte {
	if r.err == nil && n > len(r.rest) {
		r.err = errShort
	}
	if r.err != nil {
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) uint16() uint16 {
	if b := r.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if b := r.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (r *reader) uint64() uint64 {
	if b := r.take(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// short reads a string of at most 255 bytes.
func (r *reader) short() string { return string(r.take(int(r.byte()))) }

func appendShort(dst []byte, s string) []byte {
	s = s[:min(len(s), 255)]
	return append(append(dst, byte(len(s))), s...)
}

func (r *reader) voter() (v Voter) {
	v.ID = int32(r.uint32())
	copy(v.DirID[:], r.take(len(v.DirID)))
	for range r.byte() {
		e := Endpoint{Name: r.short(), Host: r.short(), Port: r.uint16()}
		if r.err != nil {
			break
		}
		v.Endpoints = append(v.Endpoints, e)
	}
	return v
}

func appendVoter(dst []byte, v Voter) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(v.ID))
	dst = append(dst, v.DirID[:]...)
	endpoints := v.Endpoints[:min(len(v.Endpoints), 255)]
	dst = append(dst, byte(len(endpoints)))
	for _, e := range endpoints {
		dst = appendShort(appendShort(dst, e.Name), e.Host)
		dst = binary.BigEndian.AppendUint16(dst, e.Port)
	}
	return dst
}

func (r *reader) message() *pb.Message {
	m := &pb.Message{Type: pb.MessageType(r.byte()).Enum(), Reject: new(r.byte() != 0)}
	m.Term, m.LogTerm, m.Index, m.Commit, m.RejectHint = new(r.uint64()), new(r.uint64()), new(r.uint64()), new(r.uint64()), new(r.uint64())
	if context := r.short(); context != "" {
		m.Context = []byte(context)
	}
	if id := r.short(); id != "" {
		m.Snapshot = &pb.Snapshot{Data: []byte(id)}
	}
	n := r.uint32()
	for i := uint64(1); i <= uint64(n) && r.err == nil; i++ {
		e := &pb.Entry{Index: new(m.GetIndex() + i), Term: new(r.uint64()), Type: pb.EntryType(r.byte()).Enum()}
		if data := r.take(int(r.uint32())); len(data) > 0 {
			e.Data = append([]byte(nil), data...)
		}
		m.Entries = append(m.Entries, e)
	}
	return m
}
