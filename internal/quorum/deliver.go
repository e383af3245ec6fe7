package quorum

import (
	"fmt"
	"path/filepath"
	"time"

	"moldau/internal/batch"
	"moldau/internal/invariant"
	"moldau/internal/kafka"
)

// event is a change of leadership that the Listener has not heard of yet.
type event struct {
	lead  bool
	epoch kafka.Epoch
	after kafka.Offset // to be told when everything below has been delivered
}

// deliver is the apply goroutine. It reads what is committed back from the log, so that a restart and a running node go the
// same way, and a slow Listener holds no memory and no vote.
func (q *Quorum) deliver() {
	interval := newInterval(q.o.SnapshotIntervalMs)
	defer interval.stop()
	for {
		q.tellEvents()
		more, era := q.outstanding()
		interval.startOver(era)
		if more {
			err := q.deliverReplacement()
			if err == nil {
				err = q.deliverBatches()
			}
			if err != nil && !q.isReplaced() {
				q.fail(err)
			}
			continue
		}
		elapsed := false
		select {
		case <-q.stop:
		case <-q.failed:
		case <-q.applyWake:
		case <-interval.elapsed():
			elapsed = true
		}
		// The select takes any of what has come together; what is done about it has an order.
		if q.over() {
			q.tellEvents()
			return
		}
		if elapsed || interval.hasElapsed() {
			q.mu.Lock()
			q.overdue = true
			q.wishSnapshotLocked()
			q.mu.Unlock()
		}
	}
}

func (q *Quorum) deliverSnapshot() error {
	newest := q.store.newestSnapshot()
	records := snapshotRecords(q.store.fs, filepath.Join(q.store.dir, newest.id.file()))
	if err := q.o.Listener.Snapshot(newest.id, newest.timestamp, records); err != nil {
		return fmt.Errorf("load metadata snapshot %v: %w", newest.id, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delivered = newest.id.EndOffset
	covered := 0
	for covered < len(q.inflight) && q.inflight[covered].last < q.delivered {
		covered++ // committed, and part of the state that the Listener has just had
	}
	q.releaseLocked(q.inflight[:covered], nil)
	q.inflight = q.inflight[covered:]
	return nil
}

// deliverReplacement hands the Listener the state of the snapshot that this run starts from, or of one that came in.
func (q *Quorum) deliverReplacement() (err error) {
	q.mu.Lock()
	due := q.replaced && !q.installing
	if due {
		q.replaced = false
	}
	q.mu.Unlock()
	if due {
		err = q.deliverSnapshot()
	}
	return err
}

// tellEvents tells the Listener of changes of leadership that are due.
func (q *Quorum) tellEvents() {
	for {
		q.mu.Lock()
		if len(q.events) == 0 || q.events[0].after > q.delivered {
			q.mu.Unlock()
			return
		}
		e := q.events[0]
		q.events = q.events[1:]
		q.mu.Unlock()
		if e.lead {
			q.o.Listener.Lead(e.epoch)
		} else {
			q.o.Listener.Resign(e.epoch)
		}
	}
}

// outstanding reports whether there is something to deliver, and counts the snapshots taken so far.
func (q *Quorum) outstanding() (more bool, era int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err == nil && !q.stopped && !q.installing && (q.replaced || q.delivered < q.highWatermark), q.snapshotEra
}

// isReplaced tells whether a snapshot has taken the place of the log that was being read.
func (q *Quorum) isReplaced() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.installing || q.replaced
}

// deliverBatches delivers some committed batches, and events between them.
func (q *Quorum) deliverBatches() error {
	q.mu.Lock()
	from, to := q.delivered, q.highWatermark
	if q.installing || from >= to {
		to = from
	}
	q.mu.Unlock()
	if from == to {
		return nil
	}
	chunk, err := q.store.read(from, to, 1<<20)
	for err == nil && len(chunk) > 0 {
		var b batch.Batch
		if b, chunk, err = batch.Next(chunk); err == nil {
			err = q.deliverBatch(b)
		}
	}
	if err != nil {
		return fmt.Errorf("deliver metadata from offset %d: %w", from, err)
	}
	return nil
}

func (q *Quorum) deliverBatch(b batch.Batch) error {
	if !b.Control() {
		records := make([][]byte, 0, b.Count())
		err := b.Each(func(r batch.Record) error {
			records = append(records, r.Value)
			return nil
		})
		if err != nil {
			return err
		}
		if err := q.o.Listener.Commit(b.BaseOffset(), b.LeaderEpoch(), b.MaxTimestamp(), records); err != nil {
			return err
		}
	}
	q.deliveredBatch(b)
	q.tellEvents()
	return nil
}

// deliveredBatch releases who waited for the batch, and asks for a snapshot when there is enough for one.
func (q *Quorum) deliveredBatch(b batch.Batch) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delivered = b.NextOffset()
	released := 0
	for released < len(q.inflight) && q.inflight[released].last < q.delivered {
		invariant.Check(q.inflight[released].last == b.LastOffset(), "offset %d was promised to a proposal, offsets %d to %d are one batch",
			q.inflight[released].last, b.BaseOffset(), b.LastOffset())
		released++
	}
	q.releaseLocked(q.inflight[:released], nil)
	q.inflight = q.inflight[released:]
	if !b.Control() {
		q.sinceSnapshot += int64(b.Size())
	}
	q.wishSnapshotLocked()
}

// interval is a timer that starts over with every snapshot. Without an interval it never elapses.
type interval struct {
	length time.Duration
	timer  *time.Timer
	era    int
}

func newInterval(ms int64) *interval {
	i := &interval{length: time.Duration(ms) * time.Millisecond}
	if ms > 0 {
		i.timer = time.NewTimer(i.length)
	}
	return i
}

func (i *interval) elapsed() <-chan time.Time {
	if i.timer == nil {
		return nil
	}
	return i.timer.C
}

// hasElapsed tells, without waiting, what elapsed delivers.
func (i *interval) hasElapsed() bool {
	select {
	case <-i.elapsed():
		return true
	default:
		return false
	}
}

// startOver starts a new interval if a snapshot was taken since the last call.
func (i *interval) startOver(era int) {
	if i.timer != nil && era != i.era {
		i.era = era
		i.timer.Reset(i.length)
	}
}

func (i *interval) stop() {
	if i.timer != nil {
		i.timer.Stop()
	}
}
