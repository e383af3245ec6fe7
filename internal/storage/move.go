package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// movesFile is in a folder that has come from another directory: how often the partition had moved by then. A crash, or a
// directory that fails, in the middle of a move may leave the partition in both; then the larger number tells which is in
// use. Apache Kafka ignores the file.
const movesFile = "moldau.moves"

// copied is a folder that an earlier run was copying a log to.
type copied struct {
	d    *Directory
	name string
}

// moves tells whether a partition is being copied to another directory. Compaction leaves it alone meanwhile: it could take
// a tombstone away whose key the copy has, before the copy gets there (LogManager.abortAndPauseCleaning).
func (s *Store) moves(tp kafka.TopicPartition) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.futures[tp] != nil || slices.ContainsFunc(s.left[tp], func(c copied) bool { return c.d.Online() })
}

// MakeFuture makes an empty log in another directory, for the owner of current to copy that to. Errors are
// INVALID_TOPIC_EXCEPTION, if the topic's name is too long, and KAFKA_STORAGE_ERROR. One at a time per partition.
func (s *Store) MakeFuture(current *Log, d *Directory) (*Log, error) {
	tp := current.tp
	name, err := commitlog.FutureDirName(tp, kafka.NewUUID())
	if err != nil {
		return nil, err
	}
	if err := d.writable(); err != nil {
		return nil, err
	}
	// A folder that the partition has left, and that could not be renamed then, would be in the way at the end.
	there, err := vfs.Exists(s.o.FS, filepath.Join(d.path, tp.String()))
	if err != nil {
		return nil, d.ioFailed(fmt.Errorf("move %s: %w", tp, err))
	}
	if there {
		if err := s.discard(d, tp.String(), tp); err != nil {
			return nil, err
		}
	}
	l, err := s.open(d, tp, current.id, current.Config(), opening{folder: name, made: true, logStart: current.LogStart()})
	if err != nil {
		err = errors.Join(err, s.o.FS.RemoveAll(filepath.Join(d.path, name)))
		return nil, d.ioFailed(fmt.Errorf("make a copy of %s in %s: %w", tp, d.path, err))
	}
	s.mu.Lock()
	d.partitions++
	s.mu.Unlock()
	return l, nil
}

// ReopenFuture opens the log that an earlier run was copying current to; nil if there is none. The owner has to find out
// how far the two agree.
func (s *Store) ReopenFuture(current *Log) (*Log, error) {
	s.mu.Lock()
	all := s.left[current.tp]
	delete(s.left, current.tp)
	s.mu.Unlock()
	var found *Log
	var errs []error
	for _, c := range all {
		if !c.d.Online() {
			s.keepLeft(current.tp, c) // the next start may find it well
			continue
		}
		id, err := commitlog.ReadPartitionMetadata(s.o.FS, filepath.Join(c.d.path, c.name))
		if found != nil || c.d == current.dir || err != nil || id != current.id {
			errs = append(errs, s.discardCopy(current.tp, c))
			continue
		}
		l, err := s.open(c.d, current.tp, current.id, current.Config(), opening{folder: c.name})
		if err != nil {
			s.keepLeft(current.tp, c)
			errs = append(errs, c.d.ioFailed(fmt.Errorf("open the copy of %s in %s: %w", current.tp, c.d.path, err)))
			continue
		}
		found = l
	}
	return found, errors.Join(errs...)
}

func (s *Store) keepLeft(tp kafka.TopicPartition, c copied) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left[tp] = append(s.left[tp], c)
}

func (s *Store) discardCopy(tp kafka.TopicPartition, c copied) error {
	s.mu.Lock()
	c.d.partitions--
	s.mu.Unlock()
	return s.discard(c.d, c.name, tp)
}

// DiscardCopies has the folders removed that an earlier run was copying a partition to: nobody will go on.
func (s *Store) DiscardCopies(tp kafka.TopicPartition) error {
	s.mu.Lock()
	all := s.left[tp]
	delete(s.left, tp)
	s.mu.Unlock()
	var errs []error
	for _, c := range all {
		if c.d.Online() {
			errs = append(errs, s.discardCopy(tp, c))
		}
	}
	return errors.Join(errs...)
}

