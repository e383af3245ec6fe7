package commitlog

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
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
