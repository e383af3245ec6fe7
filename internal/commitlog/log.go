package commitlog

import (
	"cmp"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// Log is one partition's log. All methods are safe for concurrent use.
type Log struct {
	fs       vfs.FS
	files    *Files
	tp       kafka.TopicPartition
	now      func() time.Time
	logger   *slog.Logger
	expiryMs int64

	// bounds is what readers see. Written under mu, read without a lock.
	bounds atomic.Pointer[Bounds]
	// deletionBound is where deletion has to stop: the high watermark.
	deletionBound atomic.Int64
	failed        atomic.Pointer[error]
	// config is replaced under mu, and read without it too.
	config atomic.Pointer[Config]
	// appended counts the bytes ever written to the log by this Log, synced those of them that are known to be on disk.
	appended, synced atomic.Int64

	// reshape comes before mu. It is held, also across syncs, by whoever takes segments out of the log or puts others in
	// their place: retention, truncation, and compaction while it does so.
	reshape    xsync.Mutex
	compacting atomic.Bool // one compaction at a time
	// syncing is held while a sync waits for the disk, never with mu. The kernel tells a failed write-back once per
	// descriptor: of two syncs side by side the one that is not told would vouch for what is lost.
	syncing xsync.Mutex

	mu     xsync.Mutex // guards what follows; held while writing to the disk, never while syncing an append
	dir    string
	closed bool

	sealed    []view // all segments but the last, in order. Elements never change: Bounds shares the array.
	active    *active
	logStart  kafka.Offset
	logEnd    kafka.Offset
	epochs    epochs
	producers producers
	// snapshots are the offsets of the producer snapshots on disk, in order.
	snapshots []kafka.Offset
	held      []heldSnapshot // later ones, that the next sync writes; in order
	sequences []kafka.Offset // of the companion files on disk

	syncedEnd     kafka.Offset
	recoveryPoint kafka.Offset
	stored        kafka.Offset // the recovery point that the next Open is given, or more: what stood for earlier ones can go
	ownerStores   bool         // and tells when; else it is the recovery point itself
	sinceRecovery int64        // bytes appended after the recovery point
	unsynced      []*file      // log files with writes that no sync has covered yet
	unsyncedAside []*file      // other files that must be on disk before the recovery point may move past them
	names         int          // counts creations, renames and removals of files that must become durable
	namesSynced   int          // the value of names that the last SyncDir covers
	namesFound    bool         // Open has found files, whose names need not be on disk: no SyncDir of this Log covers them yet
	standsOn      []string     // the snapshots that Open has found: who made them need not have synced them, nor has this Log yet
	newFolder     bool         // its name and its partition.metadata are not durable yet
	epochsDirty   bool         // the checkpoint file lacks an epoch that has records
	epochUnused   bool         // the last epoch may have no record yet
	truncations   int          // a sync that was running meanwhile proves nothing
	settled       bool         // Close has left nothing to do
	summary       []byte       // what Open was given, if the log was as it says
	deleted       []deletedFile
}

// Bounds is a consistent look at where the log begins and ends. It is immutable.
type Bounds struct {
	LogStart  kafka.Offset // the first offset that may be read
	LogEnd    kafka.Offset // the offset that the next record gets
	SyncedEnd kafka.Offset // all below it is on disk, and stays readable after a power cut

	sealed      []view
	active      view
	sealedBytes int64
	epochs      epochs
	unstable    kafka.Offset // first offset of the first open transaction, -1 if there is none
	ended       []endedTxn
}

// Recovery tells what Open had to do.
type Recovery struct {
	From           kafka.Offset  // records from here on were read and verified; the log end after a clean stop
	ScannedBytes   int64         // how many bytes that were
	TruncatedBytes int64         // cut off behind the last whole batch, whole segments included
	RebuiltIndexes int           // segments whose index files were missing or damaged
	Took           time.Duration // in all
}

var errClosed = fmt.Errorf("log is closed: %w", kerr.NotLeaderForPartition)

// Dir returns the log's folder.
func (l *Log) Dir() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.dir
}

// Bounds returns where the log begins and ends now.
func (l *Log) Bounds() *Bounds { return l.bounds.Load() }

