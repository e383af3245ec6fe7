package wire

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"

	"moldau/internal/invariant"
)

// firstFlexibleFetch is the first version of Fetch with compact lengths and tagged fields (KIP-482).
const firstFlexibleFetch = 12

// flushBytes is how much of the response WriteTo gathers before it writes. Records are gathered, too, where they are not more than
// that: a few kilobytes cost less to copy than to send by a call of their own.
const flushBytes = 4 << 10

// piecesBytes is the size from which on an answer that is written in pieces fills packets by itself.
const piecesBytes = 256 << 10

// InPieces tells whether WriteTo makes several writes that should leave together: the answer is not large.
func (r *FetchResponse) InPieces() bool {
	size := int64(0)
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			if size += t.Partitions[j].size(r.Version); size > piecesBytes {
				return false
			}
		}
	}
	return size > flushBytes
}

// Size returns the size of the whole frame in bytes, its length field included.
func (r *FetchResponse) Size() int64 {
	flexible := r.Version >= firstFlexibleFetch
	size := int64(4 + 4) // length, correlation id
	if r.Version >= 1 {
		size += 4 // throttle time
	}
	if flexible {
		size++ // tags of the header
	}
	if r.Version >= 7 {
		size += 2 + 4
	}
	size += lenSize(len(r.Topics), flexible)
	for i := range r.Topics {
		size += r.Topics[i].size(r.Version)
	}
	if flexible {
		size++ // tag count
		if n := r.endpointsSize(); n > 0 {
			size += 1 + uvarintSize(uint64(n)) + n
		}
	}
	return size
}

func (t *FetchTopic) size(version int16) int64 {
	flexible := version >= firstFlexibleFetch
	size := lenSize(len(t.Partitions), flexible)
	if version >= 13 {
		size += 16
	} else {
		size += stringSize(t.Topic, flexible)
	}
	if flexible {
		size++
	}
	for i := range t.Partitions {
		size += t.Partitions[i].size(version)
	}
	return size
}

func (p *FetchPartition) size(version int16) int64 {
	flexible := version >= firstFlexibleFetch
	size := int64(4 + 2 + 8)
	if version >= 4 {
		size += 8
	}
	if version >= 5 {
		size += 8
	}
	switch {
	case version < 4:
	case p.AbortedTransactions == nil:
		size += nullSize(flexible)
	default:
		each := int64(16)
		if flexible {
			each++
		}
		size += lenSize(len(p.AbortedTransactions), flexible) + each*int64(len(p.AbortedTransactions))
	}
	if version >= 11 {
		size += 4
	}
	records := p.recordsSize()
	size += records
	if !flexible {
		return size + 4
	}
	size += uvarintSize(uint64(records)+1) + 1
	if p.divergingSet() {
		size += 2 + divergingSize
	}
	if p.leaderSet() {
		size += 2 + leaderSize
	}
	if p.snapshotSet() {
		size += 2 + snapshotSize
	}
	return size
}

// Sizes of the values of a partition's tagged fields, their own empty tag sections included.
const (
	divergingSize = 4 + 8 + 1
	leaderSize    = 4 + 4 + 1
	snapshotSize  = 8 + 4 + 1
)

// A tagged field is left out when it has its default, as Kafka's and kmsg's encoders do.
func (p *FetchPartition) divergingSet() bool {
	return p.DivergingEpoch != nil && *p.DivergingEpoch != EpochEndOffset{-1, -1}
}

func (p *FetchPartition) leaderSet() bool {
	return p.CurrentLeader != nil && *p.CurrentLeader != LeaderIDAndEpoch{-1, -1}
}

func (p *FetchPartition) snapshotSet() bool {
	return p.SnapshotID != nil && *p.SnapshotID != SnapshotID{-1, -1}
}

func (p *FetchPartition) recordsSize() int64 {
	var n int64
	for _, region := range p.Records {
		n += region.Len()
	}
	return n
}

