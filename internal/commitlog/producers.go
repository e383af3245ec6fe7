package commitlog

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// duplicateWindow is how many batches of a producer are remembered, to know one that is sent again. It is the number of
// requests that an idempotent producer may have in flight.
const duplicateWindow = 5

const noSequence = -1

// ProducerState is what the log knows of one producer, as DescribeProducers tells it.
type ProducerState struct {
	ProducerID       int64
	ProducerEpoch    int16
	LastSequence     int32        // -1 if no batch is known
	LastOffset       kafka.Offset // of the last batch, -1 if none is known
	LastTimestamp    int64        // ms, of the last batch or marker; -1 if unknown
	CoordinatorEpoch int32        // of the last transaction marker, -1 if there was none
	TxnStart         kafka.Offset // first offset of the open transaction, -1 if there is none
}

// sentBatch is one batch of a producer.
type sentBatch struct {
	lastOffset   kafka.Offset
	timestamp    int64
	lastSequence int32
	offsetDelta  int32
}

func (b sentBatch) firstSequence() int32 { return (b.lastSequence - b.offsetDelta) & 0x7fffffff }

// producer is the state of one producer id. Mirrors ProducerStateEntry.
type producer struct {
	id               int64
	epoch            int16
	coordinatorEpoch int32
	lastTimestamp    int64
	seenMs           int64 // wall time of the last append, or of the opening of the log
	txnStart         kafka.Offset
	sent             [duplicateWindow]sentBatch // oldest first
	known            int                        // how many of them there are
}

func (p *producer) last() (sentBatch, bool) {
	if p.known == 0 {
		return sentBatch{lastSequence: noSequence, lastOffset: -1}, false
	}
	return p.sent[p.known-1], true
}

func (p *producer) setEpoch(epoch int16) {
	if p.epoch != epoch {
		p.epoch, p.known = epoch, 0
	}
}

func (p *producer) add(b sentBatch) {
	if p.known == duplicateWindow {
		copy(p.sent[:], p.sent[1:])
		p.known--
	}
	p.sent[p.known] = b
	p.known++
}

// openTxn is a transaction whose end is not in the log.
type openTxn struct {
	first kafka.Offset
	id    int64
}

// endedTxn is a transaction whose marker lies at last.
type endedTxn struct{ first, last kafka.Offset }

// producers is the state of all producers at one offset of the log. The state follows from the batches alone: apply is
// the only way in, for appends and for recovery. Guarded by Log.mu.
type producers struct {
	byID map[int64]*producer
	open []openTxn // by first offset
	// ended are transactions that the high watermark has not passed: until it does, a reader of committed records may
	// not go beyond their start, since their marker may still be lost. The slice is replaced, never changed: Bounds holds it.
	ended []endedTxn
}

func (ps *producers) get(id int64) *producer { return ps.byID[id] }

// duplicateOf returns the remembered batch of the same sequence numbers.
func (p *producer) duplicateOf(b batch.Batch) (sentBatch, bool) {
	if p == nil || p.epoch != b.ProducerEpoch() {
		return sentBatch{}, false
	}
	for _, sent := range p.sent[:p.known] {
		if sent.firstSequence() == b.BaseSequence() && sent.lastSequence == b.LastSequence() {
			return sent, true
		}
	}
	return sentBatch{}, false
}

// check tells whether the leader may append a batch of a producer in state p, nil if it is unknown. Mirrors
// ProducerAppendInfo.
func (p *producer) check(b batch.Batch) error {
	if p == nil {
		return nil // any sequence: its records may all have been deleted
	}
	id, epoch, first := b.ProducerID(), b.ProducerEpoch(), b.BaseSequence()
	if epoch < p.epoch {
		return fmt.Errorf("producer %d has epoch %d, last seen was %d: %w", id, epoch, p.epoch, kerr.InvalidProducerEpoch)
	}
	if b.Control() {
		return nil
	}
	if epoch > p.epoch {
		if first != 0 {
			return fmt.Errorf("producer %d begins epoch %d at sequence %d, want 0: %w", id, epoch, first, kerr.OutOfOrderSequenceNumber)
		}
	} else if last, _ := p.last(); first != last.lastSequence+1 && !(first == 0 && last.lastSequence == 0x7fffffff) {
		return fmt.Errorf("producer %d sent sequence %d after %d: %w", id, first, last.lastSequence, kerr.OutOfOrderSequenceNumber)
	}
	if p.txnStart >= 0 && !b.Transactional() {
		return fmt.Errorf("producer %d wrote outside its open transaction: %w", id, kerr.InvalidTxnState)
	}
	return nil
}

// marker is the end of a transaction as the log shows it.
type marker struct {
	commit           bool
	coordinatorEpoch int32
	timestamp        int64
}

// endMarker reads the transaction marker in a control batch of a producer; nil if it holds none. Compaction may leave the
// batch without its record.
func endMarker(b batch.Batch) (*marker, error) {
	if !b.Control() || b.ProducerID() < 0 {
		return nil, nil
	}
	var m *marker
	err := b.Each(func(r batch.Record) error {
		t, _, err := batch.ParseControl(r)
		if err != nil || m != nil || t != batch.ControlAbort && t != batch.ControlCommit {
			return err
		}
		var end batch.EndTxnMarker
		if err := end.ReadFrom(r.Value); err != nil {
			return err
		}
		m = &marker{commit: t == batch.ControlCommit, coordinatorEpoch: end.CoordinatorEpoch, timestamp: r.Timestamp}
		return nil
	})
	return m, err
}

