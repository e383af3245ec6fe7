package commitlog

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// ErrCompactionMoot ends a compaction whose segments were truncated or deleted meanwhile. Nothing is lost by it.
var ErrCompactionMoot = errors.New("segments have changed during their compaction")

// CompactOptions says how Compact works.
type CompactOptions struct {
	// FirstDirty is where the last compaction has ended: each key has at most one record below. The log start if unknown.
	FirstDirty kafka.Offset
	Now        time.Time
	MapBytes   int64   // memory for the map of keys
	MapLoad    float64 // how full it may get, of (0, 1]
	// BufferBytes is how much is read and written at once.
	BufferBytes int
	// Pace is told of bytes read or written. It may wait, and its error ends the compaction. No lock is held.
	Pace func(bytes int) error
}

// Compacted tells what Compact has done.
type Compacted struct {
	FirstDirty                kafka.Offset // where the next compaction begins
	Full                      bool         // the map could not take all keys: there is more to do
	ReadBytes, WrittenBytes   int64
	RecordsRead, RecordsKept  int64
	SegmentsRead, SegmentsNew int // those that stay as they are count in neither
}

// Compact leaves, of the records that it can look at (see Compactable), only the last of each key, and of tombstones only
// those younger than delete.retention.ms. Offsets stay. It writes new segments beside the old ones, several small ones
// becoming one, and puts them in their place. Appends and reads go on meanwhile. If not all keys fit into the map,
// FirstDirty of the answer lies before the end of what can be compacted, and another call goes on from there.
//
// The last batch of each producer stays, empty if need be, so that its sequence numbers stay known; and so does the last
// batch of each segment, because recovery takes a gap before the next segment for a lost end.
//
// After an error the log is as before, or has failed; ErrCompactionMoot and errors of Pace are no failures. A batch that is
// damaged is CORRUPT_MESSAGE: the log can not be compacted. One call at a time; the folder must not be renamed meanwhile.
func (l *Log) Compact(o CompactOptions) (Compacted, error) {
	if !l.compacting.CompareAndSwap(false, true) {
		return Compacted{FirstDirty: o.FirstDirty}, ErrCompactionMoot
	}
	defer l.compacting.Store(false)
	c := &compaction{l: l, o: o, nowMs: o.Now.UnixMilli()}
	c.done.FirstDirty = o.FirstDirty
	cuts := l.cuts()
	err := c.run()
	if errors.Is(err, errGone) || errors.Is(err, batch.ErrCorrupt) && cuts != l.cuts() { // cut off under the reader
		err = ErrCompactionMoot
	}
	if err != nil {
		return c.done, fmt.Errorf("compact %s: %w", l.tp, err)
	}
	return c.done, nil
}

// compaction is one call of Compact.
type compaction struct {
	l      *Log
	o      CompactOptions
	nowMs  int64
	cfg    Config
	dir    string
	done   Compacted
	unpaid int // bytes that Pace has not heard of

	from   kafka.Offset // first dirty offset
	views  []view       // segments to compact, from the first of the log on
	keys   *keyMap
	latest kafka.Offset // the map knows all keys of records in [from, latest]
	txns   *txnWalk
	last   map[int64]lastBatch // by producer
	w      *window
}

// lastBatch is what has to stay of a producer.
type lastBatch struct {
	offset kafka.Offset // its last batch's last offset, -1 if it has only a marker
	epoch  int16
}

func (c *compaction) run() error {
	todo, err := c.l.Compactable(c.o.FirstDirty, c.o.Now)
	if err == nil {
		c.done.FirstDirty = todo.FirstDirty
	}
	if err != nil || todo.DirtyBytes == 0 && todo.End == todo.FirstDirty {
		return err
	}
	c.from, c.latest = todo.FirstDirty, todo.FirstDirty-1
	if err := c.begin(todo.End); err != nil || len(c.views) == 0 {
		return err
	}
	c.w = c.l.files.window()
	defer c.l.files.release(c.w)
	c.keys = newKeyMap(c.o.MapBytes, c.o.MapLoad, todo.End-todo.FirstDirty)
	if err := c.mapKeys(); err != nil {
		return err
	}
	if err := c.findTxns(c.views[0].base); err != nil {
		return err
	}
	n := 0
	for n < len(c.views) && c.views[n].base <= c.latest {
		n++
	}
	for _, group := range groupSegments(c.views[:n], &c.cfg) {
		if err := c.compactGroup(group); err != nil {
			return err
		}
	}
	c.done.FirstDirty = c.latest + 1
	return c.pace(0)
}