// endpointsSize returns the size of the value of the tagged field NodeEndpoints, 0 if it is left out.
func (r *FetchResponse) endpointsSize() int64 {
	if r.Version < 16 || len(r.NodeEndpoints) == 0 {
		return 0
	}
	size := lenSize(len(r.NodeEndpoints), true)
	for _, e := range r.NodeEndpoints {
		size += 4 + stringSize(e.Host, true) + 4 + 1
		if e.Rack == nil {
			size++
		} else {
			size += stringSize(*e.Rack, true)
		}
	}
	return size
}

// WriteTo writes the whole frame. After an error part of it may have gone out: the connection must be closed.
func (r *FetchResponse) WriteTo(w io.Writer) (int64, error) {
	size := r.Size()
	if size-4 > math.MaxInt32 {
		return 0, fmt.Errorf("fetch response of %d bytes does not fit a frame", size)
	}
	e := &r.encoder
	if e.buf == nil {
		e.buf = make([]byte, 0, min(size, flushBytes+512))
	}
	*e = fetchEncoder{w: w, flexible: r.Version >= firstFlexibleFetch, buf: e.buf[:0]}
	defer func() { e.w = nil }()
	e.response(r, int32(size-4))
	e.flush()
	if e.err != nil {
		return e.written, fmt.Errorf("write fetch response: %w", e.err)
	}
	if e.written != size { // the arguments of a bare Check would be allocated on every response
		invariant.Check(false, "fetch response of %d bytes took %d", size, e.written)
	}
	return e.written, nil
}

// fetchEncoder gathers bytes in buf and writes them before each large region and whenever they are many. After an error it
// writes no more.
type fetchEncoder struct {
	w        io.Writer
	buf      []byte
	written  int64
	err      error
	flexible bool
}

func (e *fetchEncoder) flush() {
	if e.err == nil && len(e.buf) > 0 {
		var n int
		n, e.err = e.w.Write(e.buf)
		e.written += int64(n)
	}
	e.buf = e.buf[:0]
}

// gathered takes the bytes of a region into the encoder's buffer.
type gathered fetchEncoder

func (g *gathered) Write(b []byte) (int, error) {
	g.buf = append(g.buf, b...)
	return len(b), nil
}

// region sends a region after what was gathered, or gathers it. Its length has been promised already, so fewer bytes are an error.
func (e *fetchEncoder) region(region Region) {
	want := region.Len()
	if want == 0 {
		return
	}
	gather := want <= flushBytes
	if !gather || len(e.buf)+int(want) > flushBytes {
		e.flush()
	}
	if e.err != nil {
		return
	}
	var n int64
	var err error
	if gather {
		n, err = region.SendTo((*gathered)(e))
	} else {
		n, err = region.SendTo(e.w)
		e.written += n
	}
	if err == nil && n != want {
		err = fmt.Errorf("region of %d bytes gave %d: %w", want, n, io.ErrUnexpectedEOF)
	}
	e.err = err
}

func (e *fetchEncoder) response(r *FetchResponse, length int32) {
	e.int32(length)
	e.int32(r.CorrelationID)
	if e.flexible {
		e.buf = append(e.buf, 0) // tags of the header
	}
	if r.Version >= 1 {
		e.int32(r.ThrottleMs)
	}
	if r.Version >= 7 {
		e.int16(r.ErrorCode)
		e.int32(r.SessionID)
	}
	e.len(len(r.Topics))
	for i := range r.Topics {
		e.topic(&r.Topics[i], r.Version)
		if e.err != nil {
			return
		}
	}
	if e.flexible {
		e.endpoints(r)
	}
}

