package commitlog

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// said is one record as it was appended.
type said struct {
	offset    kafka.Offset
	last      kafka.Offset // of its batch
	timestamp int64
	key       string // "" is null
	value     string // "" is null
	producer  int64
	txn       bool
	aborted   bool
	control   bool
	seenMs    int64 // when a compaction first knew all records of its batch, 0 = not yet
}

// keyedLog is a log of keyed records, and the list of all records that it was given.
type keyedLog struct {
	t     tb
	mem   *vfs.Mem
	o     Options
	clk   *clock
	l     *Log
	all   []said
	seq   map[int64]int32
	epoch map[int64]int16 // by producer
	open  map[int64]bool  // producers with an open transaction
	clean kafka.Offset    // where the last compaction has ended
	cut   bool            // a producer's last batch may be one that was not its last when it was compacted
}

func newKeyedLog(t tb, mem *vfs.Mem, fs vfs.FS, c Config) *keyedLog {
	for _, dir := range []string{"/data/orders-0", "/data", "/"} {
		if err := errors.Join(mem.MkdirAll(dir), mem.SyncDir(dir)); err != nil {
			t.Fatal(err)
		}
	}
	clk := &clock{ms: startMs}
	k := &keyedLog{t: t, mem: mem, clk: clk, seq: map[int64]int32{}, epoch: map[int64]int16{}, open: map[int64]bool{},
		o: Options{FS: fs, Dir: testDir, TP: testTP, Config: c, Files: NewFiles(fs, 9), Now: clk.now}}
	k.l, _ = mustOpen(t, k.o)
	return k
}

func compactedConfig() Config {
	c := smallConfig()
	c.Compact, c.Delete, c.DeleteRetentionMs, c.MinCleanableDirtyRatio = true, false, 1000, 0
	return c
}

// append adds a batch of records "key=value"; "key" is a tombstone, "=value" has no key.
func (k *keyedLog) append(producer int64, txn bool, codec batch.Codec, records ...string) {
	o := batch.BuildOptions{Codec: codec, Transactional: txn}
	if producer >= 0 {
		o.Producer = &batch.Producer{ID: producer, Epoch: k.epoch[producer], BaseSequence: k.seq[producer]}
	}
	bu := batch.NewBuilder(o)
	var all []said
	for i, r := range records {
		key, value, _ := strings.Cut(r, "=")
		timestamp := k.clk.ms
		if !k.o.Config.TimestampTypeAppend {
			timestamp += int64(i)
		}
		all = append(all, said{offset: k.l.LogEnd() + int64(i), last: k.l.LogEnd() + int64(len(records)) - 1, timestamp: timestamp, key: key, value: value, producer: producer, txn: txn})
		rec := batch.Record{Timestamp: k.clk.ms + int64(i), Headers: []batch.Header{{Key: "n", Value: []byte{byte(i)}}}}
		if key != "" {
			rec.Key = []byte(key)
		}
		if value != "" {
			rec.Value = []byte(value)
		}
		bu.Add(rec)
	}
	if _, err := k.l.Append(bu.Build(), AppendOptions{LeaderEpoch: testEpoch, Now: k.clk.ms}); err != nil {
		k.t.Fatal(err)
	}
	if producer >= 0 {
		k.seq[producer] += int32(len(records))
	}
	k.open[producer] = txn
	k.all = append(k.all, all...)
	k.l.SetDeletionBound(k.l.LogEnd())
}

// endAndRaise ends a transaction as since KIP-890: the marker raises the producer's epoch.
func (k *keyedLog) endAndRaise(producer int64, commit bool) {
	k.epoch[producer]++
	k.seq[producer] = 0
	k.end(producer, commit)
}

func (k *keyedLog) end(producer int64, commit bool) {
	kind := batch.ControlAbort
	if commit {
		kind = batch.ControlCommit
	}
	bu := batch.NewBuilder(batch.BuildOptions{Transactional: true, Control: true, Producer: &batch.Producer{ID: producer, Epoch: k.epoch[producer], BaseSequence: -1}})
	m := batch.EndTxnMarker{CoordinatorEpoch: 1}
	bu.Add(batch.Record{Timestamp: k.clk.ms, Key: kind.Key(), Value: m.AppendTo(nil)})
	end := k.l.LogEnd()
	if _, err := k.l.Append(bu.Build(), AppendOptions{LeaderEpoch: testEpoch, Now: k.clk.ms}); err != nil {
		k.t.Fatal(err)
	}
	for i := len(k.all) - 1; i >= 0 && k.open[producer]; i-- {
		r := &k.all[i]
		if r.producer == producer && r.control {
			break
		}
		if r.producer == producer && r.txn {
			r.aborted = !commit
		}
	}
	k.open[producer] = false
	k.all = append(k.all, said{offset: end, producer: producer, control: true})
	k.l.SetDeletionBound(k.l.LogEnd())
}

