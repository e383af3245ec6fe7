package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

// filled returns a disk with a cleanly stopped log of several segments with everything in it.
func filled(t tb) (*vfs.Mem, Options, []byte) {
	mem := vfs.NewMem()
	w := newWorld(t, mem, mem, smallConfig())
	w.reopen(false)
	for i := range 50 {
		w.append(int64(i%3), 1+i%3, false)
	}
	w.append(9, 1, true)
	w.marker(9, false)
	for i := range 12 { // so that the transaction index is a sealed segment's
		w.append(int64(i%3), 1+i%3, false)
	}
	w.append(9, 1, true)
	w.marker(9, false)
	w.append(1, 1, false)
	content := readAll(t, w.l, 0)
	if err := w.l.Close(); err != nil {
		t.Fatal(err)
	}
	o := w.o
	o.RecoveryPoint = w.l.RecoveryPoint()
	return mem, o, content
}

// on returns the options for another disk, and makes them so.
func (o *Options) on(fs vfs.FS) Options {
	o.FS, o.Files = fs, NewFiles(fs, 7)
	return *o
}

func write(t tb, fs vfs.FS, path string, content []byte) {
	t.Helper()
	f, err := fs.Open(path, vfs.Create|vfs.Truncate)
	if err == nil {
		_, err = f.WriteAt(content, 0)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// zeroed, garbled and longer are what becomes of a file's content.
func zeroed(b []byte) []byte { return make([]byte, len(b)) }

func garbled(b []byte) []byte {
	for i := range b {
		b[i] = byte(i*37 + 11)
	}
	return b
}

func longer(b []byte) []byte { return append(b, 1, 2, 3, 4, 5) }

// TestDamagedSideFiles: every file but the log itself may be missing, empty, cut, zeroed or garbled. The log opens with
// all its records, also by time, and the index files are as before when something had to look at them (KAFKA-1758, -2012, -13603,
// -19407).
func TestDamagedSideFiles(t *testing.T) {
	mem, o, content := filled(t)
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	whole, _ := mustOpen(t, o.on(mem.KillClone()))
	answers := answersOf(t, whole)
	whole.Abandon()
	other := vfs.NewMem() // another log's files, for those of the same name
	theirs := newWorld(t, other, other, smallConfig())
	theirs.reopen(false)
	for i := range 40 {
		theirs.clk.ms += 777
		theirs.append(int64(20+i%2), 1+i%4, i%8 == 0)
		if i%8 == 0 {
			theirs.marker(20, false)
		}
	}
	if err := theirs.l.Close(); err != nil {
		t.Fatal(err)
	}
	swapped := func(name string) func([]byte) []byte {
		ending := name[strings.LastIndex(name, ".")+1:]
		entries, err := other.List(testDir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if strings.HasSuffix(e.Name, ending) && e.Size > 0 {
				return func([]byte) []byte {
					b, err := vfs.ReadFile(other, filepath.Join(testDir, e.Name))
					if err != nil {
						t.Fatal(err)
					}
					return b
				}
			}
		}
		return func(b []byte) []byte { return b }
	}
	damages := map[string]func([]byte) []byte{
		"missing": nil,
		"empty":   func([]byte) []byte { return []byte{} },
		"cut":     func(b []byte) []byte { return b[:len(b)*2/3] },
		"zeroed":  zeroed,
		"garbled": garbled,
		"longer":  longer,
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, logSuffix) {
			continue
		}
		original, err := vfs.ReadFile(mem, filepath.Join(testDir, e.Name))
		if err != nil {
			t.Fatal(err)
		}
		damages["swapped with another log's"] = swapped(e.Name)
		for damage, apply := range damages {
			for i := range 4 {
				clean, scrub := i%2 == 0, i < 2
				what := fmt.Sprintf("%s %s, clean=%v, scrubbed=%v", e.Name, damage, clean, scrub)
				disk := mem.KillClone()
				path := filepath.Join(testDir, e.Name)
				if apply == nil {
					if err := disk.Remove(path); err != nil {
						t.Fatal(err)
					}
				} else {
					write(t, disk, path, apply(bytes.Clone(original)))
				}
				o := o.on(disk)
				o.Clean = clean
				l, _, err := Open(o)
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				if got := readAll(t, l, 0); !bytes.Equal(got, content) {
					t.Fatalf("%s: log holds %v", what, offsets(t, got))
				}
				if scrub {
					if done, err := l.Scrub(unpaced); err != nil || len(done.Damage) > 0 {
						t.Fatalf("%s: scrub: %+v, %v", what, done, err)
					}
				}
				if got := answersOf(t, l); got != answers {
					t.Fatalf("%s: answers\n%s\nwant\n%s", what, got, answers)
				}
				for offset := int64(0); offset < l.LogEnd(); offset++ { // by the index
					r, err := l.Read(offset, ReadOptions{MaxBytes: 1, UpTo: l.LogEnd(), AtLeastOne: true})
					if err != nil || r.FirstBatchOffset > offset || r.NextOffset <= offset {
						t.Fatalf("%s: read at %d: %+v, %v", what, offset, r, err)
					}
					r.Region.Release()
				}
				if _, err := l.Retain(time.UnixMilli(startMs)); err != nil {
					t.Fatalf("%s: retain: %v", what, err)
				}
				mustAppend(t, l, records("after", 1, noOptions, startMs+100000))
				if err := l.Close(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				// A sealed index that is only shorter is not wrong. Nothing in a time index can be checked but its size.
				if !strings.HasSuffix(e.Name, timeIndexSuffix) && (damage == "missing" || damage == "zeroed" || damage == "longer") {
					checkIndexes(t, disk, o.Config, what)
				}
			}
		}
	}
}

// answersOf is what a log says to questions that its side files help with.
func answersOf(t *testing.T, l *Log) string {
	t.Helper()
	var b strings.Builder
	for ms := int64(startMs - 50); ms < startMs+1000; ms += 7 {
		found, ok, err := l.OffsetForTimestamp(ms, l.LogEnd())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, ms, found, ok)
	}
	for upTo := int64(1); upTo <= l.LogEnd(); upTo += 9 {
		found, ok, err := l.OffsetOfMaxTimestamp(upTo)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&b, "newest below", upTo, found, ok)
	}
	aborted, err := l.AbortedTxns(0, l.LogEnd())
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&b, "aborted", aborted)
	for offset := range l.LogEnd() {
		fmt.Fprint(&b, l.EpochAt(offset), " ")
	}
	return b.String()
}

