package storage

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// Options is what a Store needs to know. Zero values get the defaults named here.
type Options struct {
	FS      vfs.FS
	Dirs    []string // log.dirs, at least one
	Apart   string   // metadata.log.dir, if it is none of Dirs: a directory of this node that holds no partitions; "" = none
	NodeID  kafka.NodeID
	Now     func() time.Time
	Logger  *slog.Logger
	Metrics *metrics.Set

	FlushBeforeAck  bool // sync what is dirty in milliseconds or, for those who wait, at once; false: once per LazySyncInterval
	RecoveryThreads int  // jobs at once per directory; 2
	MaxOpenFiles    int  // descriptors kept open per directory; 4096
	SyncThreads     int  // files synced at once per directory; 16
	SyncWholeFrom   int  // logs that one sync of their whole filesystem does for, where there is such a call; see wholeFrom

	RetentionInterval  time.Duration // log.retention.check.interval.ms; 5 minutes
	JournalInterval    time.Duration // from the first change to the journal entry that tells it; 1 second
	CheckpointInterval time.Duration // least time between two writes of Kafka's checkpoint files; 1 minute
	SpaceInterval      time.Duration // between two looks at the free space, only while something is written or full; 1 second
	LazySyncInterval   time.Duration // 1 minute
	ProducerExpiryMs   int64         // producer.id.expiration.ms; 1 day
	ProducerInterval   time.Duration // producer.id.expiration.check.interval.ms; 10 minutes
	Cleaner            CleanerOptions
	RecoveryBytes      int64 // most that an unclean start has to read per directory; 256 MiB
	Scrub              ScrubOptions
}

func (o *Options) setDefaults() {
	o.RecoveryThreads = cmp.Or(o.RecoveryThreads, 2)
	o.MaxOpenFiles = cmp.Or(o.MaxOpenFiles, 4096)
	o.SyncThreads = cmp.Or(o.SyncThreads, 16)
	o.SyncWholeFrom = cmp.Or(o.SyncWholeFrom, wholeFrom)
	o.RetentionInterval = cmp.Or(o.RetentionInterval, 5*time.Minute)
	o.JournalInterval = cmp.Or(o.JournalInterval, time.Second)
	o.CheckpointInterval = cmp.Or(o.CheckpointInterval, time.Minute)
	o.SpaceInterval = cmp.Or(o.SpaceInterval, time.Second)
	o.LazySyncInterval = cmp.Or(o.LazySyncInterval, time.Minute)
	o.RecoveryBytes = cmp.Or(o.RecoveryBytes, 256<<20)
	o.ProducerExpiryMs = cmp.Or(o.ProducerExpiryMs, (24 * time.Hour).Milliseconds())
	o.ProducerInterval = cmp.Or(o.ProducerInterval, 10*time.Minute)
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Store is all logs of a node.
type Store struct {
	o        Options
	dirs     []*Directory
	apart    *Directory // Options.Apart; nil = none
	workers  *workers
	cleaner  *cleaner
	scrubber *scrubber
	failures chan *Directory

	stop    chan struct{}
	running sync.WaitGroup
	started bool
	epoch   int64 // of the last registration, -1 = none

	onSpace atomic.Pointer[func()]

	producerExpiryMs atomic.Int64 // in force; see SetProducerExpiry

	twins []folder // second folders of a partition's name, found at the start, until Strays

	mu      xsync.Mutex
	folders map[kafka.TopicPartition]*Directory // partitions found on disk or made since, open or not
	logs    map[kafka.TopicPartition]*Log
	futures map[kafka.TopicPartition]*Log     // logs in use that are being copied to another directory: the open copies, and
	left    map[kafka.TopicPartition][]copied // the folders of copies that an earlier run has left
}

// OpenDirectories locks every directory and learns its id and what it holds; no log is opened. A directory that can not
// be used is offline, as long as one can; a directory that belongs to another node or cluster, or that another process
// uses, is an error. The caller must Stop the Store.
func OpenDirectories(o Options) (*Store, error) {
	o.setDefaults()
	s := &Store{
		o:        o,
		epoch:    -1,
		failures: make(chan *Directory, len(o.Dirs)+1),
		stop:     make(chan struct{}),
		folders:  map[kafka.TopicPartition]*Directory{},
		logs:     map[kafka.TopicPartition]*Log{},
		futures:  map[kafka.TopicPartition]*Log{},
		left:     map[kafka.TopicPartition][]copied{},
		workers:  newWorkers(o.RecoveryThreads, len(o.Dirs)),
	}
	s.producerExpiryMs.Store(o.ProducerExpiryMs)
	s.cleaner = newCleaner(s)
	s.scrubber = newScrubber(s)
	if err := s.openDirectories(); err != nil {
		return nil, errors.Join(err, s.closeDirectories())
	}
	s.declareMetrics()
	return s, nil
}

func (s *Store) openDirectories() error {
	if len(s.o.Dirs) == 0 {
		return errors.New("log.dirs names no directory")
	}
	seen := map[string]bool{}
	for _, path := range s.o.Dirs {
		if clean := filepath.Clean(path); seen[clean] {
			return fmt.Errorf("log.dirs names %s twice", path)
		} else {
			seen[clean] = true
		}
		d, err := openDirectory(s, path)
		s.dirs = append(s.dirs, d)
		if err == nil {
			err = s.scan(d)
		}
		var theirs *identityError
		switch {
		case errors.Is(err, vfs.ErrLocked):
			return fmt.Errorf("log directory %s is in use by another process: stop it, or give this node another log.dirs (%w)", path, err)
		case errors.As(err, &theirs):
			return err
		case err != nil:
			d.fail(err)
		}
	}
	if err := s.openApart(); err != nil {
		return err
	}
	return s.checkIdentities()
}

// openApart opens the directory that is none of log.dirs. There is nothing to go on with without it.
func (s *Store) openApart() error {
	if s.o.Apart == "" {
		return nil
	}
	d, err := openDirectory(s, s.o.Apart)
	s.apart = d
	if errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("metadata.log.dir %s is in use by another process: stop it, or give this node another (%w)", s.o.Apart, err)
	}
	if err != nil {
		return fmt.Errorf("metadata.log.dir: %w", err)
	}
	return nil
}

