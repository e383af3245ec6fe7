package commitlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"moldau/internal/planted"
	"moldau/internal/vfs"
)

func must(t tb, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// described is everything about an open log that its files decide.
func described(l *Log) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	fmt.Fprintln(&b, "offsets", l.logStart, l.logEnd, l.syncedEnd, l.recoveryPoint, l.epochs, l.epochUnused, l.snapshots, l.sequences)
	fmt.Fprintln(&b, "to sync", l.sinceRecovery, l.appended.Load(), l.namesFound, l.newFolder, len(l.unsynced))
	for _, p := range l.producers.sorted() {
		fmt.Fprintf(&b, "%+v\n", *p)
	}
	fmt.Fprintln(&b, "transactions", l.producers.open, l.producers.ended)
	for i := range l.sealed {
		fmt.Fprintln(&b, describedView(&l.sealed[i]))
	}
	a := l.active
	seal := a.lastEntryTime
	if a.hasSeal {
		seal = a.beforeSeal
	}
	fmt.Fprintln(&b, describedView(&a.view), a.max, a.sinceEntry, a.lastEntryTime, a.firstTimestamp, a.hasSeal, seal, a.extended, a.surplus, a.allocated)
	return b.String()
}

func describedView(v *view) string {
	return fmt.Sprint("segment ", v.base, v.next, v.size, v.offset.written, len(v.offset.tail), v.time.written, len(v.time.tail), v.aborted, v.cold.Load(), v.known())
}

// again opens what a clean stop has left on a copy of the disk.
func (w *world) again(bug planted.Bug, summary []byte) (*Log, error) {
	o := w.o
	o.on(bug(w.mem.KillClone()))
	o.RecoveryPoint, o.LogStart, o.Clean, o.Summary = w.point, w.start, true, summary
	l, _, err := Open(o)
	return l, err
}

// checkSummary: a log that was just closed is the same, whether its files are read or the summary is believed.
func checkSummary(t tb, w *world) {
	t.Helper()
	summary, err := w.l.Summary()
	must(t, err)
	if summary != nil {
		must(t, w.compareOpens(t, planted.None, summary))
	}
}

// compareOpens opens with and without a summary, and compares. It returns the error of the first.
func (w *world) compareOpens(t tb, bug planted.Bug, summary []byte) error {
	t.Helper()
	resumed, err := w.again(bug, summary)
	if err != nil {
		return err
	}
	defer resumed.Abandon()
	read, err := w.again(planted.None, nil)
	must(t, err)
	defer read.Abandon()
	if got, want := described(resumed), described(read); got != want {
		t.Fatalf("by its summary the log is\n%sand by its files\n%s", got, want)
	}
	return nil
}

// busy is a world in which all that a summary tells of has happened.
func busy(t tb) *world {
	mem := vfs.NewMem()
	w := newWorld(t, mem, mem, smallConfig())
	w.reopen(false)
	for i := range 20 {
		w.append(int64(1+i%2), 1+i%4, false)
	}
	w.append(7, 2, true)
	w.marker(7, false)
	w.append(8, 2, true)
	w.setStart(3)
	return w
}

// close stops cleanly and returns the log's summary.
func (w *world) close() []byte {
	w.t.Helper()
	must(w.t, w.l.Close())
	summary, err := w.l.Summary()
	if err != nil || summary == nil {
		w.t.Fatalf("summary %x, %v", summary, err)
	}
	return summary
}

// TestSummary: a start that has the summary of a log lists its folder and reads its producers, and nothing else.
func TestSummary(t *testing.T) {
	w := busy(t)
	summary := w.close()
	must(t, w.compareOpens(t, planted.None, summary))
	count := vfs.NewInject(w.mem)
	w.o.on(count)
	w.o.Summary = summary
	w.reopen(true)
	if n := count.Count(); n > 9 { // two files of producers, four operations each
		t.Errorf("%d operations", n)
	}
	before := count.Count()
	must(t, w.l.Close())
	again, err := w.l.Summary()
	if err != nil || string(again) != string(summary) || count.Count() != before {
		t.Errorf("a log that nobody has used has another summary, or took %d operations to make it (%v)", count.Count()-before, err)
	}
	w.reopen(true)
	w.append(1, 2, false)
	w.o.Summary = w.close()
	w.reopen(true)
	w.compare(w.l, "after another clean stop")
}

