package commitlog

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

const (
	testDir   = "/data/orders-0"
	testEpoch = 3
	startMs   = 1_700_000_000_000
)

var testTP = kafka.TopicPartition{Topic: "orders", Partition: 0}

// tb is what testing.TB and rapid.T have in common.
type tb interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Fatal(args ...any)
	Failed() bool
}

// clock is a wall clock that tests move.
type clock struct{ ms int64 }

func (c *clock) now() time.Time { return time.UnixMilli(c.ms) }

// smallConfig makes much happen with few bytes: segments of some batches, an index entry for nearly each.
func smallConfig() Config {
	c := DefaultConfig()
	c.SegmentBytes, c.IndexIntervalBytes, c.MaxIndexBytes = 1000, 100, 960
	return c
}

func testOptions(fs vfs.FS, c Config) Options {
	clk := &clock{ms: startMs}
	return Options{FS: fs, Dir: testDir, TP: testTP, Config: c, Files: NewFiles(fs, 64), Now: clk.now, ProducerExpiryMs: 86400000}
}

func mustOpen(t tb, o Options) (*Log, Recovery) {
	t.Helper()
	l, r, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return l, r
}

// records builds one batch of n records whose values tell name and number.
func records(name string, n int, o batch.BuildOptions, timestamp int64) []byte {
	bu := batch.NewBuilder(o)
	for i := range n {
		bu.Add(batch.Record{Timestamp: timestamp + int64(i), Value: fmt.Appendf(nil, "%s-%d", name, i)})
	}
	return bu.Build()
}

func mustAppend(t tb, l *Log, b []byte) Appended {
	t.Helper()
	a, err := l.Append(b, AppendOptions{LeaderEpoch: testEpoch, Now: startMs})
	if err != nil {
		t.Fatalf("append: %v", err)
	}
	return a
}

// readAll returns the bytes of all batches from an offset on.
func readAll(t tb, l *Log, from kafka.Offset) []byte {
	t.Helper()
	var all []byte
	for from < l.LogEnd() {
		r, err := l.Read(from, ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd(), AtLeastOne: true})
		if err != nil {
			t.Fatalf("read at %d: %v", from, err)
		}
		if r.Region == nil {
			t.Fatalf("read at %d of %d gave nothing", from, l.LogEnd())
		}
		var b bytes.Buffer
		if n, err := r.Region.SendTo(&b); err != nil || n != r.Region.Len() || int(n) != r.Bytes {
			t.Fatalf("send %d of %d: %v", n, r.Region.Len(), err)
		}
		r.Region.Release()
		all = append(all, b.Bytes()...)
		if r.NextOffset <= from {
			t.Fatalf("read at %d leads to %d", from, r.NextOffset)
		}
		from = r.NextOffset
	}
	return all
}

// offsets walks batches and returns "base-last" of each.
func offsets(t tb, b []byte) []string {
	t.Helper()
	var all []string
	for len(b) > 0 {
		bt, rest, err := batch.Next(b)
		if err == nil {
			err = bt.VerifyCRC()
		}
		if err != nil {
			t.Fatalf("batch: %v: %v", err, all)
		}
		all = append(all, fmt.Sprintf("%d-%d", bt.BaseOffset(), bt.LastOffset()))
		b = rest
	}
	return all
}

func TestAppendReadReopen(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem, smallConfig())
	l, _ := mustOpen(t, o)
	var want []byte
	for i := range 60 {
		b := records(fmt.Sprint("r", i), 1+i%3, batch.BuildOptions{}, startMs+int64(i)*10)
		a := mustAppend(t, l, b)
		if a.First != l.LogEnd()-int64(1+i%3) || a.Last != l.LogEnd()-1 {
			t.Fatalf("append %d landed at %d-%d, log end %d", i, a.First, a.Last, l.LogEnd())
		}
		want = append(want, b...)
	}
	if got := readAll(t, l, 0); !bytes.Equal(got, want) {
		t.Fatalf("read %v, want %v", offsets(t, got), offsets(t, want))
	}
	if n := len(l.Segments()); n < 5 {
		t.Fatalf("%d segments of %d bytes", n, l.Size())
	}
	if end, err := l.Sync(); err != nil || end != l.LogEnd() {
		t.Fatalf("sync: %d, %v", end, err)
	}
	if bytes, dirty := l.Dirty(); bytes != 0 || dirty {
		t.Fatalf("dirty after sync: %d %v", bytes, dirty)
	}
	end := l.LogEnd()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, clean := range []bool{true, false} {
		o.Clean = clean
		l, r := mustOpen(t, o)
		if l.LogEnd() != end || l.SyncedEnd() != end {
			t.Fatalf("clean=%v: log end %d, synced %d, want %d", clean, l.LogEnd(), l.SyncedEnd(), end)
		}
		if clean && r.ScannedBytes != 0 {
			t.Fatalf("scanned %d bytes after a clean stop", r.ScannedBytes)
		}
		if got := readAll(t, l, 0); !bytes.Equal(got, want) {
			t.Fatalf("clean=%v: read %v, want %v", clean, offsets(t, got), offsets(t, want))
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

var noOptions = batch.BuildOptions{}