// all returns the directories that are this node's, whatever they hold.
func (s *Store) all() []*Directory {
	if s.apart == nil {
		return s.dirs
	}
	return append(slices.Clip(s.dirs), s.apart)
}

// checkIdentities makes sure that the directories are one node's of one cluster. Mirrors MetaPropertiesEnsemble.verify.
func (s *Store) checkIdentities() error {
	var first *Directory
	ids := map[kafka.DirID]*Directory{}
	online := 0
	for _, d := range s.all() {
		if !d.Online() {
			continue
		}
		if d != s.apart {
			online++
		}
		if other := ids[d.ID()]; other != nil {
			return fmt.Errorf("%s and %s both have directory.id=%s: one is a copy of the other; remove the copy from log.dirs", other.path, d.path, d.ID())
		}
		ids[d.ID()] = d
		switch {
		case d.identity.clusterID == "":
		case first == nil:
			first = d
		case d.identity.clusterID != first.identity.clusterID:
			return fmt.Errorf("%s belongs to cluster %s, but %s to cluster %s: remove one of them from log.dirs",
				first.path, first.identity.clusterID, d.path, d.identity.clusterID)
		}
	}
	if online == 0 {
		errs := []error{errors.New("no log directory can be used")}
		for _, d := range s.dirs {
			errs = append(errs, d.Err())
		}
		return errors.Join(errs...)
	}
	return nil
}

// ClusterID returns the id of the cluster that the directories belong to, if any does.
func (s *Store) ClusterID() (string, bool) {
	for _, d := range s.all() {
		if d.Online() && d.identity.clusterID != "" {
			return d.identity.clusterID, true
		}
	}
	return "", false
}

// Number says which node the directories belong to, where Options.NodeID did not, and makes that durable. Call it before Format.
func (s *Store) Number(id kafka.NodeID) error {
	for _, d := range s.all() {
		d.identity.nodeID = id
	}
	return s.Claim()
}

// Claim makes the ids of directories that belong to no cluster yet durable, so that a node which has told others who it is
// is the same after a crash. Call it before Format.
func (s *Store) Claim() error {
	for _, d := range s.all() {
		if !d.formatted && d.Online() {
			if err := storeIdentity(s.o.FS, d.path, d.identity, s.o.Now()); err != nil {
				d.fail(fmt.Errorf("write %s: %w", propertiesFile, err))
			}
		}
	}
	return s.anyOnline()
}

// Format makes every directory that belongs to no cluster yet one of this cluster, and is a no-op for the others. The
// directory ids are durable when it returns. Call it before Start.
func (s *Store) Format(clusterID string) error {
	if have, ok := s.ClusterID(); ok && have != clusterID {
		return fmt.Errorf("log directories belong to cluster %s, not to %s", have, clusterID)
	}
	for _, d := range s.all() {
		if d.formatted || !d.Online() {
			continue
		}
		d.identity.clusterID = clusterID
		if err := storeIdentity(s.o.FS, d.path, d.identity, s.o.Now()); err != nil {
			d.fail(fmt.Errorf("write %s: %w", propertiesFile, err))
			continue
		}
		d.formatted = true
	}
	return s.anyOnline()
}