// checkMarker tells whether the leader may append a marker.
func (p *producer) checkMarker(m *marker) error {
	if p != nil && m != nil && m.coordinatorEpoch < p.coordinatorEpoch {
		return fmt.Errorf("transaction marker for producer %d is of coordinator epoch %d, last seen was %d: %w",
			p.id, m.coordinatorEpoch, p.coordinatorEpoch, kerr.TransactionCoordinatorFenced)
	}
	return nil
}

// aborts returns the transaction index entry that a marker batch calls for, if it aborts a transaction with records here.
func (ps *producers) aborts(b batch.Batch, m *marker) (AbortedTxn, bool) {
	p := ps.get(b.ProducerID())
	if m == nil || m.commit || p == nil || p.txnStart < 0 {
		return AbortedTxn{}, false
	}
	t := AbortedTxn{ProducerID: p.id, FirstOffset: p.txnStart, LastOffset: b.BaseOffset(), LastStableOffset: b.BaseOffset() + 1}
	for _, other := range ps.open {
		if other.id != p.id {
			t.LastStableOffset = other.first
			break
		}
	}
	return t, true
}

// apply moves the state past one batch that is in the log. m is its endMarker.
func (ps *producers) apply(b batch.Batch, m *marker, nowMs int64) {
	id := b.ProducerID()
	if id < 0 || b.Control() && m == nil {
		return
	}
	p := ps.byID[id]
	if p == nil {
		p = &producer{id: id, epoch: b.ProducerEpoch(), coordinatorEpoch: -1, txnStart: -1}
		if ps.byID == nil {
			ps.byID = make(map[int64]*producer)
		}
		ps.byID[id] = p
	}
	p.seenMs = nowMs
	p.setEpoch(b.ProducerEpoch())
	if m != nil {
		if p.txnStart >= 0 {
			ps.end(p, b.BaseOffset())
		}
		p.coordinatorEpoch, p.lastTimestamp = m.coordinatorEpoch, m.timestamp
		return
	}
	p.lastTimestamp = b.MaxTimestamp()
	p.add(sentBatch{
		lastOffset: b.LastOffset(), timestamp: b.MaxTimestamp(), lastSequence: b.LastSequence(), offsetDelta: b.LastOffsetDelta(),
	})
	if b.Transactional() && p.txnStart < 0 {
		p.txnStart = b.BaseOffset()
		ps.open = append(ps.open, openTxn{first: p.txnStart, id: id})
		invariant.Expensive(func() error {
			if !slices.IsSortedFunc(ps.open, func(a, b openTxn) int { return cmp.Compare(a.first, b.first) }) {
				return fmt.Errorf("open transactions are out of order: %v", ps.open)
			}
			return nil
		})
	}
}

func (ps *producers) end(p *producer, last kafka.Offset) {
	ps.open = slices.DeleteFunc(ps.open, func(t openTxn) bool { return t.id == p.id })
	ps.ended = append(slices.Clip(ps.ended), endedTxn{first: p.txnStart, last: last})
	p.txnStart = -1
}

// passed forgets the ended transactions below the high watermark.
func (ps *producers) passed(highWatermark kafka.Offset) {
	for _, t := range ps.ended {
		if t.last < highWatermark {
			var left []endedTxn
			for _, t := range ps.ended {
				if t.last >= highWatermark {
					left = append(left, t)
				}
			}
			ps.ended = left
			return
		}
	}
}

// expire forgets producers that appended nothing for so long and have no transaction open. The time is that of the append
// here, not that of the records: a producer of old records is not forgotten while it works (unlike Kafka).
func (ps *producers) expire(nowMs, expiryMs int64) {
	for id, p := range ps.byID {
		if p.txnStart < 0 && nowMs-p.seenMs >= expiryMs {
			delete(ps.byID, id)
		}
	}
}

// sorted returns all producers by id.
func (ps *producers) sorted() []*producer {
	all := make([]*producer, 0, len(ps.byID))
	for _, p := range ps.byID {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *producer) int { return cmp.Compare(a.id, b.id) })
	return all
}

// Producers returns the producers that the log remembers, by id.
func (l *Log) Producers() []ProducerState {
	l.mu.Lock()
	defer l.mu.Unlock()
	var states []ProducerState
	for _, p := range l.producers.sorted() {
		last, _ := p.last()
		states = append(states, ProducerState{
			ProducerID: p.id, ProducerEpoch: p.epoch, LastSequence: last.lastSequence, LastOffset: last.lastOffset,
			LastTimestamp: p.lastTimestamp, CoordinatorEpoch: p.coordinatorEpoch, TxnStart: p.txnStart,
		})
	}
	return states
}

// SetProducerExpiry changes Options.ProducerExpiryMs.
func (l *Log) SetProducerExpiry(ms int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expiryMs = ms
}

// ExpireProducers forgets producers that have not appended for Options.ProducerExpiryMs.
func (l *Log) ExpireProducers(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expiryMs > 0 {
		l.producers.expire(now.UnixMilli(), l.expiryMs)
	}
}