// TestDamagedLog: a flipped bit above the recovery point cuts the log there, wherever it is; below nobody looks.
func TestDamagedLog(t *testing.T) {
	mem, o, content := filled(t)
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	var last string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, logSuffix) {
			last = e.Name
		}
	}
	base, _, _ := parseName(last)
	path := filepath.Join(testDir, last)
	segment, err := vfs.ReadFile(mem, path)
	if err != nil {
		t.Fatal(err)
	}
	below := len(content) - len(segment)
	starts := map[int]int{} // of the batch that a byte is in
	for rest := segment; len(rest) > 0; {
		bt, after, err := batch.Next(rest)
		if err != nil {
			t.Fatal(err)
		}
		start := len(segment) - len(rest)
		for i := range bt {
			starts[start+i] = start
		}
		rest = after
	}
	for i := range segment {
		if at := i - starts[i]; at < 8 || at >= 12 && at < 16 {
			continue // base offset and leader epoch are not under the CRC
		}
		disk := mem.KillClone()
		b := bytes.Clone(segment)
		b[i] ^= 0x10
		write(t, disk, path, b)
		o := o.on(disk)
		o.RecoveryPoint = base
		l, r := mustOpen(t, o)
		got := readAll(t, l, 0)
		if !bytes.HasPrefix(content, got) || len(got) != below+starts[i] {
			t.Fatalf("flipped bit in byte %d: %d bytes left of %d, %+v", i, len(got), len(content), r)
		}
		l.Abandon()
		l, again := mustOpen(t, o.on(disk))
		if again.TruncatedBytes != 0 || !bytes.Equal(readAll(t, l, 0), got) {
			t.Fatalf("flipped bit in byte %d: the second open cuts again: %+v", i, again)
		}
		l.Abandon()
	}
}