// anyOnline is an error if the node cannot go on with the directories that are left.
func (s *Store) anyOnline() error {
	if s.apart != nil && !s.apart.Online() {
		return s.apart.Err()
	}
	var errs []error
	for _, d := range s.dirs {
		if d.Online() {
			return nil
		}
		errs = append(errs, d.Err())
	}
	return errors.Join(errs...)
}

// Directories returns all directories in the order of log.dirs, offline ones included.
func (s *Store) Directories() []*Directory { return s.dirs }

// Apart returns the directory of Options.Apart; nil if there is none.
func (s *Store) Apart() *Directory { return s.apart }

// Failures delivers each directory that goes offline, those that were so from the start included.
func (s *Store) Failures() <-chan *Directory { return s.failures }

// OnSpace sets a function that is called when a directory that was full takes writes again: partitions that could not be
// made then can be now. It must not wait for a disk.
func (s *Store) OnSpace(f func()) { s.onSpace.Store(&f) }

// PreviousBrokerEpoch returns the newest epoch with which this node registered and after which its log has lost nothing,
// -1 if there is none: the one of a clean stop, or, if SetBrokerEpoch stored it, of any stop.
func (s *Store) PreviousBrokerEpoch() int64 {
	epoch := int64(-1)
	for i, d := range s.dirs {
		if !d.Online() {
			return -1 // what it lost is not known
		}
		e := d.journal.brokerEpoch()
		if d.clean {
			e = max(e, d.cleanEpoch)
		}
		if i > 0 && e != epoch {
			return -1
		}
		epoch = e
	}
	return epoch
}

// SetBrokerEpoch tells the epoch of a registration. A clean stop leaves it for the next start. If FlushBeforeAck makes any
// stop as good as a clean one, it is stored now and durably; if not, one stored by an earlier run is removed. Call it
// before the first append under that epoch, and not at the same time as Stop.
func (s *Store) SetBrokerEpoch(epoch int64) error {
	s.epoch = epoch
	if !s.o.FlushBeforeAck {
		epoch = -1
	}
	for _, d := range s.dirs {
		if !d.Online() {
			continue
		}
		if err := d.journal.setEpoch(epoch); err != nil {
			_ = d.ioFailed(err)
			return fmt.Errorf("store broker epoch in %s: %w", d.path, err)
		}
	}
	return nil
}

// Start removes the marks of a clean stop and starts the background: syncers, journal, checkpoints, retention. No log may
// be opened before. It fails when no directory is left.
func (s *Store) Start() error {
	s.started = true
	var beginning sync.WaitGroup
	for _, d := range s.dirs {
		if d.Online() {
			beginning.Go(d.begin)
		} else {
			close(d.mayOpen)
		}
	}
	beginning.Wait()
	if err := s.anyOnline(); err != nil {
		return err
	}
	for _, d := range s.dirs {
		if d.syncer == nil {
			continue // never came up
		}
		s.running.Go(func() { d.syncer.run(s.stop, func() { s.tellFailed(d) }) })
		s.running.Go(func() { d.keeper.run(s.stop) })
		s.running.Go(func() { d.retention.run(s.stop) })
		s.running.Go(func() { d.cleaning.run(s.stop) })
		s.running.Go(func() { s.scrubber.run(d, s.stop) })
	}
	return nil
}

// tellFailed tells the owner of every log of a failed directory.
func (s *Store) tellFailed(d *Directory) {
	for _, l := range s.allLogs() {
		if l.dir == d {
			l.tell(l.SyncedEnd(), d.Err())
		}
	}
}

// Stop ends the background and gives the directories up. A clean stop syncs and closes every log and leaves the mark
// that lets the next start trust them. An unclean one writes nothing, as a crash would.
// Nobody may append any more.
func (s *Store) Stop(clean bool) error {
	s.workers.stop()
	close(s.stop)
	s.running.Wait()
	var errs []error
	if clean && s.started {
		for _, d := range s.dirs {
			if d.Online() {
				errs = append(errs, s.stopCleanly(d))
			}
		}
	}
	for _, l := range s.allLogs() {
		if !clean || !l.dir.Online() {
			l.Abandon()
		}
	}
	return errors.Join(append(errs, s.closeDirectories())...)
}

