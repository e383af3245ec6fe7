package commitlog

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/vfs"
)

func produced(pid int64, epoch int16, seq int32, n int) []byte {
	return records("x", n, batch.BuildOptions{Producer: &batch.Producer{ID: pid, Epoch: epoch, BaseSequence: seq}}, startMs)
}

func TestSequences(t *testing.T) {
	l, _ := mustOpen(t, testOptions(vfs.NewMem(), smallConfig()))
	steps := []struct {
		what      string
		epoch     int16
		seq       int32
		n         int
		err       error
		duplicate bool
		first     int64
	}{
		{what: "an unknown producer may begin anywhere", seq: 40, n: 2, first: 0},
		{what: "the next sequence", seq: 42, n: 3, first: 2},
		{what: "the same again", seq: 42, n: 3, duplicate: true, first: 2},
		{what: "an older one again", seq: 40, n: 2, duplicate: true, first: 0},
		{what: "a part of an older one", seq: 40, n: 1, err: kerr.OutOfOrderSequenceNumber},
		{what: "a gap", seq: 46, n: 1, err: kerr.OutOfOrderSequenceNumber},
		{what: "a new epoch not at 0", epoch: 1, seq: 45, n: 1, err: kerr.OutOfOrderSequenceNumber},
		{what: "a new epoch at 0", epoch: 1, seq: 0, n: 1, first: 5},
		{what: "the old epoch", seq: 45, n: 1, err: kerr.InvalidProducerEpoch},
		{what: "a duplicate of the old epoch is fenced too", seq: 42, n: 3, err: kerr.InvalidProducerEpoch},
		{what: "2", epoch: 1, seq: 1, n: 1, first: 6},
		{what: "3", epoch: 1, seq: 2, n: 1, first: 7},
		{what: "4", epoch: 1, seq: 3, n: 1, first: 8},
		{what: "5", epoch: 1, seq: 4, n: 1, first: 9},
		{what: "the fifth last again", epoch: 1, seq: 0, n: 1, duplicate: true, first: 5},
		{what: "6", epoch: 1, seq: 5, n: 1, first: 10},
		{what: "the sixth last again", epoch: 1, seq: 0, n: 1, err: kerr.OutOfOrderSequenceNumber},
	}
	for _, s := range steps {
		before := l.LogEnd()
		a, err := l.Append(produced(5, s.epoch, s.seq, s.n), AppendOptions{Now: startMs})
		if !errors.Is(err, s.err) || (err == nil) != (s.err == nil) {
			t.Fatalf("%s: %v, want %v", s.what, err, s.err)
		}
		if err != nil {
			if l.LogEnd() != before {
				t.Fatalf("%s: refused, but the log end moved", s.what)
			}
			continue
		}
		if a.Duplicate != s.duplicate || a.First != s.first || a.Last != s.first+int64(s.n)-1 {
			t.Fatalf("%s: %+v", s.what, a)
		}
		if s.duplicate && l.LogEnd() != before {
			t.Fatalf("%s: appended again", s.what)
		}
	}
}

func TestSequenceWraps(t *testing.T) {
	l, _ := mustOpen(t, testOptions(vfs.NewMem(), smallConfig()))
	mustAppend(t, l, produced(5, 0, 1<<31-3, 4)) // the last sequence is 0
	if a := mustAppend(t, l, produced(5, 0, 1<<31-3, 4)); !a.Duplicate {
		t.Fatal("a batch over the wrap is not known again")
	}
	mustAppend(t, l, produced(5, 0, 1, 1))
	mustAppend(t, l, produced(6, 0, 1<<31-1, 1))
	mustAppend(t, l, produced(6, 0, 0, 1))
}