// fill appends sixty records of five keys, durably, so that a compaction has something to do.
func (k *keyedLog) fill() {
	k.t.Helper()
	for i := range 60 {
		k.append(-1, false, batch.None, fmt.Sprint("key", i%5, "=value"))
	}
	if err := k.l.AdvanceRecoveryPoint(); err != nil {
		k.t.Fatal(err)
	}
}

func (k *keyedLog) options(keys int64) CompactOptions {
	return CompactOptions{FirstDirty: k.clean, Now: k.clk.now(), MapBytes: (keys + 1) * keySlotBytes, MapLoad: 1, BufferBytes: 300,
		Pace: func(int) error { return nil }}
}

// compact runs one compaction with room for so many keys, and updates what is expected to be left.
func (k *keyedLog) compact(keys int64) (Compacted, error) {
	before := k.l.Segments()
	done, err := k.l.Compact(k.options(keys))
	if err != nil || done.FirstDirty == k.clean {
		return done, err
	}
	k.expect(before, done.FirstDirty)
	return done, nil
}

// expect is what a compaction up to an offset leaves.
func (k *keyedLog) expect(segments []SegmentInfo, to kafka.Offset) {
	k.clean = to
	covered := to
	for i, s := range segments[:len(segments)-1] {
		if s.BaseOffset < to {
			covered = segments[i+1].BaseOffset
		}
	}
	latest := map[string]kafka.Offset{}
	for _, r := range k.all {
		if r.offset < to && !r.aborted && !r.control {
			latest[r.key] = r.offset
		}
	}
	k.all = slices.DeleteFunc(k.all, func(r said) bool {
		if r.control || r.offset >= covered {
			return false
		}
		if r.aborted {
			return true
		}
		if r.offset >= to {
			return false
		}
		expired := r.value == "" && r.seenMs > 0 && r.seenMs+k.l.Config().DeleteRetentionMs <= k.clk.ms
		return r.key == "" || latest[r.key] != r.offset || expired
	})
	for i := range k.all {
		if k.all[i].last < to && k.all[i].seenMs == 0 {
			k.all[i].seenMs = k.clk.ms
		}
	}
}

// records returns what is in the log but transaction markers.
func (k *keyedLog) records(l *Log) (all []said) {
	for rest := readAll(k.t, l, l.LogStart()); len(rest) > 0; {
		b, after, err := batch.Next(rest)
		if err == nil {
			err = b.VerifyCRC()
		}
		if err == nil && !b.Control() {
			err = b.Each(func(r batch.Record) error {
				all = append(all, said{offset: r.Offset, last: b.LastOffset(), timestamp: r.Timestamp, key: string(r.Key), value: string(r.Value),
					producer: b.ProducerID(), txn: b.Transactional()})
				return nil
			})
		}
		if err != nil {
			k.t.Fatal(err)
		}
		rest = after
	}
	return all
}

// check compares the log with what is expected to be in it.
func (k *keyedLog) check(l *Log, what string) {
	k.t.Helper()
	var want []said
	for _, r := range k.all {
		if !r.control {
			r.seenMs = 0
			want = append(want, r)
		}
	}
	got := k.records(l)
	aborted, err := l.AbortedTxns(0, l.LogEnd())
	if err != nil {
		k.t.Fatal(err)
	}
	for i := range got {
		got[i].aborted = got[i].txn && slices.ContainsFunc(aborted, func(a AbortedTxn) bool {
			return a.ProducerID == got[i].producer && a.FirstOffset <= got[i].offset && got[i].offset <= a.LastOffset
		})
	}
	if !slices.Equal(got, want) {
		k.t.Fatalf("%s: compacted below %d, the log holds\n%s\nwant\n%s", what, k.clean, lines(got), lines(want))
	}
	// Recovery would cut the log at a gap between segments.
	b := l.Bounds()
	for i := range b.sealed {
		v, next := &b.sealed[i], b.sealed[i].base
		w := l.files.window()
		err := v.walk(w, 0, func(h batch.Batch, _, _ int64) (bool, error) {
			if h.BaseOffset() < next {
				return false, batch.ErrCorrupt
			}
			next = h.NextOffset()
			return true, nil
		})
		l.files.release(w)
		if err != nil || v.size > 0 && next != v.next {
			k.t.Fatalf("%s: segment %d ends at %d, the next begins at %d: %v", what, v.base, next, v.next, err)
		}
	}
}

