package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

const (
	lockFile      = ".lock"
	cleanStopFile = ".kafka_cleanshutdown"
)

// Directory is one entry of log.dirs.
type Directory struct {
	s      *Store
	o      *Options
	path   string
	logger *slog.Logger

	// Set while opening, never after Start.
	lock       io.Closer
	identity   identity
	formatted  bool  // meta.properties was there
	used       bool  // a journal was there: a node has run here
	clean      bool  // the last stop was clean
	cleanEpoch int64 // broker epoch in .kafka_cleanshutdown, -1 = none

	files   *commitlog.Files
	journal *journal
	syncer  *syncer
	whole   *whole
	keeper  *keeper
	space   *space
	cleaned *cleaned

	retention *retention
	cleaning  *cleaning

	closed     closedLogs   // what the last clean stop has left and nobody has opened; guarded by Store.mu
	partitions int          // folders here; guarded by Store.mu
	stalled    int          // partitions whose making takes long; guarded by Store.mu
	scanned    atomic.Int64 // bytes that recovery has read since the start

	settled atomic.Bool   // names and data that an earlier process has left are on disk
	mayOpen chan struct{} // closed once settled is set, or has been waited for long enough

	failure atomic.Pointer[error]
	failed  chan struct{} // closed once failure is set
}

// Path returns the directory's name as configured.
func (d *Directory) Path() string { return d.path }

// ID returns the directory's id, which it keeps for life. It is zero when the directory could not be read.
func (d *Directory) ID() kafka.DirID { return d.identity.dirID }

// Used reports whether a node had run on the directory before it was opened now; one that a tool has formatted is not used.
func (d *Directory) Used() bool { return d.used }

// Online reports whether the directory serves.
func (d *Directory) Online() bool { return d.failure.Load() == nil }

// Err returns why the directory is offline; nil if it is not. The error is a KAFKA_STORAGE_ERROR.
func (d *Directory) Err() error {
	if p := d.failure.Load(); p != nil {
		return *p
	}
	return nil
}

// Full reports whether writes are refused for lack of space.
func (d *Directory) Full() bool { return d.space.full.Load() }

// Usage tells the size of the disk under the directory and what is free of it, in bytes.
func (d *Directory) Usage() (vfs.Usage, error) { return d.o.FS.Usage(d.path) }

// storageError makes a disk's error one that clients know.
func storageError(err error) error {
	if errors.Is(err, kerr.KafkaStorageError) {
		return err
	}
	return fmt.Errorf("%w: %w", kerr.KafkaStorageError, err)
}

// fail takes the directory out of service for as long as the process lives. A disk that failed once may have lost what
// it said it had, so nothing is tried again.
func (d *Directory) fail(err error) {
	err = storageError(fmt.Errorf("directory %s is offline: %w", d.path, err))
	if !d.failure.CompareAndSwap(nil, &err) {
		return
	}
	d.logger.Error("log directory failed and is offline until the node is restarted", "dir", d.path, "error", err)
	close(d.failed)
	d.s.failures <- d // has room for every directory
}

// ioFailed is told of every error of a disk operation on a log here and returns what the caller should answer. A full
// disk refuses writes until there is space again; any other failure is for good. Errors of Kafka's own, which tell a
// client of a mistake, pass through.
func (d *Directory) ioFailed(err error) error {
	var code *kerr.Error
	var lost *syncError
	switch known := errors.As(err, &code); {
	case known && code.Code != kerr.KafkaStorageError.Code:
		return err
	case !known && errors.Is(err, syscall.ENOSPC) && !errors.As(err, &lost):
		d.space.ranOut(err)
	default: // a log that failed too: it could not be put back to where it was
		d.fail(err)
	}
	return storageError(err)
}

// syncError is a failed sync of something that goes on to be used: whatever its cause, a full disk included, what it was
// to write may be gone, so that it is for good.
type syncError struct{ err error }

func (e *syncError) Error() string { return e.err.Error() }
func (e *syncError) Unwrap() error { return e.err }