// TestProducersOutliveRecords: retention and restarts do not make the log forget a sequence; only time does.
func TestProducersOutliveRecords(t *testing.T) {
	mem := vfs.NewMem()
	c := smallConfig()
	c.RetentionMs = 1000
	clk := &clock{ms: startMs}
	o := testOptions(mem, c)
	o.Now = clk.now
	l, _ := mustOpen(t, o)
	mustAppend(t, l, produced(5, 0, 0, 3))
	l.SetDeletionBound(l.LogEnd())
	clk.ms += 5000
	if n, err := l.Retain(clk.now()); n != 1 || err != nil || l.LogStart() != 3 {
		t.Fatalf("retain: %d, %v, log start %d", n, err, l.LogStart())
	}
	for range 2 {
		if _, err := l.Append(produced(5, 0, 7, 1), AppendOptions{Now: clk.ms}); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
			t.Fatalf("a gap after retention: %v", err)
		}
		l.Abandon()
		l, _ = mustOpen(t, o)
	}
	if a := mustAppend(t, l, produced(5, 0, 0, 3)); !a.Duplicate || a.First != 0 {
		t.Fatalf("the last batch sent again after retention and a kill: %+v", a)
	}
	l.ExpireProducers(clk.now().Add(24*time.Hour - time.Millisecond))
	if len(l.Producers()) != 1 {
		t.Fatal("expired too early")
	}
	l.SetProducerExpiry((12 * time.Hour).Milliseconds())
	l.ExpireProducers(clk.now().Add(12*time.Hour - time.Millisecond))
	if len(l.Producers()) != 1 {
		t.Fatal("expired too early after a change")
	}
	l.ExpireProducers(clk.now().Add(12 * time.Hour))
	if len(l.Producers()) != 0 {
		t.Fatal("not expired")
	}
	mustAppend(t, l, produced(5, 0, 7, 1))
}

// TestSnapshotBytes pins the file format of ProducerStateManager.
func TestSnapshotBytes(t *testing.T) {
	var ps producers
	for _, b := range [][]byte{produced(0x1122, 3, 10, 2), produced(9, 0, 0, 1)} {
		bt := batch.Batch(b)
		bt.Assign(100, 0)
		ps.apply(bt, nil, 0)
	}
	got := hex.EncodeToString(ps.encode())
	want := "0001" + got[4:12] + "00000002" +
		"0000000000000009" + "0000" + "00000000" + "0000000000000064" + "00000000" + "0000018bcfe56800" + "ffffffff" + "ffffffffffffffff" +
		"0000000000001122" + "0003" + "0000000b" + "0000000000000065" + "00000001" + "0000018bcfe56801" + "ffffffff" + "ffffffffffffffff"
	if got != want {
		t.Fatalf("snapshot\n%s, want\n%s", got, want)
	}
	back, err := parseSnapshot(ps.encode(), 0)
	if err != nil || hex.EncodeToString(back.encode()) != got {
		t.Fatalf("read back: %v", err)
	}
	for i := range got[:len(got)/2] {
		b := ps.encode()
		b[i] ^= 4
		if _, err := parseSnapshot(b, 0); err == nil {
			t.Fatalf("a flipped bit in byte %d goes unnoticed", i)
		}
	}
}

// TestWindowOutlivesRestart: all five batches in flight are known again after a clean stop and after a kill, which Kafka's
// snapshot alone cannot do.
func TestWindowOutlivesRestart(t *testing.T) {
	for _, clean := range []bool{true, false} {
		mem := vfs.NewMem()
		o := testOptions(mem, smallConfig())
		l, _ := mustOpen(t, o)
		for i := range 40 { // rolls, so that a sync moves the recovery point
			mustAppend(t, l, produced(5, 0, int32(i), 1))
		}
		if _, err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		o.RecoveryPoint = l.RecoveryPoint()
		if o.RecoveryPoint != 40 {
			t.Fatalf("recovery point %d", o.RecoveryPoint)
		}
		if clean {
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
		} else {
			l.Abandon()
		}
		o.Clean = clean
		l, _ = mustOpen(t, o)
		for i := 35; i < 40; i++ {
			if a := mustAppend(t, l, produced(5, 0, int32(i), 1)); !a.Duplicate || a.First != int64(i) {
				t.Fatalf("clean=%v: batch %d sent again: %+v", clean, i, a)
			}
		}
		if _, err := l.Append(produced(5, 0, 34, 1), AppendOptions{}); !errors.Is(err, kerr.OutOfOrderSequenceNumber) {
			t.Fatalf("clean=%v: the sixth last: %v", clean, err)
		}
		b := l.producers.encodeSequences()
		for i := range b {
			ps, err := parseSnapshot(l.producers.encode(), 0)
			if err != nil {
				t.Fatal(err)
			}
			b[i] ^= 1
			if err := ps.addSequences(b); err == nil {
				t.Fatalf("a flipped bit in byte %d goes unnoticed", i)
			}
			b[i] ^= 1
		}
	}
}

func control(pid int64, epoch int16, t batch.ControlType, coordinatorEpoch int32) []byte {
	bu := batch.NewBuilder(batch.BuildOptions{Transactional: true, Control: true, Producer: &batch.Producer{ID: pid, Epoch: epoch, BaseSequence: -1}})
	m := batch.EndTxnMarker{CoordinatorEpoch: coordinatorEpoch}
	bu.Add(batch.Record{Timestamp: startMs, Key: t.Key(), Value: m.AppendTo(nil)})
	return bu.Build()
}

