package storage

import (
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/xsync"
)

// Log is one open partition of a Store. The commitlog's own Sync, Retain, SetDeletionBound, Close and Delete are called
// by the Store; owners use the methods of this type where there is one of the same name.
type Log struct {
	*commitlog.Log
	tp   kafka.TopicPartition
	id   kafka.TopicID
	dir  *Directory
	made bool // by this start, empty
	// future is the name of the folder in which the partition is copied from another directory, "" for its log in use.
	future string

	synced        atomic.Pointer[func(syncedEnd kafka.Offset, err error)]
	highWatermark atomic.Int64
	durableStart  atomic.Int64 // the journal's log start; written where the journal is told
	inLine        atomic.Int32 // waits for the syncer, and how; see syncer
	changed       atomic.Bool  // waits for the journal
	// flush is when the log asks for a sync that nobody waits for (flush.messages, flush.ms).
	flush struct {
		records atomic.Int64 // not synced; 0 = any number
		wait    atomic.Int64 // time.Duration; 0 = any time
	}

	// use is held shared by background work in the folder, which knows it by name, and exclusively to rename it away.
	use  xsync.RWMutex
	gone atomic.Bool // renamed for deletion; set under use
	// leaves is closed before use is taken to rename the folder: whoever holds use for long lets go of it.
	leaves  chan struct{}
	leaving atomic.Bool // leaves is closed, or about to be
}

// TopicPartition returns which partition this is.
func (l *Log) TopicPartition() kafka.TopicPartition { return l.tp }

// Dir returns the directory that the partition lies in.
func (l *Log) Dir() *Directory { return l.dir }

// Made tells that there was no folder of the partition when it was opened: the log began empty.
func (l *Log) Made() bool { return l.made }

// OnSynced sets the function that is told of every sync of this log: all below syncedEnd is durable, or err says that
// the directory has failed. It is called with no lock held and must not wait. Set it once, before the first append, and
// look at Dir().Err() afterwards: a failure from before is not told again.
func (l *Log) OnSynced(f func(syncedEnd kafka.Offset, err error)) { l.synced.Store(&f) }

// SetConfig is the commitlog's SetConfig.
func (l *Log) SetConfig(c commitlog.Config) {
	l.Log.SetConfig(c)
	l.setFlush(c)
}

