package replica

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/storage"
	"moldau/internal/xsync"
)

// Partition is one partition that has a replica on this node.
type Partition struct {
	set *Set
	tp  kafka.TopicPartition
	id  kafka.TopicID

	fresh bool // it came here after this start, so that there can be no log of it yet

	target atomic.Pointer[target] // what the metadata say; never nil
	acting atomic.Pointer[acting] // what has been done about it; never nil
	led    atomic.Bool            // it has led since the node started

	future atomic.Pointer[storage.Log] // the copy in another directory while it moves there; written by the worker, or under role
	inLine bool                        // to copy; guarded by movers.mu

	// role is held shared while something is done that only the current role allows, and exclusively by the worker to
	// change role. It may be held across disk operations.
	role xsync.RWMutex

	// mu guards what follows. It is never held across a disk operation.
	mu              xsync.Mutex
	progress        map[kafka.NodeID]*progress // of the other replicas, while leading
	wish            *Wish                      // what AlterPartition was last asked for, until the metadata answer
	forWatermark    waiters                    // need the high watermark to reach an offset
	forSync         waiters                    // need the synced end to reach an offset
	forLowWatermark waiters                    // need the lowest log start of all live replicas to reach an offset
	watchers        []watcher
	watched         atomic.Int32 // len(watchers); written under mu
	stable, start   kafka.Offset // last stable offset and log start that watchers have been told of
	highWatermark   atomic.Int64 // written under mu

	displaced bool        // as tellPlace has last seen it; only the worker's
	moved     atomic.Bool // this run has moved it, from where it could say where it is; written by the worker

	opened chan struct{} // closed when the log has been opened, or could not be
}

// target is what the metadata say of the partition. It is immutable.
type target struct {
	gone        bool // not on this node any more: deleted, or moved away
	leader      kafka.NodeID
	leaderEpoch kafka.Epoch
	epoch       int32 // partition epoch
	replicas    []kafka.NodeID
	isr         []kafka.NodeID
	elr         []kafka.NodeID // may lead although out of sync (KIP-966)
	relied      bool           // the metadata count on this node's records: it is in sync, eligible, or was last known to be (KIP-966)
	dir         kafka.DirID
	minISR      int // min(min.insync.replicas, replicas)
	config      commitlog.Config
}

// acting is the role that the worker has put in force. It is immutable.
type acting struct {
	log      *storage.Log // nil until opened
	leading  bool
	leader   kafka.NodeID
	epoch    kafka.Epoch  // leader epoch that the role belongs to
	start    kafka.Offset // log end when the epoch began here
	began    time.Time    // when that was
	hasRole  bool
	diskErr  error // the log could not be opened or its directory failed; KAFKA_STORAGE_ERROR
	finished bool  // the partition is gone
}

// TopicPartition returns the partition's name.
func (p *Partition) TopicPartition() kafka.TopicPartition { return p.tp }

// TopicID returns the id of its topic.
func (p *Partition) TopicID() kafka.TopicID { return p.id }

// Opened is closed when the partition's log has been opened after the start of the node or the creation of the topic, or
// could not be. Before that every operation answers NOT_LEADER_OR_FOLLOWER.
func (p *Partition) Opened() <-chan struct{} { return p.opened }

// Leader returns the leader and its epoch as the metadata say: NoNode if there is none.
func (p *Partition) Leader() (kafka.NodeID, kafka.Epoch) {
	t := p.target.Load()
	return t.leader, t.leaderEpoch
}

// HighWatermark returns the offset below which every member of the in-sync set has every record.
func (p *Partition) HighWatermark() kafka.Offset { return p.highWatermark.Load() }

// LogStart returns the offset of the first record; 0 while the log is not open.
func (p *Partition) LogStart() kafka.Offset {
	if log := p.acting.Load().log; log != nil {
		return log.LogStart()
	}
	return 0
}

// LogEnd returns the offset after the last record; 0 while the log is not open.
func (p *Partition) LogEnd() kafka.Offset {
	if log := p.acting.Load().log; log != nil {
		return log.LogEnd()
	}
	return 0
}

// Size returns the bytes of the segments; 0 while the log is not open.
func (p *Partition) Size() int64 {
	if log := p.acting.Load().log; log != nil {
		return log.Size()
	}
	return 0
}

// Config returns the part of the topic's configuration that the log obeys.
func (p *Partition) Config() commitlog.Config { return p.target.Load().config }

// Dir returns the directory of the log; nil while the log is not open.
func (p *Partition) Dir() *storage.Directory {
	if log := p.acting.Load().log; log != nil {
		return log.Dir()
	}
	return nil
}

// Producers returns the idempotent producers that this replica remembers, a follower too. Mirrors Partition.activeProducerState.
func (p *Partition) Producers() ([]commitlog.ProducerState, error) {
	a, err := p.here(kafka.NoEpoch)
	if err != nil {
		return nil, err
	}
	return a.log.Producers(), nil
}

