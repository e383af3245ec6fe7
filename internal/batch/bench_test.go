package batch

import (
	"fmt"
	"math"
	"testing"
)

func BenchmarkCheck(b *testing.B) {
	bu := NewBuilder(BuildOptions{LeaderEpoch: -1})
	for range 1000 {
		bu.Add(Record{Timestamp: 1_700_000_000_000, Key: []byte("key-0001"), Value: make([]byte, 100)})
	}
	batch := bu.Build()
	o := CheckOptions{Client: true, Now: 1_700_000_000_000, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 3_600_000}
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(batch)))
		for b.Loop() {
			if _, err := Check(batch, o); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("records", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := checkRecords(batch, batch.Records(), o); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
	})
}

// BenchmarkConversion converts a batch as full as a producer's batch.size makes it, there and back.
func BenchmarkConversion(b *testing.B) {
	var packers Packers
	for _, codec := range oldCodecs {
		bu := NewBuilder(BuildOptions{Codec: codec})
		for i := range 140 {
			bu.Add(Record{Timestamp: int64(i), Key: fmt.Append(nil, "key-", i), Value: fmt.Appendf(nil, "%0100x", uint64(i)*0x9e3779b97f4a7c15)})
		}
		batch := bu.Build()
		set, err := batch.Messages(1, DownOptions{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run("up/"+codec.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(bu.Size()))
			for b.Loop() {
				if _, err := FromMessages(set, UpOptions{Packers: &packers}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("down/"+codec.String(), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(bu.Size()))
			for b.Loop() {
				if _, err := batch.Messages(1, DownOptions{Packers: &packers}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
