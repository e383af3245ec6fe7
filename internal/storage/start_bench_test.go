package storage

import (
	"fmt"
	"path/filepath"
	"testing"

	"moldau/internal/vfs"
)

// BenchmarkStart opens all of a thousand partitions on a real disk, with a record in each, after a clean stop and after a kill.
func BenchmarkStart(b *testing.B) {
	const partitions = 1000
	for _, clean := range []bool{true, false} {
		b.Run(fmt.Sprintf("clean=%v", clean), func(b *testing.B) {
			fs := vfs.NewOS()
			o := options(fs, b.TempDir())
			s := run(b, o)
			writeAll(b, many(b, s, partitions))
			must(b, s.Stop(true))
			for b.Loop() {
				if !clean {
					must(b, fs.Remove(filepath.Join(o.Dirs[0], cleanStopFile)))
				}
				s := run(b, o)
				many(b, s, partitions)
				b.StopTimer()
				must(b, s.Stop(true))
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/partitions, "µs/partition")
		})
	}
}