// TestSummaryOfEmptyLogs: of one that never had a record, and of one whose records are all gone.
func TestSummaryOfEmptyLogs(t *testing.T) {
	mem := vfs.NewMem()
	w := newWorld(t, mem, mem, smallConfig())
	w.reopen(false)
	w.o.Summary = w.close()
	w.reopen(true)
	w.append(1, 2, false)
	w.o.Summary = nil
	w.truncateFully(77)
	w.retain() // removes the files
	w.o.Summary = w.close()
	must(t, w.compareOpens(t, planted.None, w.o.Summary))
	count := vfs.NewInject(w.mem)
	w.o.on(count)
	w.reopen(true)
	if n := count.Count(); n != 1 || w.l.LogEnd() != 77 {
		t.Errorf("%d operations, log end %d", n, w.l.LogEnd())
	}
}

// TestSummaryOfChangedFolder: whatever happens to a file between stop and start, the summary is not believed.
func TestSummaryOfChangedFolder(t *testing.T) { checkChangedFolder(t, planted.None) }

func checkChangedFolder(t tb, bug planted.Bug) {
	w := busy(t)
	mem := w.mem
	w.o.on(bug(mem))
	w.reopen(false)
	summary := w.close()
	entries, err := mem.List(testDir)
	must(t, err)
	for _, e := range entries {
		path := filepath.Join(testDir, e.Name)
		content, err := vfs.ReadFile(mem, path)
		must(t, err)
		garbled := append([]byte{}, content...)
		for i := range garbled {
			garbled[i] ^= 0x55
		}
		for what, change := range map[string]func(disk *vfs.Mem){
			"garbled":  func(disk *vfs.Mem) { write(t, disk, path, garbled) },
			"longer":   func(disk *vfs.Mem) { write(t, disk, path, append(garbled, 1)) },
			"gone":     func(disk *vfs.Mem) { must(t, disk.Remove(path)) },
			"replaced": func(disk *vfs.Mem) { must(t, vfs.WriteFileAtomic(disk, path, content)) },
			"another is there": func(disk *vfs.Mem) {
				write(t, disk, filepath.Join(testDir, fileName(1<<40, logSuffix)), nil)
			},
		} {
			if what == "garbled" && len(content) == 0 {
				continue
			}
			w.mem = mem.KillClone()
			change(w.mem)
			if l, err := w.again(bug, summary); err == nil {
				l.Abandon()
				t.Fatalf("%s is %s: the summary is believed", e.Name, what)
			} else if !errors.Is(err, ErrChanged) {
				t.Fatalf("%s is %s: %v", e.Name, what, err)
			}
		}
	}
}

// TestSummaryOfEarlierStop: what the stop before the last one knew is of no use after the last one.
func TestSummaryOfEarlierStop(t *testing.T) {
	checkEarlierSummary(t, func(summary []byte, _ uint64) []byte { return summary })
}

// checkEarlierSummary gives the start after the second stop what believe makes of the summary of the first.
func checkEarlierSummary(t tb, believe func(summary []byte, folder uint64) []byte) {
	w := busy(t)
	w.append(1, 3, false)
	earlier := w.close()
	w.reopen(true)
	w.truncate(w.l.LogEnd() - 3)
	w.append(1, 3, false) // another batch, which ends where the one before did
	w.close()
	entries, err := w.mem.List(testDir)
	must(t, err)
	if err := w.compareOpens(t, planted.None, believe(earlier, fingerprint(entries))); !errors.Is(err, ErrChanged) {
		t.Fatalf("open: %v", err)
	}
}

// TestSummaryBytes: the example in docs/format/closed.md.
func TestSummaryBytes(t *testing.T) {
	s := summary{
		folder: 0x1122334455667788, end: 1, max: TimestampOffset{Timestamp: 1767567231352}, firstTimestamp: 1767567231352, sinceEntry: 77,
		hasSeal: true, beforeSeal: -1, epochs: epochs{{0, 0}},
	}
	if got, want := fmt.Sprintf("%x", s.encode()), "112233445566778802f0a5bcb3f16600f0a5bcb3f1669a0102010000"; got != want {
		t.Errorf("have %s\nwant %s", got, want)
	}
}

// FuzzSummary: no bytes make a log whose parts contradict each other; what is written is read again.
func FuzzSummary(f *testing.F) {
	f.Add([]byte{})
	f.Add((&summary{folder: 1, end: 5, max: TimestampOffset{Timestamp: -1, Offset: 3, LeaderEpoch: -1}, epochs: epochs{{1, 2}, {3, 4}}}).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, ok := parseSummary(b)
		if !ok {
			return
		}
		again, ok := parseSummary(s.encode())
		if !ok || fmt.Sprint(again) != fmt.Sprint(s) {
			t.Fatalf("%x is %+v, and written again %+v", b, s, again)
		}
	})
}

// folderOf gives a summary another folder's fingerprint.
func folderOf(summary []byte, folder uint64) []byte {
	return append(binary.BigEndian.AppendUint64(nil, folder), summary[8:]...)
}
