package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// An error at any operation of an atomic write is told, and leaves the old content or the new one.
func TestErrorEverywhere(t *testing.T) {
	for n := int64(0); ; n++ {
		m := NewMem()
		durable(t, m, "f", "old")
		disk := NewInject(m, OnIndex(n, syscall.EIO))
		err := WriteFileAtomic(disk, "f", []byte("new"))
		if disk.Count() <= n {
			must(t, err)
			equal(t, "operations", n, 6) // create, write, sync, close, rename, sync-dir
			return
		}
		wantErr(t, fmt.Sprintf("operation %d", n), err, syscall.EIO)
		for _, keep := range []float64{0, 0.5, 1} {
			got := get(t, m.CrashClone(seeded(uint64(n)), keep), "f")
			if got != "old" && (got != "new" || n < 5) {
				t.Errorf("operation %d failed, then a power cut: %q", n, got)
			}
		}
	}
}

// A power cut before any operation of an atomic write leaves the old content or the new one.
func TestCrashEverywhere(t *testing.T) {
	m := NewMem()
	durable(t, m, "f", "old")
	seen := map[string]int{}
	crash := func(Op) {
		for seed := range uint64(50) {
			seen[get(t, m.CrashClone(seeded(seed), 0.5), "f")]++
		}
	}
	disk := NewInject(m)
	disk.Hook = func(op Op) error { crash(op); return nil }
	must(t, WriteFileAtomic(disk, "f", []byte("new")))
	if len(seen) != 2 || seen["old"] == 0 || seen["new"] == 0 {
		t.Errorf("%v", seen)
	}
	clear(seen)
	crash(Op{})
	if len(seen) != 1 || seen["new"] == 0 {
		t.Errorf("after the end: %v", seen)
	}
}

func TestRules(t *testing.T) {
	disk := NewInject(NewMem())
	must(t, disk.MkdirAll("data/orders-0"))
	f := open(t, disk, "data/orders-0/0.log", Create)
	write := func() error { _, err := f.WriteAt([]byte("x"), 0); return err }

	disk.SetRules(OnOp(OpWrite, "orders-0/*.log", syscall.EIO))
	wantErr(t, "write", write(), syscall.EIO)
	must(t, f.SyncData())
	for pattern, match := range map[string]bool{"": true, "*.log": true, "data/*/0.log": true, "/data/orders-0/0.log": false, "*.index": false, "x/data/orders-0/0.log": false, "s-0/0.log": false} {
		disk.SetRules(OnOp(OpWrite, pattern, syscall.EIO))
		equal(t, pattern, write() != nil, match)
	}

	disk.SetRules(Nth(1, OnOp(OpSyncData, "", syscall.EIO)))
	must(t, f.SyncData())
	must(t, write())
	wantErr(t, "second sync", f.SyncData(), syscall.EIO)
	must(t, f.SyncData())

	disk.SetRules(OnOp(OpRename, "new", syscall.EIO))
	wantErr(t, "rename, by its new name", disk.Rename("data", "new"), syscall.EIO)

	disk.SetRules(FromIndex(disk.Count()+1, syscall.EROFS))
	must(t, write())
	wantErr(t, "dead disk", write(), syscall.EROFS)
	_, err := disk.Stat("data")
	wantErr(t, "dead disk", err, syscall.EROFS)

	disk.SetRules()
	must(t, write())
}

func TestShortWrite(t *testing.T) {
	disk := NewInject(NewMem(), OnOp(OpWrite, "", ShortWrite(3, syscall.ENOSPC)), OnOp(OpSync, "", ShortWrite(3, syscall.EIO)))
	f := open(t, disk, "f", Create)
	n, err := f.WriteAt([]byte("abcdef"), 1)
	equal(t, "written", n, 3)
	wantErr(t, "write", err, syscall.ENOSPC)
	n, err = f.WriteAt([]byte("XY"), 0)
	equal(t, "written", n, 2)
	wantErr(t, "write", err, syscall.ENOSPC)
	equal(t, "content", get(t, disk, "f"), "XYbc")
	wantErr(t, "not a write", f.Sync(), syscall.EIO)
}

// A sync that succeeds after one that failed proves nothing.
func TestFailedSyncLosesData(t *testing.T) {
	m := NewMem()
	durable(t, m, "f", "")
	disk := NewInject(NewLog(m, nil), Nth(0, OnOp(OpSyncData, "", syscall.EIO)))
	f := open(t, NewLog(disk, nil), "f", Write)
	_, err := f.WriteAt(make([]byte, pageBytes), 0)
	must(t, err)
	_, err = f.WriteAt([]byte("lost"), pageBytes)
	must(t, err)
	wantErr(t, "sync", f.SyncData(), syscall.EIO)
	_, err = f.WriteAt([]byte("kept"), 0)
	must(t, err)
	must(t, f.SyncData())
	seen := get(t, m, "f")
	equal(t, "seen", seen[:4]+seen[pageBytes:], "keptlost")
	equal(t, "seen after a kill", get(t, m.KillClone(), "f"), seen)
	left := get(t, m.CrashClone(seeded(1), 1), "f")
	equal(t, "left by a power cut", left[:4]+left[pageBytes:], "kept\x00\x00\x00\x00")
}