func transactional(pid int64, seq int32) []byte {
	return records("t", 1, batch.BuildOptions{Transactional: true, Producer: &batch.Producer{ID: pid, BaseSequence: seq}}, startMs)
}

func TestTransactions(t *testing.T) {
	l, _ := mustOpen(t, testOptions(vfs.NewMem(), smallConfig()))
	stable := func(what string, want int64) {
		t.Helper()
		if got := l.LastStable(); got != want {
			t.Fatalf("%s: first unstable offset %d, want %d", what, got, want)
		}
	}
	stable("empty", -1)
	mustAppend(t, l, produced(1, 0, 0, 1)) // 0
	mustAppend(t, l, transactional(7, 0))  // 1
	mustAppend(t, l, transactional(8, 0))  // 2
	stable("two open", 1)
	if _, err := l.Append(produced(7, 0, 1, 1), AppendOptions{}); !errors.Is(err, kerr.InvalidTxnState) {
		t.Fatalf("plain write in a transaction: %v", err)
	}
	mustAppend(t, l, control(7, 0, batch.ControlAbort, 4)) // 3
	stable("first aborted, but the marker is above the high watermark", 1)
	l.SetDeletionBound(4)
	stable("first aborted", 2)
	if _, err := l.Append(control(8, 0, batch.ControlCommit, 4), AppendOptions{}); err != nil { // 4
		t.Fatal(err)
	}
	l.SetDeletionBound(5)
	stable("both ended", -1)
	if _, err := l.Append(control(8, 0, batch.ControlCommit, 3), AppendOptions{}); !errors.Is(err, kerr.TransactionCoordinatorFenced) {
		t.Fatalf("marker of an old coordinator: %v", err)
	}
	want := AbortedTxn{ProducerID: 7, FirstOffset: 1, LastOffset: 3, LastStableOffset: 2}
	for _, r := range []struct{ from, to, n int64 }{{0, 10, 1}, {0, 1, 0}, {3, 4, 1}, {4, 10, 0}, {1, 2, 1}} {
		got, err := l.AbortedTxns(r.from, r.to)
		if err != nil || len(got) != int(r.n) || len(got) > 0 && got[0] != want {
			t.Fatalf("aborted in [%d, %d): %v, %v", r.from, r.to, got, err)
		}
	}
	if b := want.encode(); hex.EncodeToString(b) != "0000"+"0000000000000007"+"0000000000000001"+"0000000000000003"+"0000000000000002" {
		t.Fatalf("transaction index entry %x", b)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"orders-0": "orders-0", "a-b-12": "a-b-12", "orders--1": "orders--1", "x-2147483647": "x-2147483647", "__cluster_metadata-0": "__cluster_metadata-0",
	} {
		if tp, err := ParseDir(name); err != nil || tp.String() != want {
			t.Errorf("ParseDir(%q) = %v, %v", name, tp, err)
		}
	}
	deleted := DeleteDirName(testTP, [16]byte{0xab, 15: 1})
	if deleted != "orders-0.ab000000000000000000000000000001-delete" || !IsDeleteDir(deleted) || IsStrayDir(deleted) {
		t.Errorf("deleted folder %q", deleted)
	}
	long := testTP
	long.Topic = strings.Repeat("x", 249)
	if n := StrayDirName(long, [16]byte{}); len(n) > 255 || !IsStrayDir(n) {
		t.Errorf("stray folder %q", n)
	}
	for _, bad := range []string{"", "orders", "-0", "orders-", "orders-01", "orders-x", "orders-2147483648", deleted, "orders-0.x-future"} {
		if tp, err := ParseDir(bad); err == nil {
			t.Errorf("ParseDir(%q) = %v", bad, tp)
		}
	}
	mem := vfs.NewMem()
	if err := mem.MkdirAll("/d"); err != nil {
		t.Fatal(err)
	}
	id := [16]byte{1, 2, 3}
	if err := WritePartitionMetadata(mem, "/d", id); err != nil {
		t.Fatal(err)
	}
	content, err := vfs.ReadFile(mem, "/d/partition.metadata")
	if err != nil || string(content) != "version: 0\ntopic_id: AQIDAAAAAAAAAAAAAAAAAA" {
		t.Fatalf("partition.metadata %q, %v", content, err)
	}
	if back, err := ReadPartitionMetadata(mem, "/d"); err != nil || back != id {
		t.Fatalf("read back %v, %v", back, err)
	}
}
