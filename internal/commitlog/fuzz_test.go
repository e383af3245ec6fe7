package commitlog

import (
	"bytes"
	"path/filepath"
	"testing"

	"moldau/internal/vfs"
)

// FuzzOpen opens a log of which one file holds arbitrary bytes. It must open, or say why not; what it opens must be whole
// batches, and stay so.
func FuzzOpen(f *testing.F) {
	mem, o, _ := filled(f)
	entries, err := mem.List(testDir)
	if err != nil {
		f.Fatal(err)
	}
	for i, e := range entries {
		content, err := vfs.ReadFile(mem, filepath.Join(testDir, e.Name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), content, i%2 == 0, int64(0))
		f.Add(uint8(i), bytes.Repeat(content, 2), true, int64(40))
	}
	f.Fuzz(func(t *testing.T, n uint8, content []byte, clean bool, point int64) {
		disk := mem.KillClone()
		write(t, disk, filepath.Join(testDir, entries[int(n)%len(entries)].Name), content)
		o := o.on(disk)
		o.Clean, o.RecoveryPoint = clean, point
		l, _, err := Open(o)
		if err != nil {
			return
		}
		for from := l.LogStart(); from < l.LogEnd(); {
			r, err := l.Read(from, ReadOptions{MaxBytes: 500, UpTo: l.LogEnd(), AtLeastOne: true})
			if err != nil || r.Region == nil {
				break // damage below the recovery point is found by reading
			}
			if r.NextOffset <= from {
				t.Fatalf("read at %d leads to %d", from, r.NextOffset)
			}
			r.Region.Release()
			from = r.NextOffset
		}
		_, _, _ = l.OffsetForTimestamp(startMs+50, l.LogEnd())
		_, _, _ = l.OffsetOfMaxTimestamp(l.LogEnd())
		_, _ = l.AbortedTxns(0, l.LogEnd())
		end := l.LogEnd()
		mustAppend(t, l, records("after", 2, noOptions, startMs))
		if err := l.Truncate(end); err != nil {
			return // it reads what may be damaged
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzCheckpoints reads arbitrary bytes as the small files.
func FuzzCheckpoints(f *testing.F) {
	f.Add([]byte("0\n1\n2 10\n"))
	f.Add((&producers{}).encode())
	f.Add(AbortedTxn{ProducerID: 1}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := parseEpochs(b); err == nil && len(e) > 0 {
			if back, err := parseEpochs(e.encode()); err != nil || len(back) != len(e) {
				t.Fatalf("%v read back as %v, %v", e, back, err)
			}
		}
		if ps, err := parseSnapshot(b, 0); err == nil {
			if _, err := parseSnapshot(ps.encode(), 0); err != nil {
				t.Fatal(err)
			}
		}
		if len(b) >= txnWidth {
			if a, err := parseAbortedTxn(b); err == nil && !bytes.Equal(a.encode(), b[:txnWidth]) {
				t.Fatalf("%+v is encoded as %x", a, a.encode())
			}
		}
	})
}
