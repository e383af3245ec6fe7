package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
)

// scan lists a directory once.
func (s *Store) scan(d *Directory) error {
	entries, err := s.o.FS.List(d.path)
	if err != nil {
		return fmt.Errorf("list log directory %s: %w", d.path, err)
	}
	for _, e := range entries {
		if !e.Dir {
			continue
		}
		switch {
		case commitlog.IsDeleteDir(e.Name):
			d.retention.doom(filepath.Join(d.path, e.Name), time.Time{})
			continue
		case commitlog.IsStrayDir(e.Name):
			d.logger.Warn("partition folder is not in use and can be removed", "folder", filepath.Join(d.path, e.Name))
			continue
		}
		if tp, ok := commitlog.ParseFutureDir(e.Name); ok {
			s.left[tp] = append(s.left[tp], copied{d, e.Name})
			d.partitions++
			continue
		}
		tp, err := commitlog.ParseDir(e.Name)
		if err != nil || tp.Topic == metadataTopic {
			continue // the quorum's log, or nothing of ours
		}
		if other := s.folders[tp]; other != nil {
			if err := s.twin(tp, other, d); err != nil {
				return err
			}
			continue
		}
		s.enterLocked(tp, d) // alone so far: nothing is served yet
	}
	return nil
}

// twin is told of a second folder with the name of one partition, in b. Either a move from one directory to the other was
// cut off when both were there, and the one that had moved more often is the partition's; or one is an older topic's, which
// was deleted while its directory was offline, and Strays will find out which. A folder without an id can prove nothing: the first sync
// of a log makes its id durable too, so that a power cut has taken both, and whatever records are left were never synced.
func (s *Store) twin(tp kafka.TopicPartition, a, b *Directory) error {
	idA, errA := s.storedID(a, tp)
	idB, errB := s.storedID(b, tp)
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	if idA != idB && !idA.IsZero() && !idB.IsZero() {
		s.twins = append(s.twins, folder{tp: tp, d: b})
		return nil
	}
	movesA, errA := readMoves(s.o.FS, filepath.Join(a.path, tp.String()))
	movesB, errB := readMoves(s.o.FS, filepath.Join(b.path, tp.String()))
	if err := errors.Join(errA, errB); err != nil {
		return err
	}
	older, id := b, idB
	if movesA < movesB {
		older, id = a, idA
		s.enterLocked(tp, b)
	}
	if movesA != movesB {
		if err := s.discard(older, tp.String(), tp); err != nil {
			older.logger.Error("folder that a partition has left cannot be removed", "partition", tp.String(), "dir", older.path, "error", err)
		}
		older.keeper.forget(tp, id)
		return nil
	}
	if !idA.IsZero() && !idB.IsZero() {
		return &identityError{fmt.Errorf("partition %s lies in %s and in %s: move the older of the two folders away", tp, a.path, b.path)}
	}
	kept, unnamed := a, b
	if idA.IsZero() {
		nothing, err := s.holdsNothing(a, tp)
		if err != nil {
			return err
		}
		if nothing || !idB.IsZero() {
			kept, unnamed = b, a
			s.enterLocked(tp, b)
		}
	}
	unnamed.logger.Warn("partition has two folders, one without a topic id: nothing in that one was ever synced, and it is used only if the other is an older topic's",
		"partition", tp.String(), "without", unnamed.path, "other", kept.path)
	s.twins = append(s.twins, folder{tp, unnamed, true})
	return nil
}

// holdsNothing tells whether no record was ever on the disk in a partition's folder.
func (s *Store) holdsNothing(d *Directory, tp kafka.TopicPartition) (bool, error) {
	entries, err := s.o.FS.List(filepath.Join(d.path, tp.String()))
	if err != nil {
		return false, d.ioFailed(fmt.Errorf("list the folder of %s: %w", tp, err))
	}
	return commitlog.HoldsNothing(entries), nil
}

// folder is a partition's folder that is not open.
type folder struct {
	tp      kafka.TopicPartition
	d       *Directory
	unnamed bool // it has no topic id, and was the second of its name
}

// enterLocked notes that a partition's folder is in d.
func (s *Store) enterLocked(tp kafka.TopicPartition, d *Directory) {
	s.leaveLocked(tp)
	s.folders[tp] = d
	d.partitions++
}

// leaveLocked ends that.
func (s *Store) leaveLocked(tp kafka.TopicPartition) {
	if d := s.folders[tp]; d != nil {
		delete(s.folders, tp)
		d.partitions--
	}
}

// metadataTopic is the log that package quorum owns.
const metadataTopic = "__cluster_metadata"

