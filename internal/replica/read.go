package replica

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/storage"
)

// ReadOptions is one partition of a Fetch request.
type ReadOptions struct {
	From             kafka.Offset
	MaxBytes         int
	AtLeastOne       bool // the first batch is returned however large
	Isolation        kafka.Isolation
	Replica          kafka.NodeID // a follower's id, ConsumerReplica or DebugReplica
	ReplicaEpoch     int64        // of the follower's broker
	LogStart         kafka.Offset // of the follower; -1 for others
	Session          *Watch       // of the follower's fetch session; nil: the request has none, and what a session has told since is newer
	CurrentEpoch     kafka.Epoch  // leader epoch that the reader believes in, NoEpoch = none
	LastFetchedEpoch kafka.Epoch  // of the last record that the reader has, NoEpoch = unknown (KIP-595)
	AnyReplica       bool         // a follower may answer too, up to the high watermark that it knows (KIP-392)
	Rack             string       // of a consumer who may be sent to a follower there; "": he may not
	Throttled        bool         // a follower that is not in sync gets no records for now (KIP-73)
}

// EpochEnd is a leader epoch and the offset at which it ends.
type EpochEnd struct {
	Epoch     kafka.Epoch
	EndOffset kafka.Offset
}

// ReadResult is what a partition has for a reader. Leader and epoch are set with an error too.
type ReadResult struct {
	Region        *commitlog.Region // nil = nothing; to be released
	HighWatermark kafka.Offset
	LastStable    kafka.Offset
	LogStart      kafka.Offset
	Aborted       []commitlog.AbortedTxn // with ReadCommitted only; nil = none
	Diverging     *EpochEnd              // the reader's log is not the leader's from here on
	LeaderID      kafka.NodeID
	LeaderEpoch   kafka.Epoch
	Nearest       kafka.NodeID // NoNode, or the replica that the consumer should read from instead: then there is no Region
	// More says that the read ended for MaxBytes and not for want of records.
	More bool
}

// Read returns records from the log: whole batches, for a consumer those below the high watermark or the last stable
// offset, for a follower or a debugger all. Between that bound and the log end it returns nothing; outside the log the
// error is OFFSET_OUT_OF_RANGE, on a follower too: the consumer then asks the leader. A follower's read records its progress.
func (p *Partition) Read(o ReadOptions) (ReadResult, error) {
	r := ReadResult{Nearest: kafka.NoNode}
	r.LeaderID, r.LeaderEpoch = p.Leader()
	p.role.RLock()
	defer p.role.RUnlock()
	role := p.leading
	if o.AnyReplica && o.Replica < 0 {
		role = p.here
	}
	a, err := role(o.CurrentEpoch)
	if err == nil && a.leader == kafka.NoNode {
		// Nobody has told this replica how far the watermark is since it was opened.
		err = fmt.Errorf("%s has no leader: %w", p.tp, kerr.NotLeaderForPartition)
	}
	if err != nil {
		return r, p.wanted(err)
	}
	fetched := Fetched{Replica: o.Replica, Epoch: o.ReplicaEpoch, End: o.From, LogStart: o.LogStart, Session: o.Session}
	if o.Replica >= 0 {
		if err := p.isFollower(fetched); err != nil {
			return r, err
		}
	}
	if o.LastFetchedEpoch != kafka.NoEpoch {
		if r.Diverging, err = p.diverging(a, o); err != nil || r.Diverging != nil {
			r.HighWatermark, r.LogStart = p.highWatermark.Load(), a.log.LogStart()
			r.LastStable = p.lastStable(a.log, r.HighWatermark)
			return r, err
		}
	}
	if o.Replica >= 0 && o.From >= a.log.LogStart() && o.From <= a.log.LogEnd() {
		// Only now: a log that diverges from this one, or lies outside it, is no progress, however long it is.
		p.followed(a, fetched)
	}
	if o.Rack != "" && a.leading && o.Replica == kafka.ConsumerReplica {
		p.mu.Lock()
		r.Nearest = p.nearestLocked(o.Rack, o.From)
		p.mu.Unlock()
	}
	// Bounds before bytes: what is appended or committed meanwhile is for the next read, and then its watcher is marked.
	upTo := a.log.LogEnd()
	r.HighWatermark, r.LogStart = p.highWatermark.Load(), a.log.LogStart()
	r.LastStable = p.lastStable(a.log, r.HighWatermark)
	if o.Replica == kafka.ConsumerReplica {
		upTo = r.HighWatermark
		if o.Isolation == kafka.ReadCommitted {
			upTo = r.LastStable
		}
	}
	if r.Nearest != kafka.NoNode {
		return r, nil
	}
	if o.Throttled && !slices.Contains(p.target.Load().isr, o.Replica) {
		r.More = o.From < upTo
		return r, nil
	}
	err = p.readRecords(a.log, o, upTo, &r)
	return r, err
}

