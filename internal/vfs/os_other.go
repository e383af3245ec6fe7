//go:build !linux

package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

func changed(info fs.FileInfo) int64 { return info.ModTime().UnixNano() }

func syncData(f *os.File) error { return f.Sync() }

func startSync(*os.File) error { return nil }

func reserve(*os.File, int64, int64) error { return errors.ErrUnsupported }

// syncFSVouches: there is only a call for all disks, which waits for none of them and reports nothing.
func syncFSVouches(*os.File) bool { return false }

func syncFS(*os.File) error { return errors.ErrUnsupported }

func allocate(*os.File, int64) error { return errors.ErrUnsupported }

func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		err = ErrLocked
	}
	if err != nil {
		return &fs.PathError{Op: "lock", Path: f.Name(), Err: err}
	}
	return nil
}

func diskUsage(path string) (Usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Usage{}, err
	}
	return Usage{Total: int64(st.Blocks) * int64(st.Bsize), Free: int64(st.Bavail) * int64(st.Bsize)}, nil
}

// SendTo sends through a pooled buffer.
func (f *osFile) SendTo(dst io.Writer, pos, n int64) (int64, error) {
	return f.buffers.send(dst, f.File, pos, n)
}
