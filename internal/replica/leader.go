package replica

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
)

// AppendOptions says how a producer's batches are appended.
type AppendOptions struct {
	Acks        kafka.Acks
	LeaderEpoch kafka.Epoch // that the sender believes in; NoEpoch if it has no opinion
	// Together are the Waiters of the request; nil: a Waiter is alone.
	Together *Waiters
}

// Append adds whole batches that batch.Check has passed; base offsets and leader epoch are written into b. With AcksAll
// and something still to wait for it returns a Waiter that ends when the high watermark has passed the last record. A
// duplicate of an idempotent producer is answered with its old offsets, and waits for them all the same.
//
// Errors: NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, KAFKA_STORAGE_ERROR, epochs that do not match, and what the
// producer's sequence numbers give.
func (p *Partition) Append(b []byte, o AppendOptions) (commitlog.Appended, *Waiter, error) {
	p.role.RLock()
	defer p.role.RUnlock()
	a, err := p.leading(o.LeaderEpoch)
	if err != nil {
		return commitlog.Appended{}, nil, p.wanted(err)
	}
	if o.Acks == kafka.AcksAll {
		if err := p.enoughReplicas(); err != nil {
			return commitlog.Appended{}, nil, err
		}
	}
	appended, err := a.log.Append(b, commitlog.AppendOptions{LeaderEpoch: a.epoch, Now: p.set.o.Now().UnixMilli()})
	if err != nil {
		return appended, nil, fmt.Errorf("append to %s: %w", p.tp, err)
	}
	p.mu.Lock()
	// The metadata may have moved on while the disk worked. Then the records are in the log but were appended under an
	// epoch that is over: whether they stay is for the next leader to say, so they must not count.
	if _, err := p.leading(o.LeaderEpoch); err != nil {
		p.mu.Unlock()
		a.log.AppendDone()
		return commitlog.Appended{}, nil, err
	}
	var chain, waiter *Waiter
	if !p.set.o.FlushBeforeAck {
		chain = p.advanceLocked(a)
	}
	p.outgrownLocked()
	p.markLocked(Follower)
	if o.Acks == kafka.AcksAll && p.highWatermark.Load() <= appended.Last {
		if o.Together != nil {
			waiter = o.Together.waiter()
		} else {
			waiter = newWaiter()
		}
		p.forWatermark.put(waiter, appended.Last+1).onDisk(a.log)
	}
	p.mu.Unlock()
	a.log.AppendDone()
	if waiter == nil && p.watched.Load() > 0 { // after AppendDone: a watch that is attached from now on hurries by itself
		a.log.Hurry()
	}
	release(chain)
	return appended, waiter, nil
}

func (p *Partition) enoughReplicas() error {
	if t := p.target.Load(); len(t.isr) < t.minISR {
		return fmt.Errorf("%s has %d replicas in sync and needs %d: %w", p.tp, len(t.isr), t.minISR, kerr.NotEnoughReplicas)
	}
	return nil
}

// Overdue is the answer to a producer whose records are in the log and were not committed in time:
// NOT_ENOUGH_REPLICAS_AFTER_APPEND if too few replicas are in sync by now, else REQUEST_TIMED_OUT.
func (p *Partition) Overdue() error {
	if p.enoughReplicas() != nil {
		return kerr.NotEnoughReplicasAfterAppend
	}
	return kerr.RequestTimedOut
}

// AwaitEnd returns a Waiter for the high watermark to reach the log end of this moment, where that is only a matter of
// this node's disk: the leader is the only member of the ISR. Then a client that asks for the latest offset, or deletes
// up to it, sees what it was acked. It returns nil when there is nothing to wait for.
func (p *Partition) AwaitEnd() *Waiter {
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.leading(kafka.NoEpoch)
	if t := p.target.Load(); err != nil || len(t.isr) != 1 || t.minISR > 1 {
		return nil
	}
	end := a.log.LogEnd()
	if p.highWatermark.Load() >= end {
		return nil
	}
	return p.forWatermark.add(end).onDisk(a.log)
}

// DeleteRecords deletes the records below to; -1 means the high watermark. It returns the lowest log start of all replicas
// that are alive or may lead next, or what that will have come to when the Waiter ends. It waits for the disk: the records
// stay deleted.
//
// Errors: OFFSET_OUT_OF_RANGE, POLICY_VIOLATION for a topic that is only compacted. Mirrors Partition.deleteRecordsOnLeader.
func (p *Partition) DeleteRecords(to kafka.Offset) (lowWatermark kafka.Offset, w *Waiter, err error) {
	p.role.RLock()
	defer p.role.RUnlock()
	a, err := p.leading(kafka.NoEpoch)
	if err != nil {
		return -1, nil, p.wanted(err)
	}
	if !p.target.Load().config.Delete {
		return -1, nil, fmt.Errorf("records of %s can not be deleted, its cleanup.policy is compact: %w", p.tp, kerr.PolicyViolation)
	}
	highWatermark := p.highWatermark.Load()
	if to == deleteToHighWatermark {
		to = highWatermark
	}
	if to < 0 || to > highWatermark {
		return -1, nil, fmt.Errorf("delete records of %s below %d: high watermark is %d: %w", p.tp, to, highWatermark, kerr.OffsetOutOfRange)
	}
	if err := a.log.SetLogStart(to); err != nil {
		return -1, nil, fmt.Errorf("delete records of %s below %d: %w", p.tp, to, err)
	}
	p.mu.Lock()
	if _, err := p.leading(kafka.NoEpoch); err != nil { // nobody would end the wait
		p.mu.Unlock()
		return -1, nil, err
	}
	chain := p.advanceLocked(a)
	low := p.lowWatermarkLocked(a)
	if low < to {
		w = p.forLowWatermark.add(to)
		low = to
	}
	p.mu.Unlock()
	release(chain)
	return low, w, nil
}

// deleteToHighWatermark is DeleteRecordsRequest.HIGH_WATERMARK.
const deleteToHighWatermark = -1