// writable returns why nothing may be appended here; nil if it may.
func (d *Directory) writable() error {
	if p := d.failure.Load(); p != nil {
		return *p
	}
	if d.space.full.Load() {
		return d.space.errFull
	}
	return nil
}

// openDirectory locks a directory, learns who it belongs to and what it remembers.
func openDirectory(s *Store, path string) (*Directory, error) {
	o := &s.o
	d := &Directory{
		s: s, o: o, path: path, logger: o.Logger, cleanEpoch: -1, mayOpen: make(chan struct{}), failed: make(chan struct{}),
		files: commitlog.NewFiles(o.FS, o.MaxOpenFiles),
	}
	d.space = newSpace(d)
	d.retention = newRetention(d)
	d.cleaning = newCleaning(s.cleaner, d)
	if err := makeDir(o.FS, path); err != nil {
		return d, fmt.Errorf("make log directory %s: %w", path, err)
	}
	lock, err := o.FS.Lock(filepath.Join(path, lockFile))
	if err != nil {
		return d, fmt.Errorf("lock log directory %s: %w", path, err)
	}
	d.lock = lock
	if err := d.load(); err != nil {
		return d, err
	}
	if !d.formatted {
		// Whoever made the folder may have done so just now, and a power cut would take it with all that is put into it.
		if err := o.FS.SyncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrPermission) {
			return d, fmt.Errorf("make log directory %s durable: %w", path, err)
		}
	}
	return d, nil
}

// makeDir makes a folder, and what is missing above it, durable: a folder's own sync does not keep its name.
func makeDir(fsys vfs.FS, path string) error {
	there, err := vfs.Exists(fsys, path)
	if err != nil || there {
		return err
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeDir(fsys, parent); err != nil {
			return err
		}
	}
	if err := fsys.MkdirAll(path); err != nil {
		return err
	}
	return fsys.SyncDir(parent)
}

func (d *Directory) load() error {
	name := filepath.Join(d.path, propertiesFile)
	text, err := vfs.ReadFile(d.o.FS, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.identity = identity{nodeID: d.o.NodeID, dirID: kafka.NewUUID()}
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	default:
		if d.identity, err = parseIdentity(name, text); err != nil {
			return &identityError{err}
		}
		if d.identity.nodeID != d.o.NodeID {
			return &identityError{fmt.Errorf("%s belongs to node %d, but this node is %d: set node.id=%d, or give this node another log.dirs",
				d.path, d.identity.nodeID, d.o.NodeID, d.identity.nodeID)}
		}
		d.formatted = d.identity.clusterID != "" && !d.identity.dirID.IsZero()
		if d.identity.dirID.IsZero() {
			d.identity.dirID = kafka.NewUUID()
		}
	}
	if err := d.loadClean(); err != nil {
		return err
	}
	var found bool
	if d.journal, found, err = openJournal(d.o.FS, d.path); err != nil {
		return fmt.Errorf("read %s: %w", journalFile, err)
	}
	d.used = found
	if err := d.loadClosed(); err != nil {
		return fmt.Errorf("read %s: %w", closedFile, err)
	}
	if err := d.adoptCheckpoints(found); err != nil {
		return err
	}
	if d.cleaned, err = openCleaned(d); err != nil {
		return err
	}
	if d.whole, err = openWhole(d); err != nil {
		return err
	}
	d.syncer = newSyncer(d)
	d.keeper = newKeeper(d)
	return d.space.look()
}

