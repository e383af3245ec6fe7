package commitlog

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// TestModel runs random operations against a list of batches, and compares every answer.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := smallConfig()
		c.SegmentBytes = rapid.SampledFrom([]int{300, 1000, 5000}).Draw(t, "segment.bytes")
		c.IndexIntervalBytes = rapid.SampledFrom([]int{0, 100, 400, 4096}).Draw(t, "index.interval.bytes")
		c.Preallocate = rapid.Bool().Draw(t, "preallocate")
		c.RetentionMs, c.RetentionBytes = -1, -1
		mem := vfs.NewMem()
		w := newWorld(t, mem, mem, c)
		w.reopen(false)
		steps := map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				w.clk.ms += rapid.Int64Range(-300, 500).Draw(t, "ms") // record times go back too
				w.append(rapid.Int64Range(-1, 3).Draw(t, "producer"), rapid.IntRange(1, 6).Draw(t, "records"), false)
			},
			"append again": func(t *rapid.T) { w.repeat(t) },
			"fetched with a gap": func(t *rapid.T) {
				base := w.l.LogEnd() + rapid.Int64Range(0, 9).Draw(t, "gap")
				b := records("f", rapid.IntRange(1, 4).Draw(t, "records"), batch.BuildOptions{BaseOffset: base, LeaderEpoch: w.l.LastEpoch() + 1}, w.clk.ms)
				if _, err := w.l.AppendFetched(b); err != nil {
					t.Fatal(err)
				}
				w.pieces, w.gaps = append(w.pieces, piece{b}), true
				w.l.SetDeletionBound(w.l.LogEnd())
			},
			"sync":     func(*rapid.T) { w.sync() },
			"truncate": func(t *rapid.T) { w.truncate(rapid.Int64Range(0, w.l.LogEnd()).Draw(t, "to")) },
			"empty":    func(t *rapid.T) { w.truncateFully(rapid.Int64Range(0, 200).Draw(t, "at")) },
			"log start": func(t *rapid.T) {
				w.setStart(rapid.Int64Range(w.l.LogStart(), w.l.LogEnd()).Draw(t, "to"))
			},
			"retain":      func(*rapid.T) { w.retain() },
			"clean stop":  func(*rapid.T) { w.closeAndOpen() },
			"new epoch":   func(*rapid.T) { w.l.AssignEpochStart(w.l.LastEpoch()+1, w.l.LogEnd()) },
			"kill":        func(*rapid.T) { w.l.Abandon(); w.reopen(false) },
			"read":        func(t *rapid.T) { w.checkRead(t) },
			"find a time": func(t *rapid.T) { w.checkTimes(t) },
			"scrub":       func(t *rapid.T) { wantSound(t, w.l) },
		}
		t.Repeat(steps)
		w.compare(w.l, "at the end")
		if err := w.l.Close(); err != nil {
			t.Fatal(err)
		}
		checkSummary(t, w)
		checkIndexes(t, mem, c, "at the end")
		wantVerified(t, mem, true, "at the end")
		if w.fails > 0 {
			t.Fatalf("%d calls failed", w.fails)
		}
	})
}

// repeat sends a batch of a producer again: one of its last five is answered with its old offsets.
func (w *world) repeat(t *rapid.T) {
	if len(w.pieces) == 0 {
		return
	}
	i := rapid.IntRange(0, len(w.pieces)-1).Draw(t, "again")
	p := w.pieces[i].b
	if p.ProducerID() < 0 {
		return
	}
	later := 0
	for _, q := range w.pieces[i+1:] {
		if q.b.ProducerID() == p.ProducerID() {
			later++
		}
	}
	a, err := w.l.Append(bytes.Clone(p), AppendOptions{Now: w.clk.ms})
	switch {
	case err == nil && a.Duplicate && a.First == p.BaseOffset() && a.Last == p.LastOffset() && a.Bytes == 0:
	case err != nil && (later >= duplicateWindow || w.forgot && later > 0):
	default:
		t.Fatalf("batch %d-%d of producer %d, %d batches ago: %+v, %v", p.BaseOffset(), p.LastOffset(), p.ProducerID(), later, a, err)
	}
}

// readable returns the batches that a reader may be given.
func (w *world) readable() []batch.Batch {
	var all []batch.Batch
	for _, p := range w.pieces {
		if p.b.NextOffset() > w.l.LogStart() {
			all = append(all, p.b)
		}
	}
	return all
}

