package vfs

import (
	"errors"
	"io"
	"io/fs"
	"path/filepath"
)

// ReadFile returns the whole content of a file.
func ReadFile(fsys FS, path string) (content []byte, err error) {
	f, err := fsys.Open(path, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	content = make([]byte, size)
	n, err := f.ReadAt(content, 0)
	if err == io.EOF {
		err = nil // it has become shorter since Size
	}
	return content[:n], err
}

// WriteFileAtomic replaces a file's content so that any crash leaves the old content or the new one, and the new one
// once it has returned nil. It goes through path + ".tmp", so one caller at a time for a path.
func WriteFileAtomic(fsys FS, path string, content []byte) error {
	tmp := path + ".tmp"
	if err := writeSynced(fsys, tmp, content); err != nil {
		return err
	}
	if err := fsys.Rename(tmp, path); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}

func writeSynced(fsys FS, path string, content []byte) (err error) {
	f, err := fsys.Open(path, Create|Truncate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt(content, 0); err != nil {
		return err
	}
	return f.Sync()
}

// Exists tells whether there is a file or folder at path.
func Exists(fsys FS, path string) (bool, error) {
	_, err := fsys.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