// Open opens a partition's log, recovering it as far as the last stop made that necessary, or makes an empty one. A
// folder of the same name that belongs to an older topic is renamed out of the way. dir says where to make a new log;
// DirUnassigned, DirMigrating, DirLost and the id of a directory that this node does not have any more choose the one with the
// fewest. It waits for the disk: call it from Run.
// With FlushBeforeAck the owner acts on what was recovered only when OnSynced has told that it is durable, before long.
// Errors are KAFKA_STORAGE_ERROR.
func (s *Store) Open(tp kafka.TopicPartition, id kafka.TopicID, dir kafka.DirID, cfg commitlog.Config) (*Log, error) {
	return s.openOrMake(tp, id, dir, cfg, nil)
}

// Reopen is Open for a partition that was here before this start. While a directory is offline its log may lie there, and
// an empty one must not take its place. Mirrors LogManager.getOrCreateLog, isNew.
func (s *Store) Reopen(tp kafka.TopicPartition, id kafka.TopicID, dir kafka.DirID, cfg commitlog.Config) (*Log, error) {
	return s.openOrMake(tp, id, dir, cfg, func() error {
		if !unassigned(dir) {
			return nil // the log is there or nowhere
		}
		for _, d := range s.dirs {
			if err := d.Err(); err != nil {
				return fmt.Errorf("open %s: it is in no directory that can be read: %w", tp, err)
			}
		}
		return nil
	})
}

// openOrMake opens a log, or makes one if mayMake, unless it is nil, has nothing against it.
func (s *Store) openOrMake(tp kafka.TopicPartition, id kafka.TopicID, dir kafka.DirID, cfg commitlog.Config, mayMake func() error) (*Log, error) {
	s.mu.Lock()
	open, d := s.logs[tp], s.folders[tp]
	s.mu.Unlock()
	if open != nil {
		if open.id != id {
			return nil, storageError(fmt.Errorf("open %s: its log is open under topic id %s, wanted %s", tp, open.id, id))
		}
		return open, nil
	}
	var err error
	if d != nil {
		if err := d.Err(); err != nil {
			return nil, err
		}
		if l, err := s.openClosed(d, tp, id, cfg); err != nil || l != nil {
			return l, opened(d, tp, err)
		}
		if d, err = s.checkOwner(d, tp, id); err != nil {
			return nil, err
		}
	}
	created := d == nil
	if created && mayMake != nil {
		if err := mayMake(); err != nil {
			return nil, err
		}
	}
	if created {
		if d, err = s.claim(tp, dir); err != nil {
			return nil, fmt.Errorf("create %s: %w", tp, err)
		}
	}
	over := func() {}
	if created {
		over = s.expectSoon(d)
	}
	l, err := s.open(d, tp, id, cfg, opening{folder: tp.String(), made: created})
	over()
	if err != nil {
		if created {
			s.disclaim(d, tp)
		}
		return nil, opened(d, tp, err)
	}
	return l, nil
}

// opened returns what the caller is told of an open; nil stays nil.
func opened(d *Directory, tp kafka.TopicPartition, err error) error {
	if err == nil {
		return nil
	}
	return d.ioFailed(fmt.Errorf("open %s: %w", tp, err))
}

// checkOwner returns the directory that holds the partition's folder, nil if the folder was that of an older topic and
// is now out of the way.
func (s *Store) checkOwner(d *Directory, tp kafka.TopicPartition, id kafka.TopicID) (*Directory, error) {
	folder := filepath.Join(d.path, tp.String())
	if d.journal.topicID(tp) == id {
		// Ids do not come back: no younger topic can have the folder while this one exists. What its file says can only be
		// damage, and a start without a journal would believe it.
		switch stored, err := commitlog.ReadPartitionMetadata(s.o.FS, folder); {
		case err == nil && stored == id:
			return d, nil
		case err == nil, errors.Is(err, commitlog.ErrMetadata), errors.Is(err, fs.ErrNotExist):
			d.logger.Warn("topic id of a partition folder is damaged and written anew", "partition", tp.String(), "found", stored, "error", err)
			err = commitlog.WritePartitionMetadata(s.o.FS, folder, id)
			if err != nil {
				return nil, d.ioFailed(fmt.Errorf("open %s: %w", tp, err))
			}
			return d, nil
		default:
			return nil, d.ioFailed(fmt.Errorf("open %s: %w", tp, err))
		}
	}
	stored, err := s.storedID(d, tp)
	if err != nil {
		return nil, err
	}
	if stored.IsZero() {
		// The folder of a crash between making it and this file, or of Kafka before 2.8.
		if err := commitlog.WritePartitionMetadata(s.o.FS, folder, id); err != nil {
			return nil, d.ioFailed(fmt.Errorf("open %s: %w", tp, err))
		}
		return d, nil
	}
	if stored == id {
		return d, nil
	}
	return nil, s.setAside(d, tp, stored)
}

