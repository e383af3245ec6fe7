package planted

import (
	"encoding/binary"
	"hash/crc32"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"moldau/internal/vfs"
)

// SkipSync: syncs of some files are reported and not made.
func SkipSync(m Match) Bug {
	return files(m, func(f vfs.File, _ string) vfs.File {
		return &file{File: f, sync: func() error { return nil }}
	})
}

// SkipSyncDir: syncs of folders are reported and not made.
func SkipSyncDir(m Match) Bug {
	return func(fs vfs.FS) vfs.FS {
		return &disk{FS: fs,
			syncDir: func(path string) error {
				if m(path) {
					return nil
				}
				return fs.SyncDir(path)
			},
			syncAll: func(func() error) error { return nil },
		}
	}
}

// SkipSyncsWhile: no sync is made, of files or folders, while on says so.
func SkipSyncsWhile(on func() bool) Bug {
	return func(fs vfs.FS) vfs.FS {
		unless := func(sync func() error) error {
			if on() {
				return nil
			}
			return sync()
		}
		d := files(Any, func(f vfs.File, _ string) vfs.File {
			return &file{File: f, sync: func() error { return unless(f.SyncData) }}
		})(fs).(*disk)
		d.syncDir = func(path string) error { return unless(func() error { return fs.SyncDir(path) }) }
		d.syncAll = unless
		return d
	}
}

// RetrySync: a sync that has failed is made again, and the second one's success is reported. On Linux it says nothing.
func RetrySync() Bug {
	return files(Any, func(f vfs.File, _ string) vfs.File {
		return &file{File: f, sync: func() error {
			if f.SyncData() == nil {
				return nil
			}
			return f.SyncData()
		}}
	})
}

// HideWriteErrors: a write that has failed looks like a good one.
func HideWriteErrors() Bug {
	return files(Any, func(f vfs.File, _ string) vfs.File {
		return &file{File: f, write: func(b []byte, off int64) (int, error) {
			_, _ = f.WriteAt(b, off)
			return len(b), nil
		}}
	})
}

// SyncLate: the sync of some files is reported before it is made; that happens when the next one is asked for.
func SyncLate(m Match) Bug {
	return func(fs vfs.FS) vfs.FS {
		var mu sync.Mutex
		due := func() error { return nil }
		return files(m, func(f vfs.File, _ string) vfs.File {
			return &file{File: f, sync: func() error {
				mu.Lock()
				earlier := due
				due = func() error {
					_ = f.SyncData() // it may be closed by now, and is never synced then
					return nil
				}
				mu.Unlock()
				return earlier()
			}}
		})(fs)
	}
}

// SkipSyncOfCut: after a truncation the sync of a file is left out.
func SkipSyncOfCut(m Match) Bug {
	return files(m, func(f vfs.File, _ string) vfs.File {
		cut := false
		var mu sync.Mutex
		took := func(now bool) (before bool) {
			mu.Lock()
			defer mu.Unlock()
			before, cut = cut, now
			return before
		}
		return &file{File: f,
			truncate: func(size int64) error { took(true); return f.Truncate(size) },
			write:    func(b []byte, off int64) (int, error) { took(false); return f.WriteAt(b, off) },
			sync: func() error {
				if took(false) {
					return nil
				}
				return f.SyncData()
			},
		}
	})
}

// WriteInPlace: what should be written aside, synced and renamed over some files is written right into them.
func WriteInPlace(m Match) Bug {
	const aside = ".tmp"
	return func(fs vfs.FS) vfs.FS {
		target := func(path string) (string, bool) {
			path, found := strings.CutSuffix(path, aside)
			return path, found && m(path)
		}
		return &disk{FS: fs,
			open: func(path string, flag vfs.Flag) (vfs.File, error) {
				if to, found := target(path); found {
					path = to
				}
				return fs.Open(path, flag)
			},
			rename: func(from, to string) error {
				if into, found := target(from); found && into == to {
					return nil
				}
				return fs.Rename(from, to)
			},
		}
	}
}

// NeverWritten: some files are made and stay empty.
func NeverWritten(m Match) Bug {
	return files(m, func(f vfs.File, _ string) vfs.File {
		return &file{File: f, write: func(b []byte, _ int64) (int, error) { return len(b), nil }}
	})
}

// KeepRemoved: what is renamed to go away stays under its name: somebody's list of a folder still has it.
func KeepRemoved(ending string) Bug {
	return func(fs vfs.FS) vfs.FS {
		return &disk{FS: fs,
			rename: func(from, to string) error {
				if strings.HasSuffix(to, ending) {
					return nil
				}
				return fs.Rename(from, to)
			},
			remove: func(path string) error {
				if strings.HasSuffix(path, ending) {
					return nil
				}
				return fs.Remove(path)
			},
		}
	}
}

// HideChanges: files of one size look the same to who lists a folder, whatever has happened to them.
func HideChanges() Bug {
	return func(fs vfs.FS) vfs.FS {
		return &disk{FS: fs, list: func(path string) ([]vfs.Entry, error) {
			entries, err := fs.List(path)
			for i := range entries {
				entries[i].ModTime, entries[i].Changed = time.Time{}, 0
			}
			return entries, err
		}}
	}
}

// NameFirst: the names in a folder are made durable before the data of its files: each sync of a file syncs the folder, and
// not the file, which is synced when the folder should have been.
func NameFirst(m Match) Bug {
	return func(fs vfs.FS) vfs.FS {
		var mu sync.Mutex
		var owed []vfs.File
		d := files(m, func(f vfs.File, path string) vfs.File {
			return &file{File: f, sync: func() error {
				mu.Lock()
				owed = append(owed, f)
				mu.Unlock()
				return fs.SyncDir(filepath.Dir(path))
			}}
		})(fs).(*disk)
		d.syncDir = func(path string) error {
			mu.Lock()
			now := owed
			owed = nil
			mu.Unlock()
			for _, f := range now {
				_ = f.SyncData() // it may be closed by now, and is never synced then
			}
			return fs.SyncDir(path)
		}
		return d
	}
}

// TrustEntries: a file of entries, each a length, a CRC-32C and so many bytes, after a head, is read as if every CRC held,
// to its very end.
func TrustEntries(m Match, head int64) Bug {
	return files(m, func(f vfs.File, _ string) vfs.File {
		return &file{File: f, read: func(b []byte, off int64) (int, error) {
			n, err := f.ReadAt(b, off)
			for at := head - off; at >= 0 && at+8 <= int64(n); {
				length := int64(binary.BigEndian.Uint32(b[at:]))
				if at+8+length > int64(n) {
					length = int64(n) - at - 8
					binary.BigEndian.PutUint32(b[at:], uint32(length))
				}
				binary.BigEndian.PutUint32(b[at+4:], crc32.Checksum(b[at+8:at+8+length], crc32.MakeTable(crc32.Castagnoli)))
				at += 8 + length
			}
			return n, err
		}}
	})
}
