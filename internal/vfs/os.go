package vfs

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// OS is the operating system's filesystem. Make it with NewOS; one per node is enough.
type OS struct{ buffers buffers }

// NewOS returns the operating system's filesystem.
func NewOS() *OS { return &OS{} }

// Open opens a file. New files are readable by everyone and writable by the owner, less the process's umask.
func (o *OS) Open(path string, flag Flag) (File, error) {
	mode := os.O_RDONLY
	if flag&(Write|Create|Truncate) != 0 {
		mode = os.O_RDWR
	}
	if flag&Create != 0 {
		mode |= os.O_CREATE
	}
	if flag&Truncate != 0 {
		mode |= os.O_TRUNC
	}
	if flag&Excl != 0 {
		mode |= os.O_EXCL
	}
	f, err := os.OpenFile(path, mode, 0o644)
	if err != nil {
		return nil, err
	}
	return &osFile{File: f, buffers: &o.buffers}, nil
}

// MkdirAll makes a folder and its parents.
func (o *OS) MkdirAll(path string) error { return os.MkdirAll(path, 0o755) }

// Rename replaces newPath in one step.
func (o *OS) Rename(oldPath, newPath string) error { return os.Rename(oldPath, newPath) }

// Remove removes a file or an empty folder.
func (o *OS) Remove(path string) error { return os.Remove(path) }

// RemoveAll removes whatever is at path.
func (o *OS) RemoveAll(path string) error { return os.RemoveAll(path) }

// List returns the entries of a folder sorted by name. Symbolic links are followed; one that leads nowhere is listed as
// it is. An entry that is removed meanwhile is left out.
func (o *OS) List(path string) ([]Entry, error) {
	names, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, 0, len(names))
	for _, name := range names {
		info, err := name.Info()
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			if target, err := os.Stat(filepath.Join(path, name.Name())); err == nil {
				info = target
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry(name.Name(), info))
	}
	return entries, nil
}

// Stat describes what is at path, following symbolic links.
func (o *OS) Stat(path string) (Entry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Entry{}, err
	}
	return entry(filepath.Base(path), info), nil
}

func entry(name string, info fs.FileInfo) Entry {
	return Entry{Name: name, Dir: info.IsDir(), Size: info.Size(), ModTime: info.ModTime(), Changed: changed(info)}
}

// SyncDir makes the names in a folder durable.
func (o *OS) SyncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// OpenDisk opens the filesystem of path. The descriptor is what makes the kernel report failed write-backs from now on.
func (o *OS) OpenDisk(path string) (Disk, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if !syncFSVouches(f) {
		return nil, errors.Join(&fs.PathError{Op: "syncfs", Path: path, Err: errors.ErrUnsupported}, f.Close())
	}
	return osDisk{f}, nil
}

type osDisk struct{ *os.File }

func (d osDisk) Sync() error { return syncFS(d.File) }

// Lock takes an exclusive lock on a file; see FS.
func (o *OS) Lock(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Usage tells the size and the free space of the disk under path.
func (o *OS) Usage(path string) (Usage, error) {
	usage, err := diskUsage(path)
	if err != nil {
		return Usage{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	return usage, nil
}

// MaxOpen returns how many descriptors this process may have open, files and connections together.
func (o *OS) MaxOpen() (int, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0, os.NewSyscallError("getrlimit", err)
	}
	return int(min(limit.Cur, math.MaxInt32)), nil
}

// osFile adds to *os.File what package os lacks.
type osFile struct {
	*os.File
	buffers *buffers
	advised atomic.Bool // the kernel reads nothing ahead of its own accord
}

func (f *osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *osFile) SyncData() error { return syncData(f.File) }

func (f *osFile) StartSync() error { return startSync(f.File) }

func (f *osFile) Reserve(off, n int64) error { return reserve(f.File, off, n) }

func (f *osFile) Allocate(size int64) error {
	err := allocate(f.File, size)
	if errors.Is(err, errors.ErrUnsupported) {
		return f.fill(size)
	}
	return err
}

// fill is Allocate where the filesystem has no call for it: zeros are written behind the end. Holes before the end stay
// holes, for nobody can tell them from data.
func (f *osFile) fill(size int64) error {
	end, err := f.Size()
	if err != nil {
		return err
	}
	zeros := make([]byte, min(max(size-end, 0), 1<<20))
	for end < size {
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-end)], end)
		if err != nil {
			return err
		}
		end += int64(n)
	}
	return nil
}