// setFlush takes over when to sync unasked. With FlushBeforeAck that is always sooner than a setting can ask for.
func (l *Log) setFlush(c commitlog.Config) {
	if l.dir.o.FlushBeforeAck {
		return
	}
	l.flush.records.Store(c.FlushMessages)
	l.flush.wait.Store(int64(time.Duration(min(c.FlushMs, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond))
}

// Append is the commitlog's Append, refused with KAFKA_STORAGE_ERROR while the directory is full or failed. Follow it by
// AppendDone.
func (l *Log) Append(b []byte, o commitlog.AppendOptions) (commitlog.Appended, error) {
	if err := l.dir.writable(); err != nil {
		return commitlog.Appended{}, err
	}
	if err := l.dir.keeper.admit(int64(len(b))); err != nil {
		return commitlog.Appended{}, err
	}
	a, err := l.Log.Append(b, o)
	l.dir.keeper.landed(l, int64(len(b)), int64(a.Bytes))
	if err != nil {
		return a, l.dir.ioFailed(err)
	}
	return a, nil
}

// AppendFetched is the commitlog's AppendFetched under the same conditions as Append.
func (l *Log) AppendFetched(b []byte) (commitlog.Appended, error) {
	if err := l.dir.writable(); err != nil {
		return commitlog.Appended{}, err
	}
	if err := l.dir.keeper.admit(int64(len(b))); err != nil {
		return commitlog.Appended{}, err
	}
	a, err := l.Log.AppendFetched(b)
	l.dir.keeper.landed(l, int64(len(b)), int64(a.Bytes))
	if err != nil {
		return a, l.dir.ioFailed(err)
	}
	return a, nil
}

// AppendDone tells that the log has bytes to sync. With FlushBeforeAck they are synced within some milliseconds, or when
// there are many, or at once if somebody waits: see Hurry. Without it they are when the log's own settings say so. It
// never waits itself.
func (l *Log) AppendDone() {
	l.NoteChange()
	l.dir.keeper.wrote()
	l.queue()
	if l.UnsyncedBytes() >= lazyBytes {
		l.Hurry()
	}
	if n := l.flush.records.Load(); n > 0 && l.LogEnd()-l.SyncedEnd() >= n && l.makeUrgent() {
		l.dir.syncer.ask()
	}
}

// queue puts the log in line for the syncer.
func (l *Log) queue() {
	if l.inLine.Load() == notInLine && l.inLine.CompareAndSwap(notInLine, patientInLine) {
		l.dir.syncer.add(l)
	}
}

// Hurry tells that the sync that an earlier AppendDone has asked for is wanted now. Without FlushBeforeAck nobody waits for
// the disk, and it does nothing. It never waits itself.
func (l *Log) Hurry() {
	if l.urge() {
		l.dir.syncer.ask()
	}
}

// urge makes the log urgent if it is in line; it returns false if it was so already or is not in line.
func (l *Log) urge() bool {
	return l.dir.o.FlushBeforeAck && l.makeUrgent()
}

func (l *Log) makeUrgent() bool {
	return l.inLine.Load() == patientInLine && l.inLine.CompareAndSwap(patientInLine, urgentInLine)
}

// Hurry is Log.Hurry for one who waits until all these logs are synced: they come into the same round, and the syncer
// counts those who wait, in order to have them in one round too.
func Hurry(logs ...*Log) {
	for _, l := range logs {
		l.urge()
	}
	var few [2]*syncer
	asked := few[:0]
	for _, l := range logs {
		if s := l.dir.syncer; l.inLine.Load() == urgentInLine && !slices.Contains(asked, s) {
			asked = append(asked, s)
			s.ask()
		}
	}
}

// SetHighWatermark tells the high watermark: retention does not delete past it, transactions that end below it are
// settled, and it is there at the next start. It takes no lock and never waits. The caller keeps the calls in order, and
// follows them by NoteChange, unless it is AppendDone or a sync that moved the watermark: they do so themselves.
func (l *Log) SetHighWatermark(offset kafka.Offset) {
	l.highWatermark.Store(offset)
	l.Log.SetDeletionBound(offset)
}

// StoredHighWatermark returns what SetHighWatermark last stored, in an earlier run perhaps.
func (l *Log) StoredHighWatermark() kafka.Offset { return l.highWatermark.Load() }

// SetLogStart deletes the records below to, for good: a crash does not bring them back. It waits for the disk.
func (l *Log) SetLogStart(to kafka.Offset) error {
	if err := l.dir.Err(); err != nil {
		return err
	}
	err := l.Log.SetLogStart(to)
	// Retention may have moved the log start as far already, but what it does may not be on disk yet.
	if err == nil && l.DurableLogStart() < to {
		err = l.dir.keeper.tell(l)
	}
	if err != nil {
		return l.dir.ioFailed(err)
	}
	return nil
}

// DurableLogStart returns the offset below which no crash brings records back. It is behind LogStart for a while when retention
// has moved that. It never waits.
func (l *Log) DurableLogStart() kafka.Offset { return l.durableStart.Load() }

// remembered takes over what the journal knows; called with keeper.telling held, or before the log is known to others.
func (l *Log) remembered(o offsets) { l.durableStart.Store(o.logStart) }

// Truncate cuts the log to end at to. The journal hears of it first: a recovery point above to would make the next start
// trust what is written there now.
func (l *Log) Truncate(to kafka.Offset) error {
	return l.truncate(to, func() error { return l.Log.Truncate(to) })
}

// TruncateFullyAt empties the log and lets it begin at offset.
func (l *Log) TruncateFullyAt(offset kafka.Offset) error {
	return l.truncate(min(offset, l.LogStart()), func() error { return l.Log.TruncateFullyAt(offset) })
}

func (l *Log) truncate(to kafka.Offset, cut func() error) error {
	if err := l.dir.Err(); err != nil {
		return err
	}
	if err := l.cut(to, cut); err != nil {
		return l.dir.ioFailed(err)
	}
	l.AppendDone() // the cut is to be synced like bytes
	return nil
}

func (l *Log) cut(to kafka.Offset, cut func() error) error {
	l.dir.keeper.telling.Lock() // until it is cut nobody else tells the journal of it
	defer l.dir.keeper.telling.Unlock()
	news := l.news()
	news.recoveryPoint = min(news.recoveryPoint, to)
	news.highWatermark = min(news.highWatermark, to)
	// A log start past the end that a crash finds would empty the log there, where the leader's may begin lower.
	news.logStart = min(news.logStart, to)
	l.SetHighWatermark(news.highWatermark)
	if err := l.tellJournal(news); err != nil {
		return err
	}
	if err := l.dir.cleaned.lower(l.tp, to); err != nil {
		return err
	}
	if err := cut(); err != nil {
		return err
	}
	if l.LogStart() > l.DurableLogStart() { // it was emptied to begin there
		if err := l.tellJournal(l.news()); err != nil {
			return err
		}
	}
	return l.dir.cleaned.lower(l.tp, l.LogEnd()) // which may be less, but what lies between is gone
}

// tellJournal brings news of the log to the journal. The caller holds keeper.telling.
func (l *Log) tellJournal(news change) error {
	if err := l.dir.journal.write([]change{news}); err != nil {
		return err
	}
	l.remembered(news.offsets)
	return nil
}

// Fail takes the whole directory out of service: every log in it answers KAFKA_STORAGE_ERROR from now on.
func (l *Log) Fail(err error) { l.dir.fail(err) }

// ReadFailed is told of an error of a read. One of Kafka's own is returned as it is; any other fails the directory.
func (l *Log) ReadFailed(err error) error { return l.dir.ioFailed(err) }

// NoteChange brings recovery point, high watermark and log start to the journal before long. It never waits.
func (l *Log) NoteChange() {
	if !l.changed.Load() && l.changed.CompareAndSwap(false, true) {
		l.dir.keeper.note(l)
	}
}

// news is what the journal should know of the log now.
func (l *Log) news() change {
	start := l.LogStart()
	return change{tp: l.tp, id: l.id, offsets: offsets{
		recoveryPoint: l.RecoveryPoint(), highWatermark: max(l.highWatermark.Load(), start), logStart: start,
	}}
}

// startSync lets the log's bytes go on their way, for sync to wait for; called by the syncer only.
func (l *Log) startSync() {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.gone.Load() {
		return
	}
	if err := l.Log.StartSync(); err != nil {
		l.dir.syncFailed(l, err)
	}
}

// sync makes the log durable and tells its owner; called by the syncer only.
func (l *Log) sync() {
	l.use.RLock()
	if l.gone.Load() {
		l.use.RUnlock()
		return
	}
	if _, dirty := l.Dirty(); !dirty {
		end := l.SyncedEnd()
		l.use.RUnlock()
		l.tell(end, nil) // somebody else's sync covered it, who need not have told
		return
	}
	started := l.dir.o.Now()
	end, err := l.Log.Sync()
	l.use.RUnlock()
	l.dir.syncer.metrics.seconds.Observe(l.dir.since(started).Seconds())
	if err != nil {
		l.dir.syncFailed(l, err)
		return // the syncer tells every log of the directory
	}
	l.dir.syncer.done()
	l.tell(end, nil)
	l.NoteChange() // after its owner has moved the watermark
}

// beginSync is the first half of sync where the waiting is done for many logs at once. nil: there is nothing to wait for.
func (l *Log) beginSync() *commitlog.Flush {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.gone.Load() {
		return nil
	}
	if _, dirty := l.Dirty(); !dirty {
		return nil
	}
	f, err := l.Log.BeginSync(false)
	if err != nil {
		l.dir.syncFailed(l, err)
		return nil
	}
	return f
}

// endSync is the second half.
func (l *Log) endSync(f *commitlog.Flush) {
	l.use.RLock()
	if l.gone.Load() {
		l.use.RUnlock()
		return
	}
	end, err := l.SyncedEnd(), l.dir.Err()
	if f != nil && err == nil {
		end, _, err = l.Log.EndSync(f)
	}
	l.use.RUnlock()
	if err != nil {
		l.dir.syncFailed(l, err)
		return // the syncer tells every log of the directory
	}
	l.dir.syncer.done()
	l.tell(end, nil)
	l.NoteChange() // after its owner has moved the watermark
}

func (l *Log) tell(end kafka.Offset, err error) {
	if f := l.synced.Load(); f != nil {
		(*f)(end, err)
	}
}

// advanceRecoveryPoint moves the recovery point to the log end.
func (l *Log) advanceRecoveryPoint() error {
	l.use.RLock()
	if l.gone.Load() {
		l.use.RUnlock()
		return nil
	}
	err := l.Log.AdvanceRecoveryPoint()
	end := l.SyncedEnd()
	l.use.RUnlock()
	if err == nil {
		l.tell(end, nil)
		l.NoteChange()
	}
	return err
}

// beginAdvance and endAdvance move the recovery point, or settle the log for a stop, where the waiting is done for many logs at
// once: begin is the log's BeginSync or BeginClose, endAdvance comes after a sync, and again as long as it returns true.
func (l *Log) beginAdvance(begin func() (*commitlog.Flush, error)) *commitlog.Flush {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.gone.Load() {
		return nil
	}
	f, err := begin()
	if err != nil {
		l.dir.syncFailed(l, err)
		return nil
	}
	return f
}

func (l *Log) endAdvance(f *commitlog.Flush, first bool) (more bool) {
	l.use.RLock()
	if l.gone.Load() {
		l.use.RUnlock()
		return false
	}
	var err error
	if first {
		_, more, err = l.Log.EndSync(f)
	} else {
		more, err = l.Log.EndRecovery(f)
	}
	end := l.SyncedEnd()
	l.use.RUnlock()
	if err != nil {
		l.dir.syncFailed(l, err)
		return false
	}
	l.tell(end, nil)
	l.NoteChange()
	return more
}

// retain applies retention and removes what an earlier pass has renamed. It returns whether renamed files are left.
func (l *Log) retain(now time.Time) (left bool, err error) {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.gone.Load() {
		return false, nil
	}
	start := l.LogStart()
	_, err = l.Log.Retain(now)
	if l.LogStart() != start {
		l.NoteChange()
	}
	n, removeErr := l.Log.DeletePending(now)
	return n > 0, errors.Join(err, removeErr)
}

func (l *Log) expireProducers(now time.Time, expiryMs int64) {
	l.use.RLock()
	defer l.use.RUnlock()
	if !l.gone.Load() {
		l.Log.SetProducerExpiry(expiryMs)
		l.Log.ExpireProducers(now)
	}
}

// removeFiles removes what earlier passes have renamed and whose delay is over.
func (l *Log) removeFiles(now time.Time) (left bool, err error) {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.gone.Load() {
		return false, nil
	}
	n, err := l.Log.DeletePending(now)
	return n > 0, err
}
