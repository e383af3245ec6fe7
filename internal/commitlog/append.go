package commitlog

import (
	"errors"
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// ErrUnexpectedOffset says that fetched batches do not follow the log end. It is a CORRUPT_MESSAGE: what the leader sent is at fault,
// no disk here.
var ErrUnexpectedOffset = fmt.Errorf("batch does not follow the log end: %w", kerr.CorruptMessage)

// AppendOptions goes with an append by the leader.
type AppendOptions struct {
	LeaderEpoch kafka.Epoch // written into every batch
	Now         int64       // ms; becomes the timestamp of topics with log append time. 0 = the log's clock
}

// Appended tells where an append landed.
type Appended struct {
	First, Last   kafka.Offset // First is Last + 1 if there was nothing to append
	LogAppendTime int64        // ms, -1 if the records keep their own timestamps
	LogStart      kafka.Offset
	Duplicate     bool // the same batch was appended before: First and Last are from then
	Bytes         int  // written by this call
}

// Append assigns offsets and the leader epoch to verified batches, in place, and writes them behind the log end in one
// write; they are not durable before Sync. On an error nothing was appended. The Kafka errors are
// OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED,
// RECORD_LIST_TOO_LARGE (more than segment.bytes) and KAFKA_STORAGE_ERROR (the log has failed).
func (l *Log) Append(b []byte, o AppendOptions) (Appended, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return Appended{}, err
	}
	if o.Now == 0 {
		o.Now = l.now().UnixMilli()
	}
	done := Appended{First: l.logEnd, Last: l.logEnd - 1, LogAppendTime: -1, LogStart: l.logStart}
	if len(b) > l.cfg().SegmentBytes {
		return done, fmt.Errorf("%d bytes are more than segment.bytes, %d: %w", len(b), l.cfg().SegmentBytes, kerr.RecordListTooLarge)
	}
	if old, known, err := l.checkProducersLocked(b); err != nil {
		return done, fmt.Errorf("append to %s: %w", l.tp, err)
	} else if known {
		done.First, done.Last, done.Duplicate = old.lastOffset-int64(old.offsetDelta), old.lastOffset, true
		if l.cfg().TimestampTypeAppend {
			done.LogAppendTime = old.timestamp
		}
		return done, nil
	}
	next := l.logEnd
	for rest := b; len(rest) > 0; {
		bt, after, err := batch.Next(rest)
		if err != nil {
			return done, fmt.Errorf("append to %s: %w", l.tp, err)
		}
		bt.Assign(next, o.LeaderEpoch)
		if l.cfg().TimestampTypeAppend && !bt.Control() {
			bt.SetAppendTime(o.Now)
			done.LogAppendTime = o.Now
		}
		next, rest = bt.NextOffset(), after
	}
	written, err := l.appendRunsLocked(b, o.Now)
	done.Bytes = written
	if err != nil {
		return done, fmt.Errorf("append to %s: %w", l.tp, err)
	}
	done.Last = l.logEnd - 1
	return done, nil
}

// AppendFetched writes batches that have their offsets and epochs already: a follower's and the metadata log's append. It
// verifies their CRCs. Offsets must grow from the log end on and may leave gaps, as compaction does; ErrUnexpectedOffset
// otherwise. On an error a part of the batches may have been appended: see Bytes and LogEnd. Those before a damaged one are, so that a
// follower then asks for that one by its offset, and the leader sees the damage too.
func (l *Log) AppendFetched(b []byte) (Appended, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	done := Appended{First: l.logEnd, Last: l.logEnd - 1, LogAppendTime: -1, LogStart: l.logStart}
	if err := l.usableLocked(); err != nil {
		return done, err
	}
	next, good, bad := l.logEnd, 0, error(nil)
	for rest := b; len(rest) > 0; good = len(b) - len(rest) {
		bt, after, err := batch.Next(rest)
		if err == nil {
			err = bt.VerifyCRC()
		}
		if err == nil && (bt.BaseOffset() < next || bt.LastOffsetDelta() < 0) {
			err = fmt.Errorf("batch of offsets %d to %d where %d is next: %w", bt.BaseOffset(), bt.LastOffset(), next, ErrUnexpectedOffset)
			good = 0 // offsets have no CRC: it may be the batch before that lies
		}
		if err != nil {
			bad = err
			break
		}
		if len(rest) == len(b) {
			done.First = bt.BaseOffset()
		}
		next, rest = bt.NextOffset(), after
	}
	written, err := l.appendRunsLocked(b[:good], l.now().UnixMilli())
	done.Bytes, done.Last = written, l.logEnd-1
	if err == nil {
		err = bad
	}
	if err != nil {
		return done, fmt.Errorf("append fetched batches to %s: %w", l.tp, err)
	}
	return done, nil
}