// LogStart returns the first offset that may be read.
func (l *Log) LogStart() kafka.Offset { return l.bounds.Load().LogStart }

// LogEnd returns the offset that the next record gets.
func (l *Log) LogEnd() kafka.Offset { return l.bounds.Load().LogEnd }

// SyncedEnd returns the offset below which all is on disk.
func (l *Log) SyncedEnd() kafka.Offset { return l.bounds.Load().SyncedEnd }

// LastEpoch returns the last leader epoch in the log or assigned to it, or -1.
func (l *Log) LastEpoch() kafka.Epoch { return l.bounds.Load().epochs.last() }

// EndOffsetForEpoch returns the largest epoch in the log that is not larger than the wanted one, and the offset at which
// it ends. It is -1, -1 when the wanted one is larger than any in the log. Mirrors LeaderEpochFileCache.endOffsetFor.
func (l *Log) EndOffsetForEpoch(wanted kafka.Epoch) (kafka.Epoch, kafka.Offset) {
	b := l.bounds.Load()
	return b.epochs.endOffset(wanted, b.LogEnd)
}

// EpochAt returns the leader epoch of the record at an offset, or -1.
func (l *Log) EpochAt(offset kafka.Offset) kafka.Epoch { return l.bounds.Load().epochs.at(offset) }

// AssignEpochStart notes that the log of a leader epoch begins at start, which is its log end: a new leader does so
// before its first append. An epoch without a record is not worth a write: it reaches the disk after its first one. A log
// that is closed or has failed stays as it is: the append will say so.
func (l *Log) AssignEpochStart(epoch kafka.Epoch, start kafka.Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.usableLocked() != nil {
		return
	}
	l.epochs = l.epochs.assign(epoch, start)
	l.epochUnused = true
	l.publishLocked()
}

// LastStable returns the first offset of the earliest transaction whose end is not below the high watermark, or -1 if
// there is none: readers of committed records stop there.
func (l *Log) LastStable() kafka.Offset {
	b := l.bounds.Load()
	stable := b.unstable
	highWatermark := l.deletionBound.Load()
	for _, t := range b.ended {
		if t.last >= highWatermark && (stable < 0 || t.first < stable) {
			stable = t.first
		}
	}
	if stable >= 0 {
		stable = max(stable, b.LogStart)
	}
	return stable
}

// SetDeletionBound tells the high watermark: nothing at or after it is deleted by retention or SetLogStart, and
// transactions that ended below it are settled. It takes no lock.
func (l *Log) SetDeletionBound(highWatermark kafka.Offset) { l.deletionBound.Store(highWatermark) }

// Config returns what SetConfig or Open last set. It takes no lock: whoever goes through all logs is not held up by one whose
// disk stalls.
func (l *Log) Config() Config { return *l.cfg() }

func (l *Log) cfg() *Config { return l.config.Load() }

// SetConfig replaces the configuration; it holds from the next append on.
func (l *Log) SetConfig(c Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c = c.valid()
	if l.active != nil && c.MaxIndexBytes != l.cfg().MaxIndexBytes {
		l.active.extended = false
	}
	l.config.Store(&c)
}

// RecoveryPoint returns an offset below which the log, its indexes and its producer state are on disk: the next Open may
// begin there. After Truncate or TruncateFullyAt it may be lower than before.
func (l *Log) RecoveryPoint() kafka.Offset {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.recoveryPoint
}

// SegmentInfo describes one segment.
type SegmentInfo struct {
	BaseOffset kafka.Offset
	SizeBytes  int64
}

// Segments returns the segments in order; the last is the one appended to.
func (l *Log) Segments() []SegmentInfo {
	b := l.bounds.Load()
	var all []SegmentInfo
	for i := range len(b.sealed) + 1 {
		v := b.view(i)
		all = append(all, SegmentInfo{BaseOffset: v.base, SizeBytes: v.size})
	}
	return all
}

// Size returns the bytes of records in the log.
func (l *Log) Size() int64 {
	b := l.bounds.Load()
	return b.sealedBytes + b.active.size
}