// here returns the role in force when it is the one that the metadata want. requested is the leader epoch that a request
// names, NoEpoch if none.
func (p *Partition) here(requested kafka.Epoch) (*acting, error) {
	a, t := p.acting.Load(), p.target.Load()
	switch {
	case t.gone || a.finished:
		return nil, fmt.Errorf("%s: %w", p.tp, kerr.UnknownTopicOrPartition)
	case a.diskErr != nil:
		return nil, a.diskErr
	case !a.hasRole || a.epoch != t.leaderEpoch:
		return nil, fmt.Errorf("%s is not ready under leader epoch %d: %w", p.tp, t.leaderEpoch, kerr.NotLeaderForPartition)
	case requested >= 0 && requested < a.epoch:
		return nil, fmt.Errorf("%s has leader epoch %d, the request %d: %w", p.tp, a.epoch, requested, kerr.FencedLeaderEpoch)
	case requested > a.epoch:
		return nil, fmt.Errorf("%s has leader epoch %d, the request %d: %w", p.tp, a.epoch, requested, kerr.UnknownLeaderEpoch)
	}
	return a, nil
}

// Hurry says that somebody asks for the partition. One that has yet to be opened comes before those that nobody asks for: one
// of ten thousand serves without waiting for the others.
func (p *Partition) Hurry() {
	if !p.acting.Load().hasRole {
		p.set.o.Store.Hurry(p.tp)
	}
}

// wanted is told why something that somebody asks for could not be done.
func (p *Partition) wanted(err error) error {
	p.Hurry()
	return err
}

// leading is here, if this node leads.
func (p *Partition) leading(requested kafka.Epoch) (*acting, error) {
	a, err := p.here(requested)
	if err != nil {
		return nil, err
	}
	if !a.leading {
		return nil, fmt.Errorf("%s is led by node %d: %w", p.tp, a.leader, kerr.NotLeaderForPartition)
	}
	return a, nil
}

// counted returns what this log contributes to the watermark.
func (p *Partition) counted(log *storage.Log) kafka.Offset {
	if p.set.o.FlushBeforeAck {
		return log.SyncedEnd()
	}
	return log.LogEnd()
}

// advanceLocked recomputes the high watermark of a leader, marks watchers of what has moved and returns the waiters to
// release. Called after everything that decision "one condition for every waiter" depends on: sync done, append without
// flush, follower progress, ISR or min.insync.replicas changed. Under a role that is over it does nothing: the in-sync set
// of the next leader says nothing about this log.
func (p *Partition) advanceLocked(a *acting) *Waiter {
	t := p.target.Load()
	if !a.leading || t.gone || t.leaderEpoch != a.epoch {
		return nil
	}
	c := count{current: p.highWatermark.Load(), leaderEnd: p.counted(a.log), isr: len(t.isr), minISR: t.minISR}
	for _, member := range p.maximalISRLocked(t) {
		if member != p.set.o.NodeID {
			c.followers = append(c.followers, p.progress[member].reached())
		}
	}
	next := watermark(c)
	moved := next != c.current
	if moved {
		p.setHighWatermarkLocked(a.log, next)
	}
	if stable, start := p.lastStable(a.log, next), a.log.LogStart(); moved || stable != p.stable || start != p.start {
		p.stable, p.start = stable, start
		p.markLocked(everyKind)
	}
	return p.forWatermark.reach(next)
}

func (p *Partition) setHighWatermarkLocked(log *storage.Log, offset kafka.Offset) {
	p.highWatermark.Store(offset)
	log.SetHighWatermark(offset)
}

// lastStable is the offset below which every transaction has ended and every record is committed.
func (p *Partition) lastStable(log *storage.Log, highWatermark kafka.Offset) kafka.Offset {
	if unstable := log.LastStable(); unstable >= 0 {
		return min(unstable, highWatermark)
	}
	return highWatermark
}

// listen has the partition hear of the syncs of its log. A failure from before is not among that: see checkDisk.
func (p *Partition) listen(log *storage.Log) {
	log.OnSynced(func(end kafka.Offset, err error) {
		if p.acting.Load().log == log { // else it was replaced by its copy
			p.synced(end, err)
		}
	})
}

// checkDisk looks whether a log's directory has failed before listen.
func (p *Partition) checkDisk(log *storage.Log) {
	if err := log.Dir().Err(); err != nil {
		p.failed(err)
	}
}

// synced is called by the log's syncer.
func (p *Partition) synced(end kafka.Offset, err error) {
	defer func() {
		if a := p.acting.Load(); !a.hasRole && !a.finished { // it was this that the role has waited for
			p.set.o.Store.RunFirst(p.tp, p.reconcile)
		}
	}()
	if err != nil {
		p.failed(err)
		return
	}
	p.mu.Lock()
	a := p.acting.Load()
	chain := p.advanceLocked(a)
	durable := p.forSync.reach(end)
	p.mu.Unlock()
	release(chain)
	release(durable)
}

// failed makes the partition answer err, a KAFKA_STORAGE_ERROR, from now on.
func (p *Partition) failed(err error) {
	p.mu.Lock()
	next := *p.acting.Load()
	next.diskErr = err
	p.acting.Store(&next)
	chains := p.failAllLocked(err)
	p.mu.Unlock()
	releaseAll(chains)
	p.set.tellRole(p)
}

// failAllLocked wakes everyone.
func (p *Partition) failAllLocked(err error) [3]*Waiter {
	p.markLocked(everyKind)
	return [3]*Waiter{p.forWatermark.fail(err), p.forSync.fail(err), p.forLowWatermark.fail(err)}
}

func releaseAll(chains [3]*Waiter) {
	for _, chain := range chains {
		release(chain)
	}
}