// loadClean reads the mark of a clean stop. It is removed by Store.Start, before any log can be changed.
func (d *Directory) loadClean() error {
	text, err := vfs.ReadFile(d.o.FS, filepath.Join(d.path, cleanStopFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	d.clean = true
	// Kafka before 3.7 leaves the file empty; CleanShutdownFileHandler.
	var mark cleanMark
	if json.Unmarshal(text, &mark) == nil && mark.BrokerEpoch != nil {
		d.cleanEpoch = *mark.BrokerEpoch
	}
	return nil
}

// cleanMark is the content of .kafka_cleanshutdown; CleanShutdownFileHandler.
type cleanMark struct {
	Version     int    `json:"version"`
	BrokerEpoch *int64 `json:"brokerEpoch"`
}

// begin prepares for changes.
func (d *Directory) begin() {
	err := d.removeCleanMark()
	if err != nil {
		d.fail(err)
	}
	d.settled.Store(d.clean)
	if err != nil || d.clean || d.whole.disk == nil {
		close(d.mayOpen)
		return
	}
	d.s.running.Go(d.settle)
}

// settle makes durable what an earlier process has left, while the start has other things to do than to open logs: each log
// would have to do it for itself, which takes its time where there are thousands. They do so if it takes too long, until it
// is done.
func (d *Directory) settle() {
	defer close(d.mayOpen)
	swept := d.whole.begin(func(err error) { d.settled.Store(err == nil) })
	timer := time.NewTimer(wholePatience)
	defer timer.Stop()
	select {
	case <-swept:
	case <-timer.C:
	}
}

// removeCleanMark makes the directory one whose next start must recover. The names in it are durable afterwards, whether there
// was a mark or not: a process that was killed may have made folders and renamed files whose names are not on the disk, and
// what is put into them from now on would be lost with them.
func (d *Directory) removeCleanMark() error {
	err := d.o.FS.Remove(filepath.Join(d.path, cleanStopFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return d.o.FS.SyncDir(d.path)
}

func (d *Directory) writeCleanMark(brokerEpoch int64) error {
	text, err := json.Marshal(cleanMark{BrokerEpoch: &brokerEpoch})
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(d.o.FS, filepath.Join(d.path, cleanStopFile), text)
}

// adoptCheckpoints makes Kafka's text checkpoints the journal's state where the journal does not know better: when there
// is no journal, or when a file's content is none that we wrote, so that Apache Kafka has run here since.
func (d *Directory) adoptCheckpoints(journalFound bool) error {
	var contents [3]checkpoint
	var prints [3]uint64
	var foreign [3]bool
	for i, name := range checkpointFiles() {
		path := filepath.Join(d.path, name)
		text, err := vfs.ReadFile(d.o.FS, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Kafka never removes one, so nobody has written it
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		if contents[i], err = parseCheckpoint(text); err != nil {
			d.logger.Warn("checkpoint file is damaged and not used", "file", path, "error", err)
			continue
		}
		prints[i] = fingerprint(text)
		foreign[i] = prints[i] != d.journal.written[i][0] && prints[i] != d.journal.written[i][1]
	}
	if foreign == [3]bool{} {
		return nil
	}
	// A log start that is too high deletes all below. Kafka moves recovery points when it has run, and leaves its own
	// registration's epoch when it stops.
	lone := foreign == [3]bool{2: true}
	ours := d.clean && d.cleanEpoch >= 0 && d.cleanEpoch == d.journal.brokerEpoch()
	if journalFound && (lone || ours) {
		d.logger.Warn("a checkpoint file is not what this program wrote, and no other has run here since; the journal is believed", "dir", d.path)
		return nil
	}
	if journalFound {
		d.logger.Info("another program has written the checkpoint files since the last stop; they are used in place of the journal", "dir", d.path)
	}
	return d.journal.adopt(contents, prints)
}

// close ends everything that holds the directory.
func (d *Directory) close() error {
	var err error
	if d.journal != nil {
		err = d.journal.close()
	}
	if d.whole != nil {
		err = errors.Join(err, d.whole.close())
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
		d.lock = nil
	}
	return err
}

// identityError is a directory that somebody else owns. It stops the node: a directory that is taken offline for it
// would look like a broken disk.
type identityError struct{ err error }

func (e *identityError) Error() string { return e.err.Error() }
func (e *identityError) Unwrap() error { return e.err }

// logs returns the open logs in use that lie here, by topic and partition.
func (d *Directory) logs() []*Log {
	return slices.DeleteFunc(d.s.Logs(), func(l *Log) bool { return l.dir != d })
}

// since is how long ago t was by the wall clock, never negative.
func (d *Directory) since(t time.Time) time.Duration { return max(0, d.o.Now().Sub(t)) }
