package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
)

// around is an FS that hands every operation, and the way to do it, to one function. Inject and Log are made of it.
type around struct {
	fs FS
	// run answers for the operation: it calls do, once, or returns an error of its own.
	run func(op Op, do func() error) error
}

func (a *around) Open(path string, flag Flag) (File, error) {
	op := Op{Kind: OpOpen, Path: path, Flag: flag}
	if flag&(Create|Truncate) != 0 {
		op.Kind = OpCreate
	}
	var f File
	err := a.run(op, func() (err error) {
		f, err = a.fs.Open(path, flag)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &aroundFile{a: a, file: f, path: path}, nil
}

func (a *around) MkdirAll(path string) error {
	return a.run(Op{Kind: OpMkdir, Path: path}, func() error { return a.fs.MkdirAll(path) })
}

func (a *around) Rename(oldPath, newPath string) error {
	return a.run(Op{Kind: OpRename, Path: oldPath, To: newPath}, func() error { return a.fs.Rename(oldPath, newPath) })
}

func (a *around) Remove(path string) error {
	return a.run(Op{Kind: OpRemove, Path: path}, func() error { return a.fs.Remove(path) })
}

func (a *around) RemoveAll(path string) error {
	return a.run(Op{Kind: OpRemoveAll, Path: path}, func() error { return a.fs.RemoveAll(path) })
}

func (a *around) List(path string) (entries []Entry, err error) {
	err = a.run(Op{Kind: OpList, Path: path}, func() (err error) {
		entries, err = a.fs.List(path)
		return err
	})
	return entries, err
}

func (a *around) Stat(path string) (entry Entry, err error) {
	err = a.run(Op{Kind: OpStat, Path: path}, func() (err error) {
		entry, err = a.fs.Stat(path)
		return err
	})
	return entry, err
}

func (a *around) SyncDir(path string) error {
	return a.run(Op{Kind: OpSyncDir, Path: path}, func() error { return a.fs.SyncDir(path) })
}

func (a *around) OpenDisk(path string) (disk Disk, err error) {
	err = a.run(Op{Kind: OpOpen, Path: path}, func() (err error) {
		disk, err = a.fs.OpenDisk(path)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &aroundDisk{a: a, disk: disk, path: path}, nil
}

type aroundDisk struct {
	a    *around
	disk Disk
	path string
}

func (d *aroundDisk) Sync() error {
	err := d.a.run(Op{Kind: OpSyncFS, Path: d.path}, d.disk.Sync)
	var lost *lostSync
	if errors.As(err, &lost) {
		d.failSync()
	}
	return err
}

func (d *aroundDisk) failSync() {
	if disk, ok := d.disk.(interface{ failSync() }); ok {
		disk.failSync()
	}
}

func (d *aroundDisk) Close() error {
	return d.a.run(Op{Kind: OpClose, Path: d.path}, d.disk.Close)
}

func (a *around) Lock(path string) (lock io.Closer, err error) {
	err = a.run(Op{Kind: OpLock, Path: path}, func() (err error) {
		lock, err = a.fs.Lock(path)
		return err
	})
	return lock, err
}

func (a *around) Usage(path string) (usage Usage, err error) {
	err = a.run(Op{Kind: OpUsage, Path: path}, func() (err error) {
		usage, err = a.fs.Usage(path)
		return err
	})
	return usage, err
}

type aroundFile struct {
	a    *around
	file File
	path string
}

func (f *aroundFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.a.run(Op{Kind: OpRead, Path: f.path, Off: off, Len: int64(len(b))}, func() (err error) {
		n, err = f.file.ReadAt(b, off)
		return err
	})
	return n, err
}

func (f *aroundFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.a.run(Op{Kind: OpWrite, Path: f.path, Off: off, Len: int64(len(b))}, func() (err error) {
		n, err = f.file.WriteAt(b, off)
		return err
	})
	var short *shortWrite
	if errors.As(err, &short) {
		n, _ = f.file.WriteAt(b[:min(short.bytes, len(b))], off)
	}
	return n, err
}

func (f *aroundFile) Truncate(size int64) error {
	return f.a.run(Op{Kind: OpTruncate, Path: f.path, Len: size}, func() error { return f.file.Truncate(size) })
}

func (f *aroundFile) Allocate(size int64) error {
	return f.a.run(Op{Kind: OpAllocate, Path: f.path, Len: size}, func() error { return f.file.Allocate(size) })
}

func (f *aroundFile) Reserve(off, n int64) error {
	return f.a.run(Op{Kind: OpReserve, Path: f.path, Off: off, Len: n}, func() error { return f.file.Reserve(off, n) })
}

func (f *aroundFile) StartSync() error {
	return f.sync(OpStartSync, f.file.StartSync)
}

func (f *aroundFile) SyncData() error {
	return f.sync(OpSyncData, f.file.SyncData)
}

func (f *aroundFile) Sync() error {
	return f.sync(OpSync, f.file.Sync)
}

func (f *aroundFile) sync(kind OpKind, do func() error) error {
	err := f.a.run(Op{Kind: kind, Path: f.path}, do)
	var lost *lostSync
	if errors.As(err, &lost) {
		f.failSync()
	}
	return err
}

// failSync tells a file of Mem, under any number of wrappers, that its sync has failed.
func (f *aroundFile) failSync() {
	if file, ok := f.file.(interface{ failSync() }); ok {
		file.failSync()
	}
}

func (f *aroundFile) Size() (size int64, err error) {
	err = f.a.run(Op{Kind: OpSize, Path: f.path}, func() (err error) {
		size, err = f.file.Size()
		return err
	})
	return size, err
}

func (f *aroundFile) SendTo(dst io.Writer, pos, n int64) (sent int64, err error) {
	err = f.a.run(Op{Kind: OpSend, Path: f.path, Off: pos, Len: n}, func() (err error) {
		sent, err = f.file.SendTo(dst, pos, n)
		return err
	})
	return sent, err
}

func (f *aroundFile) Close() error {
	closed := false
	err := f.a.run(Op{Kind: OpClose, Path: f.path}, func() error {
		closed = true
		return f.file.Close()
	})
	if !closed {
		err = errors.Join(err, f.file.Close()) // as close(2): the descriptor is gone whatever it returns
	}
	return err
}

// failed gives an error the form that a real disk's has.
func failed(op Op, err error) error {
	if op.Kind == OpRename {
		return &os.LinkError{Op: "rename", Old: op.Path, New: op.To, Err: err}
	}
	return &fs.PathError{Op: op.Kind.String(), Path: op.Path, Err: err}
}
