package replica

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// Following is what a follower must know to fetch.
type Following struct {
	Leader    kafka.NodeID
	Epoch     kafka.Epoch  // leader epoch
	From      kafka.Offset // the next offset to fetch: the log end
	LastEpoch kafka.Epoch  // leader epoch of the last record, NoEpoch if there is none
	LogStart  kafka.Offset // of what is deleted for good: no crash brings it back
}

// Following returns where a follower stands. The Waiter ends when all below From is durable here, nil if it is: only then
// may a fetch report From. NOT_LEADER_OR_FOLLOWER: this node does not follow now.
func (p *Partition) Following() (Following, *Waiter, error) {
	p.role.RLock() // nothing is cut meanwhile
	defer p.role.RUnlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	a, err := p.following(kafka.NoEpoch)
	if err != nil {
		return Following{}, nil, err
	}
	f := a.stands()
	return f, p.awaitSyncLocked(a, f.From), nil
}

// awaitSyncLocked returns a Waiter for the log to be on disk up to end, nil if it is or nobody needs it to be.
func (p *Partition) awaitSyncLocked(a *acting, end kafka.Offset) *Waiter {
	if !p.set.o.FlushBeforeAck || a.log.SyncedEnd() >= end {
		return nil
	}
	return p.forSync.add(end).onDisk(a.log)
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

// Follows returns the leader that this node follows now, and whether it follows one.
func (p *Partition) Follows() (leader kafka.NodeID, follows bool) {
	a, err := p.following(kafka.NoEpoch)
	if err != nil {
		return kafka.NoNode, false
	}
	return a.leader, true
}

// AppendFetched adds batches that the leader of this epoch has sent, and takes over its high watermark and log start as
// far as this log goes. It returns where the follower stands then. The Waiter ends when the batches are durable here, nil
// if they are: only then may the next fetch report them. Call Hurry with the Waiters of all partitions that came together:
// the leader waits for that fetch.
func (p *Partition) AppendFetched(b []byte, leaderHighWatermark, leaderLogStart kafka.Offset, epoch kafka.Epoch) (Following, *Waiter, error) {
	if err := p.beginEarlier(b, epoch); err != nil {
		return Following{}, nil, err
	}
	p.role.RLock()
	defer p.role.RUnlock()
	a, err := p.following(epoch)
	if err != nil {
		return Following{}, nil, err
	}
	if len(b) > 0 {
		if _, err := a.log.AppendFetched(b); err != nil {
			a.log.AppendDone() // some of it may be in the log, and is waited for before the next fetch
			return Following{}, nil, fmt.Errorf("append to follower %s: %w", p.tp, err)
		}
	}
	p.mu.Lock()
	// As in Append: who waits for an epoch that is over, or for a disk that has failed, has been woken already.
	if _, err := p.following(epoch); err != nil {
		p.mu.Unlock()
		a.log.AppendDone()
		return Following{}, nil, err
	}
	end := a.log.LogEnd()
	highWatermark := min(leaderHighWatermark, end)
	if highWatermark > p.highWatermark.Load() {
		p.setHighWatermarkLocked(a.log, highWatermark)
		p.markLocked(everyKind)
	}
	highWatermark = p.highWatermark.Load()
	waiter := p.awaitSyncLocked(a, end)
	p.mu.Unlock()
	if len(b) > 0 {
		a.log.AppendDone()
	} else {
		a.log.NoteChange()
	}
	if start := min(leaderLogStart, highWatermark); start > a.log.DurableLogStart() {
		if err := a.log.SetLogStart(start); err != nil {
			return Following{}, waiter, fmt.Errorf("move log start of follower %s: %w", p.tp, err)
		}
	}
	return a.stands(), waiter, nil
}

// beginEarlier lets an empty log begin with the first batch that the leader has sent, if the log's start lies inside of
// that: after DeleteRecords a leader's log may start in the middle of a batch. Mirrors
// Partition.appendRecordsToFollowerOrFutureReplica.
func (p *Partition) beginEarlier(b []byte, epoch kafka.Epoch) error {
	if len(b) == 0 {
		return nil
	}
	a, err := p.following(epoch)
	if err != nil {
		return err
	}
	end := a.log.LogEnd()
	if a.log.LogStart() != end {
		return nil
	}
	first, _, err := batch.Next(b)
	if err != nil || first.BaseOffset() >= end || first.LastOffset() < end {
		return nil // nothing special: the append will tell what is wrong with it, if anything is
	}
	return p.TruncateFullyAt(first.BaseOffset(), epoch)
}

func (a *acting) stands() Following {
	return Following{Leader: a.leader, Epoch: a.epoch, From: a.log.LogEnd(), LastEpoch: a.log.LastEpoch(), LogStart: a.log.DurableLogStart()}
}

// TruncateDiverging cuts a follower's log to where, as far as the two know, it is the leader's: end is the largest epoch
// of the leader's log that is not above the follower's last, and its end there. Another round may be needed. It returns
// where the follower stands then. Mirrors AbstractFetcherThread.getOffsetTruncationState; KIP-279, KIP-595.
func (p *Partition) TruncateDiverging(end EpochEnd, epoch kafka.Epoch) (Following, error) {
	var at Following
	err := p.cut(epoch, func(a *acting) error {
		to := end.EndOffset
		switch own, ownEnd := a.log.EndOffsetForEpoch(end.Epoch); {
		case own == end.Epoch:
			to = min(to, ownEnd)
		case own >= 0: // this log has no records of the leader's epoch: all after the one before it is another leader's
			to = ownEnd
		}
		to = min(to, a.log.LogEnd())
		if highWatermark := p.HighWatermark(); to < highWatermark {
			p.set.o.Logger.Warn("follower is cut below its high watermark: its leader was elected without having all committed records",
				"partition", p.tp.String(), "highWatermark", highWatermark, "to", to)
		}
		err := a.log.Truncate(to)
		at = a.stands()
		return err
	})
	return at, err
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
	err = cut(a) // what comes after the cut itself may have failed, on a full disk
	p.realign(a.log)
	p.mu.Lock()
	p.setHighWatermarkLocked(a.log, min(max(p.highWatermark.Load(), a.log.LogStart()), a.log.LogEnd()))
	p.markLocked(everyKind)
	// What they wait to see on disk is gone.
	chain := p.forSync.fail(fmt.Errorf("%s was cut to end at %d: %w", p.tp, a.log.LogEnd(), kerr.NotLeaderForPartition))
	p.mu.Unlock()
	release(chain)
	if err != nil {
		return fmt.Errorf("truncate %s: %w", p.tp, err)
	}
	return nil
}
