package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// AbortedTxn is a transaction that was aborted: readers of committed records skip the producer's records in
// [FirstOffset, LastOffset], where LastOffset is that of the abort marker.
type AbortedTxn struct {
	ProducerID              int64
	FirstOffset, LastOffset kafka.Offset
	// LastStableOffset is where the last stable offset came to lie when the transaction ended: no record at or after it
	// can be of a transaction that this entry's readers have to know.
	LastStableOffset kafka.Offset
}

// An entry of the transaction index: version 0, then the four fields. Mirrors class AbortedTxn (KIP-98).
const txnWidth = 2 + 4*8

func (t AbortedTxn) encode() []byte {
	b := make([]byte, 2, txnWidth)
	for _, v := range []int64{t.ProducerID, t.FirstOffset, t.LastOffset, t.LastStableOffset} {
		b = binary.BigEndian.AppendUint64(b, uint64(v))
	}
	return b
}

func parseAbortedTxn(b []byte) (AbortedTxn, error) {
	if version := binary.BigEndian.Uint16(b); version != 0 {
		return AbortedTxn{}, fmt.Errorf("transaction index entry has version %d, want 0: %w", version, batch.ErrCorrupt)
	}
	field := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[2+8*i:])) }
	return AbortedTxn{ProducerID: field(0), FirstOffset: field(1), LastOffset: field(2), LastStableOffset: field(3)}, nil
}

// abort writes an entry behind those that the view knows. The view learns of it only when the marker is in the log, so a
// failed append leaves nothing to undo.
func (a *active) abort(t AbortedTxn) error {
	if a.aborted == 0 {
		if err := a.txns.create(); err != nil {
			return err
		}
	}
	return a.txns.writeAt(t.encode(), int64(a.aborted)*txnWidth)
}

// abortedTxns returns all entries of the segment.
func (v *view) abortedTxns() ([]AbortedTxn, error) {
	if v.aborted == 0 {
		return nil, nil
	}
	h, err := v.txns.pin()
	if err != nil {
		return nil, err
	}
	defer v.txns.unpin()
	b := make([]byte, v.aborted*txnWidth)
	if _, err := h.ReadAt(b, 0); err != nil {
		return nil, fmt.Errorf("read %s: %w", v.txns.name(), err)
	}
	all := make([]AbortedTxn, v.aborted)
	for i := range all {
		if all[i], err = parseAbortedTxn(b[i*txnWidth:]); err != nil {
			return nil, fmt.Errorf("%s: %w", v.txns.name(), err)
		}
	}
	return all, nil
}

// repairedTxns returns the entries of a segment, or reports false after it has made a damaged index anew: the bounds are
// others then.
func (l *Log) repairedTxns(v *view, sealed bool) (all []AbortedTxn, good bool, err error) {
	all, err = v.abortedTxns()
	belongs := false
	if err == nil {
		belongs, err = l.txnsBelong(v, sealed)
	}
	if belongs || err != nil && !errors.Is(err, batch.ErrCorrupt) && !lost(err) {
		return all, true, err
	}
	v.txnsBad.Store(true)
	l.reshape.Lock()
	defer l.reshape.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.usableLocked(); err != nil {
		return nil, false, err
	}
	return nil, false, l.repairLocked()
}

// AbortedTxns returns the aborted transactions that have records in [from, to), in the order in which they ended. A
// consumer of committed records that reads that range has to know them.
func (l *Log) AbortedTxns(from, to kafka.Offset) ([]AbortedTxn, error) {
	var found []AbortedTxn
	b := l.bounds.Load()
	for i := b.floor(from); i <= len(b.sealed); i++ {
		v := b.view(i)
		all, good, err := l.repairedTxns(v, i < len(b.sealed))
		if errors.Is(err, errGone) { // deleted or compacted since the bounds were loaded
			if good, err = false, nil; b == l.bounds.Load() {
				err = errClosed
			}
		}
		if err != nil {
			return nil, fmt.Errorf("aborted transactions of %s: %w", l.tp, err)
		}
		if !good {
			b = l.bounds.Load()
			found, i = nil, b.floor(from)-1
			continue
		}
		for _, t := range all {
			if t.LastOffset >= from && t.FirstOffset < to {
				found = append(found, t)
			}
			if t.LastStableOffset >= to {
				return found, nil // later entries are of transactions that began after to
			}
		}
	}
	return found, nil
}
