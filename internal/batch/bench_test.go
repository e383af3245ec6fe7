package batch

import (
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