func (w *world) checkRead(t *rapid.T) {
	from := rapid.Int64Range(w.l.LogStart(), w.l.LogEnd()).Draw(t, "from")
	o := ReadOptions{
		MaxBytes: rapid.IntRange(0, 2000).Draw(t, "max bytes"), UpTo: rapid.Int64Range(0, w.l.LogEnd()+3).Draw(t, "up to"),
		AtLeastOne: rapid.Bool().Draw(t, "at least one"),
	}
	var segments []kafka.Offset
	for _, s := range w.l.Segments() {
		segments = append(segments, s.BaseOffset)
	}
	segmentOf := func(offset kafka.Offset) (n int) {
		for n < len(segments) && segments[n] <= offset {
			n++
		}
		return n
	}
	var want []byte
	first, next := from, from
	segment := -1
	for _, b := range w.readable() {
		if b.NextOffset() <= from {
			continue
		}
		if segment < 0 {
			segment = segmentOf(b.BaseOffset())
			first = b.BaseOffset()
		}
		fits := len(want)+len(b) <= o.MaxBytes || len(want) == 0 && o.AtLeastOne
		if segmentOf(b.BaseOffset()) != segment || b.NextOffset() > o.UpTo || !fits || from >= o.UpTo {
			break
		}
		want = append(want, b...)
		next = b.NextOffset()
	}
	r, err := w.l.Read(from, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	if r.Region != nil {
		if got, err = r.Region.ReadAll(); err != nil {
			t.Fatal(err)
		}
		r.Region.Release()
	}
	if !bytes.Equal(got, want) || r.Bytes != len(want) {
		t.Fatalf("read at %d, %+v: got %v, want %v", from, o, offsets(t, got), offsets(t, want))
	}
	if len(want) > 0 && (r.FirstBatchOffset != first || r.NextOffset < next) {
		t.Fatalf("read at %d: begins at %d, leads to %d, want %d and %d", from, r.FirstBatchOffset, r.NextOffset, first, next)
	}
	// What lies between the last batch and NextOffset must be a gap.
	for _, b := range w.readable() {
		if len(want) > 0 && b.BaseOffset() >= next && b.BaseOffset() < r.NextOffset {
			t.Fatalf("read at %d skips the batch at %d", from, b.BaseOffset())
		}
	}
}

func (w *world) checkTimes(t *rapid.T) {
	ts := w.clk.ms + rapid.Int64Range(-3000, 300).Draw(t, "ago")
	upTo := rapid.Int64Range(w.l.LogStart(), w.l.LogEnd()).Draw(t, "up to")
	want := "none"
	newest, newestAt := int64(math.MinInt64), "none"
	for _, b := range w.readable() {
		epoch := b.LeaderEpoch()
		err := b.Each(func(r batch.Record) error {
			at := fmt.Sprintf("%d at %d, epoch %d", r.Timestamp, r.Offset, epoch)
			if want == "none" && r.Timestamp >= ts && r.Offset >= w.l.LogStart() {
				if want = at; r.Offset >= upTo {
					want = "beyond"
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The largest timestamp is looked for in whole segments and whole batches.
	first := w.l.Segments()[0].BaseOffset
	for _, p := range w.pieces {
		if b := p.b; b.BaseOffset() >= first && b.NextOffset() <= upTo && b.MaxTimestamp() > newest {
			timestamp, offset, err := b.OffsetOfMaxTimestamp()
			if err != nil {
				t.Fatal(err)
			}
			newest, newestAt = timestamp, fmt.Sprintf("%d at %d, epoch %d", timestamp, offset, b.LeaderEpoch())
		}
	}
	answer := func(f TimestampOffset, ok bool, err error) string {
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			return "none"
		}
		return fmt.Sprintf("%d at %d, epoch %d", f.Timestamp, f.Offset, f.LeaderEpoch)
	}
	if want == "beyond" {
		want = "none"
	}
	if got := answer(w.l.OffsetForTimestamp(ts, upTo)); got != want {
		t.Fatalf("first record since %d below %d: %s, want %s", ts, upTo, got, want)
	}
	if got := answer(w.l.OffsetOfMaxTimestamp(upTo)); got != newestAt {
		t.Fatalf("newest record below %d: %s, want %s", upTo, got, newestAt)
	}
}

// TestSameAnswersForAllSizes appends the same batches under many configurations: how they are cut into segments and
// indexed must not show.
func TestSameAnswersForAllSizes(t *testing.T) {
	var first string
	for _, segment := range []int{200, 999, 4000, 1 << 20} {
		for _, interval := range []int{0, 150, 4096} {
			for _, indexBytes := range []int{48, 240, 960, 10485760} {
				c := smallConfig()
				c.SegmentBytes, c.IndexIntervalBytes, c.MaxIndexBytes = segment, interval, indexBytes
				mem := vfs.NewMem()
				w := newWorld(t, mem, mem, c)
				w.reopen(false)
				for i := range 120 {
					w.append(int64(i%3-1), 1+i%4, false)
				}
				got := fmt.Sprintln(offsets(t, readAll(t, w.l, 0)))
				for ms := w.clk.ms - 1300; ms < w.clk.ms+20; ms += 7 {
					f, ok, err := w.l.OffsetForTimestamp(ms, w.l.LogEnd())
					got += fmt.Sprintln(ms, f, ok, err)
				}
				f, ok, err := w.l.OffsetOfMaxTimestamp(100)
				got += fmt.Sprintln(f, ok, err, w.l.Producers(), w.l.Size())
				for e := w.l.LastEpoch() - 20; e < w.l.LastEpoch()+2; e++ {
					epoch, end := w.l.EndOffsetForEpoch(e)
					got += fmt.Sprintln(e, epoch, end)
				}
				if first == "" {
					first = got
				}
				if got != first {
					t.Fatalf("segment.bytes %d, index.interval.bytes %d, index size %d: answers differ:\n%s\nfirst:\n%s", segment, interval, indexBytes, got, first)
				}
			}
		}
	}
}
