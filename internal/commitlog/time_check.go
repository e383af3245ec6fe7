package commitlog

import (
	"errors"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// timed returns the last entry of the time index for which ok holds, none if there is none. An entry that names no batch of
// its timestamp marks the indexes as damaged, and none is returned from then on: all is found without the index too.
func (v *view) timed(w *window, ok func(entry []byte) bool) (found TimestampOffset, any bool, err error) {
	if v.damaged.Load() {
		return found, false, nil
	}
	entry, err := v.time.floor(w, ok)
	if lost(err) {
		v.damaged.Store(true)
		return found, false, nil
	}
	if err != nil || entry == nil {
		return found, false, err
	}
	found = TimestampOffset{Timestamp: entryTimestamp(entry), Offset: entryTimeOffset(entry, v.base), LeaderEpoch: kafka.NoEpoch}
	if len(v.time.tail) > 0 && entryTimeOffset(v.time.tail, v.base) <= found.Offset {
		return found, true, nil // this run made it
	}
	good, err := v.genuine(w, found)
	if err == nil && !good {
		v.damaged.Store(true)
	}
	return found, good, err
}

// genuine tells whether the batch of an offset has records up to the timestamp. Before 3.7 Apache Kafka named a record inside of
// the batch, and it takes the timestamp of one that compaction has emptied for good.
func (v *view) genuine(w *window, t TimestampOffset) (bool, error) {
	if t.Offset < v.base || t.Offset >= v.next {
		return false, nil
	}
	p, found, err := v.locate(w, t.Offset)
	if errors.Is(err, batch.ErrCorrupt) {
		return true, nil // the batch is damaged, not the index
	}
	if err != nil || !found || t.Offset < p.base {
		return false, err
	}
	f, err := v.log.pin()
	if err != nil {
		return false, err
	}
	defer v.log.unpin()
	h, _, err := v.headerAt(w.of(f), p.pos)
	return err == nil && h.MaxTimestamp() == t.Timestamp && h.Count() > 0, err
}

// newest returns the largest timestamp of a sealed segment. The last entry of its time index tells, unless the file has lost
// entries: then a batch that follows the last entry of the offset index is newer, or the whole segment is looked through.
func (v *view) newest(w *window) (TimestampOffset, error) {
	none := TimestampOffset{Timestamp: batch.NoTimestamp, Offset: v.base, LeaderEpoch: kafka.NoEpoch}
	last, any, err := v.timed(w, func([]byte) bool { return true })
	if err != nil {
		return none, err
	}
	if !any {
		last = none
	}
	if v.cold.Load() == 0 && !v.damaged.Load() {
		return last, nil // written, or gone through, by this run
	}
	from := int64(0)
	if any {
		if from, err = v.indexed(w, func([]byte) bool { return true }); err != nil {
			return none, err
		}
	}
	found := last
	err = v.walk(w, from, func(h batch.Batch, _, _ int64) (bool, error) {
		if h.MaxTimestamp() > found.Timestamp && h.Count() > 0 {
			found.Timestamp, found.Offset = h.MaxTimestamp(), h.LastOffset()
		}
		return true, nil
	})
	if err == nil && found != last && any {
		v.damaged.Store(true) // the entries between may be missing too
		return v.newest(w)
	}
	if err == nil && found != last {
		v.damaged.Store(true)
	}
	return found, err
}
