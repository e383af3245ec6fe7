package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, fsys FS, path string, flag Flag) File {
	t.Helper()
	f, err := fsys.Open(path, flag)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// put writes a file without syncing anything.
func put(t testing.TB, fsys FS, path, content string) {
	t.Helper()
	f, err := fsys.Open(path, Create|Truncate)
	must(t, err)
	_, err = f.WriteAt([]byte(content), 0)
	must(t, err)
	must(t, f.Close())
}

func get(t testing.TB, fsys FS, path string) string {
	t.Helper()
	content, err := ReadFile(fsys, path)
	must(t, err)
	return string(content)
}

func names(t testing.TB, fsys FS, path string) []string {
	t.Helper()
	entries, err := fsys.List(path)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name)
	}
	return names
}

func equal[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if g, w := fmt.Sprintf("%q", any(got)), fmt.Sprintf("%q", any(want)); g != w {
		t.Errorf("%s: got %s, want %s", what, g, w)
	}
}

func wantErr(t testing.TB, what string, err, target error) {
	t.Helper()
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	if !errors.Is(err, target) {
		t.Errorf("%s: got %v, want %v", what, err, target)
	} else if !errors.As(err, &pathErr) && !errors.As(err, &linkErr) {
		t.Errorf("%s: %T %v does not carry operation and path", what, err, err)
	}
}

