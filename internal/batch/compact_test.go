package batch

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"moldau/internal/kafka"
)

// TestFilter compares every batch that Filter makes with the records that Keep let pass.
func TestFilter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := BuildOptions{
			BaseOffset: rapid.Int64Range(0, 1<<40).Draw(t, "base"), LeaderEpoch: 7, Codec: Codec(rapid.IntRange(0, 4).Draw(t, "codec")),
			AppendTime: rapid.Bool().Draw(t, "append time"), Timestamp: 12345,
		}
		if rapid.Bool().Draw(t, "producer") {
			o.Producer = &Producer{ID: 9, Epoch: 2, BaseSequence: 100}
		}
		n := rapid.IntRange(1, 20).Draw(t, "records")
		bu := NewBuilder(o)
		var keep []bool
		for i := range n {
			r := Record{Timestamp: rapid.Int64Range(-1, 1<<41).Draw(t, "timestamp"), Value: fmt.Appendf(nil, "value %d", i)}
			if rapid.IntRange(0, 5).Draw(t, "key") > 0 {
				r.Key = fmt.Appendf(nil, "key %d", i)
			}
			if rapid.IntRange(0, 3).Draw(t, "tombstone") == 0 {
				r.Value = nil
			}
			if rapid.Bool().Draw(t, "header") {
				r.Headers = []Header{{Key: "h", Value: bytes.Repeat([]byte("x"), rapid.IntRange(0, 300).Draw(t, "header bytes"))}}
			}
			bu.Add(r)
			keep = append(keep, rapid.IntRange(0, 3).Draw(t, "keep") > 0)
		}
		b := bu.Build()
		var want []Record
		tombstone, all := false, true
		i := 0
		if err := b.Each(func(r Record) error {
			if keep[i] {
				want = append(want, r)
				tombstone = tombstone || r.Value == nil
			}
			all = all && keep[i]
			i++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		const horizon = 1_700_000_000_000
		marker := rapid.IntRange(0, 9).Draw(t, "marker") == 0
		out, kept, err := b.Filter(FilterOptions{HorizonMs: horizon, Marker: marker, Keep: func(offset kafka.Offset, _ []byte, _ bool) bool {
			return keep[offset-b.BaseOffset()]
		}})
		if err != nil || kept != len(want) {
			t.Fatalf("kept %d of %d: %v", kept, len(want), err)
		}
		if len(want) == 0 {
			if out != nil {
				t.Fatalf("%d bytes without a record", len(out))
			}
			return
		}
		if all && !tombstone && !marker && &out[0] != &b[0] {
			t.Fatal("a batch that stays was copied")
		}
		wantRecords(t, out, want)
		if out.DeleteHorizonSet() != (tombstone || marker) || out.DeleteHorizonSet() && out.BaseTimestamp() != horizon {
			t.Fatalf("delete horizon %v, %d", out.DeleteHorizonSet(), out.BaseTimestamp())
		}
		if out.BaseOffset() != b.BaseOffset() || out.LastOffset() != b.LastOffset() || out.LastSequence() != b.LastSequence() ||
			out.ProducerEpoch() != b.ProducerEpoch() || out.Codec() != b.Codec() || out.LeaderEpoch() != 7 {
			t.Fatal("the header has changed")
		}
		if ts, _, err := out.OffsetOfMaxTimestamp(); err != nil || ts != out.MaxTimestamp() && !(ts < 0 && out.MaxTimestamp() == NoTimestamp) {
			t.Fatalf("largest timestamp %d, header says %d, %v", ts, out.MaxTimestamp(), err)
		}
		// A horizon that is set stays.
		again, _, err := out.Filter(FilterOptions{HorizonMs: horizon + 5, Marker: marker, Keep: func(kafka.Offset, []byte, bool) bool { return true }})
		if err != nil || !bytes.Equal(again, out) {
			t.Fatalf("filtered again it has changed: %v", err)
		}
		empty := out.Empty()
		wantRecords(t, empty, nil)
		if empty.Size() != HeaderSize || empty.LastOffset() != b.LastOffset() || empty.LastSequence() != b.LastSequence() ||
			empty.ProducerID() != b.ProducerID() || empty.DeleteHorizonSet() || empty.Codec() != None || empty.BaseTimestamp() != NoTimestamp {
			t.Fatalf("empty batch %x", []byte(empty))
		}
	})
}

func wantRecords(t *rapid.T, b Batch, want []Record) {
	t.Helper()
	if err := b.VerifyCRC(); err != nil {
		t.Fatal(err)
	}
	next, rest, err := Next(b)
	if err != nil || len(rest) != 0 || len(next) != len(b) {
		t.Fatalf("not a batch: %v", err)
	}
	var got []Record
	if err := b.Each(func(r Record) error { got = append(got, r); return nil }); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("records\n%v\nwant\n%v", got, want)
	}
	i := 0
	err = b.EachKey(func(offset kafka.Offset, key []byte, tombstone bool) bool {
		if r := want[i]; r.Offset != offset || !bytes.Equal(r.Key, key) || (r.Key == nil) != (key == nil) || tombstone != (r.Value == nil) {
			t.Fatalf("key %d: %d %q %v, want %v", i, offset, key, tombstone, r)
		}
		i++
		return true
	})
	if err != nil || i != len(want) {
		t.Fatalf("%d keys of %d: %v", i, len(want), err)
	}
}