// begin takes what the compaction needs of the log's state.
func (c *compaction) begin(end kafka.Offset) error {
	l := c.l
	l.mu.Lock()
	c.cfg, c.dir = *l.cfg(), l.dir
	for i := range l.sealed {
		if l.sealed[i].next <= end {
			c.views = append(c.views, l.sealed[i])
		}
	}
	c.last = make(map[int64]lastBatch, len(l.producers.byID))
	for id, p := range l.producers.byID {
		last, _ := p.last()
		c.last[id] = lastBatch{offset: last.lastOffset, epoch: p.epoch}
	}
	err := l.usableLocked()
	l.mu.Unlock()
	if err != nil {
		return err
	}
	// What an earlier compaction could not remove would make recovery take the files of this one for incomplete.
	entries, err := l.fs.List(c.dir)
	for _, e := range entries {
		if err == nil && strings.HasSuffix(e.Name, cleanedSuffix) {
			err = l.fs.Remove(filepath.Join(c.dir, e.Name))
		}
	}
	return err
}

// findTxns prepares the walk over the transactions from an offset on.
func (c *compaction) findTxns(from kafka.Offset) error {
	aborted, err := c.l.AbortedTxns(from, c.views[len(c.views)-1].next)
	c.txns = newTxnWalk(aborted)
	return err
}

// each calls f for the batches of a segment from a position on, with the position at which each ends. A batch is good
// until f returns.
func (c *compaction) each(v *view, pos int64, f func(b batch.Batch, end int64) (bool, error)) error {
	h, err := v.log.pin()
	if err != nil {
		return err
	}
	defer v.log.unpin()
	s := scanner{f: h, pos: pos, end: v.size, chunk: c.o.BufferBytes}
	for s.pos < s.end {
		b, err := s.next()
		if err == nil {
			err = b.VerifyCRC() // what is written anew gets a CRC that holds
		}
		if errors.Is(err, batch.ErrShort) {
			err = batch.ErrCorrupt
		}
		if err != nil {
			return fmt.Errorf("%s at position %d: %w", v.log.name(), s.pos, err)
		}
		c.done.ReadBytes += int64(len(b))
		if err := c.pace(len(b)); err != nil {
			return err
		}
		if more, err := f(b, s.pos); err != nil || !more {
			return err
		}
	}
	return nil
}

// pace tells Pace of bytes, many at once. 0 tells the rest.
func (c *compaction) pace(bytes int) error {
	c.unpaid += bytes
	if c.unpaid < c.o.BufferBytes && bytes > 0 {
		return nil
	}
	bytes, c.unpaid = c.unpaid, 0
	return c.o.Pace(bytes)
}

// mapKeys notes the latest offset of each key from c.from on, as far as the map takes them.
func (c *compaction) mapKeys() error {
	if err := c.findTxns(c.from); err != nil {
		return err
	}
	for i := range c.views {
		v := &c.views[i]
		if v.next <= c.from {
			continue
		}
		p, found, err := v.locate(c.w, c.from)
		if err != nil {
			return err
		}
		if found {
			err = c.each(v, p.pos, func(b batch.Batch, _ int64) (bool, error) { return c.mapBatch(b) })
			if err != nil {
				return err
			}
		}
		if c.done.Full {
			return nil
		}
		c.latest = v.next - 1
	}
	return nil
}

// mapBatch reports false when the map is full.
func (c *compaction) mapBatch(b batch.Batch) (more bool, err error) {
	drop, err := c.txns.pass(b)
	if err != nil && !unreadable(err) {
		return false, err
	}
	if drop || b.Control() {
		c.latest = max(c.latest, b.LastOffset())
		return true, nil
	}
	err = b.EachKey(func(offset kafka.Offset, key []byte, _ bool) bool {
		if key != nil && offset >= c.from && !c.keys.put(key, offset) {
			c.latest, c.done.Full = offset-1, true
			return false
		}
		return true
	})
	if err != nil && !unreadable(err) {
		return false, err
	}
	if !c.done.Full {
		c.latest = max(c.latest, b.LastOffset())
	}
	return !c.done.Full, nil
}

// unreadable tells whether an error is of records that no reader understands although their CRC holds: a producer made
// them so. Their batch stays as it is.
func unreadable(err error) bool {
	return errors.Is(err, kerr.InvalidRecord) || errors.Is(err, kerr.UnsupportedCompressionType)
}
