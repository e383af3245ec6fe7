package replica

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/quota"
	"moldau/internal/storage"
	"moldau/internal/xsync"
)

const (
	copyBytes  = 1 << 20     // read at once
	copyPieces = 8           // copied before other partitions have their turn
	levelBytes = 1 << 20     // so little is copied while appends wait, and then the copy takes its log's place
	copyRetry  = time.Second // after a move could not go on
)

// errDamaged says that a log cannot be copied: its records are not what was written.
var errDamaged = errors.New("records are damaged")

// movers are the partitions that move to another directory of this node: so many copy at a time, and the others wait for
// their turn, so that workers are left for what should not wait for a move.
type movers struct {
	rate *quota.Bucket
	most int

	mu      xsync.Mutex // taken alone
	copying int
	waiting []*Partition                                // each once: Partition.inLine
	wanted  map[kafka.TopicPartition]*storage.Directory // of partitions that are to come here: where to
}

// Move has the replica of a partition move to another directory of this node, or stay where it is, if that is the
// directory: a move that was under way ends then, and one to a third directory does too. The channel gives one value when
// the move has begun. Errors: INVALID_TOPIC_EXCEPTION (its name is too long), UNKNOWN_TOPIC_OR_PARTITION,
// NOT_LEADER_OR_FOLLOWER: there is no replica here yet, and when there is it will lie in that directory unless the
// controller has chosen one; KAFKA_STORAGE_ERROR. Mirrors ReplicaManager.alterReplicaLogDirs.
func (s *Set) Move(tp kafka.TopicPartition, to *storage.Directory) <-chan error {
	begun := make(chan error, 1)
	err := to.Err()
	if err == nil {
		_, err = commitlog.FutureDirName(tp, kafka.UUID{})
	}
	var p *Partition
	if err == nil {
		p, err = s.Partition(tp)
	}
	if errors.Is(err, kerr.NotLeaderForPartition) {
		s.movers.want(tp, to)
	}
	if err != nil {
		begun <- err
		return begun
	}
	s.o.Store.RunFirst(tp, func() { begun <- p.moveTo(to) })
	return begun
}

// want remembers where a partition should lie that is to come here.
func (m *movers) want(tp kafka.TopicPartition, dir *storage.Directory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.wanted[tp] = dir
}

// place is where a new partition should lie: where the controller says, else where it was wanted before it came.
func (m *movers) place(tp kafka.TopicPartition, dir kafka.DirID) kafka.DirID {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := m.wanted[tp]
	delete(m.wanted, tp)
	if wanted != nil && wanted.Online() && dir == kafka.DirUnassigned {
		return wanted.ID()
	}
	return dir
}

// forget is told that a partition exists no more.
func (m *movers) forget(tp kafka.TopicPartition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.wanted, tp)
}

// copy has a partition copy when it is its turn.
func (s *Set) copy(p *Partition) {
	m := &s.movers
	m.mu.Lock()
	if !p.inLine {
		p.inLine = true
		m.waiting = append(m.waiting, p)
	}
	m.mu.Unlock()
	s.nextCopy(0)
}

// nextCopy ends so many partitions' turns and gives the turn to those that wait.
func (s *Set) nextCopy(ended int) {
	m := &s.movers
	m.mu.Lock()
	m.copying -= ended
	var next []*Partition
	for m.copying < m.most && len(m.waiting) > 0 {
		p := m.waiting[0]
		m.waiting = m.waiting[1:]
		p.inLine = false
		next = append(next, p)
		m.copying++
	}
	m.mu.Unlock()
	for _, p := range next {
		s.o.Store.Run(p.tp, func() {
			p.copyOn()
			s.nextCopy(1)
		})
	}
}

// What follows runs on a worker, one job at a time for a partition, unless it says otherwise.

// moveTo begins a move, or ends one.
func (p *Partition) moveTo(to *storage.Directory) error {
	a := p.acting.Load()
	switch {
	case a.finished || p.target.Load().gone:
		return fmt.Errorf("%s: %w", p.tp, kerr.UnknownTopicOrPartition)
	case a.diskErr != nil:
		return a.diskErr
	case a.log == nil:
		return fmt.Errorf("%s is not open yet: %w", p.tp, kerr.NotLeaderForPartition)
	}
	if future := p.future.Load(); future != nil {
		if future.Dir() == to {
			return nil
		}
		p.future.Store(nil)
		if err := p.set.o.Store.Delete(future); err != nil {
			return err
		}
		p.set.o.Logger.Info("move to another log directory has ended before its time", "partition", p.tp.String(), "dir", future.Dir().Path())
	}
	if err := p.set.o.Store.DiscardCopies(p.tp); err != nil { // one that could not go on
		return err
	}
	if a.log.Dir() == to {
		return nil
	}
	future, err := p.set.o.Store.MakeFuture(a.log, to)
	if err != nil {
		return err
	}
	p.future.Store(future)
	p.set.o.Logger.Info("partition moves to another log directory", "partition", p.tp.String(), "from", a.log.Dir().Path(), "to", to.Path())
	p.set.copy(p)
	return nil
}

