package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

const now = int64(1_700_000_000_000)

// produced is what a good client sends.
func produced(codec Codec, records ...Record) Batch {
	bu := NewBuilder(BuildOptions{LeaderEpoch: -1, Codec: codec})
	for _, r := range records {
		bu.Add(r)
	}
	return bu.Build()
}

func keyed(timestamps ...int64) (rs []Record) {
	for _, ts := range timestamps {
		rs = append(rs, Record{Timestamp: ts, Key: []byte("key"), Value: []byte("value")})
	}
	return rs
}

func TestCheckTakesWhatClientsSend(t *testing.T) {
	o := lenient
	o.Client, o.Deep, o.Now, o.MaxMessageBytes = true, true, now, 1<<20
	for codec := None; codec <= Zstd; codec++ {
		b := produced(codec, keyed(now, now+5, now-5)...)
		before := bytes.Clone(b)
		info, err := Check(b, o)
		if err != nil || !info.Walked || info.MaxTimestamp != now+5 {
			t.Errorf("%v: %+v, %v", codec, info, err)
		}
		if !bytes.Equal(before, b) {
			t.Errorf("%v: Check changed the batch", codec)
		}
	}
}

func TestCheckRefuses(t *testing.T) {
	put32 := func(at int, v uint32) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint32(b[at:], v) }
	}
	put64 := func(at int, v uint64) func(Batch) {
		return func(b Batch) { binary.BigEndian.PutUint64(b[at:], v) }
	}
	attributes := func(bits byte) func(Batch) { return func(b Batch) { b[atAttributes+1] |= bits } }
	body := func(i int, v byte) func(Batch) { return func(b Batch) { b[HeaderSize+i] = v } }
	both := func(fs ...func(Batch)) func(Batch) {
		return func(b Batch) {
			for _, f := range fs {
				f(b)
			}
		}
	}
	// A record of keyed is 14 bytes: length, attributes, timestamp delta, offset delta, key length, key, value length,
	// value, header count.
	const size = 1 + 1 + 1 + 1 + 1 + 3 + 1 + 5 + 1
	for _, c := range []struct {
		name   string
		damage func(Batch)
		tune   func(*CheckOptions)
		want   error // nil: taken
	}{
		{"untouched", nil, nil, nil},
		{"base offset 1", put64(atBaseOffset, 1), nil, kerr.InvalidRecord},
		{"base offset 1 from a coordinator", put64(atBaseOffset, 1), func(o *CheckOptions) { o.Client = false }, nil},
		{"leader epoch of a client does not matter", put32(atLeaderEpoch, 77), nil, nil},
		{"too large", nil, func(o *CheckOptions) { o.MaxMessageBytes = HeaderSize + 3*size - 1 }, kerr.MessageTooLarge},
		{"just not too large", nil, func(o *CheckOptions) { o.MaxMessageBytes = HeaderSize + 3*size }, nil},
		{"count 2 of 3", put32(atCount, 2), nil, kerr.InvalidRecord},
		{"count 4 of 3", put32(atCount, 4), nil, kerr.InvalidRecord},
		{"count 0", put32(atCount, 0), nil, kerr.InvalidRecord},
		{"count -1", put32(atCount, math.MaxUint32), nil, kerr.InvalidRecord},
		{"count -1 from a coordinator", put32(atCount, math.MaxUint32), func(o *CheckOptions) { o.Client = false }, kerr.InvalidRecord},
		{"last offset delta -1", put32(atLastOffsetDelta, math.MaxUint32), nil, kerr.InvalidRecord},
		{"last offset delta 5", put32(atLastOffsetDelta, 5), nil, kerr.InvalidRecord},
		{"2 records agreed on, 3 there", both(put32(atCount, 2), put32(atLastOffsetDelta, 1)), nil, kerr.InvalidRecord},
		{"4 records agreed on, 3 there", both(put32(atCount, 4), put32(atLastOffsetDelta, 3)), nil, kerr.InvalidRecord},
		{"2^31-1 records agreed on, 3 there", both(put32(atCount, math.MaxInt32), put32(atLastOffsetDelta, math.MaxInt32-1)), nil, kerr.InvalidRecord},
		{"codec 5", attributes(5), nil, kerr.UnsupportedCompressionType},
		{"codec 7", attributes(7), nil, kerr.UnsupportedCompressionType},
		{"control batch", attributes(attrControl), nil, kerr.InvalidRecord},
		{"control batch from a coordinator", attributes(attrControl), func(o *CheckOptions) { o.Client = false }, nil},
		{"unused attribute bits are taken", func(b Batch) { b[atAttributes] = 0x80 }, nil, nil},
		{"producer without sequence", put64(atProducerID, 5), nil, kerr.InvalidRecord},
		{"producer with sequence", both(put64(atProducerID, 5), put32(atBaseSequence, 0)), nil, nil},
		{"append time set by the client, topic has append time", attributes(attrAppendTime), func(o *CheckOptions) { o.AppendTime = true }, kerr.InvalidTimestamp},
		{"append time set by the client, topic has create time", attributes(attrAppendTime), nil, nil},
		{"compressed rubbish", attributes(byte(Gzip)), func(o *CheckOptions) { o.Deep = true }, kerr.InvalidRecord},
		{"record length too long for the batch", body(2*size, size*2), nil, kerr.InvalidRecord},
		{"record length too short for its fields", body(0, (size-2)*2), nil, kerr.InvalidRecord},
		{"record length negative", body(0, 1), nil, kerr.InvalidRecord},
		{"record attributes are not looked at", body(1, 0xff), nil, nil},
		{"offset deltas 0 0 2", body(size+3, 0), nil, kerr.InvalidRecord},
		{"offset deltas 0 -1 2", body(size+3, 1), nil, kerr.InvalidRecord},
		{"key longer than the record", body(4, 40), nil, kerr.InvalidRecord},
		{"value longer than the record", body(8, 40), nil, kerr.InvalidRecord},
		{"value shorter, bytes left", body(8, 6), nil, kerr.InvalidRecord},
		{"header count without headers", body(size-1, 2), nil, kerr.InvalidRecord},
		{"header count negative", body(size-1, 1), nil, kerr.InvalidRecord},
		{"number that never ends", both(body(4, 0xff), body(5, 0xff), body(6, 0xff), body(7, 0xff), body(8, 0xff)), nil, kerr.InvalidRecord},
	} {
		b := produced(None, keyed(now, now, now)...)
		if c.damage != nil {
			c.damage(b)
			b.seal()
		}
		o := lenient
		o.Client, o.Now = true, now
		if c.tune != nil {
			c.tune(&o)
		}
		if _, err := Check(b, o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func TestCheckRefusesBadCRC(t *testing.T) {
	b := produced(None, keyed(now)...)
	b[len(b)-2] ^= 1
	if _, err := Check(b, lenient); !errors.Is(err, kerr.CorruptMessage) {
		t.Fatal(err)
	}
}

func TestCheckRefusesZstdBeforeProduce7(t *testing.T) {
	o := lenient
	o.RefuseZstd = true
	if _, err := Check(produced(Zstd, keyed(now)...), o); !errors.Is(err, kerr.UnsupportedCompressionType) {
		t.Error(err)
	}
	if _, err := Check(produced(Gzip, keyed(now)...), o); err != nil {
		t.Error(err)
	}
}

func TestCheckNamesBadRecords(t *testing.T) {
	limits := func(before, after int64) CheckOptions {
		return CheckOptions{Client: true, Now: now, BeforeMaxMs: before, AfterMaxMs: after}
	}
	compacted := limits(math.MaxInt64, math.MaxInt64)
	compacted.Compacted = true
	appendTime := limits(0, 0)
	appendTime.AppendTime = true
	noKeys := func(n int) []Record { return make([]Record, n) }
	for _, c := range []struct {
		name    string
		o       CheckOptions
		records []Record
		want    error
		indexes []int32
	}{
		{"in both limits", limits(10, 10), keyed(now-10, now+10), nil, nil},
		{"too old", limits(10, 10), keyed(now, now-11, now), kerr.InvalidTimestamp, []int32{1}},
		{"too new", limits(10, 10), keyed(now+11, now, now+11), kerr.InvalidTimestamp, []int32{0, 2}},
		{"only after is limited", limits(math.MaxInt64, 10), keyed(1, now+11), kerr.InvalidTimestamp, []int32{1}},
		{"only before is limited", limits(10, math.MaxInt64), keyed(now-11, math.MaxInt64), kerr.InvalidTimestamp, []int32{0}},
		{"no timestamp at all", limits(10, 10), keyed(-1, -1), nil, nil},
		{"differences that overflow", limits(10, 10), keyed(math.MinInt64, math.MaxInt64), kerr.InvalidTimestamp, []int32{0, 1}},
		{"append time has no limits", appendTime, keyed(1, now+11), nil, nil},
		{"compacted without keys", compacted, append(keyed(now), noKeys(2)...), kerr.InvalidRecord, []int32{1, 2}},
		{"the first bad record decides", func() CheckOptions { o := limits(10, 10); o.Compacted = true; return o }(),
			append(keyed(now-11), noKeys(1)...), kerr.InvalidTimestamp, []int32{0, 1}},
	} {
		for codec := None; codec <= Zstd; codec++ {
			_, err := Check(produced(codec, c.records...), c.o)
			if !errors.Is(err, c.want) {
				t.Errorf("%s, %v: %v, want %v", c.name, codec, err, c.want)
				continue
			}
			var indexes []int32
			if bad, ok := errors.AsType[*RecordErrors](err); ok {
				for _, r := range bad.Records {
					indexes = append(indexes, r.Index)
					if r.Message == "" {
						t.Errorf("%s, %v: record %d has no message", c.name, codec, r.Index)
					}
				}
			}
			if len(indexes) != len(c.indexes) {
				t.Errorf("%s, %v: bad records %v, want %v", c.name, codec, indexes, c.indexes)
				continue
			}
			for i := range indexes {
				if indexes[i] != c.indexes[i] {
					t.Errorf("%s, %v: bad records %v, want %v", c.name, codec, indexes, c.indexes)
				}
			}
		}
	}
}

func TestCheckBoundsTheListOfBadRecords(t *testing.T) {
	for _, o := range []CheckOptions{
		{Compacted: true, BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64},
		{Now: now, BeforeMaxMs: 1, AfterMaxMs: 1},
	} {
		_, err := Check(produced(Gzip, make([]Record, 10_000)...), o)
		bad, ok := errors.AsType[*RecordErrors](err)
		if !ok || len(bad.Records) != maxRecordErrors || !strings.Contains(err.Error(), "record 0") {
			t.Fatalf("%v", err)
		}
	}
}

// Compressed records are opened only where something needs it.
func TestCheckOpensCompressedRecordsOnlyIfNeeded(t *testing.T) {
	for _, c := range []struct {
		name string
		o    CheckOptions
		want bool
	}{
		{"nothing asks", lenient, false},
		{"header is within the limit", CheckOptions{Now: now, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 10}, false},
		{"a limit into the past", CheckOptions{Now: now, BeforeMaxMs: 10, AfterMaxMs: math.MaxInt64}, true},
		{"append time", CheckOptions{Now: now, AppendTime: true, BeforeMaxMs: 10}, false},
		{"compacted", CheckOptions{Compacted: true, BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64}, true},
		{"a limit for records", CheckOptions{MaxRecordBytes: 1 << 20, BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64}, true},
		{"deep", CheckOptions{Deep: true, BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64}, true},
	} {
		info, err := Check(produced(LZ4, keyed(now, now+3)...), c.o)
		if err != nil || info.Walked != c.want || info.MaxTimestamp != now+3 {
			t.Errorf("%s: %+v, %v", c.name, info, err)
		}
	}
}

// max.decompressed.message.bytes is for each record of a compressed batch, not for all of them, and not for others.
func TestCheckBoundsRecordsOfCompressedBatches(t *testing.T) {
	record := Record{Timestamp: now, Key: []byte("k"), Value: make([]byte, 1000)}
	size := 1000 + 8 // attributes, two deltas, the key and its length, the length of the value, the number of headers
	for c := None; c <= Zstd; c++ {
		o := lenient
		o.MaxRecordBytes = size
		if _, err := Check(produced(c, record, record, record), o); err != nil {
			t.Errorf("%v, up to the limit: %v", c, err)
		}
		o.MaxRecordBytes = size - 1
		if _, err := Check(produced(c, record), o); (c == None) != (err == nil) || err != nil && !errors.Is(err, kerr.InvalidRecord) {
			t.Errorf("%v, a byte more: %v", c, err)
		}
	}
}

func TestCheckFindsTheTrueMaxTimestamp(t *testing.T) {
	b := produced(None, keyed(now, now+7)...)
	binary.BigEndian.PutUint64(b[atMaxTimestamp:], uint64(now+1000))
	b.seal()
	info, err := Check(b, lenient)
	if err != nil || info.MaxTimestamp != now+7 {
		t.Fatalf("%+v, %v", info, err)
	}
	b.SetCreateTime(info.MaxTimestamp)
	if b.MaxTimestamp() != now+7 || b.VerifyCRC() != nil {
		t.Fatal("header not healed")
	}
}

func TestSingle(t *testing.T) {
	b := produced(None, keyed(now)...)
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	old := bytes.Clone(b)
	old[atMagic] = 1
	for _, c := range []struct {
		name    string
		records []byte
		want    error
	}{
		{"one", b, nil},
		{"none", nil, kerr.InvalidRecord},
		{"part of one", b[:len(b)-1], kerr.InvalidRecord},
		{"two", join(b, b), kerr.InvalidRecord},
		{"one and an old one", join(b, old), kerr.InvalidRecord},
		{"one and part of another", join(b, b[:30]), nil},
		{"one and three bytes", join(b, b[:3]), nil},
		{"one and zeros", join(b, make([]byte, 100)), kerr.CorruptMessage},
		{"old format", old, kerr.InvalidRecord},
		{"zeros", make([]byte, 100), kerr.CorruptMessage},
	} {
		got, err := Single(c.records)
		if !errors.Is(err, c.want) || err == nil && !bytes.Equal(got, b) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

// TestPlainBytes: with a lower limit Check takes no more memory than that, and says that more is needed.
func TestPlainBytes(t *testing.T) {
	record := keyed(now)
	record[0].Value = make([]byte, 20<<20)
	for _, codec := range []Codec{Gzip, Snappy, LZ4, Zstd} {
		b := produced(codec, record...)
		o := lenient
		o.Deep = true
		if _, err := Check(b, o); err != nil {
			t.Errorf("%v: %v without a limit", codec, err)
		}
		o.PlainBytes = 4 << 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Check(b, o)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !errors.Is(err, ErrTooLarge) || took > 24<<20 {
			t.Errorf("%v: %d bytes allocated within a limit of 4 MiB, %v", codec, took, err)
		}
		small := produced(codec, keyed(now, now)...)
		if _, err := Check(small, o); err != nil {
			t.Errorf("%v: %v for a small batch", codec, err)
		}
	}
}

func TestCheckDoesNotAllocate(t *testing.T) {
	b := produced(None, keyed(make([]int64, 500)...)...)
	packed := produced(Zstd, keyed(make([]int64, 500)...)...)
	o := CheckOptions{Client: true, Now: 10, MaxMessageBytes: 1 << 20, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 100}
	for _, b := range []Batch{b, packed} {
		n := testing.AllocsPerRun(50, func() {
			if _, err := Check(b, o); err != nil {
				t.Fatal(err)
			}
		})
		if n != 0 {
			t.Errorf("%v: %v allocations", b.Codec(), n)
		}
	}
}

// FuzzCheck looks for a panic, and for a batch that passes the check but does not read back as it says.
func FuzzCheck(f *testing.F) {
	for codec := None; codec <= Zstd; codec++ {
		f.Add([]byte(produced(codec, keyed(now, now+1)...)), true)
	}
	f.Add([]byte(sample()), false)
	f.Fuzz(func(t *testing.T, buf []byte, client bool) {
		b, _, err := Next(buf)
		if err != nil {
			return
		}
		b = Batch(bytes.Clone(b))
		b.seal() // else the CRC stops nearly everything
		o := lenient
		o.Client, o.Deep = client, true
		info, err := Check(b, o)
		if err != nil {
			return
		}
		b.SetCreateTime(info.MaxTimestamp)
		count, last := int32(0), NoTimestamp
		err = b.Each(func(r Record) error {
			if r.Offset != b.BaseOffset()+int64(count) {
				t.Fatalf("record %d has offset %d", count, r.Offset)
			}
			count++
			last = max(last, r.Timestamp)
			return nil
		})
		if err != nil || count != b.Count() || client && b.LastOffset() != b.BaseOffset()+int64(count)-1 {
			t.Fatalf("passed, but %d of %d records read: %v", count, b.Count(), err)
		}
		if b.VerifyCRC() != nil || !b.LogAppendTime() && last > b.MaxTimestamp() {
			t.Fatalf("largest timestamp %d, header says %d", last, b.MaxTimestamp())
		}
	})
}