// TestLeftovers: what an interrupted deletion or compaction leaves is removed or brought to its end.
func TestLeftovers(t *testing.T) {
	mem, o, content := filled(t)
	file := func(name string) string { return filepath.Join(testDir, name) }
	first, err := vfs.ReadFile(mem, file("00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	l, _ := mustOpen(t, o.on(mem.KillClone()))
	second := l.Segments()[1].BaseOffset
	l.Abandon()

	disk := mem.KillClone()
	for _, name := range []string{
		"00000000000000000007.log.deleted", "00000000000000000007.index.deleted", "00000000000000000003.snapshot.deleted",
		"00000000000000000000.log.cleaned", "00000000000000000000.timeindex.cleaned", "00000000000000000005.log.swap",
		"leader-epoch-checkpoint.tmp", "00000000000000000999.index",
	} {
		write(t, disk, file(name), []byte("rest"))
	}
	l, _ = mustOpen(t, o.on(disk))
	if got := readAll(t, l, 0); !bytes.Equal(got, content) {
		t.Fatalf("log holds %v", offsets(t, got))
	}
	l.Abandon()
	entries, err := disk.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Size == 4 {
			t.Errorf("%s is still there", e.Name)
		}
	}

	// A compacted first segment, whole, that has not replaced the old one yet: only its second batch is left.
	disk = mem.KillClone()
	b, rest, err := batch.Next(first)
	if err != nil {
		t.Fatal(err)
	}
	write(t, disk, file("00000000000000000000.log.swap"), rest)
	write(t, disk, file("00000000000000000000.index.swap"), nil)
	write(t, disk, file("00000000000000000000.timeindex.swap"), nil)
	l, _ = mustOpen(t, o.on(disk))
	if got := readAll(t, l, 0); !bytes.Equal(got, content[len(b):]) {
		t.Fatalf("after the swap the log holds %v", offsets(t, got))
	}
	if l.Segments()[1].BaseOffset != second {
		t.Fatalf("segments %v", l.Segments())
	}
	l.Abandon()
}

// TestOldFormatIsNotCut: records that Kafka wrote before 0.11 must not be taken for a torn tail.
func TestOldFormatIsNotCut(t *testing.T) {
	mem, o, content := filled(t)
	old := make([]byte, 12, 100)
	old = append(old, 0, 0, 0, 0, 1, 0)
	old = append(old, make([]byte, 8+4+4)...)
	binary.BigEndian.PutUint64(old, 1000)
	binary.BigEndian.PutUint32(old[8:], uint32(len(old)-12))
	binary.BigEndian.PutUint32(old[12:], crc32.ChecksumIEEE(old[16:]))
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	var path string
	for _, e := range entries {
		if strings.HasSuffix(e.Name, logSuffix) {
			path = filepath.Join(testDir, e.Name)
		}
	}
	segment, err := vfs.ReadFile(mem, path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, mem, path, append(segment, old...))
	if _, _, err := Open(o.on(mem)); !errors.Is(err, batch.ErrOldMagic) {
		t.Fatalf("open: %v", err)
	}
	old[20]++ // not such a message after all
	write(t, mem, path, append(segment, old...))
	l, r, err := Open(o.on(mem))
	if err != nil || int(r.TruncatedBytes) != len(old) || !bytes.Equal(readAll(t, l, 0), content) {
		t.Fatalf("open: %+v, %v", r, err)
	}
}

// TestPreallocatedIndexes: Kafka's sizes while the segment is active, the real ones once it is not.
func TestPreallocatedIndexes(t *testing.T) {
	mem := vfs.NewMem()
	c := DefaultConfig()
	c.Preallocate, c.SegmentBytes = true, 4000
	o := testOptions(mem, c)
	l, _ := mustOpen(t, o)
	size := func(name string) int64 {
		e, err := mem.Stat(filepath.Join(testDir, name))
		if err != nil {
			t.Fatal(err)
		}
		return e.Size
	}
	const zero = "00000000000000000000"
	if i, x, n := size(zero+".index"), size(zero+".timeindex"), size(zero+".log"); i != 10485760 || x != 10485756 || n != 4000 {
		t.Fatalf("active segment: index %d, time index %d, log %d bytes", i, x, n)
	}
	for l.Size() < 5000 {
		mustAppend(t, l, records("r", 3, noOptions, startMs+l.LogEnd()))
	}
	if i, x, n := size(zero+".index"), size(zero+".timeindex"), size(zero+".log"); i != 0 || x != 12 || n != l.Segments()[0].SizeBytes {
		t.Fatalf("sealed segment: index %d, time index %d, log %d bytes", i, x, n)
	}
	want := readAll(t, l, 0)
	l.Abandon()
	l, _ = mustOpen(t, o.on(mem)) // zeros behind the last batch
	if !bytes.Equal(readAll(t, l, 0), want) {
		t.Fatal("records are lost in preallocated space")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if used, err := mem.Usage("/"); err != nil || used.Total-used.Free > 1<<20 {
		t.Fatalf("preallocated indexes take %d bytes of disk", used.Total-used.Free)
	}
}

// TestRetention: by time, by size and by log start, never past the high watermark (KAFKA-5634).
func TestRetention(t *testing.T) {
	mem := vfs.NewMem()
	c := smallConfig()
	clk := &clock{ms: startMs}
	o := testOptions(mem, c)
	o.Now = clk.now
	l, _ := mustOpen(t, o)
	for i := range 100 {
		mustAppend(t, l, records("r", 2, noOptions, startMs+int64(i)*1000))
	}
	bases := func() (all []int64) {
		for _, s := range l.Segments() {
			all = append(all, s.BaseOffset)
		}
		return all
	}
	retain := func(what string, wantStart int64) {
		t.Helper()
		if _, err := l.Retain(clk.now()); err != nil {
			t.Fatal(err)
		}
		if l.LogStart() != wantStart {
			t.Fatalf("%s: log start %d, want %d; segments %v", what, l.LogStart(), wantStart, bases())
		}
	}
	all := bases()
	if len(all) < 6 {
		t.Fatalf("segments %v", all)
	}
	c.RetentionMs, c.RetentionBytes = 1, 0
	l.SetConfig(c)
	clk.ms = startMs + 1_000_000
	retain("no high watermark", 0)
	l.SetDeletionBound(all[1] + 1)
	retain("high watermark in the second segment", all[1])
	l.SetDeletionBound(l.LogEnd())
	c.RetentionMs, c.RetentionBytes = -1, -1
	l.SetConfig(c)
	if err := l.SetLogStart(all[2] + 1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(all[2], ReadOptions{MaxBytes: 1, UpTo: 1000}); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Fatalf("read below the log start: %v", err)
	}
	retain("log start in the third segment", all[2]+1)
	if got := bases(); !reflect.DeepEqual(got, all[2:]) {
		t.Fatalf("segments %v, want %v", got, all[2:])
	}
	if err := l.SetLogStart(l.LogEnd() + 1); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Fatalf("log start behind the end: %v", err)
	}
	c.RetentionBytes = l.Size() - l.Segments()[0].SizeBytes + 1
	l.SetConfig(c)
	retain("a byte too few to spare", all[2]+1)
	c.RetentionBytes--
	l.SetConfig(c)
	retain("just enough to spare", all[3])
	r, err := l.Read(l.LogStart(), ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd()})
	if err != nil {
		t.Fatal(err)
	}
	before := readAll(t, l, l.LogStart())
	c.RetentionBytes, c.RetentionMs = -1, 500_000
	l.SetConfig(c)
	end := l.LogEnd()
	retain("all is old", end)
	if got := bases(); len(got) != 1 || got[0] != end || l.LogEnd() != end {
		t.Fatalf("segments %v, log end %d", got, l.LogEnd())
	}
	if left, err := l.DeletePending(clk.now().Add(59 * time.Second)); left == 0 || err != nil {
		t.Fatalf("deleted before file.delete.delay.ms: %d, %v", left, err)
	}
	if left, err := l.DeletePending(clk.now().Add(time.Minute)); left != 0 || err != nil {
		t.Fatalf("still there: %d, %v", left, err)
	}
	var b bytes.Buffer
	if _, err := r.Region.SendTo(&b); err != nil || !bytes.HasPrefix(before, b.Bytes()) || b.Len() == 0 {
		t.Fatalf("a region of a deleted segment: %d bytes, %v", b.Len(), err)
	}
	r.Region.Release()
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, deletedSuffix) || strings.HasSuffix(e.Name, logSuffix) && e.Name != fileName(end, logSuffix) {
			t.Errorf("%s is left", e.Name)
		}
	}
}