func lines(all []said) string {
	var b strings.Builder
	for _, r := range all {
		fmt.Fprintf(&b, "  %+v\n", r)
	}
	return b.String()
}

// sequences returns the state of the producers that outlives everything.
func sequencesOf(l *Log) map[int64]ProducerState {
	all := map[int64]ProducerState{}
	for _, p := range l.Producers() {
		all[p.ProducerID] = ProducerState{ProducerEpoch: p.ProducerEpoch, LastSequence: p.LastSequence, LastOffset: p.LastOffset, TxnStart: p.TxnStart}
	}
	return all
}

// checkWithoutSnapshots opens copies of the disk on which nothing but the records tells of the producers: all snapshots are gone, or
// the newest alone.
func (k *keyedLog) checkWithoutSnapshots(what string) {
	k.t.Helper()
	for _, all := range []bool{true, false} {
		mem := k.mem.KillClone()
		entries, err := mem.List(testDir)
		slices.Reverse(entries)
		for _, e := range entries {
			snapshot := strings.HasSuffix(e.Name, snapshotSuffix)
			if snapshot || strings.HasSuffix(e.Name, sequencesSuffix) {
				err = errors.Join(err, mem.Remove(filepath.Join(testDir, e.Name)))
			}
			if snapshot && !all {
				break
			}
		}
		if err != nil {
			k.t.Fatal(err)
		}
		o := k.o
		o.FS, o.Files, o.LogStart = mem, NewFiles(mem, 9), k.l.LogStart()
		if !all {
			o.RecoveryPoint = k.l.RecoveryPoint()
		}
		l, r := mustOpen(k.t, o)
		if r.TruncatedBytes != 0 || l.LogEnd() != k.l.LogEnd() || !k.cut && !reflect.DeepEqual(sequencesOf(l), sequencesOf(k.l)) {
			k.t.Fatalf("%s: recovered %+v to %d with producers\n%v\nhad %d\n%v", what, r, l.LogEnd(), sequencesOf(l), k.l.LogEnd(), sequencesOf(k.l))
		}
		k.check(l, what+", recovered without snapshots")
		l.Abandon()
	}
}

func (k *keyedLog) reopen(clean bool) {
	if clean {
		if err := k.l.Close(); err != nil {
			k.t.Fatal(err)
		}
	}
	k.o.RecoveryPoint, k.o.LogStart, k.o.Clean = k.l.RecoveryPoint(), k.l.LogStart(), clean
	k.l.Abandon()
	k.l, _ = mustOpen(k.t, k.o)
	k.l.SetDeletionBound(k.l.LogEnd())
}

func (k *keyedLog) truncate(to kafka.Offset) {
	k.cut = k.cut || k.clean > 0
	if err := k.l.Truncate(to); err != nil {
		k.t.Fatal(err)
	}
	k.clean = min(k.clean, k.l.LogEnd()) // whoever stores it does so; the end may lie below to
	k.all = slices.DeleteFunc(k.all, func(r said) bool { return r.offset >= k.l.LogEnd() })
	k.l.SetDeletionBound(k.l.LogEnd())
	clear(k.seq)
	clear(k.epoch)
	clear(k.open)
	for _, p := range k.l.Producers() {
		k.seq[p.ProducerID], k.epoch[p.ProducerID] = p.LastSequence+1, p.ProducerEpoch
		k.open[p.ProducerID] = p.TxnStart >= 0
	}
	// A transaction whose marker is gone is open again.
	markers := map[int64]kafka.Offset{}
	for _, r := range k.all {
		if r.control {
			markers[r.producer] = r.offset
		}
	}
	for i := range k.all {
		r := &k.all[i]
		if marker, ended := markers[r.producer]; r.txn && k.open[r.producer] && (!ended || r.offset > marker) {
			r.aborted = false
		}
	}
}

