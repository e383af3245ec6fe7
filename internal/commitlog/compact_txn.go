package commitlog

import (
	"cmp"
	"slices"

	"moldau/internal/batch"
)

// txnWalk follows the transactions while compaction passes the batches of the log in order, and tells which batches are of
// aborted ones and which markers are no longer needed. Mirrors CleanedTransactionMetadata.
type txnWalk struct {
	coming    []AbortedTxn         // by first offset: those that the walk has not reached
	aborted   map[int64]*txnPassed // by producer: those that it is inside of
	committed map[int64]bool       // producers with batches since their last marker, of transactions that were not aborted
	kept      []AbortedTxn         // whose batches and marker stay, in the order of the markers; the caller takes them
}

type txnPassed struct {
	txn   AbortedTxn
	batch bool // one of its batches was seen
}

func newTxnWalk(aborted []AbortedTxn) *txnWalk {
	aborted = slices.Clone(aborted)
	slices.SortStableFunc(aborted, func(a, b AbortedTxn) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) })
	return &txnWalk{coming: aborted, aborted: map[int64]*txnPassed{}, committed: map[int64]bool{}}
}

// pass moves past one batch. drop says that it is not needed: a batch of an aborted transaction, or a marker none of
// whose transaction's batches are left.
func (t *txnWalk) pass(b batch.Batch) (drop bool, err error) {
	if b.ProducerID() < 0 {
		return false, nil
	}
	for len(t.coming) > 0 && t.coming[0].FirstOffset <= b.LastOffset() {
		next := t.coming[0]
		t.coming = t.coming[1:]
		// One whose marker lies before this batch has lost all its own: it would be taken for one that has just begun.
		if t.aborted[next.ProducerID] == nil && next.LastOffset >= b.BaseOffset() {
			t.aborted[next.ProducerID] = &txnPassed{txn: next}
		}
	}
	id := b.ProducerID()
	if b.Control() {
		return t.marker(b)
	}
	if !b.Transactional() {
		return false, nil
	}
	if txn := t.aborted[id]; txn != nil {
		txn.batch = true
		return true, nil
	}
	t.committed[id] = true
	return false, nil
}

func (t *txnWalk) marker(b batch.Batch) (drop bool, err error) {
	id := b.ProducerID()
	drop = true // a marker without its record was dropped before, and stays only for its producer
	err = b.Each(func(r batch.Record) error {
		kind, _, err := batch.ParseControl(r)
		if err != nil {
			return err
		}
		switch kind {
		case batch.ControlAbort:
			txn := t.aborted[id]
			delete(t.aborted, id)
			if txn != nil && txn.batch {
				t.kept = append(t.kept, txn.txn)
				drop = false
			}
		case batch.ControlCommit:
			drop = !t.committed[id]
			delete(t.committed, id)
		default:
			drop = false
		}
		return nil
	})
	return drop && err == nil, err
}