// TestRetentionPassesEmptySegments: a follower's log may begin with a segment that holds nothing, where the leader's first record lies
// more than 2^31 behind its log start. It holds up nobody.
func TestRetentionPassesEmptySegments(t *testing.T) {
	c := smallConfig()
	c.RetentionMs, c.RetentionBytes = -1, 2500
	l, _ := mustOpen(t, testOptions(vfs.NewMem(), c))
	defer l.Abandon()
	first := int64(3) << 31
	for i := range int64(100) {
		if _, err := l.AppendFetched(records("f", 1, batch.BuildOptions{BaseOffset: first + i, LeaderEpoch: 1}, startMs+i)); err != nil {
			t.Fatal(err)
		}
	}
	if all := l.Segments(); all[0].SizeBytes != 0 || all[1].BaseOffset != first {
		t.Fatalf("segments %v", all)
	}
	l.SetDeletionBound(l.LogEnd())
	if deleted, err := l.Retain(time.UnixMilli(startMs)); err != nil || deleted < 3 || l.Size() > 2500+1000 {
		t.Fatalf("%d segments deleted, %d bytes left: %v", deleted, l.Size(), err)
	}
}

// TestRetentionByOddTimes: what decides is the largest timestamp of a segment, wherever in it and however it came about; one from the
// future keeps its segment, and those behind it, until it has passed.
func TestRetentionByOddTimes(t *testing.T) {
	const day = 24 * 3600 * 1000
	c := smallConfig()
	c.RetentionMs = day
	l, _ := mustOpen(t, testOptions(vfs.NewMem(), c))
	defer l.Abandon()
	put := func(timestamps ...int64) {
		t.Helper()
		for _, ts := range timestamps {
			mustAppend(t, l, records(strings.Repeat("x", 100), 1, noOptions, ts))
		}
	}
	put(startMs-3*day, 0, startMs-9*day, startMs-2*day, 1) // backwards, and from 1970
	old := l.LogEnd()
	put(startMs-3*day, startMs+2*day, startMs-3*day, startMs-3*day, startMs-3*day)
	future := l.LogEnd()
	put(startMs-5*day, startMs-5*day, startMs-5*day, startMs-5*day, startMs-5*day, startMs-5*day)
	l.SetDeletionBound(l.LogEnd())
	if len(l.Segments()) != 4 || l.Segments()[1].BaseOffset != old || l.Segments()[2].BaseOffset != future {
		t.Fatalf("segments %v, want the cuts at %d and %d", l.Segments(), old, future)
	}
	retain := func(now, start int64) {
		t.Helper()
		if _, err := l.Retain(time.UnixMilli(now)); err != nil || l.LogStart() != start {
			t.Fatalf("log start %d at %+d days, want %d: %v", l.LogStart(), (now-startMs)/day, start, err)
		}
	}
	retain(startMs-1-day, 0)
	retain(startMs, old)
	retain(startMs+3*day, old)
	retain(startMs+3*day+1, l.LogEnd())
}

