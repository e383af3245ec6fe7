package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// placed is a batch, the file that it is in, and where.
type placed struct {
	b    batch.Batch
	path string
	pos  int
}

// allBatches returns the batches of all segments in order.
func allBatches(t *testing.T, fs vfs.FS) (all []placed) {
	t.Helper()
	entries, err := fs.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name, logSuffix) {
			continue
		}
		path := filepath.Join(testDir, e.Name)
		content, err := vfs.ReadFile(fs, path)
		if err != nil {
			t.Fatal(err)
		}
		for rest := content; len(rest) > 0; {
			b, after, err := batch.Next(rest)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, placed{b, path, len(content) - len(rest)})
			rest = after
		}
	}
	return all
}

// TestTruncationForgetsNoDamage: a segment that is appended to again, because all behind it was cut off, is as little trusted as before.
func TestTruncationForgetsNoDamage(t *testing.T) {
	mem, o, _ := filled(t)
	all := allBatches(t, mem)
	i := 0
	for all[i].pos > 0 || i == 0 {
		i++ // to the first batch of the second segment
	}
	damaged := all[i]
	content, err := vfs.ReadFile(mem, damaged.path)
	if err != nil {
		t.Fatal(err)
	}
	content[damaged.pos+len(damaged.b)-3] ^= 8
	write(t, mem, damaged.path, content)
	o = o.on(mem)
	o.Clean = true
	l, _ := mustOpen(t, o)
	defer l.Abandon()
	if err := l.Truncate(all[i+2].b.BaseOffset()); err != nil {
		t.Fatal(err)
	}
	if end := l.LogEnd(); end != all[i+2].b.BaseOffset() || len(l.Segments()) != 2 {
		t.Fatalf("cut to %d: the log ends at %d in %d segments", all[i+2].b.BaseOffset(), end, len(l.Segments()))
	}
	from := damaged.b.BaseOffset()
	r, err := l.Read(from, ReadOptions{MaxBytes: 1, UpTo: l.LogEnd(), AtLeastOne: true})
	if !errors.Is(err, kerr.CorruptMessage) {
		t.Errorf("read at %d: %+v, %v", from, r, err)
	}
	if err == nil {
		r.Region.Release()
	}
}

// TestDamagedBatch: a batch that the disk has changed is CORRUPT_MESSAGE; all batches around it stay readable, nothing is
// cut off, and no offset is given to another record. One flipped bit loses one batch (Ganesan et al., FAST 2017).
func TestDamagedBatch(t *testing.T) {
	mem, o, _ := filled(t)
	all := allBatches(t, mem)
	logEnd := all[len(all)-1].b.NextOffset()
	damages := map[string]func(b []byte){
		"a bit of its length":           func(b []byte) { b[10] ^= 0x40 },
		"a low bit of its length":       func(b []byte) { b[11] ^= 1 },
		"its format":                    func(b []byte) { b[16] ^= 3 },
		"a bit of its records":          func(b []byte) { b[len(b)-3] ^= 8 },
		"a bit of its timestamp":        func(b []byte) { b[40] ^= 8 },
		"its last offset":               func(b []byte) { b[26] ^= 2 },
		"a high bit of its last offset": func(b []byte) { b[23] ^= 0x20 },
		"all of it zeroed":              func(b []byte) { clear(b) },
		"a high bit of its offset":      func(b []byte) { b[2] ^= 1 },
	}
	for i, at := range all {
		for name, damage := range damages {
			for _, clean := range []bool{true, false} {
				what := fmt.Sprintf("%s of batch %d, offsets [%d, %d), clean=%v", name, i, at.b.BaseOffset(), at.b.NextOffset(), clean)
				disk := mem.KillClone()
				content, err := vfs.ReadFile(disk, at.path)
				if err != nil {
					t.Fatal(err)
				}
				damage(content[at.pos:][:len(at.b)])
				write(t, disk, at.path, content)
				o := o.on(disk)
				o.Clean, o.RecoveryPoint = clean, logEnd
				for _, open := range []string{"", ", opened again"} {
					l, r, err := Open(o)
					if err != nil {
						t.Fatalf("%s%s: %v", what, open, err)
					}
					if l.LogEnd() != logEnd || r.TruncatedBytes != 0 {
						t.Fatalf("%s%s: the log ends at %d, want %d; %+v", what, open, l.LogEnd(), logEnd, r)
					}
					checkOnlyDamaged(t, l, all, i, what+open)
					l.Abandon()
				}
				l, _ := mustOpen(t, o)
				if a := mustAppend(t, l, records("after", 1, noOptions, startMs)); a.First != logEnd {
					t.Fatalf("%s: the next record gets offset %d, want %d", what, a.First, logEnd)
				}
				checkOnlyDamaged(t, l, all, i, what+", and an append")
				if done, err := l.Scrub(unpaced); err != nil || done.Indexes > 0 {
					t.Fatalf("%s: scrub: %+v, %v", what, done, err)
				}
				checkOnlyDamaged(t, l, all, i, what+", an append and a scrub")
				if err := l.Close(); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				for name, c := range verified(t, disk, true) {
					if bad := name == filepath.Base(at.path); c.bad() != bad || bad && (len(c.Damage) != 1 || c.Damage[0].From != at.b.BaseOffset()) {
						t.Fatalf("%s: verified: %s: %+v", what, name, c)
					}
				}
				o.RecoveryPoint = logEnd + 1
				l, _ = mustOpen(t, o)
				checkOnlyDamaged(t, l, all, i, what+", an append and a stop")
				l.Abandon()
			}
		}
	}
}