func (s *Store) stopCleanly(d *Directory) error {
	logs := slices.DeleteFunc(s.allLogs(), func(l *Log) bool { return l.dir != d })
	s.settleAll(d, logs)
	summaries := make([][]byte, len(logs))
	s.sideBySide(logs, func(i int, l *Log) {
		err := l.Close()
		if err == nil {
			summaries[i], err = l.Summary()
		}
		if err != nil {
			d.fail(fmt.Errorf("close %s: %w", l.tp, err))
			return
		}
		l.NoteChange()
	})
	if err := d.Err(); err != nil {
		return err
	}
	if err := d.keeper.flush(); err != nil {
		return fmt.Errorf("stop %s: %w", d.path, err)
	}
	if err := d.keeper.checkpoint(); err != nil {
		return fmt.Errorf("stop %s: %w", d.path, err)
	}
	if !d.clean && len(logs) < s.foldersIn(d) {
		// A folder that was not opened was not recovered either, and the mark would make the next start trust it.
		return nil
	}
	if err := d.storeClosed(logs, summaries); err != nil {
		return fmt.Errorf("stop %s: %w", d.path, err)
	}
	if err := d.writeCleanMark(s.epoch); err != nil {
		return fmt.Errorf("stop %s: %w", d.path, err)
	}
	return nil
}

// settleAll does for all logs of a directory together what Close would do, and wait for, in each of them.
func (s *Store) settleAll(d *Directory, logs []*Log) {
	if d.whole.disk == nil || len(logs) < s.o.SyncWholeFrom {
		return
	}
	var steps []advance
	// So few at once that their files can stay open until they are synced.
	for some := range slices.Chunk(logs, max(1, s.o.MaxOpenFiles/8)) {
		begun := make([]advance, len(some))
		s.sideBySide(some, func(i int, l *Log) { begun[i] = advance{l: l, f: l.beginAdvance(l.BeginClose)} })
		steps = d.whole.next(append(steps, begun...))
	}
	d.whole.advance(steps)
}

// sideBySide does something with all logs of one directory, as many at once as RecoveryThreads allows.
func (s *Store) sideBySide(logs []*Log, do func(i int, l *Log)) {
	w := newWorkers(s.o.RecoveryThreads, 1)
	for i, l := range logs {
		w.run(nil, l.tp, func() { do(i, l) })
	}
	w.wait()
}

func (s *Store) foldersIn(d *Directory) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return d.partitions
}

func (s *Store) closeDirectories() error {
	var errs []error
	for _, d := range s.all() {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}

// SetProducerExpiry changes Options.ProducerExpiryMs, from the next look for idle producers on.
func (s *Store) SetProducerExpiry(ms int64) { s.producerExpiryMs.Store(ms) }

// SetRecoveryThreads changes Options.RecoveryThreads, for the jobs that have not begun.
func (s *Store) SetRecoveryThreads(perDirectory int) { s.workers.setLimit(perDirectory) }

// Run runs a job that may wait for a disk: jobs of one partition in order, of different partitions side by side, as many
// at once as RecoveryThreads allows per directory. Jobs that have not begun when the Store stops are dropped.
func (s *Store) Run(key kafka.TopicPartition, job func()) { s.workers.run(s.folder(key), key, job) }

// RunFirst is Run for what should not wait for the jobs of other partitions that are in line, which may be the opening of
// thousands.
func (s *Store) RunFirst(key kafka.TopicPartition, job func()) {
	s.workers.runFirst(s.folder(key), key, job)
}

// folder returns the directory that a partition lies in, nil if it lies in none yet.
func (s *Store) folder(key kafka.TopicPartition) *Directory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.folders[key]
}

// Hurry has what a partition has in line done before the jobs of those that nobody asks for.
func (s *Store) Hurry(key kafka.TopicPartition) { s.workers.hurry(key) }

// Lookup returns an open log.
func (s *Store) Lookup(tp kafka.TopicPartition) (*Log, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.logs[tp]
	return l, ok
}

// Logs returns all open logs that are in use, by topic and partition.
func (s *Store) Logs() []*Log { return s.sorted(s.logs) }

// Futures returns the open copies of logs that move to another directory, by topic and partition.
func (s *Store) Futures() []*Log { return s.sorted(s.futures) }

// allLogs returns both.
func (s *Store) allLogs() []*Log { return append(s.Logs(), s.Futures()...) }

func (s *Store) sorted(logs map[kafka.TopicPartition]*Log) []*Log {
	s.mu.Lock()
	all := make([]*Log, 0, len(logs))
	for _, l := range logs {
		all = append(all, l)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *Log) int { return compareTP(a.tp, b.tp) })
	return all
}

// phase returns a time within the second half of an interval, so that what was started together, the nodes of a cluster or
// the work on one node, does not go on in step.
func phase(interval time.Duration) time.Duration {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails since Go 1.24
	half := uint64(interval/2) + 1
	return interval - time.Duration(binary.BigEndian.Uint64(b[:])%half)
}
