package compat

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// raw is a connection that sends whatever it is told to, which no honest client would.
type raw struct {
	conn net.Conn
	next int32 // correlation id
}

func dialRaw(t testing.TB, address string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return &raw{conn: conn}
}

// encode returns a request's frame, its length included.
func encode(req kmsg.Request, correlation int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("attack")).AppendRequest(nil, req, correlation)
}

// frame reads one answer, its length excluded.
func (r *raw) frame(patience time.Duration) ([]byte, error) {
	if err := r.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var length [4]byte
	if _, err := io.ReadFull(r.conn, length[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > 256<<20 {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	body := make([]byte, n)
	_, err := io.ReadFull(r.conn, body)
	return body, err
}

// ask sends a request and returns the answer, or the error with which the connection ended.
func (r *raw) ask(req kmsg.Request) (kmsg.Response, error) {
	r.next++
	if _, err := r.conn.Write(encode(req, r.next)); err != nil {
		return nil, err
	}
	body, err := r.frame(30 * time.Second)
	if err != nil {
		return nil, err
	}
	if len(body) < 4 || int32(binary.BigEndian.Uint32(body)) != r.next {
		return nil, fmt.Errorf("answer %x to correlation id %d", body[:min(len(body), 16)], r.next)
	}
	body = body[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && req.Key() != 18 {
		body = body[1:] // no tagged fields in the header
	}
	return resp, resp.ReadFrom(body)
}

// plainBatch makes a batch of format 2 with records whose values are given, as an honest producer would.
func plainBatch(now time.Time, values ...string) kmsg.RecordBatch {
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: now.UnixMilli(), MaxTimestamp: now.UnixMilli(),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(values)),
	}
	for i, v := range values {
		b.Records = append(b.Records, plainRecord(int32(i), []byte("k"), []byte(v))...)
	}
	return b
}

func plainRecord(delta int32, key, value []byte) []byte {
	body := []byte{0, 0}
	body = binary.AppendVarint(body, int64(delta))
	for _, field := range [][]byte{key, value} {
		if field == nil {
			body = binary.AppendVarint(body, -1)
			continue
		}
		body = binary.AppendVarint(body, int64(len(field)))
		body = append(body, field...)
	}
	body = append(body, 0)
	return append(binary.AppendVarint(nil, int64(len(body))), body...)
}

// sealed returns the bytes of a batch with the length and CRC that belong to them.
func sealed(b kmsg.RecordBatch) []byte {
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}
