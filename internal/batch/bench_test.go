package batch

import (
	"math"
	"math/rand/v2"
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

// BenchmarkConversion converts a batch as full as a producer's batch.size makes it, there and back. Its values are noise, as
// those of test/bench.
func BenchmarkConversion(b *testing.B) {
	var packers Packers
	rng := rand.NewChaCha8([32]byte{1})
	for _, codec := range oldCodecs {
		bu := NewBuilder(BuildOptions{Codec: codec})
		for i := range 140 {
			value := make([]byte, 100)
			_, _ = rng.Read(value)
			bu.Add(Record{Timestamp: int64(i), Value: value})
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