// view returns the i-th segment, sealed ones first.
func (b *Bounds) view(i int) *view {
	if i == len(b.sealed) {
		return &b.active
	}
	return &b.sealed[i]
}

// floor returns the number of the segment in which offset lies; 0 for an offset before all.
func (b *Bounds) floor(offset kafka.Offset) int {
	if offset >= b.active.base {
		return len(b.sealed)
	}
	i, found := slices.BinarySearchFunc(b.sealed, offset, func(v view, offset kafka.Offset) int { return cmp.Compare(v.base, offset) })
	if !found {
		i--
	}
	return max(i, 0)
}

// publishLocked lets readers see the present state.
func (l *Log) publishLocked() {
	b := &Bounds{
		LogStart: l.logStart, LogEnd: l.logEnd, SyncedEnd: l.syncedEnd,
		sealed: l.sealed, active: l.active.view, epochs: l.epochs, unstable: -1, ended: l.producers.ended,
	}
	if old := l.bounds.Load(); old != nil && len(old.sealed) == len(l.sealed) && (len(l.sealed) == 0 || &old.sealed[0] == &l.sealed[0]) {
		b.sealedBytes = old.sealedBytes
	} else {
		for i := range l.sealed {
			b.sealedBytes += l.sealed[i].size
		}
	}
	if len(l.producers.open) > 0 {
		b.unstable = l.producers.open[0].first
	}
	if l.logStart > l.logEnd || l.syncedEnd > l.logEnd || l.active.base > l.logEnd { // a bare Check allocates its arguments, each time
		invariant.Check(false, "%s: start %d, synced %d, end %d, active segment %d", l.tp, l.logStart, l.syncedEnd, l.logEnd, l.active.base)
	}
	l.bounds.Store(b)
}

// usable returns why nothing can be done with the log, if so.
func (l *Log) usable() error {
	if err := l.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (l *Log) usableLocked() error {
	if l.closed {
		return errClosed
	}
	return l.usable()
}

// fail takes the log out of service until it is opened again, because memory and disk may differ, and returns what every
// later call returns too: KAFKA_STORAGE_ERROR with the cause.
func (l *Log) fail(cause error) error {
	err := fmt.Errorf("log %s failed: %w: %w", l.tp, kerr.KafkaStorageError, cause)
	if l.failed.CompareAndSwap(nil, &err) {
		l.logger.Error("log failed and stays out of service until it is opened again", "err", cause)
	}
	return *l.failed.Load()
}

// Close ends the log after writing what lets the next Open trust everything: index files of their real size, a producer
// snapshot at the log end, epochs, all synced. Regions stay readable. A log that has failed is only let go.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	defer l.letGoLocked()
	if l.failed.Load() != nil {
		return nil
	}
	if err := l.settleLocked(); err != nil {
		return fmt.Errorf("close log %s: %w", l.tp, err)
	}
	l.settled = true
	return nil
}

// Abandon ends the log without touching the disk.
func (l *Log) Abandon() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.letGoLocked()
	}
}

func (l *Log) letGoLocked() {
	l.closed = true
	for i := range l.sealed {
		_ = l.sealed[i].close() // nothing unsynced is in it, or the log has failed
	}
	_ = l.active.close()
	for _, d := range l.deleted {
		_ = d.f.close()
	}
	for _, f := range l.unsyncedAside {
		_ = f.close()
	}
}

// RenameForDelete gives the folder the name of a deleted log's and ends the log; Regions stay readable. The folder is
// the caller's to remove when file.delete.delay.ms is over. It returns the new path.
func (l *Log) RenameForDelete(unique kafka.UUID) (dir string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return "", errClosed
	}
	parent := filepath.Dir(l.dir)
	to := filepath.Join(parent, DeleteDirName(l.tp, unique))
	if err := l.fs.Rename(l.dir, to); err != nil {
		return "", fmt.Errorf("rename log %s away: %w", l.tp, err)
	}
	l.letGoLocked()
	l.dir = to
	if err := l.fs.SyncDir(parent); err != nil {
		return to, fmt.Errorf("rename log %s away: %w", l.tp, err)
	}
	return to, nil
}
