package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"math"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sample is a batch with every header field different from its neighbours.
func sample() Batch {
	bu := NewBuilder(BuildOptions{BaseOffset: 1 << 40, LeaderEpoch: 7, Transactional: true,
		Producer: &Producer{ID: 1 << 33, Epoch: 3, BaseSequence: math.MaxInt32}})
	bu.Add(Record{Timestamp: 1_700_000_000_000, Key: []byte("k"), Value: []byte("v"),
		Headers: []Header{{Key: "h", Value: []byte("x")}, {Key: "", Value: nil}}})
	bu.Add(Record{Timestamp: 1_700_000_000_500, Key: nil, Value: []byte{}})
	bu.Add(Record{Timestamp: 1_699_999_999_000, Key: []byte{}, Value: nil})
	return bu.Build()
}

func TestAccessors(t *testing.T) {
	b := sample()
	for _, c := range []struct {
		name      string
		got, want any
	}{
		{"BaseOffset", b.BaseOffset(), int64(1 << 40)},
		{"LastOffset", b.LastOffset(), int64(1<<40 + 2)},
		{"NextOffset", b.NextOffset(), int64(1<<40 + 3)},
		{"Size", b.Size(), len(b)},
		{"LeaderEpoch", b.LeaderEpoch(), int32(7)},
		{"Magic", b.Magic(), int8(2)},
		{"Codec", b.Codec(), None},
		{"LogAppendTime", b.LogAppendTime(), false},
		{"Transactional", b.Transactional(), true},
		{"Control", b.Control(), false},
		{"DeleteHorizonSet", b.DeleteHorizonSet(), false},
		{"LastOffsetDelta", b.LastOffsetDelta(), int32(2)},
		{"BaseTimestamp", b.BaseTimestamp(), int64(1_700_000_000_000)},
		{"MaxTimestamp", b.MaxTimestamp(), int64(1_700_000_000_500)},
		{"ProducerID", b.ProducerID(), int64(1 << 33)},
		{"ProducerEpoch", b.ProducerEpoch(), int16(3)},
		{"BaseSequence", b.BaseSequence(), int32(math.MaxInt32)},
		{"LastSequence wraps", b.LastSequence(), int32(1)},
		{"Count", b.Count(), int32(3)},
		{"VerifyCRC", b.VerifyCRC(), nil},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, want %v", c.name, c.got, c.want)
		}
	}
}

