package storage

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/vfs"
)

// flipBit flips a bit of a file under whoever has it open.
func flipBit(t *testing.T, fs vfs.FS, path string, at int64) {
	t.Helper()
	f, err := fs.Open(path, vfs.Write)
	must(t, err)
	var b [1]byte
	_, err = f.ReadAt(b[:], at)
	must(t, err)
	b[0] ^= 4
	_, err = f.WriteAt(b[:], at)
	must(t, err)
	must(t, f.Close())
}

// count returns how many values a metric has now, and sum what they come to.
func count(t *testing.T, set *metrics.Set, name string) (n int) {
	t.Helper()
	n, _ = gathered(t, set, name)
	return n
}

func sum(t *testing.T, set *metrics.Set, name string) (total float64) {
	t.Helper()
	_, total = gathered(t, set, name)
	return total
}

func gathered(t *testing.T, set *metrics.Set, name string) (n int, total float64) {
	t.Helper()
	families, err := set.Gatherer().Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				n++
				total += m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return n, total
}

// TestScrub: what the disk changes is found, counted per partition and told once; the rest of the log stays readable, and
// index files are made anew.
func TestScrub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewMem()
		var log bytes.Buffer
		o := options(fs, "/a")
		o.Metrics = metrics.NewSet()
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Scrub = ScrubOptions{BytesPerSecond: 1 << 20, Interval: time.Hour}
		s := run(t, o)
		defer func() { must(t, s.Stop(true)) }()
		small := commitlog.DefaultConfig()
		small.SegmentBytes, small.IndexIntervalBytes = 400, 0
		l, err := s.Open(tp("orders", 0), id(1), kafka.DirUnassigned, small)
		must(t, err)
		w := watchSync(l)
		var ends []int64
		for range 20 {
			a := appendTo(t, l, 2)
			ends = append(ends, a.Last+1)
		}
		must(t, w.wait(ends[len(ends)-1]))
		open(t, s, "whole", 2)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n := count(t, o.Metrics, "moldau_log_damaged_stretches"); n != 0 {
			t.Fatalf("%d partitions are damaged before anything is", n)
		}
		if read := sum(t, o.Metrics, "moldau_log_scrubbed_bytes_total"); read != float64(l.Size()) {
			t.Fatalf("%v bytes were read of %d", read, l.Size())
		}
		segments := l.Segments()
		folder := filepath.Join("/a", "orders-0")
		name := func(i int, suffix string) string {
			return filepath.Join(folder, strings.Repeat("0", 20-len(strconv.FormatInt(segments[i].BaseOffset, 10)))+strconv.FormatInt(segments[i].BaseOffset, 10)+suffix)
		}
		flipBit(t, fs, name(1, ".log"), 70) // in its first batch's records
		flipBit(t, fs, name(2, ".index"), 7)
		time.Sleep(time.Hour + time.Minute)
		synctest.Wait()
		if got := sum(t, o.Metrics, "moldau_log_damaged_stretches"); got != 1 || count(t, o.Metrics, "moldau_log_damaged_stretches") != 1 {
			t.Errorf("%v damaged stretches", got)
		}
		if got := sum(t, o.Metrics, "moldau_log_damaged_indexes_total"); got != 1 {
			t.Errorf("%v damaged indexes", got)
		}
		lines := strings.Count(log.String(), "records are damaged")
		first := segments[1].BaseOffset
		for offset := range l.LogEnd() {
			r, err := l.Read(offset, commitlog.ReadOptions{MaxBytes: 100, UpTo: l.LogEnd(), AtLeastOne: true})
			if damaged := offset >= first && offset < first+2; damaged != errors.Is(err, kerr.CorruptMessage) || !damaged && err != nil {
				t.Errorf("read at %d: %v", offset, err)
			}
			if err == nil {
				r.Region.Release()
			}
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if again := strings.Count(log.String(), "records are damaged"); lines != 1 || again != 1 {
			t.Errorf("damage was told %d times, and then %d times", lines, again)
		}
		if got := sum(t, o.Metrics, "moldau_log_damaged_indexes_total"); got != 1 {
			t.Errorf("%v damaged indexes after retention has made them anew", got)
		}
		must(t, s.Delete(l))
		if n := count(t, o.Metrics, "moldau_log_damaged_stretches"); n != 0 {
			t.Errorf("%d partitions are damaged after the one was deleted", n)
		}
	})
}