// conformance is what every FS must do alike. dir is an empty folder of it.
var conformance = []struct {
	name string
	run  func(t *testing.T, fsys FS, dir string)
}{
	{"reads what was written", func(t *testing.T, fsys FS, dir string) {
		f := open(t, fsys, dir+"/f", Create)
		for _, w := range []struct {
			s   string
			off int64
		}{{"hello", 0}, {"world", 10_000}, {"LO", 3}} {
			n, err := f.WriteAt([]byte(w.s), w.off)
			must(t, err)
			equal(t, "written", n, len(w.s))
		}
		want := append([]byte("helLO"), make([]byte, 9995)...)
		equal(t, "content", get(t, fsys, dir+"/f"), string(append(want, "world"...)))
		b := make([]byte, 10)
		n, err := f.ReadAt(b, 10_001)
		equal(t, "read at the end", fmt.Sprint(string(b[:n]), err), fmt.Sprint("orld", io.EOF))
		n, err = f.ReadAt(b, 20_000)
		equal(t, "read behind the end", fmt.Sprint(n, err), fmt.Sprint(0, io.EOF))
		_, err = f.ReadAt(b, -1)
		if err == nil || err == io.EOF {
			t.Errorf("read before the start: %v", err)
		}
		if _, err = f.WriteAt(b, -1); err == nil {
			t.Error("write before the start: no error")
		}
	}},
	{"flags of open", func(t *testing.T, fsys FS, dir string) {
		_, err := fsys.Open(dir+"/f", 0)
		wantErr(t, "not there", err, fs.ErrNotExist)
		_, err = fsys.Open(dir+"/f", Truncate)
		wantErr(t, "not there to be cut", err, fs.ErrNotExist)
		put(t, fsys, dir+"/f", "content")
		_, err = fsys.Open(dir+"/f", Create|Excl)
		wantErr(t, "there", err, fs.ErrExist)
		open(t, fsys, dir+"/f", Create)
		equal(t, "create keeps", get(t, fsys, dir+"/f"), "content")
		_, err = open(t, fsys, dir+"/f", 0).WriteAt([]byte("x"), 0)
		wantErr(t, "write to a file opened for reading", err, syscall.EBADF)
		_, err = open(t, fsys, dir+"/f", Write).WriteAt([]byte("C"), 0)
		must(t, err)
		equal(t, "write", get(t, fsys, dir+"/f"), "Content")
		open(t, fsys, dir+"/f", Truncate)
		equal(t, "cut", get(t, fsys, dir+"/f"), "")
		_, err = fsys.Open(dir+"/no/f", Create)
		wantErr(t, "no folder", err, fs.ErrNotExist)
		_, err = fsys.Open(dir+"/f/f", Create)
		wantErr(t, "file for a folder", err, syscall.ENOTDIR)
		_, err = fsys.Open(dir, Write)
		wantErr(t, "folder", err, syscall.EISDIR)
	}},
	{"truncate", func(t *testing.T, fsys FS, dir string) {
		f := open(t, fsys, dir+"/f", Create)
		_, err := f.WriteAt(bytes.Repeat([]byte("x"), 9000), 0)
		must(t, err)
		for _, size := range []int64{5000, 100, 10_000, 0, 3} {
			must(t, f.Truncate(size))
			got, err := f.Size()
			must(t, err)
			equal(t, "size", got, size)
		}
		equal(t, "content", get(t, fsys, dir+"/f"), "\x00\x00\x00")
		_, err = f.WriteAt([]byte("abcdef"), 0)
		must(t, err)
		must(t, f.Truncate(2))
		must(t, f.Truncate(5))
		equal(t, "what was cut does not come back", get(t, fsys, dir+"/f"), "ab\x00\x00\x00")
		wantErr(t, "negative", f.Truncate(-1), syscall.EINVAL)
	}},
	{"allocate", func(t *testing.T, fsys FS, dir string) {
		f := open(t, fsys, dir+"/f", Create)
		_, err := f.WriteAt([]byte("abc"), 0)
		must(t, err)
		must(t, f.Allocate(10))
		equal(t, "content", get(t, fsys, dir+"/f"), "abc"+string(make([]byte, 7)))
		must(t, f.Allocate(5))
		must(t, f.Allocate(0))
		size, err := f.Size()
		must(t, err)
		equal(t, "size never shrinks", size, 10)
	}},
	{"reserve", func(t *testing.T, fsys FS, dir string) {
		f := open(t, fsys, dir+"/f", Create)
		_, err := f.WriteAt([]byte("abc"), 0)
		must(t, err)
		if err := f.Reserve(3, 5000); err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Fatal(err)
		}
		equal(t, "content", get(t, fsys, dir+"/f"), "abc")
		_, err = f.WriteAt([]byte("def"), 3)
		must(t, err)
		must(t, f.StartSync())
		must(t, f.SyncData())
		must(t, f.Truncate(6))
		equal(t, "content", get(t, fsys, dir+"/f"), "abcdef")
	}},
	{"folders", func(t *testing.T, fsys FS, dir string) {
		must(t, fsys.MkdirAll(dir+"/a/b/c"))
		must(t, fsys.MkdirAll(dir+"/a/b"))
		put(t, fsys, dir+"/a/y", "12")
		put(t, fsys, dir+"/a/x", "1")
		entries, err := fsys.List(dir + "/a")
		must(t, err)
		for i, want := range []Entry{{Name: "b", Dir: true}, {Name: "x", Size: 1}, {Name: "y", Size: 2}} {
			got := entries[i]
			if got.Dir {
				got.Size = 0
			}
			got.ModTime, got.Changed = time.Time{}, 0
			equal(t, "entry", got, want)
			st, err := fsys.Stat(dir + "/a/" + want.Name)
			must(t, err)
			equal(t, "Stat and List", st, entries[i])
		}
		wantErr(t, "folder where a file is", fsys.MkdirAll(dir+"/a/x/z"), syscall.ENOTDIR)
		wantErr(t, "remove a folder with something in it", fsys.Remove(dir+"/a"), syscall.ENOTEMPTY)
		must(t, fsys.Remove(dir+"/a/b/c"))
		must(t, fsys.Remove(dir+"/a/x"))
		wantErr(t, "remove nothing", fsys.Remove(dir+"/a/x"), fs.ErrNotExist)
		equal(t, "left", names(t, fsys, dir+"/a"), []string{"b", "y"})
		must(t, fsys.RemoveAll(dir+"/a"))
		must(t, fsys.RemoveAll(dir+"/a"))
		equal(t, "left", names(t, fsys, dir), []string(nil))
		_, err = fsys.List(dir + "/a")
		wantErr(t, "list nothing", err, fs.ErrNotExist)
		_, err = fsys.Stat(dir + "/a")
		wantErr(t, "stat nothing", err, fs.ErrNotExist)
		put(t, fsys, dir+"/f", "")
		_, err = fsys.List(dir + "/f")
		wantErr(t, "list a file", err, syscall.ENOTDIR)
	}},
	{"changes of one size", func(t *testing.T, fsys FS, dir string) {
		put(t, fsys, dir+"/a", "12")
		put(t, fsys, dir+"/b", "12")
		path := dir + "/a"
		for what, change := range map[string]func() error{
			"write": func() error {
				f, err := fsys.Open(path, Write)
				must(t, err)
				_, err = f.WriteAt([]byte("34"), 0)
				return errors.Join(err, f.Close())
			},
			"truncate": func() error {
				f, err := fsys.Open(path, Write)
				must(t, err)
				return errors.Join(f.Truncate(1), f.Truncate(2), f.Close())
			},
			"swap": func() error {
				return errors.Join(fsys.Rename(path, dir+"/c"), fsys.Rename(dir+"/b", path), fsys.Rename(dir+"/c", dir+"/b"))
			},
		} {
			before, err := fsys.Stat(path)
			must(t, err)
			must(t, change())
			after, err := fsys.Stat(path)
			must(t, err)
			for deadline := time.Now().Add(time.Minute); after.Changed == before.Changed; { // the clock has to move on
				must(t, change())
				after, err = fsys.Stat(path)
				must(t, err)
				if time.Now().After(deadline) {
					t.Fatalf("%s: nobody can tell that the file has changed", what)
				}
			}
			equal(t, "size", after.Size, int64(2))
			again, err := fsys.Stat(path)
			must(t, err)
			equal(t, "Changed, without a change", again.Changed, after.Changed)
		}
	}},
	{"rename", func(t *testing.T, fsys FS, dir string) {
		must(t, fsys.MkdirAll(dir+"/a/sub"))
		must(t, fsys.MkdirAll(dir+"/b"))
		put(t, fsys, dir+"/a/f", "new")
		put(t, fsys, dir+"/b/f", "old")
		old := open(t, fsys, dir+"/b/f", 0)
		must(t, fsys.Rename(dir+"/a/f", dir+"/b/f"))
		must(t, fsys.Rename(dir+"/b/f", dir+"/b/f"))
		equal(t, "replaced", get(t, fsys, dir+"/b/f"), "new")
		b := make([]byte, 3)
		_, err := old.ReadAt(b, 0)
		must(t, err)
		equal(t, "who has the replaced file open", string(b), "old")
		wantErr(t, "over an empty folder", fsys.Rename(dir+"/b", dir+"/a/sub"), fs.ErrExist)
		must(t, fsys.Rename(dir+"/b", dir+"/a/sub/b"))
		equal(t, "moved folder", names(t, fsys, dir+"/a/sub/b"), []string{"f"})
		equal(t, "left", names(t, fsys, dir), []string{"a"})
		wantErr(t, "nothing", fsys.Rename(dir+"/x", dir+"/y"), fs.ErrNotExist)
		wantErr(t, "into itself", fsys.Rename(dir+"/a", dir+"/a/sub/x"), syscall.EINVAL)
		put(t, fsys, dir+"/f", "")
		wantErr(t, "folder over a file", fsys.Rename(dir+"/a", dir+"/f"), syscall.ENOTDIR)
		must(t, fsys.MkdirAll(dir+"/c"))
		wantErr(t, "folder over a full one", fsys.Rename(dir+"/c", dir+"/a"), fs.ErrExist)
		wantErr(t, "file over a folder", fsys.Rename(dir+"/f", dir+"/c"), fs.ErrExist)
	}},
	{"a removed file lives while it is open", func(t *testing.T, fsys FS, dir string) {
		f := open(t, fsys, dir+"/f", Create)
		must(t, fsys.Remove(dir+"/f"))
		_, err := f.WriteAt([]byte("still"), 0)
		must(t, err)
		must(t, f.SyncData())
		b := make([]byte, 5)
		_, err = f.ReadAt(b, 0)
		must(t, err)
		equal(t, "content", string(b), "still")
		there, err := Exists(fsys, dir+"/f")
		must(t, err)
		equal(t, "exists", there, false)
	}},
	{"closed", func(t *testing.T, fsys FS, dir string) {
		f, err := fsys.Open(dir+"/f", Create)
		must(t, err)
		must(t, f.Close())
		_, err = f.ReadAt(make([]byte, 1), 0)
		wantErr(t, "read", err, fs.ErrClosed)
		_, err = f.WriteAt(make([]byte, 1), 0)
		wantErr(t, "write", err, fs.ErrClosed)
		_, err = f.Size()
		wantErr(t, "size", err, fs.ErrClosed)
		_, err = f.SendTo(io.Discard, 0, 1)
		wantErr(t, "send", err, fs.ErrClosed)
		wantErr(t, "truncate", f.Truncate(0), fs.ErrClosed)
		wantErr(t, "allocate", f.Allocate(1), fs.ErrClosed)
		wantErr(t, "start sync", f.StartSync(), fs.ErrClosed)
		wantErr(t, "sync data", f.SyncData(), fs.ErrClosed)
		wantErr(t, "sync", f.Sync(), fs.ErrClosed)
		wantErr(t, "close", f.Close(), fs.ErrClosed)
	}},
	{"syncs", func(t *testing.T, fsys FS, dir string) {
		f := open(t, fsys, dir+"/f", Create)
		must(t, f.SyncData())
		must(t, f.Sync())
		must(t, open(t, fsys, dir+"/f", 0).SyncData())
		must(t, fsys.SyncDir(dir))
		disk, err := fsys.OpenDisk(dir)
		if !errors.Is(err, errors.ErrUnsupported) {
			must(t, err)
			must(t, disk.Sync())
			must(t, disk.Sync())
			must(t, disk.Close())
		}
		wantErr(t, "sync no folder", fsys.SyncDir(dir+"/no"), fs.ErrNotExist)
		_, err = fsys.OpenDisk(dir + "/no")
		wantErr(t, "open no filesystem", err, fs.ErrNotExist)
	}},
	{"send", func(t *testing.T, fsys FS, dir string) {
		content := bytes.Repeat([]byte("0123456789"), 20_000)
		put(t, fsys, dir+"/f", string(content))
		f := open(t, fsys, dir+"/f", 0)
		for _, r := range []struct{ pos, n, sent int64 }{{0, 0, 0}, {5, 10, 10}, {7, 150_000, 150_000}, {199_990, 20, 10}} {
			var got bytes.Buffer
			sent, err := f.SendTo(&got, r.pos, r.n)
			equal(t, "sent", sent, r.sent)
			if !bytes.Equal(got.Bytes(), content[r.pos:r.pos+r.sent]) {
				t.Errorf("send %+v: other bytes", r)
			}
			if r.sent < r.n != errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("send %+v: %v", r, err)
			}
		}
	}},
	{"lock", func(t *testing.T, fsys FS, dir string) {
		lock, err := fsys.Lock(dir + "/.lock")
		must(t, err)
		_, err = fsys.Lock(dir + "/.lock")
		wantErr(t, "second lock", err, ErrLocked)
		must(t, open(t, fsys, dir+"/.lock", Write).Close()) // does not release it, as with record locks it would
		_, err = fsys.Lock(dir + "/.lock")
		wantErr(t, "second lock", err, ErrLocked)
		must(t, lock.Close())
		lock, err = fsys.Lock(dir + "/.lock")
		must(t, err)
		must(t, lock.Close())
		wantErr(t, "second close", lock.Close(), fs.ErrClosed)
		_, err = fsys.Lock(dir + "/no/.lock")
		wantErr(t, "no folder", err, fs.ErrNotExist)
	}},
	{"usage", func(t *testing.T, fsys FS, dir string) {
		usage, err := fsys.Usage(dir)
		must(t, err)
		if usage.Total < usage.Free || usage.Free <= 0 {
			t.Errorf("%+v", usage)
		}
		_, err = fsys.Usage(dir + "/no")
		wantErr(t, "nothing", err, fs.ErrNotExist)
	}},
	{"whole files", func(t *testing.T, fsys FS, dir string) {
		there, err := Exists(fsys, dir+"/f")
		must(t, err)
		equal(t, "exists", there, false)
		for _, content := range []string{"first and long", "second", ""} {
			must(t, WriteFileAtomic(fsys, dir+"/f", []byte(content)))
			equal(t, "content", get(t, fsys, dir+"/f"), content)
		}
		there, err = Exists(fsys, dir+"/f")
		must(t, err)
		equal(t, "exists", there, true)
		equal(t, "nothing else left", names(t, fsys, dir), []string{"f"})
		_, err = ReadFile(fsys, dir+"/no")
		wantErr(t, "nothing", err, fs.ErrNotExist)
	}},
	{"side by side", func(t *testing.T, fsys FS, dir string) {
		f := open(t, fsys, dir+"/shared", Create)
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				own := fmt.Sprintf("%s/%d", dir, i)
				for j := range 20 {
					piece := bytes.Repeat([]byte{byte('a' + i)}, 700)
					if _, err := f.WriteAt(piece, int64(i*20+j)*700); err != nil {
						t.Error(err)
					}
					got := make([]byte, 700)
					if _, err := f.ReadAt(got, int64(i*20+j)*700); err != nil || !bytes.Equal(got, piece) {
						t.Errorf("read back: %v", err)
					}
					if err := errors.Join(f.SyncData(), WriteFileAtomic(fsys, own, piece), fsys.Remove(own)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		equal(t, "left", names(t, fsys, dir), []string{"shared"})
	}},
}

func TestConformance(t *testing.T) {
	for _, system := range []struct {
		name string
		make func(t *testing.T) (FS, string)
	}{
		{"OS", func(t *testing.T) (FS, string) { return NewOS(), t.TempDir() }},
		{"Mem", func(t *testing.T) (FS, string) { return NewMem(), "/" }},
		{"Mem, capacity set, two folders down", func(t *testing.T) (FS, string) {
			m := NewMem()
			m.SetCapacity(1 << 20)
			must(t, m.MkdirAll("var/data"))
			return m, "var/data"
		}},
		{"Mem, killed", func(t *testing.T) (FS, string) { return NewMem().KillClone(), "/" }},
		{"Inject", func(t *testing.T) (FS, string) { return NewInject(NewMem()), "/" }},
		{"Log", func(t *testing.T) (FS, string) { return NewLog(NewMem(), nil), "/" }},
	} {
		t.Run(system.name, func(t *testing.T) {
			for _, c := range conformance {
				t.Run(c.name, func(t *testing.T) {
					fsys, dir := system.make(t)
					c.run(t, fsys, dir)
				})
			}
		})
	}
}

func TestOSListFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	must(t, os.Symlink("real", filepath.Join(dir, "good")))
	must(t, os.Symlink("gone", filepath.Join(dir, "dangling")))
	entries, err := NewOS().List(dir)
	must(t, err)
	var folders []string
	for _, e := range entries {
		if e.Dir {
			folders = append(folders, e.Name)
		}
	}
	if len(entries) != 3 || !slices.Equal(folders, []string{"good", "real"}) {
		t.Errorf("%+v", entries)
	}
}

// Where the filesystem cannot reserve space, zeros are written instead.
func TestOSAllocateByFilling(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	f := open(t, NewOS(), path, Create).(*osFile)
	_, err := f.WriteAt([]byte("abc"), 0)
	must(t, err)
	must(t, f.fill(3<<20))
	must(t, f.fill(10))
	want := append([]byte("abc"), make([]byte, 3<<20-3)...)
	if !bytes.Equal([]byte(get(t, NewOS(), path)), want) {
		t.Error("other content")
	}
}