// kmsg's generated types are a second opinion on the layout.
func TestBuildIsWhatKmsgEncodes(t *testing.T) {
	b := sample()
	var records []byte
	record := func(r kmsg.Record) {
		body := r.AppendTo(nil)
		r.Length = int32(len(body) - 1) // the length itself was one byte
		records = r.AppendTo(records)
	}
	record(kmsg.Record{Key: []byte("k"), Value: []byte("v"), Headers: []kmsg.Header{{Key: "h", Value: []byte("x")}, {Key: "", Value: nil}}})
	record(kmsg.Record{OffsetDelta: 1, TimestampDelta64: 500, Value: []byte{}})
	record(kmsg.Record{OffsetDelta: 2, TimestampDelta64: -1000, Key: []byte{}})
	want := kmsg.RecordBatch{FirstOffset: 1 << 40, PartitionLeaderEpoch: 7, Magic: 2, Attributes: 0x10, LastOffsetDelta: 2,
		FirstTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_000_500, ProducerID: 1 << 33, ProducerEpoch: 3,
		FirstSequence: math.MaxInt32, NumRecords: 3, Records: records}
	want.Length = int32(HeaderSize + len(records) - 12)
	raw := want.AppendTo(nil)
	want.CRC = int32(crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	if raw = want.AppendTo(nil); !bytes.Equal(b, raw) {
		t.Fatalf("built\n%x\nkmsg has\n%x", []byte(b), raw)
	}
}

// A batch of one record, laid out by hand from the format's description.
func TestGoldenBatch(t *testing.T) {
	const text = "0000000000000005" + "0000003b" + "00000001" + "02" + "00000000" + "0000" + // offset, length, epoch, magic, CRC, attributes
		"00000000" + "0000018bcfe56800" + "0000018bcfe56800" + // last offset delta, timestamps
		"ffffffffffffffff" + "ffff" + "ffffffff" + "00000001" + // no producer, one record
		"12" + "00" + "00" + "00" + "0261" + "04" + "6263" + "00" // 9 bytes: attributes, deltas, "a", "bc", no headers
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	b, rest, err := Next(raw)
	if err != nil || len(rest) != 0 {
		t.Fatalf("rest %d, %v", len(rest), err)
	}
	if _, err := Check(b, lenient); err != nil {
		t.Fatal(err)
	}
	got := collect(t, b)
	if len(got) != 1 || got[0].Offset != 5 || got[0].Timestamp != 1_700_000_000_000 || string(got[0].Key) != "a" || string(got[0].Value) != "bc" {
		t.Fatalf("records %+v", got)
	}
	bu := NewBuilder(BuildOptions{BaseOffset: 5, LeaderEpoch: 1})
	bu.Add(got[0])
	if again := bu.Build(); !bytes.Equal(again, raw) {
		t.Fatalf("built\n%x, want\n%x", []byte(again), raw)
	}
}

var lenient = CheckOptions{BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64}

func collect(t *testing.T, b Batch) (rs []Record) {
	t.Helper()
	if err := b.Each(func(r Record) error { rs = append(rs, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return rs
}

func TestNext(t *testing.T) {
	b := sample()
	two := append(bytes.Clone(b), b...)
	first, rest, err := Next(two)
	if err != nil || !bytes.Equal(first, b) || !bytes.Equal(rest, b) {
		t.Fatalf("first of two: %v", err)
	}
	if cap(first) != len(first) {
		t.Error("appending to the first batch would write into the second")
	}
	for n := range len(b) {
		if _, _, err := Next(b[:n]); !errors.Is(err, ErrShort) {
			t.Fatalf("first %d bytes: %v, want ErrShort", n, err)
		}
	}
	for _, c := range []struct {
		name   string
		damage func(Batch)
		want   error
	}{
		{"length 48 is less than a header", func(b Batch) { binary.BigEndian.PutUint32(b[atLength:], 48) }, ErrCorrupt},
		{"length is negative", func(b Batch) { binary.BigEndian.PutUint32(b[atLength:], 1<<31) }, ErrCorrupt},
		{"length is 2 GiB", func(b Batch) { binary.BigEndian.PutUint32(b[atLength:], math.MaxInt32) }, ErrShort},
		{"magic 0", func(b Batch) { b[atMagic] = 0 }, ErrOldMagic},
		{"magic 1", func(b Batch) { b[atMagic] = 1 }, ErrOldMagic},
		{"magic 3", func(b Batch) { b[atMagic] = 3 }, ErrCorrupt},
		{"magic -1", func(b Batch) { b[atMagic] = 0xff }, ErrCorrupt},
	} {
		d := Batch(bytes.Clone(b))
		c.damage(d)
		if _, _, err := Next(d); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestCRCGuardsEverythingAfterIt(t *testing.T) {
	b := sample()
	for i := range b {
		d := Batch(bytes.Clone(b))
		d[i] ^= 1
		err := d.VerifyCRC()
		if outside := i < atCRC; outside != (err == nil) {
			t.Errorf("byte %d changed: %v", i, err)
		} else if err != nil && !errors.Is(err, kerr.CorruptMessage) {
			t.Errorf("byte %d changed: %v is not CORRUPT_MESSAGE", i, err)
		}
	}
}

func TestAssignAndTimestamps(t *testing.T) {
	b := sample()
	b.Assign(99, 4)
	if b.BaseOffset() != 99 || b.LeaderEpoch() != 4 || b.VerifyCRC() != nil {
		t.Fatalf("assigned %d, %d, %v", b.BaseOffset(), b.LeaderEpoch(), b.VerifyCRC())
	}
	b.SetAppendTime(123)
	if !b.LogAppendTime() || b.MaxTimestamp() != 123 || b.VerifyCRC() != nil {
		t.Fatalf("append time: %v %d %v", b.LogAppendTime(), b.MaxTimestamp(), b.VerifyCRC())
	}
	for _, r := range collect(t, b) {
		if r.Timestamp != 123 {
			t.Errorf("record %d has timestamp %d", r.Offset, r.Timestamp)
		}
	}
	if ts, offset, err := b.OffsetOfMaxTimestamp(); ts != 123 || offset != 99 || err != nil {
		t.Errorf("largest timestamp %d at %d, %v", ts, offset, err)
	}
	b.SetCreateTime(1_700_000_000_500)
	if b.LogAppendTime() || !b.Transactional() || b.VerifyCRC() != nil {
		t.Fatal("create time did not come back")
	}
	if ts, offset, err := b.OffsetOfMaxTimestamp(); ts != 1_700_000_000_500 || offset != 100 || err != nil {
		t.Errorf("largest timestamp %d at %d, %v", ts, offset, err)
	}
}

func FuzzNext(f *testing.F) {
	f.Add([]byte(sample()))
	f.Add([]byte(sample())[:40])
	f.Add(append([]byte(sample()), sample()...))
	f.Fuzz(func(t *testing.T, buf []byte) {
		for rest := buf; ; {
			b, next, err := Next(rest)
			if err != nil {
				return
			}
			if len(b) < HeaderSize || len(b)+len(next) != len(rest) {
				t.Fatalf("batch of %d and rest of %d from %d", len(b), len(next), len(rest))
			}
			_ = b.LastSequence()
			rest = next
		}
	})
}