// checkOnlyDamaged reads at every offset.
func checkOnlyDamaged(t *testing.T, l *Log, all []placed, damaged int, what string) {
	t.Helper()
	for i, p := range all {
		for offset := p.b.BaseOffset(); offset < p.b.NextOffset(); offset++ {
			r, err := l.Read(offset, ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd(), AtLeastOne: true})
			if i == damaged {
				if !errors.Is(err, kerr.CorruptMessage) {
					t.Fatalf("%s: read at %d: %+v, %v", what, offset, r, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("%s: read at %d: %v", what, offset, err)
			}
			got, err := r.Region.ReadAll()
			r.Region.Release()
			if err != nil || !bytes.HasPrefix(got, p.b) {
				t.Fatalf("%s: read at %d: %d other bytes, %v", what, offset, len(got), err)
			}
			if r.NextOffset <= offset || i > damaged && r.NextOffset <= p.b.LastOffset() {
				t.Fatalf("%s: read at %d leads to %d", what, offset, r.NextOffset)
			}
		}
	}
	var found []kafka.Offset
	for _, d := range l.Damage() {
		found = append(found, d.From, d.To)
	}
	if len(found) != 2 || found[0] != all[damaged].b.BaseOffset() || found[1] != all[damaged].b.NextOffset() {
		t.Fatalf("%s: damage %v is told of", what, found)
	}
	for _, ts := range []int64{0, startMs, startMs + 500, startMs + 1_000_000} {
		if _, _, err := l.OffsetForTimestamp(ts, l.LogEnd()); err != nil {
			t.Fatalf("%s: offset at %d: %v", what, ts, err)
		}
	}
	if _, _, err := l.OffsetOfMaxTimestamp(l.LogEnd()); err != nil {
		t.Fatalf("%s: offset of the largest timestamp: %v", what, err)
	}
}

// TestTruncationPassesOverADamagedMarker: how a transaction ended whose marker the disk has changed is not known any more, which keeps
// nobody from cutting the log behind it.
func TestTruncationPassesOverADamagedMarker(t *testing.T) {
	mem := vfs.NewMem()
	w := newWorld(t, mem, mem, smallConfig())
	w.reopen(false)
	w.append(9, 1, true)
	w.marker(9, false)
	w.append(1, 1, false)
	w.append(1, 1, false)
	for _, p := range allBatches(t, mem) {
		if !p.b.Control() {
			continue
		}
		f, err := mem.Open(p.path, vfs.Write)
		if err == nil {
			_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, len(p.b)-batch.HeaderSize), int64(p.pos+batch.HeaderSize))
		}
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	last := w.l.LogEnd() - 1
	if err := w.l.Truncate(last); err != nil {
		t.Fatal(err)
	}
	if got := w.l.LogEnd(); got != last {
		t.Errorf("the log ends at %d, want %d", got, last)
	}
}