// checkProducersLocked tells whether the producers' sequences allow the batches, or that they were appended before.
// Mirrors UnifiedLog.analyzeAndValidateProducerState.
func (l *Log) checkProducersLocked(b []byte) (old sentBatch, known bool, err error) {
	var earlier []producer // states after earlier batches of this same append
	for rest := b; len(rest) > 0; {
		bt, after, err := batch.Next(rest)
		if err != nil {
			return old, false, err
		}
		rest = after
		id := bt.ProducerID()
		if id < 0 {
			continue
		}
		p := l.producers.get(id)
		for i := range earlier {
			if earlier[i].id == id {
				p = &earlier[i]
			}
		}
		if old, known := p.duplicateOf(bt); known && !bt.Control() {
			return old, true, nil
		}
		if err := p.check(bt); err != nil {
			return old, false, err
		}
		if bt.Control() {
			m, err := endMarker(bt)
			if err == nil {
				err = p.checkMarker(m)
			}
			if err != nil {
				return old, false, err
			}
		}
		if len(rest) > 0 { // rare: clients send one batch
			var after producers
			if p != nil {
				after.byID = map[int64]*producer{id: new(*p)}
			}
			after.apply(bt, nil, 0)
			if q := after.get(id); q != nil {
				earlier = append(earlier, *q)
			}
		}
	}
	return old, false, nil
}

// appendRunsLocked writes batches in runs: as many as one segment takes, and each transaction marker for itself, because
// its effect depends on all before it. It returns how many bytes were written.
func (l *Log) appendRunsLocked(b []byte, nowMs int64) (written int, err error) {
	for len(b) > 0 {
		run, err := l.cutRunLocked(b)
		if err == nil {
			err = l.appendRunLocked(run, nowMs)
		}
		if err != nil {
			return written, err
		}
		written += len(run.bytes)
		b = b[len(run.bytes):]
	}
	return written, nil
}

// run is what one write appends.
type run struct {
	bytes        []byte
	first        kafka.Offset // base offset of the first batch
	last         kafka.Offset // last offset of the last batch
	maxTimestamp int64
	marker       *marker // of the only batch
	markerBatch  bool
}

func (l *Log) cutRunLocked(b []byte) (run, error) {
	r := run{maxTimestamp: math.MinInt64}
	n := 0
	for rest := b; len(rest) > 0; {
		bt, after, err := batch.Next(rest)
		if err != nil {
			return r, err
		}
		markerBatch := bt.Control() && bt.ProducerID() >= 0
		if n > 0 && (markerBatch || n+bt.Size() > l.cfg().SegmentBytes || bt.LastOffset()-r.first > math.MaxInt32) {
			break
		}
		if n == 0 {
			r.first = bt.BaseOffset()
		}
		if markerBatch {
			if r.marker, err = endMarker(bt); err != nil {
				return r, err
			}
		}
		n += bt.Size()
		r.last, r.maxTimestamp, r.markerBatch = bt.LastOffset(), max(r.maxTimestamp, bt.MaxTimestamp()), markerBatch
		rest = after
		if markerBatch {
			break
		}
	}
	r.bytes = b[:n:n]
	return r, nil
}

// appendRunLocked writes one run. All that can fail comes before the log end moves, and leaves the log as it was.
func (l *Log) appendRunLocked(r run, nowMs int64) error {
	if l.rollDueLocked(r, nowMs) {
		base := l.logEnd
		if r.last-base > math.MaxInt32 {
			base = r.first // behind a gap that no index entry could bridge
		}
		if err := l.rollLocked(base); err != nil {
			return err
		}
	}
	a := l.active
	a.unseal()
	if err := l.flushIndexes(a, indexGroup); err != nil {
		return err
	}
	aborted := 0
	if r.marker != nil {
		if t, aborts := l.producers.aborts(batch.Batch(r.bytes), r.marker); aborts {
			if err := a.abort(t); err != nil {
				return err
			}
			l.names++
			aborted = 1
		}
	}
	if !a.allocated {
		a.log.reserveAhead(a.size, a.size+int64(len(r.bytes)), int64(l.cfg().SegmentBytes))
	}
	if err := a.log.writeAt(r.bytes, a.size); err != nil {
		return l.unwriteLocked(err)
	}
	a.view.aborted += aborted
	for rest := r.bytes; len(rest) > 0; {
		bt, after, err := batch.Next(rest)
		if err != nil {
			return l.fail(err) // cutRunLocked has seen the same bytes: somebody changed them meanwhile
		}
		l.takeLocked(a, bt, bt.Size(), r.marker, nowMs)
		rest = after
	}
	l.appended.Add(int64(len(r.bytes)))
	l.sinceRecovery += int64(len(r.bytes))
	if n := len(l.unsynced); n == 0 || l.unsynced[n-1] != a.log {
		l.unsynced = append(l.unsynced, a.log)
	}
	l.producers.passed(l.deletionBound.Load())
	l.publishLocked()
	return nil
}

// takeLocked moves everything that follows from the batches of the log past one more batch: indexes, epochs, producers
// and the log end. Appends and recovery both come through here.
func (l *Log) takeLocked(a *active, b batch.Batch, sizeBytes int, m *marker, nowMs int64) {
	l.note(a, b, sizeBytes)
	if epoch := b.LeaderEpoch(); epoch != l.epochs.last() || l.epochUnused {
		l.epochs = l.epochs.assign(epoch, b.BaseOffset())
		l.epochsDirty, l.epochUnused = l.epochsDirty || epoch >= 0, false
	}
	l.producers.apply(b, m, nowMs)
	l.logEnd = a.next
}

// unwriteLocked cuts off what a failed write may have left, so that a full disk does no more harm than refuse appends.
func (l *Log) unwriteLocked(cause error) error {
	a := l.active
	size := a.size
	if err := a.log.truncate(size); err != nil {
		return l.fail(errors.Join(cause, err))
	}
	a.allocated = false
	return cause
}

func allocate(size int64) func(vfs.File) error {
	return func(f vfs.File) error { return f.Allocate(size) }
}
