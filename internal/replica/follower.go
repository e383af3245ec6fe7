package replica

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
)

// Following is what a follower must know to fetch.
type Following struct {
	Leader    kafka.NodeID
	Epoch     kafka.Epoch  // leader epoch
	From      kafka.Offset // the next offset to fetch: the log end
	LastEpoch kafka.Epoch  // leader epoch of the last record, NoEpoch if there is none
	LogStart  kafka.Offset
}

// Following returns where a follower stands. NOT_LEADER_OR_FOLLOWER: this node does not follow now.
func (p *Partition) Following() (Following, error) {
	a, err := p.following(kafka.NoEpoch)
	if err != nil {
		return Following{}, err
	}
	return Following{Leader: a.leader, Epoch: a.epoch, From: a.log.LogEnd(), LastEpoch: a.log.LastEpoch(), LogStart: a.log.LogStart()}, nil
}

func (p *Partition) following(epoch kafka.Epoch) (*acting, error) {
	a, err := p.here(epoch)
	if err != nil {
		return nil, err
	}
	if a.leading || a.leader == kafka.NoNode {
		return nil, fmt.Errorf("%s follows nobody here: %w", p.tp, kerr.NotLeaderForPartition)
	}
	return a, nil
}

// AppendFetched adds batches that the leader of this epoch has sent, and takes over its high watermark and log start as
// far as this log goes. The Waiter ends when the batches are durable here, nil if they are: only then may the next fetch
// report them.
func (p *Partition) AppendFetched(b []byte, leaderHighWatermark, leaderLogStart kafka.Offset, epoch kafka.Epoch) (commitlog.Appended, *Waiter, error) {
	p.role.RLock()
	defer p.role.RUnlock()
	a, err := p.following(epoch)
	if err != nil {
		return commitlog.Appended{}, nil, err
	}
	var appended commitlog.Appended
	if len(b) > 0 {
		if appended, err = a.log.AppendFetched(b); err != nil {
			return appended, nil, fmt.Errorf("append to follower %s: %w", p.tp, err)
		}
	}
	end := a.log.LogEnd()
	highWatermark := min(leaderHighWatermark, end)
	p.mu.Lock()
	// As in Append: who waits for an epoch that is over, or for a disk that has failed, has been woken already.
	if _, err := p.following(epoch); err != nil {
		p.mu.Unlock()
		a.log.AppendDone()
		return appended, nil, err
	}
	if highWatermark > p.highWatermark.Load() {
		p.setHighWatermarkLocked(a.log, highWatermark)
		p.markLocked(everyKind)
	}
	highWatermark = p.highWatermark.Load()
	var waiter *Waiter
	if p.set.o.FlushBeforeAck && a.log.SyncedEnd() < end {
		waiter = p.forSync.add(end).onDisk(a.log)
	}
	p.mu.Unlock()
	if len(b) > 0 {
		a.log.AppendDone()
	} else {
		a.log.NoteChange()
	}
	if waiter != nil {
		Hurry(waiter) // the leader waits for the next fetch
	}
	if start := min(leaderLogStart, highWatermark); start > a.log.LogStart() {
		if err := a.log.SetLogStart(start); err != nil {
			return appended, waiter, fmt.Errorf("move log start of follower %s: %w", p.tp, err)
		}
	}
	return appended, waiter, nil
}

// Truncate cuts a follower's log to end at to, where it stops being the leader's.
func (p *Partition) Truncate(to kafka.Offset, epoch kafka.Epoch) error {
	return p.cut(epoch, func(a *acting) error { return a.log.Truncate(to) })
}

// TruncateFullyAt empties a follower's log and lets it begin at offset: the leader no longer has what comes before.
func (p *Partition) TruncateFullyAt(offset kafka.Offset, epoch kafka.Epoch) error {
	return p.cut(epoch, func(a *acting) error { return a.log.TruncateFullyAt(offset) })
}

func (p *Partition) cut(epoch kafka.Epoch, cut func(*acting) error) error {
	p.role.Lock() // nothing may read or append while the log is cut under it
	defer p.role.Unlock()
	a, err := p.following(epoch)
	if err != nil {
		return err
	}
	if err := cut(a); err != nil {
		return fmt.Errorf("truncate %s: %w", p.tp, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.setHighWatermarkLocked(a.log, min(max(p.highWatermark.Load(), a.log.LogStart()), a.log.LogEnd()))
	p.markLocked(everyKind)
	return nil
}