// TestCompactionModel compares a compacted log with the last value of each key, under any sizes, codecs and maps.
func TestCompactionModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := compactedConfig()
		c.SegmentBytes = rapid.SampledFrom([]int{350, 1000, 5000}).Draw(t, "segment.bytes")
		c.IndexIntervalBytes = rapid.SampledFrom([]int{0, 100, 4096}).Draw(t, "index.interval.bytes")
		c.Preallocate = rapid.Bool().Draw(t, "preallocate")
		c.TimestampTypeAppend = rapid.Bool().Draw(t, "log append time")
		mem := vfs.NewMem()
		k := newKeyedLog(t, mem, mem, c)
		n, did := 0, 0
		draw := func(t *rapid.T) (codec batch.Codec, records []string) {
			k.clk.ms += rapid.Int64Range(0, 300).Draw(t, "ms")
			for range rapid.IntRange(1, 6).Draw(t, "records") {
				n++
				key := ""
				if rapid.IntRange(0, 9).Draw(t, "has a key") > 0 {
					key = fmt.Sprint("key", rapid.IntRange(0, 7).Draw(t, "key"))
				}
				if key != "" && rapid.IntRange(0, 3).Draw(t, "tombstone") == 0 {
					records = append(records, key)
				} else {
					records = append(records, fmt.Sprintf("%s=value %d", key, n))
				}
			}
			return batch.Codec(rapid.IntRange(0, 4).Draw(t, "codec")), records
		}
		t.Repeat(map[string]func(*rapid.T){
			"append": func(t *rapid.T) {
				producer := rapid.Int64Range(-1, 2).Draw(t, "producer")
				codec, records := draw(t)
				k.append(producer, false, codec, records...)
			},
			"append more": func(t *rapid.T) {
				for range 5 {
					codec, records := draw(t)
					k.append(-1, false, codec, records...)
				}
			},
			"append in a transaction": func(t *rapid.T) {
				producer := rapid.Int64Range(10, 12).Draw(t, "producer")
				codec, records := draw(t)
				k.append(producer, true, codec, records...)
			},
			"end a transaction": func(t *rapid.T) {
				producer := rapid.Int64Range(10, 12).Draw(t, "producer")
				if k.open[producer] {
					k.end(producer, rapid.Bool().Draw(t, "commit"))
				}
			},
			"end a transaction and raise the epoch": func(t *rapid.T) {
				producer := rapid.Int64Range(10, 12).Draw(t, "producer")
				if k.open[producer] {
					k.endAndRaise(producer, rapid.Bool().Draw(t, "commit"))
				}
			},
			"end all transactions": func(t *rapid.T) {
				for producer := range int64(3) {
					if k.open[10+producer] {
						k.end(10+producer, rapid.Bool().Draw(t, "commit"))
					}
				}
			},
			"wait": func(t *rapid.T) { k.clk.ms += rapid.Int64Range(0, 2500).Draw(t, "ms") },
			"sync": func(t *rapid.T) {
				if err := k.l.AdvanceRecoveryPoint(); err != nil {
					t.Fatal(err)
				}
			},
			"compact": func(t *rapid.T) {
				if err := k.l.AdvanceRecoveryPoint(); err != nil {
					t.Fatal(err)
				}
				todo, err := k.l.Compactable(k.clean, k.clk.now())
				if err != nil {
					t.Fatal(err)
				}
				done, err := k.compact(rapid.Int64Range(1, 12).Draw(t, "keys in memory"))
				if err != nil {
					t.Fatal(err)
				}
				if done.FirstDirty > todo.End || done.FirstDirty < todo.FirstDirty || !done.Full && done.FirstDirty != todo.End || todo.DirtyBytes > 0 && done.FirstDirty == todo.FirstDirty {
					t.Fatalf("compacted %+v of %+v", done, todo)
				}
				k.check(k.l, "after compaction")
				if did++; did%3 == 0 {
					k.checkWithoutSnapshots("after compaction")
				}
			},
			"truncate":   func(t *rapid.T) { k.truncate(rapid.Int64Range(k.l.LogEnd()*3/4, k.l.LogEnd()).Draw(t, "to")) },
			"clean stop": func(*rapid.T) { k.reopen(true) },
			"kill":       func(*rapid.T) { k.reopen(false) },
			"scrub":      func(t *rapid.T) { wantSound(t, k.l) },
			"find a time": func(t *rapid.T) {
				k.checkTime(t, k.clk.ms-rapid.Int64Range(-500, 5000).Draw(t, "ago"))
			},
			"": func(*rapid.T) {
				if _, err := k.l.DeletePending(k.clk.now()); err != nil {
					t.Fatal(err)
				}
			},
		})
		k.check(k.l, "at the end")
		k.checkWithoutSnapshots("at the end")
		wantSound(t, k.l)
		if err := k.l.Close(); err != nil {
			t.Fatal(err)
		}
		checkIndexes(t, mem, c, "at the end")
		wantVerified(t, mem, true, "at the end")
	})
}