// readRecords adds to r what the log has for a reader below upTo.
func (p *Partition) readRecords(log *storage.Log, o ReadOptions, upTo kafka.Offset, r *ReadResult) error {
	read, err := log.Read(o.From, commitlog.ReadOptions{MaxBytes: o.MaxBytes, UpTo: upTo, AtLeastOne: o.AtLeastOne})
	if err != nil {
		return log.ReadFailed(fmt.Errorf("read %s from %d: %w", p.tp, o.From, err))
	}
	if read.Region == nil {
		r.More = o.From < upTo
		return nil
	}
	if o.Isolation == kafka.ReadCommitted && o.Replica == kafka.ConsumerReplica {
		if r.Aborted, err = log.AbortedTxns(o.From, read.NextOffset); err != nil {
			read.Region.Release()
			return log.ReadFailed(fmt.Errorf("read aborted transactions of %s from %d: %w", p.tp, o.From, err))
		}
	}
	r.Region, r.More = read.Region, read.NextOffset < upTo
	return nil
}

// diverging compares the reader's last epoch with this log. Mirrors Partition.readRecords; KIP-595.
func (p *Partition) diverging(a *acting, o ReadOptions) (*EpochEnd, error) {
	epoch, end := a.log.EndOffsetForEpoch(o.LastFetchedEpoch)
	if epoch == kafka.NoEpoch || end < 0 {
		return nil, fmt.Errorf("%s has no records of leader epoch %d: %w", p.tp, o.LastFetchedEpoch, kerr.OffsetOutOfRange)
	}
	if start := a.log.LogStart(); o.From < start {
		return nil, fmt.Errorf("read %s from %d: it begins at %d: %w", p.tp, o.From, start, kerr.OffsetOutOfRange)
	}
	if epoch < o.LastFetchedEpoch || end < o.From {
		return &EpochEnd{Epoch: epoch, EndOffset: end}, nil
	}
	return nil, nil
}

// EndOffsetForEpoch returns the largest epoch not above the one asked for and the offset at which it ends, -1 and -1 if
// there is none. Mirrors Partition.lastOffsetForLeaderEpoch; KIP-279, KIP-320.
func (p *Partition) EndOffsetForEpoch(epoch, currentEpoch kafka.Epoch) (EpochEnd, error) {
	p.role.RLock()
	defer p.role.RUnlock()
	a, err := p.leading(currentEpoch)
	if err != nil {
		return EpochEnd{Epoch: kafka.NoEpoch, EndOffset: -1}, p.wanted(err)
	}
	e, end := a.log.EndOffsetForEpoch(epoch)
	return EpochEnd{Epoch: e, EndOffset: end}, nil
}

// TimestampOffset is the answer of ListOffset. Timestamp -1: not told. Offset -1: no such record.
type TimestampOffset = commitlog.TimestampOffset

