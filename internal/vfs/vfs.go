package vfs

import (
	"io"
	"io/fs"
	"time"
)

// Flag tells Open what to do with a file.
type Flag int

// Flags of Open. Without any, an existing file is opened for reading.
const (
	Write    Flag = 1 << iota // reading and writing
	Create                    // make the file if it does not exist; implies Write
	Truncate                  // cut an existing file to size 0; implies Write
	Excl                      // with Create: fail if the file exists
)

// FS is a filesystem. Paths are as package filepath makes them; "not found" satisfies errors.Is(err, fs.ErrNotExist).
type FS interface {
	Open(path string, flag Flag) (File, error)
	// MkdirAll makes a folder and its parents; an existing folder is no error.
	MkdirAll(path string) error
	// Rename moves a file or folder, and replaces a file at newPath, in one step. A folder there is not replaced: the
	// error satisfies errors.Is(err, fs.ErrExist). Durable after SyncDir of both folders.
	Rename(oldPath, newPath string) error
	// Remove removes a file or an empty folder.
	Remove(path string) error
	// RemoveAll removes a file or a folder with all below it; nothing there is no error.
	RemoveAll(path string) error
	// List returns the entries of a folder sorted by name.
	List(path string) ([]Entry, error)
	Stat(path string) (Entry, error)
	// SyncDir makes the names in a folder durable: creates, renames and removes.
	SyncDir(path string) error
	// OpenDisk opens the filesystem of path as a whole. Where the system has no call that makes all of it durable and
	// reports every failure, the error satisfies errors.Is(err, errors.ErrUnsupported): files have to be synced one by one.
	OpenDisk(path string) (Disk, error)
	// Lock takes an exclusive lock on a file, made if missing, and fails with ErrLocked at once when another process,
	// or another Lock call of this one, has it. Closing releases it.
	Lock(path string) (io.Closer, error)
	// Usage tells the size of the disk under path and what is free of it, in bytes.
	Usage(path string) (Usage, error)
}

// File is an open file. Every method may be called by many goroutines at once.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Truncate sets the size. Growing leaves a hole that reads as zeros and takes no space.
	Truncate(size int64) error
	// Allocate reserves space on disk for [0, size) so that later writes there cannot fail for lack of it. The file's
	// size becomes at least size.
	Allocate(size int64) error
	// Reserve sets space on disk aside for [off, off+n) without a change of the file's size: what is written there later
	// needs none to be looked for, which makes its sync cheaper. Truncate, to the present size too, gives the unused part
	// back. A hint: whoever cannot have it, for lack of space or of such a call, goes on without.
	Reserve(off, n int64) error
	// StartSync begins to write the file's data to the disk and does not wait for the end of it, so that the syncs of many
	// files overlap in one goroutine. It makes nothing durable; SyncData has to follow. An error means what one of SyncData
	// means. Where there is no such call it does nothing.
	StartSync() error
	// SyncData makes the file's data and size durable (fdatasync).
	SyncData() error
	// Sync makes data and all attributes durable (fsync).
	Sync() error
	Size() (int64, error)
	// SendTo writes n bytes from offset pos to dst and returns how many it wrote. The file has no position to disturb,
	// so many calls may run at once. From the first call on no more of the file is read from the disk than is asked for.
	SendTo(dst io.Writer, pos, n int64) (int64, error)
	io.Closer
}

// Disk is an open filesystem.
type Disk interface {
	// Sync makes everything on the filesystem durable, data and names. It reports every write-back that has failed since
	// OpenDisk or the last Sync, whoever wrote, and each only once: calls side by side have to share what they hear.
	Sync() error
	io.Closer
}

// Entry is one name in a folder.
type Entry struct {
	Name    string
	Dir     bool
	Size    int64
	ModTime time.Time
	// Changed is another number after each change of content, size or name, whoever makes it and whatever he does to ModTime: the
	// change time of the inode, where there is one, whose clock may stand still for some milliseconds. Good for comparisons only.
	Changed int64
}

// Usage is the space of a disk in bytes.
type Usage struct {
	Total int64
	Free  int64 // available to this process
}

// ErrLocked is what Lock returns when somebody else holds the lock.
var ErrLocked error = lockedError{}

type lockedError struct{}

func (lockedError) Error() string        { return "locked by another process" }
func (lockedError) Is(target error) bool { return target == fs.ErrExist }