// resume goes on with a move that an earlier run has begun, or that could not go on.
func (p *Partition) resume() {
	p.role.Lock()
	defer p.role.Unlock()
	a := p.acting.Load()
	if a.log == nil || a.diskErr != nil || a.finished || p.future.Load() != nil {
		return
	}
	future, err := p.set.o.Store.ReopenFuture(a.log)
	if err == nil && future != nil {
		err = align(a.log, future)
	}
	if err != nil {
		p.set.o.Logger.Error("move to another log directory cannot go on", "partition", p.tp.String(), "error", err)
	}
	switch {
	case future == nil:
	case err != nil:
		p.set.o.Store.LetGo(future)
	default:
		p.future.Store(future)
		p.set.copy(p)
	}
}

// align cuts a copy to where, as far as the two know, it is its log's. The caller holds role.
func align(log, future *storage.Log) error {
	if future.LogStart() <= log.LogStart() {
		for e := min(log.LastEpoch(), future.LastEpoch()); e >= 0; {
			of, end := log.EndOffsetForEpoch(e)
			copied, copiedEnd := future.EndOffsetForEpoch(e)
			if of == copied && of >= 0 {
				if to := min(end, copiedEnd); to < future.LogEnd() {
					return future.Truncate(to)
				}
				return nil
			}
			e = min(of, copied)
		}
	}
	if future.LogStart() == log.LogStart() && future.LogEnd() == future.LogStart() {
		return nil // it is empty, as it should be
	}
	return future.TruncateFullyAt(log.LogStart())
}

// realign is align after the log was cut. An error ends the move; the next start goes on with it. The caller holds role.
func (p *Partition) realign(log *storage.Log) {
	future := p.future.Load()
	if future == nil {
		return
	}
	if err := align(log, future); err != nil {
		p.future.Store(nil)
		p.set.o.Store.LetGo(future)
		p.set.o.Logger.Error("move to another log directory cannot go on", "partition", p.tp.String(), "error", err)
	}
}

// copyOn copies what it may, and lets the copy take the log's place once it has all.
func (p *Partition) copyOn() {
	future := p.future.Load()
	if future == nil {
		return
	}
	left, err := int64(0), error(nil)
	for range copyPieces {
		if pause := p.set.movers.rate.Pause(); pause > 0 {
			p.copyLater(pause)
			return
		}
		p.role.RLock()
		left, err = p.copyPiece(future)
		p.role.RUnlock()
		if err != nil || left <= levelBytes {
			break
		}
	}
	switch {
	case err != nil:
		p.copyFailed(future, err)
	case left > levelBytes:
		p.set.copy(p)
	default:
		p.arrive(future)
	}
}

// copyLater copies on after a while.
func (p *Partition) copyLater(pause time.Duration) {
	time.AfterFunc(pause, func() { p.set.copy(p) })
}

// copyFailed says that a move did not go on.
func (p *Partition) copyFailed(future *storage.Log, err error) {
	switch log := p.acting.Load().log; {
	case log.Dir().Err() != nil:
		return // which all have been told
	case p.future.Load() != future && future.Dir().Err() == nil:
		return // it was ended meanwhile, or is tried again
	case errors.Is(err, errDamaged):
		p.future.Store(nil)
		err = errors.Join(err, p.set.o.Store.Delete(future))
	case future.Dir().Err() != nil:
		p.future.Store(nil)
		p.set.o.Store.LetGo(future)
	default: // the disk is full, or retention has just deleted what was to be read
		p.set.o.Logger.Warn("move to another log directory waits", "partition", p.tp.String(), "dir", future.Dir().Path(), "error", err)
		p.copyLater(copyRetry)
		return
	}
	p.set.o.Logger.Error("move to another log directory has failed", "partition", p.tp.String(), "dir", future.Dir().Path(), "error", err)
}