// TestCompactionKeepsWhatFences: the marker that raised a producer's epoch may be all that tells of it. It goes on fencing the epoch
// before, also where the state has to be found in the records alone.
func TestCompactionKeepsWhatFences(t *testing.T) {
	mem := vfs.NewMem()
	k := newKeyedLog(t, mem, mem, compactedConfig())
	k.append(10, true, batch.None, "a=in a transaction")
	k.endAndRaise(10, true)
	for range 4 {
		for range 30 {
			k.append(-1, false, batch.None, "a=later")
		}
		k.clk.ms += k.l.Config().DeleteRetentionMs + 1
		if err := k.l.AdvanceRecoveryPoint(); err != nil {
			t.Fatal(err)
		}
		if done, err := k.compact(100); err != nil || done.SegmentsNew == 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		k.check(k.l, "after compaction")
		k.checkWithoutSnapshots("after compaction")
	}
}

// TestTombstoneOutlivesWhatItDeletes: a map that is full before it comes to a tombstone does not know what that deletes. Its
// delete.retention.ms begins with the compaction that does, not with one that only passed by: a reader who has seen the old value
// has that long to see that it is gone.
func TestTombstoneOutlivesWhatItDeletes(t *testing.T) {
	mem := vfs.NewMem()
	k := newKeyedLog(t, mem, mem, compactedConfig())
	k.append(-1, false, batch.None, "gone=old value")
	k.append(-1, false, batch.None, "a=1")
	k.append(-1, false, batch.None, "gone")
	for i := range 30 {
		k.append(-1, false, batch.None, fmt.Sprint("key", i, "=value"))
	}
	if err := k.l.AdvanceRecoveryPoint(); err != nil {
		t.Fatal(err)
	}
	compact := func(keys int64) {
		t.Helper()
		if _, err := k.compact(keys); err != nil {
			t.Fatal(err)
		}
		k.check(k.l, fmt.Sprintf("compacted with %d keys", keys))
	}
	compact(1)
	if k.clean > 2 {
		t.Fatalf("compacted below %d, beyond the tombstone", k.clean)
	}
	k.clk.ms += 10 * k.l.Config().DeleteRetentionMs
	compact(100)
	if !slices.ContainsFunc(k.records(k.l), func(r said) bool { return r.offset == 2 && r.value == "" }) {
		t.Error("the tombstone went together with what it deletes")
	}
}

// checkTime looks up a time in the compacted log.
func (k *keyedLog) checkTime(t *rapid.T, ts int64) {
	want := kafka.Offset(-1)
	for rest := readAll(t, k.l, k.l.LogStart()); len(rest) > 0 && want < 0; {
		b, after, err := batch.Next(rest)
		if err == nil {
			err = b.Each(func(r batch.Record) error {
				if want < 0 && r.Timestamp >= ts {
					want = r.Offset
				}
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		rest = after
	}
	got, ok, err := k.l.OffsetForTimestamp(ts, k.l.LogEnd())
	if err != nil || ok != (want >= 0) || ok && got.Offset != want {
		t.Fatalf("first record since %d: %+v %v %v, want %d", ts, got, ok, err, want)
	}
	newest := int64(-1)
	for _, r := range k.records(k.l) {
		newest = max(newest, r.timestamp)
	}
	if last, ok, err := k.l.OffsetOfMaxTimestamp(k.l.LogEnd()); err != nil || ok && last.Timestamp < newest {
		t.Fatalf("newest record: %+v %v %v, want %d", last, ok, err, newest)
	}
}

func TestKeyMap(t *testing.T) {
	m := newKeyMap(1000*keySlotBytes, 0.9, 1<<40)
	last := map[string]kafka.Offset{}
	for i := range kafka.Offset(3000) {
		key := fmt.Sprint("key ", i*i%1013)
		if m.put([]byte(key), i) {
			last[key] = i
		} else if _, known := last[key]; known || len(last) != 900 {
			t.Fatalf("key %q refused with %d keys", key, len(last))
		}
	}
	if m.used != len(last) || m.used < 400 {
		t.Fatalf("%d keys, want %d", m.used, len(last))
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if m.superseded([]byte(key), last[key]) || !m.superseded([]byte(key), last[key]-1) {
			t.Fatalf("the last offset of %q is not %d", key, last[key])
		}
	}
	if m.superseded([]byte("nobody"), 0) {
		t.Fatal("an unknown key is superseded")
	}
	tiny := newKeyMap(1, 0.1, 100)
	if !tiny.put([]byte("a"), 1) || tiny.put([]byte("b"), 2) || !tiny.put([]byte("a"), 3) || !tiny.superseded([]byte("a"), 2) {
		t.Fatal("the smallest map does not hold one key")
	}
	if some := newKeyMap(1<<40, 0.9, 100); len(some.slots) > 200 {
		t.Fatalf("%d slots for 100 keys", len(some.slots))
	}
}