// opening says how a log is opened.
type opening struct {
	folder   string       // its name in the directory
	made     bool         // there is none yet
	logStart kafka.Offset // where one that is made begins
	closed   bool         // it was closed just now
	summary  []byte       // what is known of it, if the folder has not changed; nil = nothing
}

func (s *Store) open(d *Directory, tp kafka.TopicPartition, id kafka.TopicID, cfg commitlog.Config, how opening) (*Log, error) {
	path := filepath.Join(d.path, how.folder)
	if how.made {
		if err := d.anew(tp); err != nil {
			return nil, err
		}
		if err := s.o.FS.MkdirAll(path); err != nil {
			return nil, err
		}
		if err := commitlog.NewPartitionMetadata(s.o.FS, path, id); err != nil {
			return nil, err
		}
	}
	<-d.mayOpen
	memory := d.journal.recall(tp, id)
	log, recovery, err := commitlog.Open(commitlog.Options{
		FS: s.o.FS, Dir: path, TP: tp, Config: cfg, Files: d.files, Now: s.o.Now, Logger: d.logger,
		RecoveryPoint: memory.recoveryPoint, LogStart: max(memory.logStart, how.logStart), Clean: d.clean && !how.made || how.closed,
		Summary:   how.summary,
		DeferSync: true, StoresRecoveryPoint: true, NamesDurable: d.settled.Load() && !how.made, NewFolder: how.made,
		ProducerExpiryMs: s.o.ProducerExpiryMs,
	})
	d.scanned.Add(recovery.ScannedBytes)
	if err != nil {
		return nil, err
	}
	if err := d.cleaned.lower(tp, log.LogEnd()); err != nil {
		log.Abandon()
		return nil, err
	}
	l := &Log{Log: log, tp: tp, id: id, dir: d, made: how.made, leaves: make(chan struct{})}
	if how.folder != tp.String() {
		l.future = how.folder
	}
	l.setFlush(cfg)
	l.remembered(memory)
	// Recovered is not yet durable: until the syncer has seen to it, what was read counts as if it were appended just now,
	// and the owner must not go by a watermark above SyncedEnd. One above the end would be of records that are gone.
	l.SetHighWatermark(min(max(memory.highWatermark, log.LogStart()), log.LogEnd()))
	d.keeper.recovered(log.BytesToRecover())
	if recovery.TruncatedBytes > 0 || recovery.Took > time.Second {
		d.logger.Info("recovered partition", "partition", tp.String(), "fromOffset", recovery.From, "scannedBytes", recovery.ScannedBytes,
			"truncatedBytes", recovery.TruncatedBytes, "took", recovery.Took)
	}
	s.mu.Lock()
	if l.future == "" {
		s.logs[tp] = l
	} else {
		s.futures[tp] = l
	}
	s.mu.Unlock()
	l.NoteChange()
	if how.made {
		d.keeper.wrote()
	} else if _, dirty := l.Dirty(); dirty {
		l.queue()
	}
	return l, nil
}

// anew forgets what the directory remembers of a partition that begins there empty: an older topic of the name may have been
// there, or this one, before it moved away. What stood for records of then must not stand for those to come, nor the older topic's id
// for this one's.
func (d *Directory) anew(tp kafka.TopicPartition) error {
	if err := d.cleaned.forget(tp); err != nil {
		return err
	}
	d.keeper.telling.Lock()
	defer d.keeper.telling.Unlock()
	return d.journal.write([]change{{tp: tp, id: d.journal.topicID(tp), gone: true}})
}

// claim picks the directory for a new partition and counts the partition there, so that others that are made at the same
// time see it.
func (s *Store) claim(tp kafka.TopicPartition, id kafka.DirID) (*Directory, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.chooseLocked(id)
	if err == nil {
		s.enterLocked(tp, d)
	}
	return d, err
}

// stallPatience is how long the making of a partition may take before its directory counts as stalled.
const stallPatience = time.Second

// expectSoon watches over the making of a partition until over is called. If that takes too long the partitions behind it
// do not wait, and are made elsewhere if they can be.
func (s *Store) expectSoon(d *Directory) (over func()) {
	if len(s.dirs) == 1 {
		return func() {}
	}
	timer := time.AfterFunc(stallPatience, func() { s.stalled(d, 1) })
	return func() {
		if !timer.Stop() {
			s.stalled(d, -1)
		}
	}
}

