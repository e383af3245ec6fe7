package commitlog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// TestTimesOfUnreadableRecords: what a producer compressed with nonsense is stored unopened. It must not take lookups by
// time away from everybody else: its header stands for its records.
func TestTimesOfUnreadableRecords(t *testing.T) {
	l, _ := mustOpen(t, testOptions(vfs.NewMem(), DefaultConfig()))
	defer l.Abandon()
	mustAppend(t, l, records("a", 2, noOptions, startMs))
	garbage := records("b", 3, batch.BuildOptions{Codec: batch.Gzip}, startMs+100)
	copy(garbage[batch.HeaderSize:], bytes.Repeat([]byte{7}, len(garbage)))
	binary.BigEndian.PutUint32(garbage[17:], crc32.Checksum(garbage[21:], crc32.MakeTable(crc32.Castagnoli)))
	mustAppend(t, l, garbage)
	for _, c := range []struct {
		ts   int64
		want kafka.Offset
	}{{startMs, 0}, {startMs + 50, 2}, {batch.Batch(garbage).MaxTimestamp(), 2}} {
		found, ok, err := l.OffsetForTimestamp(c.ts, l.LogEnd())
		if err != nil || !ok || found.Offset != c.want {
			t.Errorf("offset at %d: %+v, %v, %v; want %d", c.ts, found, ok, err, c.want)
		}
	}
	found, ok, err := l.OffsetOfMaxTimestamp(l.LogEnd())
	if err != nil || !ok || found.Offset != 4 || found.Timestamp != batch.Batch(garbage).MaxTimestamp() {
		t.Errorf("offset of the largest timestamp: %+v, %v, %v; want 4", found, ok, err)
	}
}

// TestSegmentStarts: one for each segment that holds something readable, and positions in a region are counted from its begin.
func TestSegmentStarts(t *testing.T) {
	config := DefaultConfig()
	config.SegmentBytes = 300
	l, _ := mustOpen(t, testOptions(vfs.NewMem(), config))
	defer l.Abandon()
	if starts, err := l.SegmentStarts(); err != nil || len(starts) != 0 {
		t.Errorf("of nothing: %v, %v", starts, err)
	}
	for i := range int64(6) {
		mustAppend(t, l, records("some value to fill the segments with", 2, noOptions, startMs+i))
	}
	whole, err := l.SegmentStarts()
	if err != nil || len(whole) < 3 || whole[0].Offset != 0 {
		t.Fatalf("%v, %v", whole, err)
	}
	for i, s := range whole {
		end := l.LogEnd()
		if i+1 < len(whole) {
			end = whole[i+1].Offset
		}
		if want, ok, err := l.OffsetForTimestamp(s.MaxTimestamp, end); err != nil || !ok || want.Offset < s.Offset {
			t.Errorf("segment %d: %+v, its largest timestamp is at %+v, %v", i, s, want, err)
		}
	}
	r, err := l.Read(2, ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd()})
	if err != nil || r.Region == nil {
		t.Fatal(err)
	}
	defer r.Region.Release()
	all, err := r.Region.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	part := make([]byte, 20)
	if n, err := r.Region.ReadAt(part, 7); n != 20 || err != nil || !bytes.Equal(part, all[7:27]) {
		t.Errorf("20 bytes at 7: %d, %v", n, err)
	}
	if n, err := r.Region.ReadAt(part, r.Region.Len()-5); n != 5 || err != io.EOF {
		t.Errorf("over the end: %d, %v", n, err)
	}
	if n, err := r.Region.ReadAt(part, r.Region.Len()); n != 0 || err != io.EOF {
		t.Errorf("behind the end: %d, %v", n, err)
	}
}

// TestTimeIndexOfApacheKafka: before 3.7 Apache Kafka named the record with the timestamp, not the last of its batch; that is good.
// And it names batches that compaction has emptied for good: no record has that timestamp.
func TestTimeIndexOfApacheKafka(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem, smallConfig())
	l, _ := mustOpen(t, o)
	for i := range int64(60) {
		mustAppend(t, l, records("r", 3, noOptions, startMs+10*i))
	}
	first := l.Segments()[0]
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(testDir, fileName(0, timeIndexSuffix))
	index, err := vfs.ReadFile(mem, path)
	if err != nil || len(index) < 2*timeWidth {
		t.Fatalf("%d bytes, %v", len(index), err)
	}
	for e := index; len(e) > 0; e = e[timeWidth:] {
		binary.BigEndian.PutUint32(e[8:], binary.BigEndian.Uint32(e[8:])-2)
	}
	write(t, mem, path, index)
	wantVerified(t, mem, true, "at the end")
	o = o.on(mem)
	o.Clean, o.RecoveryPoint = true, l.RecoveryPoint()
	l, _ = mustOpen(t, o)
	check := func(what string, damaged bool) {
		t.Helper()
		for i := range int64(60) {
			for _, ms := range []int64{startMs + 10*i, startMs + 10*i + 2} {
				if found, ok, err := l.OffsetForTimestamp(ms, l.LogEnd()); err != nil || !ok || found.Offset != 3*i+ms-startMs-10*i {
					t.Fatalf("%s: first record at %d ms: %+v, %v, %v", what, ms-startMs, found, ok, err)
				}
			}
		}
		if is := l.sealed[0].damaged.Load(); is != damaged {
			t.Fatalf("%s: the index counts as damaged: %v", what, is)
		}
	}
	check("records named", false)
	wantSound(t, l)
	l.Abandon()

	// Compaction empties the last batch of the first segment.
	log := filepath.Join(testDir, fileName(0, logSuffix))
	content, err := vfs.ReadFile(mem, log)
	if err != nil || int64(len(content)) != first.SizeBytes {
		t.Fatal(err)
	}
	all := allBatches(t, mem)
	i := slices.IndexFunc(all, func(p placed) bool { return p.path != log }) - 1
	last := all[i]
	write(t, mem, log, append(content[:last.pos:last.pos], last.b.Empty()...))
	l, _ = mustOpen(t, o.on(mem))
	defer l.Abandon()
	found, ok, err := l.OffsetOfMaxTimestamp(last.b.NextOffset())
	if want := last.b.BaseOffset() - 1; err != nil || !ok || found.Offset != want {
		t.Fatalf("newest record of the first segment: %+v, %v, %v, want %d", found, ok, err, want)
	}
}
