package planted

import (
	"io"
	"strings"

	"moldau/internal/vfs"
)

// Bug makes of a good disk one with a bug.
type Bug func(vfs.FS) vfs.FS

// None is no bug.
func None(fs vfs.FS) vfs.FS { return fs }

// Match picks files by their path.
type Match func(path string) bool

// Any picks every path.
func Any(string) bool { return true }

// Has picks the paths that contain a text.
func Has(text string) Match { return func(path string) bool { return strings.Contains(path, text) } }

// But picks what m picks without the paths that contain a text.
func (m Match) But(text string) Match {
	return func(path string) bool { return m(path) && !strings.Contains(path, text) }
}

// disk is an FS whose methods can be replaced one by one. A nil field is the method of FS.
type disk struct {
	vfs.FS
	open    func(path string, flag vfs.Flag) (vfs.File, error)
	list    func(path string) ([]vfs.Entry, error)
	rename  func(from, to string) error
	remove  func(path string) error
	syncDir func(path string) error
	syncAll func(sync func() error) error // of the whole filesystem
}

func (d *disk) Open(path string, flag vfs.Flag) (vfs.File, error) {
	if d.open == nil {
		return d.FS.Open(path, flag)
	}
	return d.open(path, flag)
}

func (d *disk) List(path string) ([]vfs.Entry, error) {
	if d.list == nil {
		return d.FS.List(path)
	}
	return d.list(path)
}

func (d *disk) Rename(from, to string) error {
	if d.rename == nil {
		return d.FS.Rename(from, to)
	}
	return d.rename(from, to)
}

func (d *disk) Remove(path string) error {
	if d.remove == nil {
		return d.FS.Remove(path)
	}
	return d.remove(path)
}

func (d *disk) SyncDir(path string) error {
	if d.syncDir == nil {
		return d.FS.SyncDir(path)
	}
	return d.syncDir(path)
}

func (d *disk) OpenDisk(path string) (vfs.Disk, error) {
	all, err := d.FS.OpenDisk(path)
	if err != nil || d.syncAll == nil {
		return all, err
	}
	return &wholeDisk{all, d.syncAll}, nil
}

// wholeDisk is a Disk whose Sync is replaced.
type wholeDisk struct {
	vfs.Disk
	syncAll func(sync func() error) error
}

func (d *wholeDisk) Sync() error { return d.syncAll(d.Disk.Sync) }

// file is a File whose methods can be replaced.
type file struct {
	vfs.File
	sync     func() error
	write    func(b []byte, off int64) (int, error)
	truncate func(size int64) error
	read     func(b []byte, off int64) (int, error)
}

func (f *file) SyncData() error {
	if f.sync == nil {
		return f.File.SyncData()
	}
	return f.sync()
}

func (f *file) Sync() error {
	if f.sync == nil {
		return f.File.Sync()
	}
	return f.sync()
}

func (f *file) WriteAt(b []byte, off int64) (int, error) {
	if f.write == nil {
		return f.File.WriteAt(b, off)
	}
	return f.write(b, off)
}

func (f *file) ReadAt(b []byte, off int64) (int, error) {
	if f.read == nil {
		return f.File.ReadAt(b, off)
	}
	return f.read(b, off)
}

func (f *file) Truncate(size int64) error {
	if f.truncate == nil {
		return f.File.Truncate(size)
	}
	return f.truncate(size)
}

func (f *file) SendTo(dst io.Writer, pos, n int64) (int64, error) { return f.File.SendTo(dst, pos, n) }

// files returns a disk on which what alter makes of them takes the place of the files that m picks.
func files(m Match, alter func(f vfs.File, path string) vfs.File) Bug {
	return func(fs vfs.FS) vfs.FS {
		return &disk{FS: fs, open: func(path string, flag vfs.Flag) (vfs.File, error) {
			f, err := fs.Open(path, flag)
			if err != nil || !m(path) {
				return f, err
			}
			return alter(f, path), nil
		}}
	}
}