func (s *Store) stalled(d *Directory, n int) {
	s.mu.Lock()
	d.stalled += n
	s.mu.Unlock()
	s.workers.lend(n)
}

// disclaim ends a claim whose partition could not be made. The next try may go to another directory, and a partition must
// not lie in two, after a power cut neither: so what there is of the folder is removed durably first, and if the disk does
// not let that happen, the claim stays and so does the partition.
func (s *Store) disclaim(d *Directory, tp kafka.TopicPartition) {
	err := s.o.FS.RemoveAll(filepath.Join(d.path, tp.String()))
	if err == nil {
		err = s.o.FS.SyncDir(d.path)
	}
	if err != nil {
		_ = d.ioFailed(fmt.Errorf("remove what there is of %s: %w", tp, err))
		return
	}
	s.mu.Lock()
	s.leaveLocked(tp)
	s.mu.Unlock()
}

// unassigned tells whether a directory id names no directory.
func unassigned(id kafka.DirID) bool {
	return id == kafka.DirUnassigned || id == kafka.DirMigrating || id == kafka.DirLost
}

func (s *Store) chooseLocked(id kafka.DirID) (*Directory, error) {
	if !unassigned(id) {
		for _, d := range s.dirs {
			if d.ID() == id {
				return d, d.writable()
			}
		}
		for _, d := range s.dirs {
			if err := d.Err(); err != nil {
				return nil, fmt.Errorf("no log directory has the id %s, unless it is one that cannot be read: %w", id, err)
			}
		}
		// The directory is gone, with all that was in it: a disk was replaced. The replica begins anew.
	}
	var best *Directory
	var errs []error
	for _, d := range s.dirs {
		if err := d.writable(); err != nil {
			errs = append(errs, err)
		} else if best == nil || cmp.Or(min(d.stalled, 1)-min(best.stalled, 1), d.partitions-best.partitions) < 0 {
			best = d
		}
	}
	if best == nil {
		return nil, errors.Join(errs...)
	}
	return best, nil
}

// Delete ends a log. Its folder is renamed at once, so that a topic of the same name can be made, and removed after
// file.delete.delay.ms. Reads that have begun end as if nothing had happened.
func (s *Store) Delete(l *Log) error {
	if err := l.dir.Err(); err != nil {
		return err
	}
	s.cleaner.leave(l)
	s.scrubber.leave(l)
	l.use.Lock()
	defer l.use.Unlock()
	if l.gone.Swap(true) {
		return nil
	}
	delay := time.Duration(l.Config().FileDeleteDelayMs) * time.Millisecond
	// A name that is new: the partition may come here again, and go again before this folder is removed.
	renamed, err := l.RenameForDelete(kafka.NewUUID())
	if err != nil {
		return l.dir.ioFailed(fmt.Errorf("delete %s: %w", l.tp, err))
	}
	s.leave(l)
	l.dir.retention.doom(renamed, s.o.Now().Add(delay))
	if err := l.dir.cleaned.forget(l.tp); err != nil {
		return l.dir.ioFailed(fmt.Errorf("delete %s: %w", l.tp, err))
	}
	return nil
}

// DeleteClosed is Delete for a partition that was never opened. A folder that is not there, or is another topic's, is left
// alone.
func (s *Store) DeleteClosed(tp kafka.TopicPartition, id kafka.TopicID) error {
	s.mu.Lock()
	d, open := s.folders[tp], s.logs[tp]
	s.mu.Unlock()
	if d == nil || open != nil {
		return nil
	}
	if err := d.Err(); err != nil {
		return err
	}
	stored, err := s.storedID(d, tp)
	if err != nil || stored != id {
		return err
	}
	if err := s.discard(d, tp.String(), tp); err != nil {
		return err
	}
	s.forget(d, tp, id)
	return nil
}

// discard has a closed folder of a partition removed.
func (s *Store) discard(d *Directory, name string, tp kafka.TopicPartition) error {
	target := filepath.Join(d.path, commitlog.DeleteDirName(tp, kafka.NewUUID()))
	if err := s.moveFolder(d, name, target); err != nil {
		return err
	}
	d.retention.doom(target, s.o.Now())
	return nil
}