// TestRetentionOnAFullDisk: a damaged index that cannot be made anew for lack of space keeps nobody from making some.
func TestRetentionOnAFullDisk(t *testing.T) {
	mem, o, _ := filled(t)
	fs := vfs.NewInject(mem)
	l, _ := mustOpen(t, o.on(fs))
	defer l.Abandon()
	l.SetDeletionBound(l.LogEnd())
	l.sealed[len(l.sealed)-1].damaged.Store(true)
	fs.SetRules(vfs.OnOp(vfs.OpCreate, "", syscall.ENOSPC), vfs.OnOp(vfs.OpWrite, "", syscall.ENOSPC))
	c := l.Config()
	c.RetentionBytes = l.Size() - 2000
	l.SetConfig(c)
	if deleted, err := l.Retain(time.UnixMilli(startMs)); deleted == 0 || !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%d segments deleted: %v", deleted, err)
	}
	fs.SetRules()
	if _, err := l.Retain(time.UnixMilli(startMs)); err != nil || l.sealed[len(l.sealed)-1].damaged.Load() {
		t.Fatalf("with space again: %v", err)
	}
}

// TestIndexLostWhileRunning: an index file that somebody removes or cuts under the node costs its index, not the disk.
func TestIndexLostWhileRunning(t *testing.T) {
	mem, o, content := filled(t)
	l, _ := mustOpen(t, o.on(mem.KillClone()))
	answers, segments := answersOf(t, l), l.Segments()
	l.Abandon()
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	active := fileName(segments[len(segments)-1].BaseOffset, "")
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, "index") || strings.HasPrefix(e.Name, active) || e.Size == 0 {
			continue
		}
		for i := range 6 {
			left, scanned := []int64{-1, 0, e.Size / 2}[i/2], i%2 == 0 // by this run, which vouches for batches and not for files
			what := fmt.Sprintf("%s with %d bytes left of %d, scanned=%v", e.Name, left, e.Size, scanned)
			disk := mem.KillClone()
			o := o.on(disk)
			if scanned {
				o.RecoveryPoint = 0
			}
			l, _ := mustOpen(t, o)
			path := filepath.Join(testDir, e.Name)
			if left < 0 {
				err = disk.Remove(path)
			} else {
				err = vfs.WriteFileAtomic(disk, path, make([]byte, left))
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := answersOf(t, l); got != answers {
				t.Fatalf("%s: answers\n%s\nwant\n%s", what, got, answers)
			}
			if got := readAll(t, l, 0); !bytes.Equal(got, content) {
				t.Fatalf("%s: log holds %v", what, offsets(t, got))
			}
			if _, err := l.Retain(time.UnixMilli(startMs)); err != nil {
				t.Fatalf("%s: retain: %v", what, err)
			}
			if done, err := l.Scrub(unpaced); err != nil || len(done.Damage) > 0 {
				t.Fatalf("%s: scrub: %+v, %v", what, done, err)
			}
			if _, err := l.Retain(time.UnixMilli(startMs)); err != nil {
				t.Fatalf("%s: retain: %v", what, err)
			}
			if err := l.Close(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			checkIndexes(t, disk, o.Config, what)
		}
	}
}

