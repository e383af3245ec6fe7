package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
)

func randomRecords(rng *rand.Rand, n int) []Record {
	some := func() []byte {
		switch rng.IntN(5) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		b := make([]byte, rng.IntN(1<<rng.IntN(15)))
		for i := range b {
			b[i] = byte(rng.IntN(8))
		}
		return b
	}
	rs := make([]Record, n)
	for i := range rs {
		rs[i] = Record{Attributes: int8(rng.Uint32()), Offset: int64(i), Timestamp: rng.Int64() >> rng.IntN(64), Key: some(), Value: some()}
		for range rng.IntN(4) {
			rs[i].Headers = append(rs[i].Headers, Header{Key: string(some()), Value: some()})
		}
	}
	return rs
}

func TestEachGivesBackWhatWasAdded(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for codec := None; codec <= Zstd; codec++ {
		for range 10 {
			want := randomRecords(rng, 1+rng.IntN(60))
			b := produced(codec, want...)
			if got := collect(t, b); !reflect.DeepEqual(got, want) {
				t.Fatalf("%v: %d records came back different", codec, len(want))
			}
			if _, err := Check(b, CheckOptions{Client: true, Deep: true, BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64}); err != nil {
				t.Fatalf("%v: %v", codec, err)
			}
			ts, offset, err := b.OffsetOfMaxTimestamp()
			if err != nil || want[offset].Timestamp != ts {
				t.Fatalf("%v: largest timestamp %d at %d: %v", codec, ts, offset, err)
			}
			for _, r := range want {
				if r.Timestamp > ts || r.Timestamp == ts && r.Offset < offset {
					t.Fatalf("%v: record %d has %d, largest is said to be %d at %d", codec, r.Offset, r.Timestamp, ts, offset)
				}
			}
		}
	}
}

func TestEachStopsAtItsCallersError(t *testing.T) {
	stop, n := errors.New("stop"), 0
	err := sample().Each(func(Record) error { n++; return stop })
	if err != stop || n != 1 {
		t.Fatalf("%v after %d", err, n)
	}
}

func TestEachOfAnEmptyBatch(t *testing.T) {
	// What compaction leaves when every record is gone but the producer's state must stay.
	b := produced(None, keyed(now)...)[:HeaderSize]
	binary.BigEndian.PutUint32(b[atLength:], HeaderSize-lengthExcludes)
	binary.BigEndian.PutUint32(b[atCount:], 0)
	b.seal()
	if rs := collect(t, b); len(rs) != 0 {
		t.Fatalf("%d records", len(rs))
	}
	if ts, offset, err := b.OffsetOfMaxTimestamp(); ts != -1 || offset != -1 || err != nil {
		t.Fatalf("%d at %d, %v", ts, offset, err)
	}
}

func TestVarintsAreKafkas(t *testing.T) {
	for _, v := range []int64{0, 1, -1, 63, -64, 64, -65, 8191, 8192, -8193, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		raw := binary.AppendVarint(nil, v)
		if got, at := varlong(raw, 0); got != v || at != len(raw) {
			t.Errorf("varlong %d reads %d, ends at %d of %d", v, got, at, len(raw))
		}
		if varintSize(v) != len(raw) {
			t.Errorf("%d: size %d, want %d", v, varintSize(v), len(raw))
		}
		if v != int64(int32(v)) {
			if got, at := varint(raw, 0); at >= 0 && len(raw) > 5 {
				t.Errorf("varint took %d bytes as %d", len(raw), got)
			}
			continue
		}
		if got, at := varint(raw, 0); int64(got) != v || at != len(raw) {
			t.Errorf("varint %d reads %d, ends at %d of %d", v, got, at, len(raw))
		}
		for n := range raw {
			if _, at := varint(raw[:n], 0); at >= 0 {
				t.Errorf("%d: %d of %d bytes were enough", v, n, len(raw))
			}
		}
	}
}

func FuzzEach(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	for codec := None; codec <= Zstd; codec++ {
		b := produced(codec, randomRecords(rng, 3)...)
		if len(b) < 4096 {
			f.Add(uint8(codec), int32(3), []byte(b.Records()))
		}
		f.Add(uint8(codec), int32(2), []byte(produced(codec, keyed(now, now)...).Records()))
	}
	f.Fuzz(func(t *testing.T, codec uint8, count int32, records []byte) {
		b := append(Batch(bytes.Clone(sample()[:HeaderSize])), records...)
		b[atAttributes+1] = codec & 7
		binary.BigEndian.PutUint32(b[atCount:], uint32(count))
		var n int32
		err := b.Each(func(r Record) error {
			n++
			if len(r.Headers) > len(records)*64 && b.Codec() == None {
				t.Fatalf("%d headers from %d bytes", len(r.Headers), len(records))
			}
			return nil
		})
		if err == nil && n != max(count, 0) {
			t.Fatalf("%d records, header says %d", n, count)
		}
		if err != nil && !errors.Is(err, kerr.InvalidRecord) && !errors.Is(err, kerr.UnsupportedCompressionType) {
			t.Fatalf("error without a Kafka code: %v", err)
		}
		_, _, _ = b.OffsetOfMaxTimestamp()
	})
}