// storedID returns the topic id of a closed folder, zero if nobody knows. The folder itself tells: the journal hears of a new topic
// later. Where the file is lost the journal is right if it knows an id at all: making a folder has it forget (anew).
func (s *Store) storedID(d *Directory, tp kafka.TopicPartition) (kafka.TopicID, error) {
	id, err := commitlog.ReadPartitionMetadata(s.o.FS, filepath.Join(d.path, tp.String()))
	switch {
	case err == nil:
		return id, nil
	case errors.Is(err, commitlog.ErrMetadata): // the folder of a power cut soon after it was made, or damage
		d.logger.Warn("topic id of a partition folder cannot be read", "partition", tp.String(), "error", err)
	case !errors.Is(err, fs.ErrNotExist):
		return id, d.ioFailed(fmt.Errorf("read topic id of %s: %w", tp, err))
	}
	return d.journal.topicID(tp), nil
}

// moveFolder gives a closed partition's folder another name, durably.
func (s *Store) moveFolder(d *Directory, name, target string) error {
	err := s.o.FS.Rename(filepath.Join(d.path, name), target)
	if err == nil {
		err = s.o.FS.SyncDir(d.path)
	}
	if err != nil {
		return d.ioFailed(fmt.Errorf("rename folder %s: %w", name, err))
	}
	return nil
}

// leave takes an open log out of the Store.
func (s *Store) leave(l *Log) {
	if l.future == "" {
		s.forget(l.dir, l.tp, l.id)
		return
	}
	s.mu.Lock()
	if s.futures[l.tp] == l {
		delete(s.futures, l.tp)
		l.dir.partitions--
	}
	s.mu.Unlock()
	l.dir.keeper.forget(l.tp, l.id)
}

func (s *Store) forget(d *Directory, tp kafka.TopicPartition, id kafka.TopicID) {
	s.mu.Lock()
	if s.folders[tp] == d { // else it was the twin
		s.leaveLocked(tp)
		delete(s.logs, tp)
	}
	s.mu.Unlock()
	d.keeper.forget(tp, id)
}

// setAside renames a folder that no topic owns. Its records are kept for a person to look at.
func (s *Store) setAside(d *Directory, tp kafka.TopicPartition, id kafka.TopicID) error {
	name := commitlog.StrayDirName(tp, kafka.NewUUID())
	if err := s.moveFolder(d, tp.String(), filepath.Join(d.path, name)); err != nil {
		return err
	}
	d.logger.Warn("partition folder belongs to no topic and was set aside", "partition", tp.String(), "topicID", id, "folder", name)
	s.forget(d, tp, id)
	return nil
}

// Strays sets aside the folders that known does not know: their topics were deleted while this node was down. id is zero
// when a folder does not tell. Call it once the metadata is complete and before the folders are opened.
func (s *Store) Strays(known func(tp kafka.TopicPartition, id kafka.TopicID) bool) error {
	s.mu.Lock()
	var closed []folder
	for tp, d := range s.folders {
		if s.logs[tp] == nil && d.Online() {
			closed = append(closed, folder{tp: tp, d: d})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(closed, func(a, b folder) int { return compareTP(a.tp, b.tp) })
	var errs []error
	for _, f := range closed {
		if id := f.d.journal.topicID(f.tp); !id.IsZero() && known(f.tp, id) {
			continue // which saves reading a file for each of what may be a hundred thousand partitions
		}
		id, err := s.storedID(f.d, f.tp)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !known(f.tp, id) {
			errs = append(errs, s.setAside(f.d, f.tp, id))
		}
	}
	for _, unnamed := range []bool{false, true} { // where one with an id is the partition's, what has none is not
		for _, f := range s.twins {
			if f.unnamed == unnamed {
				errs = append(errs, s.placeTwin(f, known))
			}
		}
	}
	s.twins = nil
	errs = append(errs, s.strayCopies(known))
	return errors.Join(errs...)
}

// placeTwin makes a second folder of a partition's name the partition's, or sets it aside. The first one has been looked at.
func (s *Store) placeTwin(f folder, known func(tp kafka.TopicPartition, id kafka.TopicID) bool) error {
	if !f.d.Online() {
		return nil
	}
	id, err := s.storedID(f.d, f.tp)
	if err != nil {
		return err
	}
	if !known(f.tp, id) {
		return s.setAside(f.d, f.tp, id)
	}
	s.mu.Lock()
	first := s.folders[f.tp]
	if first == nil {
		s.enterLocked(f.tp, f.d)
	}
	s.mu.Unlock()
	if first == nil || !f.unnamed {
		return nil // if there is a first one all the same it could not be set aside, which has been told
	}
	if id, err = s.storedID(first, f.tp); err != nil || !known(f.tp, id) {
		return err
	}
	nothing, err := s.holdsNothing(f.d, f.tp)
	switch {
	case err != nil:
		return err
	case nothing:
		return s.discard(f.d, f.tp.String(), f.tp)
	}
	return s.setAside(f.d, f.tp, kafka.TopicID{})
}