// A failed close has closed all the same, or a failing disk would run the process out of descriptors.
func TestFailedCloseCloses(t *testing.T) {
	m := NewMem()
	disk := NewInject(m, OnOp(OpClose, "", syscall.EIO))
	f, err := disk.Open("f", Create)
	must(t, err)
	wantErr(t, "close", f.Close(), syscall.EIO)
	n, err := m.walkLocked([]string{"f"})
	must(t, err)
	equal(t, "open handles", n.handles, 0)
}

func TestHooks(t *testing.T) {
	dead := errors.New("dead")
	var mu sync.Mutex
	var told []string
	disk := NewInject(NewMem())
	parked, release := make(chan Op), make(chan error)
	disk.Hook = func(op Op) error {
		if op.Kind == OpSyncData {
			parked <- op
			return <-release
		}
		return nil
	}
	disk.After = func(op Op, err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprint(op.Index, " ", op, " ", err))
	}
	f := open(t, disk, "f", Create)
	synced := make(chan error)
	for range 2 {
		go func() { synced <- f.SyncData() }()
		op := <-parked
		equal(t, "parked", fmt.Sprint(op, op.Index), "sync-data f -1")
	}
	_, err := f.WriteAt([]byte("while syncs are parked"), 0)
	must(t, err)
	release <- nil
	must(t, <-synced)
	count := disk.Count()
	release <- dead
	wantErr(t, "stopped by the hook", <-synced, dead)
	equal(t, "not counted", disk.Count(), count)
	equal(t, "after", told, []string{"0 create f <nil>", "1 write f off=0 len=22 <nil>", "2 sync-data f <nil>"})
}

func TestLogWritesDownWhatChanges(t *testing.T) {
	var printed []string
	disk := NewLog(NewMem(), func(line string) { printed = append(printed, line) })
	must(t, disk.MkdirAll("d"))
	lock, err := disk.Lock("d/.lock")
	must(t, err)
	must(t, lock.Close())
	f := open(t, disk, "d/f", Create|Excl)
	_, err = f.WriteAt([]byte("abc"), 5)
	must(t, err)
	must(t, f.Truncate(6))
	must(t, f.Allocate(100))
	must(t, f.Reserve(100, 50))
	must(t, f.StartSync())
	must(t, f.SyncData())
	equal(t, "read", len(get(t, disk, "d/f")), 100)
	_, err = f.SendTo(&bytes.Buffer{}, 0, 1)
	must(t, err)
	must(t, WriteFileAtomic(disk, "d/g", []byte("x")))
	must(t, disk.Remove("d/f"))
	must(t, disk.RemoveAll("e"))
	all, err := disk.OpenDisk("d")
	must(t, err)
	must(t, all.Sync())
	wantErr(t, "rename", disk.Rename("x", "y"), syscall.ENOENT)
	want := []string{
		"mkdir d",
		"lock d/.lock",
		"create d/f excl",
		"write d/f off=5 len=3",
		"truncate d/f size=6",
		"allocate d/f size=100",
		"reserve d/f off=100 len=50",
		"sync-data d/f",
		"create d/g.tmp truncate",
		"write d/g.tmp off=0 len=1",
		"sync d/g.tmp",
		"rename d/g.tmp -> d/g",
		"sync-dir d",
		"remove d/f",
		"remove-all e",
		"sync-fs d",
		"rename x -> y failed: rename x y: no such file or directory",
	}
	for i, line := range disk.Lines() {
		if i >= len(want) || line != want[i] {
			t.Errorf("line %d: %s", i, line)
		}
	}
	equal(t, "lines", len(disk.Lines()), len(want))
	if !slices.Equal(printed, want) {
		t.Errorf("printed %q", printed)
	}
	equal(t, "syncs", disk.Count(OpSync, OpSyncData, OpSyncDir, OpSyncFS), 4)
	equal(t, "opens for reading", disk.Count(OpOpen), 2)
	disk.Reset()
	equal(t, "after reset", len(disk.Lines())+disk.Count(OpSync), 0)
}

// TestInjectedSyncFSLosesData: a sync of the whole filesystem that fails leaves what a failed sync of each file leaves. A
// second one reports success and brings nothing back.
func TestInjectedSyncFSLosesData(t *testing.T) {
	m := NewMem()
	disk := NewInject(m)
	must(t, disk.MkdirAll("d"))
	f, err := disk.Open("d/f", Create)
	must(t, err)
	_, err = f.WriteAt([]byte("lost"), 0)
	must(t, err)
	must(t, disk.SyncDir("d"))
	disk.SetRules(func(op Op) error {
		if op.Kind == OpSyncFS {
			return syscall.EIO
		}
		return nil
	})
	all, err := disk.OpenDisk("d")
	must(t, err)
	wantErr(t, "sync", all.Sync(), syscall.EIO)
	disk.SetRules()
	must(t, all.Sync())
	must(t, all.Close())
	content, err := ReadFile(m.CrashClone(rand.New(rand.NewPCG(1, 2)), 0), "d/f")
	must(t, err)
	if strings.Contains(string(content), "lost") {
		t.Errorf("%q is there although its sync had failed", content)
	}
}