// copyPiece copies some batches, and the log start. It returns about how many bytes are left. The caller holds role.
func (p *Partition) copyPiece(future *storage.Log) (left int64, err error) {
	a := p.acting.Load()
	if a.diskErr != nil {
		return 0, a.diskErr
	}
	start := a.log.LogStart()
	if future.LogEnd() < start { // retention was faster, or the log begins anew
		if err := future.TruncateFullyAt(start); err != nil {
			return 0, err
		}
	}
	from, end := future.LogEnd(), a.log.LogEnd()
	if from >= end {
		return 0, nil
	}
	read, err := a.log.Read(from, commitlog.ReadOptions{MaxBytes: copyBytes, UpTo: end, AtLeastOne: true})
	if err != nil {
		return 0, a.log.ReadFailed(fmt.Errorf("read %s from %d: %w", p.tp, from, err))
	}
	if read.Region == nil {
		return 0, fmt.Errorf("read %s from %d, and it ends at %d: nothing there: %w", p.tp, from, end, errDamaged)
	}
	b, err := read.Region.ReadAll()
	read.Region.Release()
	if err != nil {
		return 0, a.log.ReadFailed(fmt.Errorf("read %s from %d: %w", p.tp, from, err))
	}
	first, err := checkCopy(b)
	if err != nil {
		return 0, fmt.Errorf("read %s from %d: %w: %w", p.tp, from, errDamaged, err)
	}
	if first < from && future.LogStart() == from {
		// The log starts inside of a batch.
		if err := future.TruncateFullyAt(first); err != nil {
			return 0, err
		}
	}
	if _, err := future.AppendFetched(b); err != nil {
		return 0, fmt.Errorf("copy %s to %s: %w", p.tp, future.Dir().Path(), err)
	}
	p.set.movers.rate.Use(len(b))
	future.SetHighWatermark(min(a.log.StoredHighWatermark(), future.LogEnd()))
	future.AppendDone()
	if to := min(start, future.StoredHighWatermark()); to > future.LogStart() {
		if err := future.SetLogStart(to); err != nil {
			return 0, err
		}
	}
	if read.NextOffset >= end {
		return 0, nil
	}
	return max(levelBytes+1, a.log.Size()-future.Size()), nil
}

// checkCopy makes sure that what was read is what was written, and returns where it begins.
func checkCopy(b []byte) (first kafka.Offset, err error) {
	first = -1
	for len(b) > 0 {
		var one batch.Batch
		if one, b, err = batch.Next(b); err == nil {
			err = one.VerifyCRC()
		}
		if err != nil {
			return first, err
		}
		if first < 0 {
			first = one.BaseOffset()
		}
	}
	return first, nil
}

// arrive lets the copy take the log's place.
func (p *Partition) arrive(future *storage.Log) {
	// Most of what is not on disk yet goes there before anybody has to wait for it.
	if _, err := future.Sync(); err != nil {
		if p.future.Load() != future {
			return // it was let go
		}
		future.Fail(err)
		p.copyFailed(future, err)
		return
	}
	log, err := p.promote(future)
	switch {
	case err != nil && log == nil:
		p.failed(err)
	case err != nil:
		p.copyFailed(future, err)
	case log != nil:
		p.checkDisk(log)
		log.NoteChange()
		p.set.tellPlace(p)
	}
}

// promote copies what little is missing while appends wait, and puts the copy in use. With an error it returns the log
// that stays in use, nil if there is none. It returns nil and nil if nothing is to be done.
func (p *Partition) promote(future *storage.Log) (*storage.Log, error) {
	p.role.Lock()
	defer p.role.Unlock()
	a := p.acting.Load()
	if p.future.Load() != future || a.diskErr != nil {
		return nil, nil
	}
	for future.LogEnd() < a.log.LogEnd() {
		if _, err := p.copyPiece(future); err != nil {
			return a.log, err
		}
	}
	log, err := p.set.o.Store.Promote(a.log, future)
	if err != nil {
		p.future.Store(nil)
		if log != nil && future.Dir().Err() == nil {
			p.set.o.Logger.Warn("move to another log directory waits", "partition", p.tp.String(), "dir", future.Dir().Path(), "error", err)
			time.AfterFunc(copyRetry, func() { p.set.o.Store.Run(p.tp, p.resume) })
		}
		return log, err
	}
	if !p.displaced {
		p.moved.Store(true)
	}
	p.use(log)
	p.future.Store(nil)
	return log, nil
}

// use puts a log in the place of the one before, which had the same records. The caller holds role.
func (p *Partition) use(log *storage.Log) {
	p.mu.Lock()
	next := *p.acting.Load()
	next.log = log
	if next.leading {
		log.AssignEpochStart(next.epoch, next.start)
	}
	p.acting.Store(&next)
	p.listen(log)
	log.SetHighWatermark(p.highWatermark.Load())
	chain := p.advanceLocked(&next)
	durable := p.forSync.reach(log.SyncedEnd())
	p.markLocked(everyKind)
	p.mu.Unlock()
	release(chain)
	release(durable)
}