// TestActiveIndexIsMadeAnew: a damaged index of the active segment, without which each read goes through all of it, is given up too.
func TestActiveIndexIsMadeAnew(t *testing.T) {
	mem := vfs.NewMem()
	c := smallConfig()
	c.SegmentBytes = 100_000
	o := testOptions(mem, c)
	l, _ := mustOpen(t, o)
	for i := range int64(60) {
		mustAppend(t, l, records("r", 3, noOptions, startMs+10*i))
	}
	want := readAll(t, l, 0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(testDir, fileName(0, indexSuffix))
	index, err := vfs.ReadFile(mem, path)
	if err != nil || len(index) < 10*offsetWidth {
		t.Fatalf("%d bytes, %v", len(index), err)
	}
	for e := index[:len(index)-2*offsetWidth]; len(e) > 0; e = e[offsetWidth:] {
		e[7]++ // one position too far
	}
	write(t, mem, path, index)
	o = o.on(mem)
	o.Clean, o.RecoveryPoint = true, l.RecoveryPoint()
	l, _ = mustOpen(t, o)
	read := func() {
		t.Helper()
		r, err := l.Read(90, ReadOptions{MaxBytes: 1, UpTo: l.LogEnd(), AtLeastOne: true})
		if err != nil || r.FirstBatchOffset != 90 {
			t.Fatalf("read at 90: %+v, %v", r, err)
		}
		r.Region.Release()
	}
	read()
	if !l.active.damaged.Load() {
		t.Fatal("the index does not count as damaged")
	}
	if deleted, err := l.Retain(time.UnixMilli(startMs)); err != nil || deleted != 0 {
		t.Fatalf("%d segments deleted: %v", deleted, err)
	}
	for i := range len(l.Bounds().sealed) + 1 {
		if v := l.Bounds().view(i); v.damaged.Load() {
			t.Errorf("the index of segment %d still counts as damaged", v.base)
		}
	}
	read()
	if got := readAll(t, l, 0); !bytes.Equal(got, want) {
		t.Fatalf("the log holds %v", offsets(t, got))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	checkIndexes(t, mem, c, "at the end")
}

// TestRetentionWaitsForTheRecoveryPoint: on a disk too full for it to move, segments above it stay: the state of their producers is
// nowhere else.
func TestRetentionWaitsForTheRecoveryPoint(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	w := newWorld(t, mem, fs, smallConfig())
	w.reopen(false)
	for range 40 {
		w.append(1, 2, false)
	}
	l := w.l
	defer l.Abandon()
	l.SetDeletionBound(l.LogEnd())
	c := l.Config()
	c.RetentionBytes = 1500
	l.SetConfig(c)
	fs.SetRules(vfs.OnOp(vfs.OpCreate, "", syscall.ENOSPC))
	if deleted, err := l.Retain(time.UnixMilli(startMs)); err != nil || l.LogStart() > l.RecoveryPoint() {
		t.Fatalf("%d segments deleted up to %d, recovery point %d: %v", deleted, l.LogStart(), l.RecoveryPoint(), err)
	}
	fs.SetRules()
	if deleted, err := l.Retain(time.UnixMilli(startMs)); err != nil || deleted == 0 || l.LogStart() > l.RecoveryPoint() {
		t.Fatalf("with space again %d segments deleted up to %d, recovery point %d: %v", deleted, l.LogStart(), l.RecoveryPoint(), err)
	}
}

// TestRollByTime: segment.ms counts in the records' time, and in the clock's where they have none.
func TestRollByTime(t *testing.T) {
	c := DefaultConfig()
	c.SegmentMs = 1000
	clk := &clock{ms: startMs}
	o := testOptions(vfs.NewMem(), c)
	o.Now = clk.now
	l, _ := mustOpen(t, o)
	put := func(timestamp int64, segments int) {
		t.Helper()
		if _, err := l.Append(records("r", 1, noOptions, timestamp), AppendOptions{Now: clk.ms}); err != nil {
			t.Fatal(err)
		}
		if n := len(l.Segments()); n != segments {
			t.Fatalf("%d segments, want %d", n, segments)
		}
	}
	clk.ms += 10_000 // the clock does not count while there are timestamps
	put(5000, 1)
	put(6000, 1)
	put(4000, 1)
	put(6001, 2)
	put(7001, 2)
	put(batch.NoTimestamp, 2)
	put(9000, 3)
	put(batch.NoTimestamp, 3)
	put(20000, 4)

	bare := testOptions(vfs.NewMem(), c)
	bare.Now = clk.now
	l, _ = mustOpen(t, bare)
	put(batch.NoTimestamp, 1)
	clk.ms += 1000
	put(batch.NoTimestamp, 1)
	clk.ms++
	put(batch.NoTimestamp, 2)

	c.SegmentJitterMs = 5000 // never more than segment.ms
	l.SetConfig(c)
	for range 100 {
		l.mu.Lock()
		j := l.jitter()
		l.mu.Unlock()
		if j < 0 || j >= c.SegmentMs {
			t.Fatalf("jitter %d ms", j)
		}
	}
}

// A sync fails, the process ends, and the next one finds the records in the page cache. Nothing says that they are not on
// the disk, and yet a power cut takes them unless recovery writes them again.
func TestRecoveryAfterFailedSync(t *testing.T) {
	mem := vfs.NewMem()
	disk := vfs.NewInject(mem)
	l, _ := mustOpen(t, testOptions(disk, DefaultConfig()))
	for range 3 {
		mustAppend(t, l, records("r", 50, noOptions, startMs)) // a page each, or nearly
	}
	if err := mem.SyncFS("/"); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		mustAppend(t, l, records("r", 50, noOptions, startMs))
	}
	disk.SetRules(vfs.OnOp(vfs.OpSyncData, "*.log", syscall.EIO))
	if _, err := l.Sync(); err == nil {
		t.Fatal("the sync did not fail")
	}
	l.Abandon()

	again, _ := mustOpen(t, testOptions(mem, DefaultConfig()))
	for range 10 {
		mustAppend(t, again, records("r", 50, noOptions, startMs))
	}
	end, err := again.Sync()
	if err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
	again.Abandon()
	after, _ := mustOpen(t, testOptions(crashed, DefaultConfig()))
	if after.LogEnd() != end {
		t.Errorf("the log ends at %d, %d was synced", after.LogEnd(), end)
	}
	after.Abandon()
}

// A power cut in the middle of retention takes nothing from behind the deleted segments.
func TestPowerCutDuringRetention(t *testing.T) {
	mem := vfs.NewMem()
	c := smallConfig()
	c.RetentionMs, c.RetentionBytes = -1, 2000
	clk := &clock{ms: startMs}
	var crashes []*vfs.Mem
	rng := rand.New(rand.NewPCG(1, 1))
	disk := vfs.NewInject(mem)
	disk.Hook = func(op vfs.Op) error {
		if op.Kind == vfs.OpRename || op.Kind == vfs.OpSyncDir {
			for range 8 {
				crashes = append(crashes, mem.CrashClone(rng, 0.5))
			}
		}
		return nil
	}
	o := testOptions(disk, c)
	o.Now = clk.now
	l, _ := mustOpen(t, o)
	for i := range 100 {
		mustAppend(t, l, records("r", 2, noOptions, startMs+int64(i)))
	}
	end, err := l.Sync()
	if err != nil {
		t.Fatal(err)
	}
	l.SetDeletionBound(end)
	if err := mem.SyncFS("/"); err != nil {
		t.Fatal(err)
	}
	crashes = nil
	if n, err := l.Retain(clk.now()); err != nil || n < 4 {
		t.Fatalf("%d segments deleted, %v", n, err)
	}
	for i, crashed := range crashes {
		again, _ := mustOpen(t, testOptions(crashed, c)) // with no recovery point: the scan meets every segment
		if again.LogEnd() != end {
			t.Fatalf("cut %d: the log ends at %d, %d was synced", i, again.LogEnd(), end)
		}
		again.Abandon()
	}
	l.Abandon()
}

// TestIndexBeyondTheLog: what a crash has left in the index files beyond the records costs an unclean start nothing, as many of
// them as there are, and is gone before a recovery point vouches for them.
func TestIndexBeyondTheLog(t *testing.T) {
	mem := vfs.NewMem()
	c := smallConfig()
	c.SegmentBytes, c.MaxIndexBytes = 1_000_000, 1<<20
	l, _ := mustOpen(t, testOptions(mem, c))
	for i := range int64(300) {
		mustAppend(t, l, records("lost", 3, noOptions, startMs+i))
	}
	l.Abandon()
	lost := allBatches(t, mem)[40]
	f, err := mem.Open(lost.path, vfs.Write)
	must(t, err)
	must(t, f.Truncate(int64(lost.pos)))
	must(t, f.Close())
	index := func(suffix string) []byte {
		t.Helper()
		content, err := vfs.ReadFile(mem, filepath.Join(testDir, fileName(0, suffix)))
		must(t, err)
		return bytes.TrimRight(content, "\x00")
	}
	if n := len(index(indexSuffix)) / offsetWidth; n < 100 {
		t.Fatalf("%d entries lie in the index of 40 batches", n)
	}

	for i := range int64(3) {
		disk := vfs.NewInject(mem)
		disk.SetRules(func(op vfs.Op) error {
			if strings.HasSuffix(op.Path, "index") {
				t.Errorf("start %d: %v", i, op)
			}
			return nil
		})
		o := testOptions(disk, c)
		o.DeferSync = true
		l, _ = mustOpen(t, o)
		for j := range int64(10) {
			mustAppend(t, l, records("new", 1, noOptions, startMs+1000*i+j))
		}
		l.Abandon()
	}

	l, _ = mustOpen(t, testOptions(mem, c))
	must(t, l.AdvanceRecoveryPoint())
	if n, want := len(index(indexSuffix)), l.active.offset.count()*offsetWidth; n > want || n < want-offsetWidth+1 {
		t.Errorf("the index holds %d bytes, of %d batches", n, want/offsetWidth)
	}
	if n, want := len(index(timeIndexSuffix)), l.active.time.count()*timeWidth; n > want || n < want-timeWidth+1 {
		t.Errorf("the time index holds %d bytes, of %d entries", n, want/timeWidth)
	}
	want := readAll(t, l, 0)
	o := testOptions(mem, c)
	o.RecoveryPoint = l.RecoveryPoint()
	l.Abandon()
	l, recovery := mustOpen(t, o)
	if got := readAll(t, l, 0); !bytes.Equal(got, want) || recovery.ScannedBytes != 0 {
		t.Errorf("%d bytes were read, the log holds %v", recovery.ScannedBytes, offsets(t, got))
	}
	must(t, l.Close())
	checkIndexes(t, mem, c, "at the end")
}

// TestUnfinishedCheckpoint: a checkpoint that was being written when the process died is removed, and makes no sync necessary: thousands
// of logs may have one, when the recovery points of all are moved.
func TestUnfinishedCheckpoint(t *testing.T) {
	mem := vfs.NewMem()
	l, _ := mustOpen(t, testOptions(mem, DefaultConfig()))
	mustAppend(t, l, records("r", 7, noOptions, startMs))
	l.Abandon()
	left := filepath.Join(testDir, epochsName+tmpSuffix)
	f, err := mem.Open(left, vfs.Write|vfs.Create)
	must(t, err)
	_, err = f.WriteAt([]byte("0\n1\n0 "), 0)
	must(t, err)
	must(t, f.Close())
	log := vfs.NewLog(mem, nil)
	o := testOptions(log, DefaultConfig())
	o.DeferSync, o.NamesDurable = true, true
	l, _ = mustOpen(t, o)
	if n := log.Count(vfs.OpSyncData) + log.Count(vfs.OpSync) + log.Count(vfs.OpSyncDir); n != 0 {
		t.Errorf("%d syncs", n)
	}
	if _, err := mem.Stat(left); !notExist(err) {
		t.Errorf("%s: %v", left, err)
	}
	must(t, l.Close())
}

// TestRecoveryWritesAgainAtOnce: what recovery has read is written again in pieces as large as those that were read, not a batch at a
// time, and not what is damaged.
func TestRecoveryWritesAgainAtOnce(t *testing.T) {
	mem := vfs.NewMem()
	c := DefaultConfig()
	l, _ := mustOpen(t, testOptions(mem, c))
	for l.Size() < 3*scanBytes {
		mustAppend(t, l, records("r", 7, noOptions, startMs))
	}
	want := readAll(t, l, 0)
	size := l.Size()
	l.Abandon()
	path := filepath.Join(testDir, fileName(0, logSuffix))
	f, err := mem.Open(path, vfs.Write)
	must(t, err)
	_, err = f.WriteAt([]byte("the beginning of a batch that was not written to its end, and so is none"), size)
	must(t, err)
	must(t, f.Close())
	disk := vfs.NewInject(mem)
	writes, next := 0, int64(0)
	disk.SetRules(func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && op.Path == path {
			if op.Off != next {
				t.Errorf("write at %d, what comes next is at %d", op.Off, next)
			}
			writes, next = writes+1, op.Off+op.Len
		}
		return nil
	})
	l, _ = mustOpen(t, testOptions(disk, c))
	if writes > 5 || next != size {
		t.Errorf("%d writes up to %d, the log has %d bytes", writes, next, size)
	}
	if got := readAll(t, l, 0); !bytes.Equal(got, want) {
		t.Error("other bytes than before")
	}
	l.Abandon()
}