// strayCopies removes the copies of what known does not know. They are copies, so that nobody needs to look at them.
func (s *Store) strayCopies(known func(tp kafka.TopicPartition, id kafka.TopicID) bool) error {
	s.mu.Lock()
	var all []kafka.TopicPartition
	for tp := range s.left {
		all = append(all, tp)
	}
	s.mu.Unlock()
	slices.SortFunc(all, compareTP)
	var errs []error
	for _, tp := range all {
		if !known(tp, kafka.TopicID{}) {
			errs = append(errs, s.DiscardCopies(tp))
		}
	}
	return errors.Join(errs...)
}

// LetGo ends an open copy and leaves its folder to ReopenFuture, in this run or another.
func (s *Store) LetGo(future *Log) {
	future.use.Lock()
	future.gone.Store(true)
	future.use.Unlock()
	future.Abandon()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.futures[future.tp] == future {
		delete(s.futures, future.tp)
		s.left[future.tp] = append(s.left[future.tp], copied{future.dir, future.future})
	}
}

// Promote puts a copy in the place of the log that it is a copy of: the partition lies in the copy's directory from now
// on. Both have to end at the same offset, and nobody may use either meanwhile; readers that have begun end as if nothing
// had happened. It waits for disks.
//
// With an error it returns current if that goes on to be the partition's log; the copy is LetGo then. If it returns nil,
// only the next start will find out which of the two it is: nothing may be appended to either any more.
func (s *Store) Promote(current, future *Log) (*Log, error) {
	tp, d := current.tp, future.dir
	if err := s.settle(current, future); err != nil {
		s.LetGo(future)
		return current, d.ioFailed(fmt.Errorf("move %s to %s: %w", tp, d.path, err))
	}
	from, to := filepath.Join(d.path, future.future), filepath.Join(d.path, tp.String())
	if err := s.o.FS.Rename(from, to); err != nil {
		s.LetGo(future)
		return current, d.ioFailed(fmt.Errorf("move %s to %s: %w", tp, d.path, err))
	}
	// What has the partition's name is its log now, here and after a crash.
	next, err := s.begun(current, future)
	if err != nil {
		err = fmt.Errorf("move %s to %s: %w", tp, d.path, err)
		d.fail(err) // a full disk too: what it says of itself is not known any more
		return nil, d.Err()
	}
	if err := s.Delete(current); err != nil {
		// Its directory is offline, or will be found to have an older folder of the partition.
		d.logger.Error("partition has moved, and the folder that it has left cannot be removed", "partition", tp.String(), "dir", current.dir.path, "error", err)
		current.Abandon()
	}
	d.logger.Info("partition has moved to another log directory", "partition", tp.String(), "from", current.dir.path, "to", d.path, "logEnd", next.LogEnd())
	return next, nil
}

// settle closes the copy, with all that the next start has to know of it on disk.
func (s *Store) settle(current, future *Log) error {
	future.SetHighWatermark(current.StoredHighWatermark())
	if start := current.LogStart(); start > future.LogStart() {
		if err := future.SetLogStart(start); err != nil {
			return err
		}
	}
	count, err := readMoves(s.o.FS, current.Log.Dir())
	if err != nil {
		return current.dir.ioFailed(err)
	}
	path := filepath.Join(future.Log.Dir(), movesFile)
	if err := vfs.WriteFileAtomic(s.o.FS, path, strconv.AppendInt(nil, count+1, 10)); err != nil {
		return err
	}
	future.use.Lock()
	future.gone.Store(true) // the background leaves it alone from here on
	err = future.Log.Close()
	future.use.Unlock()
	if err != nil {
		return &syncError{err}
	}
	return future.dir.keeper.tell(future)
}

// begun is the part of Promote from which there is no way back: it opens the log under its new name.
func (s *Store) begun(current, future *Log) (*Log, error) {
	d := future.dir
	if err := s.o.FS.SyncDir(d.path); err != nil {
		return nil, err
	}
	s.mu.Lock()
	delete(s.futures, future.tp)
	d.partitions--
	s.enterLocked(future.tp, d)
	s.mu.Unlock()
	next, err := s.open(d, future.tp, future.id, future.Config(), opening{folder: future.tp.String(), closed: true})
	if err != nil {
		return nil, err
	}
	if _, err := next.Log.Sync(); err != nil {
		return nil, err
	}
	next.SetHighWatermark(current.StoredHighWatermark())
	return next, nil
}

// readMoves returns how often a partition has moved before its folder became this one. A file that tells no number, which
// no crash leaves, counts as none.
func readMoves(fsys vfs.FS, folder string) (int64, error) {
	path := filepath.Join(folder, movesFile)
	text, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n < 0 {
		return 0, nil
	}
	return n, nil
}
