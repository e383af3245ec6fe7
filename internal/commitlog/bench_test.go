package commitlog

import (
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

func benchLog(b *testing.B) *Log {
	fs := vfs.NewOS()
	o := testOptions(fs, DefaultConfig())
	o.Dir = b.TempDir()
	o.Files = NewFiles(fs, 64)
	l, _, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Abandon)
	return l
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("records=%d", n), func(b *testing.B) {
			l := benchLog(b)
			r := records("some value of a usual length", n, noOptions, startMs)
			b.SetBytes(int64(len(r)))
			b.ReportAllocs()
			for b.Loop() {
				mustAppend(b, l, r)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	l := benchLog(b)
	for range 20000 {
		mustAppend(b, l, records("value", 10, noOptions, startMs))
	}
	for name, o := range map[string]ReadOptions{
		"tail":   {MaxBytes: 1 << 20, UpTo: l.LogEnd()},
		"middle": {MaxBytes: 64 << 10, UpTo: l.LogEnd()},
	} {
		from := l.LogEnd() - 10
		if name == "middle" {
			from = l.LogEnd() / 2
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := l.Read(from, o)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := r.Region.SendTo(io.Discard); err != nil {
					b.Fatal(err)
				}
				r.Region.Release()
			}
		})
	}
}

// BenchmarkLookup finds where an offset lies in a log of several segments, without sending anything.
func BenchmarkLookup(b *testing.B) {
	fs := vfs.NewOS()
	c := DefaultConfig()
	c.SegmentBytes = 1 << 20
	o := testOptions(fs, c)
	o.Dir, o.Files = b.TempDir(), NewFiles(fs, 64)
	l, _, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(l.Abandon)
	r := records("some value of a usual length", 10, noOptions, startMs)
	for l.Size() < 16<<20 {
		mustAppend(b, l, r)
	}
	for _, at := range []struct {
		name string
		from kafka.Offset
	}{{"tail", l.LogEnd() - 5}, {"newest segment", l.LogEnd() - l.LogEnd()/100}, {"middle", l.LogEnd() / 2}, {"start", 0}} {
		b.Run(at.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				r, err := l.Read(at.from, ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd(), AtLeastOne: true})
				if err != nil || r.Region == nil {
					b.Fatal(r, err)
				}
				r.Region.Release()
			}
		})
	}
}

// BenchmarkRecovery opens a log of 100 MB that was not closed.
func BenchmarkRecovery(b *testing.B) {
	l := benchLog(b)
	r := records("some value of a usual length", 300, noOptions, startMs)
	for l.Size() < 100<<20 {
		mustAppend(b, l, r)
	}
	o := testOptions(l.fs, DefaultConfig())
	o.Dir = l.dir
	b.SetBytes(l.Size())
	for b.Loop() {
		o.Files = NewFiles(l.fs, 64)
		again, _, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		again.Abandon()
	}
}

// BenchmarkCompact compacts logs of 32 MB in which each key has many records. Bytes are those of the log; each is read
// twice.
func BenchmarkCompact(b *testing.B) {
	for _, codec := range []batch.Codec{batch.None, batch.LZ4, batch.Zstd} {
		b.Run(codec.String(), func(b *testing.B) {
			var bytes int64
			for b.Loop() {
				b.StopTimer()
				c := DefaultConfig()
				c.Compact, c.SegmentBytes = true, 8<<20
				fs := vfs.NewOS()
				o := testOptions(fs, c)
				o.Dir, o.Files = b.TempDir(), NewFiles(fs, 64)
				l, _, err := Open(o)
				if err != nil {
					b.Fatal(err)
				}
				value := make([]byte, 100)
				for n := 0; l.Size() < 32<<20; {
					bu := batch.NewBuilder(batch.BuildOptions{Codec: codec})
					for range 100 {
						rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)}).Read(value)
						bu.Add(batch.Record{Timestamp: startMs, Key: fmt.Appendf(nil, "key %d", n*7919%20011), Value: value})
						n++
					}
					if _, err := l.Append(bu.Build(), AppendOptions{}); err != nil {
						b.Fatal(err)
					}
				}
				l.SetDeletionBound(l.LogEnd())
				if err := l.AdvanceRecoveryPoint(); err != nil {
					b.Fatal(err)
				}
				bytes = l.Size()
				b.StartTimer()
				done, err := l.Compact(CompactOptions{Now: o.Now(), MapBytes: 128 << 20, MapLoad: 0.9, BufferBytes: 256 << 10, Pace: func(int) error { return nil }})
				b.StopTimer()
				if err != nil || done.SegmentsNew == 0 {
					b.Fatalf("%+v, %v", done, err)
				}
				l.Abandon()
				b.StartTimer()
			}
			b.SetBytes(bytes)
		})
	}
}