func (e *fetchEncoder) topic(t *FetchTopic, version int16) {
	if version >= 13 {
		e.buf = append(e.buf, t.TopicID[:]...)
	} else {
		e.string(t.Topic)
	}
	e.len(len(t.Partitions))
	for i := range t.Partitions {
		e.partition(&t.Partitions[i], version)
		if e.err != nil {
			return
		}
	}
	if e.flexible {
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) partition(p *FetchPartition, version int16) {
	if len(e.buf) >= flushBytes {
		e.flush()
	}
	e.int32(p.Partition)
	e.int16(p.ErrorCode)
	e.int64(p.HighWatermark)
	if version >= 4 {
		e.int64(p.LastStableOffset)
	}
	if version >= 5 {
		e.int64(p.LogStartOffset)
	}
	if version >= 4 {
		e.aborted(p.AbortedTransactions)
	}
	if version >= 11 {
		e.int32(p.PreferredReadReplica)
	}
	if n := p.recordsSize(); e.flexible {
		e.uvarint(uint64(n) + 1)
	} else {
		e.int32(int32(n))
	}
	for _, region := range p.Records {
		e.region(region)
	}
	if e.flexible {
		e.partitionTags(p)
	}
}

func (e *fetchEncoder) aborted(txns []AbortedTxn) {
	if txns == nil {
		if e.flexible {
			e.uvarint(0)
		} else {
			e.int32(-1)
		}
		return
	}
	e.len(len(txns))
	for _, txn := range txns {
		if len(e.buf) >= flushBytes {
			e.flush()
		}
		e.int64(txn.ProducerID)
		e.int64(txn.FirstOffset)
		if e.flexible {
			e.buf = append(e.buf, 0)
		}
	}
}

func (e *fetchEncoder) partitionTags(p *FetchPartition) {
	countAt := len(e.buf)
	e.buf = append(e.buf, 0)
	if p.divergingSet() {
		e.buf[countAt]++
		e.buf = append(e.buf, 0, divergingSize)
		e.int32(p.DivergingEpoch.Epoch)
		e.int64(p.DivergingEpoch.EndOffset)
		e.buf = append(e.buf, 0)
	}
	if p.leaderSet() {
		e.buf[countAt]++
		e.buf = append(e.buf, 1, leaderSize)
		e.int32(p.CurrentLeader.LeaderID)
		e.int32(p.CurrentLeader.Epoch)
		e.buf = append(e.buf, 0)
	}
	if p.snapshotSet() {
		e.buf[countAt]++
		e.buf = append(e.buf, 2, snapshotSize)
		e.int64(p.SnapshotID.EndOffset)
		e.int32(p.SnapshotID.Epoch)
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) endpoints(r *FetchResponse) {
	size := r.endpointsSize()
	if size == 0 {
		e.buf = append(e.buf, 0)
		return
	}
	e.buf = append(e.buf, 1, 0) // one tagged field, number 0
	e.uvarint(uint64(size))
	e.len(len(r.NodeEndpoints))
	for _, n := range r.NodeEndpoints {
		e.int32(n.NodeID)
		e.string(n.Host)
		e.int32(n.Port)
		if n.Rack == nil {
			e.uvarint(0)
		} else {
			e.string(*n.Rack)
		}
		e.buf = append(e.buf, 0)
	}
}

func (e *fetchEncoder) int16(v int16)    { e.buf = binary.BigEndian.AppendUint16(e.buf, uint16(v)) }
func (e *fetchEncoder) int32(v int32)    { e.buf = binary.BigEndian.AppendUint32(e.buf, uint32(v)) }
func (e *fetchEncoder) int64(v int64)    { e.buf = binary.BigEndian.AppendUint64(e.buf, uint64(v)) }
func (e *fetchEncoder) uvarint(v uint64) { e.buf = binary.AppendUvarint(e.buf, v) }

// len appends the length of an array.
func (e *fetchEncoder) len(n int) {
	if e.flexible {
		e.uvarint(uint64(n) + 1)
	} else {
		e.int32(int32(n))
	}
}

func (e *fetchEncoder) string(s string) {
	if e.flexible {
		e.uvarint(uint64(len(s)) + 1)
	} else {
		e.int16(int16(len(s)))
	}
	e.buf = append(e.buf, s...)
}

func uvarintSize(v uint64) int64 { return int64(bits.Len64(v|1)+6) / 7 }

func lenSize(n int, flexible bool) int64 {
	if flexible {
		return uvarintSize(uint64(n) + 1)
	}
	return 4
}

func nullSize(flexible bool) int64 {
	if flexible {
		return 1
	}
	return 4
}

func stringSize(s string, flexible bool) int64 {
	if flexible {
		return uvarintSize(uint64(len(s))+1) + int64(len(s))
	}
	return 2 + int64(len(s))
}