// ListOffset returns the first offset whose record is not older than ts, or what a special timestamp stands for. For
// kafka.LatestTimestamp let AwaitEnd's Waiter finish first. replica is a follower's id, ConsumerReplica or DebugReplica;
// only consumers are bound by isolation. Mirrors Partition.fetchOffsetForTimestamp and UnifiedLog.fetchOffsetByTimestamp.
func (p *Partition) ListOffset(ts int64, isolation kafka.Isolation, replica kafka.NodeID, currentEpoch kafka.Epoch) (TimestampOffset, error) {
	none := TimestampOffset{Timestamp: -1, Offset: -1, LeaderEpoch: kafka.NoEpoch}
	p.role.RLock()
	defer p.role.RUnlock()
	a, err := p.leading(currentEpoch)
	if err != nil {
		return none, p.wanted(err)
	}
	highWatermark := p.highWatermark.Load()
	upTo := a.log.LogEnd()
	client := replica == kafka.ConsumerReplica
	if client {
		upTo = highWatermark
		if isolation == kafka.ReadCommitted {
			upTo = p.lastStable(a.log, highWatermark)
		}
	}
	// A leader that has just been elected may not know yet how far its predecessor's watermark was. Until its own has
	// passed the start of its epoch, a client could be shown an end below one it has seen (KIP-207).
	var notYet error
	if client && a.start > highWatermark {
		notYet = fmt.Errorf("high watermark %d of %s has not reached %d, where leader epoch %d begins: %w",
			highWatermark, p.tp, a.start, a.epoch, kerr.OffsetNotAvailable)
	}
	switch ts {
	case kafka.LatestTimestamp:
		return TimestampOffset{Timestamp: -1, Offset: upTo, LeaderEpoch: a.epoch}, notYet
	case kafka.EarliestTimestamp, kafka.EarliestLocalTimestamp: // nothing is tiered: the local log is the log
		start := a.log.LogStart()
		return TimestampOffset{Timestamp: -1, Offset: start, LeaderEpoch: a.log.EpochAt(start)}, nil
	case kafka.LatestTieredTimestamp, kafka.EarliestPendingTimestamp:
		return none, nil
	}
	var found TimestampOffset
	var ok bool
	if ts == kafka.MaxTimestamp {
		found, ok, err = a.log.OffsetOfMaxTimestamp(upTo)
	} else if ts >= 0 {
		found, ok, err = a.log.OffsetForTimestamp(ts, upTo)
	} else {
		return none, fmt.Errorf("timestamp %d: %w", ts, kerr.UnsupportedVersion)
	}
	switch {
	case err != nil:
		return none, a.log.ReadFailed(fmt.Errorf("find timestamp %d in %s: %w", ts, p.tp, err))
	case ok && found.Offset < upTo:
		return found, nil
	}
	return none, notYet
}

// OffsetsBefore returns at most count offsets at which segments begin, the newest first: from the newest segment on whose
// records are all no younger than ts. The log end (for a consumer, the high watermark) stands before them as the segment of
// now. kafka.LatestTimestamp is after all of that, kafka.EarliestTimestamp asks for the log start. It is how ListOffsets
// version 0 looks for times. Mirrors UnifiedLog.legacyFetchOffsetsBefore, by the records' timestamps instead of the files'.
func (p *Partition) OffsetsBefore(ts int64, count int, replica kafka.NodeID, nowMs int64) ([]kafka.Offset, error) {
	p.role.RLock()
	defer p.role.RUnlock()
	role := p.leading
	if replica == kafka.DebugReplica {
		role = p.here
	}
	a, err := role(kafka.NoEpoch)
	if err != nil {
		return nil, err
	}
	upTo := a.log.LogEnd()
	if replica == kafka.ConsumerReplica {
		upTo = p.highWatermark.Load()
	}
	var offsets []kafka.Offset
	if ts == kafka.EarliestTimestamp {
		offsets = append(offsets, a.log.LogStart())
	} else {
		starts, err := a.log.SegmentStarts()
		if err != nil {
			return nil, a.log.ReadFailed(fmt.Errorf("find segments of %s before %d: %w", p.tp, ts, err))
		}
		starts = append(starts, commitlog.SegmentStart{Offset: upTo, MaxTimestamp: nowMs})
		found := false
		for _, s := range slices.Backward(starts) {
			found = found || ts == kafka.LatestTimestamp || s.MaxTimestamp <= ts
			if found && s.Offset <= upTo && !slices.Contains(offsets, s.Offset) {
				offsets = append(offsets, s.Offset)
			}
		}
	}
	return offsets[:min(max(count, 0), len(offsets))], nil
}
