package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"moldau/internal/vfs"
)

// reserving is a log on a small disk of which it may set aside as much as it likes.
type reserving struct {
	t    *testing.T
	mem  *vfs.Mem
	fs   *vfs.Inject
	log  *vfs.Log
	o    Options
	l    *Log
	kept []byte
}

func newReserving(t *testing.T, segmentBytes int) *reserving {
	w := &reserving{t: t, mem: vfs.NewMem()}
	w.mem.SetCapacity(64 << 20)
	w.fs = vfs.NewInject(w.mem)
	w.log = vfs.NewLog(w.fs, nil)
	c := DefaultConfig()
	c.SegmentBytes, c.MaxIndexBytes = segmentBytes, 4096
	w.o = testOptions(w.log, c)
	w.o.Files.SetReserveLimit(32 << 20)
	w.l, _ = mustOpen(t, w.o)
	return w
}

// append adds about n KiB in batches of one record of 16 KiB.
func (w *reserving) append(kib int) {
	w.t.Helper()
	for range kib / 16 {
		b := records(strings.Repeat("x", 16<<10), 1, noOptions, startMs)
		mustAppend(w.t, w.l, b)
		w.kept = append(w.kept, b...)
	}
}

// aside is how many bytes of the disk are taken for nothing that is there yet, about.
func (w *reserving) aside() int64 {
	w.t.Helper()
	usage, err := w.mem.Usage("/")
	if err != nil {
		w.t.Fatal(err)
	}
	return usage.Total - usage.Free - int64(len(w.kept))
}

const crumbs = 256 << 10 // index files, and pages that are not full

// TestReserveAhead: a log that grows sets space aside in few steps, none of which can be seen in its files, and gives it
// back when the segment ends, when it is asked to, and when it closes.
func TestReserveAhead(t *testing.T) {
	w := newReserving(t, 6<<20)
	w.append(900)
	if n := w.log.Count(vfs.OpReserve); n != 0 {
		t.Fatalf("a log of %d bytes sets space aside", w.l.Size())
	}
	w.append(1200)
	if aside := w.aside(); aside < 512<<10 {
		t.Fatalf("%d bytes set aside by a log of %d", aside, w.l.Size())
	}
	entry, err := w.mem.Stat(w.l.active.log.name())
	if err != nil || entry.Size != w.l.Size() {
		t.Fatalf("the file has %d bytes for %d, %v", entry.Size, w.l.Size(), err)
	}
	if err := w.l.ReleaseReserve(); err != nil || w.aside() > crumbs || w.o.Files.reserve.taken.Load() != 0 {
		t.Fatalf("%d bytes aside after the release, %d counted, %v", w.aside(), w.o.Files.reserve.taken.Load(), err)
	}
	w.append(12 << 10) // two segments and more
	if n := len(w.l.Segments()); n < 3 {
		t.Fatalf("%d segments", n)
	}
	if n := w.log.Count(vfs.OpReserve); n > 12 {
		t.Fatalf("%d steps for %d bytes", n, w.l.Size())
	}
	for _, line := range w.log.Lines() {
		var off, length int64
		var path string
		if n, _ := fmt.Sscanf(line, "reserve %s off=%d len=%d", &path, &off, &length); n == 3 && off+length > 6<<20 {
			t.Fatalf("%s: beyond the end of the segment", line)
		}
	}
	if aside, taken := w.aside(), w.o.Files.reserve.taken.Load(); aside > taken+crumbs {
		t.Fatalf("%d bytes aside, %d counted: sealed segments have kept some", aside, taken)
	}
	if err := w.l.Close(); err != nil || w.aside() > crumbs || w.o.Files.reserve.taken.Load() != 0 {
		t.Fatalf("%d bytes aside after the close, %d counted, %v", w.aside(), w.o.Files.reserve.taken.Load(), err)
	}
	w.o.Clean = true
	l, _ := mustOpen(t, w.o)
	if got := readAll(t, l, 0); !bytes.Equal(got, w.kept) {
		t.Fatal("the log has other bytes than were appended")
	}
}

// TestReserveIsAHint: without a limit, or the space, or the call, appends go on.
func TestReserveIsAHint(t *testing.T) {
	for name, cause := range map[string]error{"no limit": nil, "full": syscall.ENOSPC, "no such call": errors.ErrUnsupported} {
		t.Run(name, func(t *testing.T) {
			w := newReserving(t, 16<<20)
			if cause == nil {
				w.o.Files.SetReserveLimit(0)
			} else {
				w.fs.SetRules(vfs.OnOp(vfs.OpReserve, "", cause))
			}
			w.append(4 << 10)
			if n := w.log.Count(vfs.OpReserve); n > 1 || w.o.Files.reserve.taken.Load() != 0 {
				t.Fatalf("asked %d times, %d bytes counted", n, w.o.Files.reserve.taken.Load())
			}
			if got := readAll(t, w.l, 0); !bytes.Equal(got, w.kept) {
				t.Fatal("the log has other bytes than were appended")
			}
		})
	}
}

// TestReserveOutlivesACrash: what a killed broker had set aside does not disturb its successor, and goes with its stop.
func TestReserveOutlivesACrash(t *testing.T) {
	w := newReserving(t, 16<<20)
	w.append(3 << 10)
	w.mem = w.mem.KillClone()
	if w.aside() < 1<<20 {
		t.Fatalf("%d bytes aside after the crash: nothing to test", w.aside())
	}
	w.o.FS, w.o.Files = w.mem, NewFiles(w.mem, 64)
	l, r := mustOpen(t, w.o)
	if r.TruncatedBytes != 0 || !bytes.Equal(readAll(t, l, 0), w.kept) {
		t.Fatalf("recovered %d bytes, cut %d", l.Size(), r.TruncatedBytes)
	}
	if err := l.Close(); err != nil || w.aside() > crumbs {
		t.Fatalf("%d bytes aside after the close, %v", w.aside(), err)
	}
}

// TestReserveAndTruncate: a cut gives back what was set aside, and the log sets aside anew.
func TestReserveAndTruncate(t *testing.T) {
	w := newReserving(t, 16<<20)
	w.append(3 << 10)
	if err := w.l.Truncate(10); err != nil {
		t.Fatal(err)
	}
	w.kept = slices.Clone(readAll(t, w.l, 0))
	if taken := w.o.Files.reserve.taken.Load(); w.aside() > crumbs || taken != 0 {
		t.Fatalf("%d bytes aside after the cut, %d counted", w.aside(), taken)
	}
	w.append(2 << 10)
	if w.aside() < 512<<10 {
		t.Fatalf("%d bytes aside", w.aside())
	}
}

// TestFailedStartSync: the kernel may tell of lost data there and nowhere else.
func TestFailedStartSync(t *testing.T) {
	w := newReserving(t, 16<<20)
	w.append(64)
	w.fs.SetRules(vfs.Nth(0, vfs.OnOp(vfs.OpStartSync, "*.log", syscall.EIO)))
	if err := w.l.StartSync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("start: %v", err)
	}
	if end, err := w.l.Sync(); err == nil || end != 0 {
		t.Fatalf("a sync after it vouches for %d, %v", end, err)
	}
}
