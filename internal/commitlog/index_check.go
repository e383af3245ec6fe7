package commitlog

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// indexCheck follows the batches of a segment and compares its index files with them, for Scrub and Verify.
type indexCheck struct {
	base                 kafka.Offset
	offsets, times, txns indexEntries
	end                  int64          // position behind the last batch
	holed                bool           // batches are missing, so that entries may be without theirs, and which are missing is not known
	newest, lastTime     int64          // largest timestamp of the batches so far, and of the entries
	open                 map[int64]bool // producers with records of a transaction in this segment
}

// indexEntries are the entries of one file that the walk has not come to.
type indexEntries struct {
	left  []byte
	width int
	at    func(entry []byte) kafka.Offset // the last offset of the batch that an entry is of, or one inside of it
	met   int                             // entries before left
	fault string                          // what is wrong with the file, "" if nothing is so far
}

// newIndexCheck begins a walk; the files' contents are the caller's to set.
func newIndexCheck(base kafka.Offset) *indexCheck {
	return &indexCheck{
		base: base, newest: batch.NoTimestamp, lastTime: batch.NoTimestamp, open: map[int64]bool{},
		offsets: indexEntries{width: offsetWidth, at: func(e []byte) kafka.Offset { return entryOffset(e, base) }},
		times:   indexEntries{width: timeWidth, at: func(e []byte) kafka.Offset { return entryTimeOffset(e, base) }},
		txns:    indexEntries{width: txnWidth, at: func(e []byte) kafka.Offset { return int64(binary.BigEndian.Uint64(e[18:])) }},
	}
}

// pass moves past one batch.
func (x *indexCheck) pass(b batch.Batch, pos int64) {
	if pos != x.end {
		x.holed = true
		x.offsets.skip(b.BaseOffset())
		x.times.skip(b.BaseOffset())
		x.txns.skip(b.BaseOffset())
	}
	x.end = pos + int64(len(b))
	if b.Count() > 0 {
		x.newest = max(x.newest, b.MaxTimestamp())
	}
	if e := x.offsets.next(b.LastOffset()); e != nil {
		x.offsets.take(x.offsets.at(e) == b.LastOffset() && entryPosition(e) == pos && pos > 0)
	}
	if e := x.times.next(b.LastOffset()); e != nil {
		x.lastTime = entryTimestamp(e)
		x.times.take(x.times.at(e) >= b.BaseOffset() && x.lastTime == b.MaxTimestamp())
	}
	x.passTxn(b)
}

// passTxn is pass for the transaction index alone. Of a control batch it needs all, of others the header.
func (x *indexCheck) passTxn(b batch.Batch) {
	if !b.Control() {
		if b.Transactional() && b.Count() > 0 {
			x.open[b.ProducerID()] = true
		}
		return
	}
	m, err := endMarker(b)
	if err != nil || m == nil {
		return
	}
	began := x.open[b.ProducerID()]
	delete(x.open, b.ProducerID())
	if m.commit {
		return
	}
	if e := x.txns.next(b.BaseOffset()); e != nil {
		t, err := parseAbortedTxn(e)
		x.txns.take(err == nil && t.LastOffset == b.BaseOffset() && t.ProducerID == b.ProducerID() && t.FirstOffset < t.LastOffset)
	} else if began {
		x.txns.wrong("lacks the transaction that ends at offset %d", b.BaseOffset())
	}
}

// finish ends the walk at the end of a segment of so many bytes. What is left of the entries belongs to no batch.
func (x *indexCheck) finish(size int64) {
	if x.end != size {
		x.holed = true
	}
	for _, e := range []*indexEntries{&x.offsets, &x.times, &x.txns} {
		switch {
		case len(e.left) == 0 || x.holed:
		case len(e.left) < e.width:
			e.wrong("ends inside entry %d", e.met)
		default:
			e.wrong("entry %d does not belong to the log", e.met)
		}
	}
}

// wantsNewest makes it a fault that the entries end before the largest timestamp, which a sealed segment's last one has.
func (x *indexCheck) wantsNewest() {
	if !x.holed && x.lastTime < x.newest {
		x.times.wrong("ends with timestamp %d, the log goes up to %d", x.lastTime, x.newest)
	}
}

// bytes is how much is left of the files.
func (x *indexCheck) bytes() int { return len(x.offsets.left) + len(x.times.left) + len(x.txns.left) }

func (x *indexCheck) wrong() bool {
	return x.offsets.fault != "" || x.times.fault != "" || x.txns.fault != ""
}

// next returns the first entry that is left if it is of an offset up to last, else nil.
func (e *indexEntries) next(last kafka.Offset) []byte {
	if e.fault != "" || len(e.left) < e.width || e.at(e.left) > last {
		return nil
	}
	return e.left[:e.width]
}

// take moves past the first entry, if it is good.
func (e *indexEntries) take(good bool) {
	if !good {
		e.wrong("entry %d does not belong to the log", e.met)
		return
	}
	e.left, e.met = e.left[e.width:], e.met+1
}

// skip moves past the entries below an offset.
func (e *indexEntries) skip(below kafka.Offset) {
	for e.next(below-1) != nil {
		e.take(true)
	}
}

func (e *indexEntries) wrong(format string, args ...any) {
	if e.fault == "" {
		e.fault = fmt.Sprintf(format, args...)
	}
}

// trim takes off the zeros that the files of an active segment end with until a clean stop.
func (e *indexEntries) trim() {
	n := len(bytes.TrimRight(e.left, "\x00"))
	e.left = e.left[:min(len(e.left), (n+e.width-1)/e.width*e.width)]
}
