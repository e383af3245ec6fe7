package batch

import (
	"bytes"
	"fmt"
	"testing"
)

// TestRecompress: from each codec to each other at the limits of its levels the same records come out, under the same header.
func TestRecompress(t *testing.T) {
	levels := map[Codec][]int{None: {0}, Snappy: {0}, Gzip: {-1, 1, 9}, LZ4: {1, 9, 17}, Zstd: {-131072, 0, 3, 22}}
	var packers Packers
	for from := None; from <= Zstd; from++ {
		bu := NewBuilder(BuildOptions{Codec: from, LeaderEpoch: 4, Producer: &Producer{ID: 7, Epoch: 2, BaseSequence: 5}})
		for i := range 50 {
			bu.Add(Record{Timestamp: int64(1000 + i), Key: []byte("key"), Value: fmt.Appendf(nil, "a value that repeats %d", i), Headers: []Header{{Key: "h", Value: []byte("x")}}})
		}
		b := bu.Build()
		info, err := Check(b, CheckOptions{Deep: true, Client: true, AppendTime: true})
		if err != nil {
			t.Fatal(err)
		}
		for to := None; to <= Zstd; to++ {
			for _, level := range levels[to] {
				c := Compression{Imposed: true, Codec: to, Level: level}
				if c.Changes(b) != (from != to) || (Compression{Codec: to}).Changes(b) {
					t.Errorf("%v to %v: Changes is wrong", from, to)
				}
				out, err := b.Recompress(info.Plain, c, &packers)
				if err != nil {
					t.Fatalf("%v to %v at level %d: %v", from, to, level, err)
				}
				if got, err := out.plain(); err != nil || !bytes.Equal(got, info.Plain) {
					t.Errorf("%v to %v at level %d: the records are not the same: %v", from, to, level, err)
				}
				if _, err := Check(out, CheckOptions{Deep: true, Client: true, AppendTime: true}); err != nil {
					t.Errorf("%v to %v at level %d: %v", from, to, level, err)
				}
				if out.Codec() != to || out.Attributes()&^attrCodec != b.Attributes()&^attrCodec || !bytes.Equal(out[atLastOffsetDelta:HeaderSize], b[atLastOffsetDelta:HeaderSize]) {
					t.Errorf("%v to %v: the header is not the same\n%x\n%x", from, to, b[:HeaderSize], out[:HeaderSize])
				}
			}
		}
	}
}
