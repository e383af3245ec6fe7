package commitlog

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/planted"
	"moldau/internal/vfs"
)

// piece is one batch as it was appended.
type piece struct{ b batch.Batch }

// world drives a log and knows what must and what may be found on its disk after a crash at any moment.
type world struct {
	t      tb
	mem    *vfs.Mem
	o      Options
	clk    *clock
	l      *Log
	seq    map[int64]int32
	pieces []piece // of the log now, those that retention has deleted included
	trying []piece // of the append that is going on
	start  kafka.Offset
	kept   kafka.Offset // below it nothing may be lost
	// point is the highest recovery point that anybody ever stored, not taken back by truncations.
	point   kafka.Offset
	emptied kafka.Offset // where a TruncateFullyAt that is going on will begin anew, or -1
	forgot  bool         // a truncation may leave only the last batch of a producer known
	// recovered is the bug of the disks that check opens.
	recovered planted.Bug
	opening   atomic.Bool
	gaps      bool // batches need not follow each other
	fails     int  // calls that returned an error
	stops     int  // clean ones: the start after every other one goes by the log's summary
}

func newWorld(t tb, mem *vfs.Mem, fs vfs.FS, c Config) *world {
	clk := &clock{ms: startMs}
	for _, dir := range []string{"/data/orders-0", "/data", "/"} { // the folder is its owner's to make durable
		if err := errors.Join(mem.MkdirAll(dir), mem.SyncDir(dir)); err != nil {
			t.Fatal(err)
		}
	}
	return &world{t: t, mem: mem, clk: clk, seq: map[int64]int32{}, emptied: -1, recovered: planted.None,
		o: Options{FS: fs, Dir: testDir, TP: testTP, Config: c, Files: NewFiles(fs, 7), Now: clk.now, ProducerExpiryMs: 86400000}}
}

// failed notes an error; a log that has failed or could not be opened is opened again, as after a restart.
func (w *world) failed(err error) bool {
	if err == nil {
		return false
	}
	w.fails++
	if w.l != nil && w.l.usable() == nil {
		w.emptied = -1 // it is as it was
		return true
	}
	w.reopen(false)
	return true
}

func (w *world) reopen(clean bool) {
	if w.l != nil {
		w.l.Abandon()
	}
	w.o.RecoveryPoint, w.o.LogStart, w.o.Clean = w.point, w.start, clean
	for range 5 {
		l, _, err := Open(w.o)
		if err != nil {
			w.fails++
			w.o.Clean, w.o.Summary = false, nil
			continue
		}
		w.l = l
		// What was lost is lost; producers begin anew where the log ends.
		for len(w.pieces) > 0 && w.pieces[len(w.pieces)-1].b.NextOffset() > l.LogEnd() {
			w.pieces = w.pieces[:len(w.pieces)-1]
		}
		if w.emptied >= 0 && l.LogStart() == l.LogEnd() && l.LogEnd() == w.emptied {
			w.pieces = nil
		}
		for _, p := range w.trying {
			if p.b.NextOffset() <= l.LogEnd() {
				w.pieces = append(w.pieces, p)
			}
		}
		w.trying, w.emptied = nil, -1
		clear(w.seq)
		for _, p := range l.Producers() {
			w.seq[p.ProducerID] = p.LastSequence + 1
		}
		w.l.SetDeletionBound(w.l.LogEnd())
		return
	}
	w.t.Fatalf("the log does not open")
}

func (w *world) append(pid int64, n int, transactional bool) {
	o := batch.BuildOptions{Transactional: transactional}
	if pid >= 0 {
		o.Producer = &batch.Producer{ID: pid, BaseSequence: w.seq[pid]}
	}
	w.clk.ms += 10
	w.put(pid, n, records(fmt.Sprint("p", pid, "-", w.clk.ms), n, o, w.clk.ms))
}

func (w *world) marker(pid int64, commit bool) {
	t := batch.ControlAbort
	if commit {
		t = batch.ControlCommit
	}
	bu := batch.NewBuilder(batch.BuildOptions{Transactional: true, Control: true, Producer: &batch.Producer{ID: pid, BaseSequence: -1}})
	m := batch.EndTxnMarker{CoordinatorEpoch: 1}
	bu.Add(batch.Record{Timestamp: w.clk.ms, Key: t.Key(), Value: m.AppendTo(nil)})
	w.put(-1, 1, bu.Build())
}

func (w *world) put(pid int64, n int, b batch.Batch) {
	w.trying = []piece{{b}}
	a, err := w.l.Append(b, AppendOptions{LeaderEpoch: max(w.l.LastEpoch(), kafka.Epoch(w.clk.ms/100%1000)), Now: w.clk.ms})
	if w.failed(err) {
		w.trying = nil
		return
	}
	if a.Duplicate {
		w.t.Fatalf("taken for a duplicate of %d-%d", a.First, a.Last)
	}
	w.pieces, w.trying = append(w.pieces, w.trying...), nil
	if pid >= 0 {
		w.seq[pid] += int32(n)
	}
	w.l.SetDeletionBound(w.l.LogEnd())
}

func (w *world) sync() {
	end, err := w.l.Sync()
	if w.failed(err) {
		return
	}
	w.kept = max(w.kept, end)
	w.point = max(w.point, w.l.RecoveryPoint())
}

func (w *world) truncate(to kafka.Offset) {
	w.kept = min(w.kept, to)
	for _, p := range w.pieces {
		if p.b.NextOffset() > to {
			w.kept = min(w.kept, p.b.BaseOffset()) // the batch that to lies in goes as a whole
			break
		}
	}
	if to < w.l.Segments()[0].BaseOffset {
		w.emptied = to
		w.start = min(w.start, to)
	}
	if w.failed(w.l.Truncate(to)) {
		return
	}
	for len(w.pieces) > 0 && (w.pieces[len(w.pieces)-1].b.NextOffset() > to || w.emptied >= 0) {
		w.pieces = w.pieces[:len(w.pieces)-1]
	}
	w.emptied, w.forgot = -1, true
	w.kept, w.start = min(w.kept, w.l.LogEnd()), min(w.start, w.l.LogStart())
	w.resetSequences()
}

func (w *world) truncateFully(at kafka.Offset) {
	w.kept, w.emptied = 0, at
	if w.failed(w.l.TruncateFullyAt(at)) {
		return
	}
	w.pieces, w.emptied, w.start, w.kept = nil, -1, at, at
	w.l.SetDeletionBound(at)
	w.resetSequences()
}

func (w *world) resetSequences() {
	clear(w.seq)
	for _, p := range w.l.Producers() {
		w.seq[p.ProducerID] = p.LastSequence + 1
	}
}

func (w *world) setStart(to kafka.Offset) {
	if !w.failed(w.l.SetLogStart(to)) {
		w.start = max(w.start, to)
	}
}

func (w *world) retain() {
	w.clk.ms += 10
	_, err := w.l.Retain(w.clk.now())
	if w.failed(err) {
		return
	}
	w.point = max(w.point, w.l.RecoveryPoint())
	w.start = max(w.start, w.l.LogStart())
	_, err = w.l.DeletePending(w.clk.now().Add(time.Hour))
	w.failed(err)
}

func (w *world) closeAndOpen() {
	err := w.l.Close()
	var summary []byte
	if err == nil {
		w.kept = w.l.LogEnd()
		summary, err = w.l.Summary()
	}
	if err != nil {
		w.fails++
	}
	if w.stops++; w.stops%2 == 0 {
		w.o.Summary = summary
	}
	w.reopen(err == nil)
	w.o.Summary = nil
	if err == nil && w.l.LogEnd() < w.kept {
		w.t.Fatalf("log end %d after a clean stop at %d", w.l.LogEnd(), w.kept)
	}
}

// script is the workload: everything that changes the disk, several times, in an order that mixes it.
func (w *world) script() {
	w.reopen(false)
	for round := range 3 {
		for i := range 9 {
			w.append(int64(1+i%2), 1+i%4, false)
			if i%4 == 3 {
				w.sync()
			}
		}
		w.append(7, 2, true)
		w.append(-1, 1, false)
		w.marker(7, round == 1)
		w.append(8, 1, true)
		w.marker(8, false)
		w.sync()
		w.append(1, 3, false)
		w.append(1, 2, false)
		w.truncate(w.l.LogEnd() - 4)
		w.append(2, 2, false)
		w.truncate(w.l.LogEnd() - 25)
		for range 6 {
			w.append(3, 2, false)
		}
		w.closeAndOpen()
		w.append(3, 1, false)
		w.setStart(w.l.LogStart() + 7)
		w.retain()
		w.append(2, 5, false)
		if round == 1 {
			w.truncateFully(w.l.LogEnd() + 10)
			for range 5 {
				w.append(4, 3, false)
			}
			w.sync()
		}
	}
	w.closeAndOpen()
	w.sync()
}

// open is Open, while a bug of recovery is at work.
func (w *world) open(o Options) (*Log, Recovery, error) {
	w.opening.Store(true)
	defer w.opening.Store(false)
	return Open(o)
}

// check opens a disk as a crash left it and compares it with what it has to hold.
func (w *world) check(mem *vfs.Mem, point kafka.Offset, what string) {
	t := w.t
	o := w.o
	o.on(w.recovered(mem))
	o.Clean = false
	o.RecoveryPoint, o.LogStart = point, w.start
	l, r, err := w.open(o)
	if err != nil {
		t.Fatalf("%s: open: %v", what, err)
	}
	w.compare(l, what)
	if l.SyncedEnd() != l.LogEnd() {
		t.Fatalf("%s: recovered up to %d, synced up to %d", what, l.LogEnd(), l.SyncedEnd())
	}
	end, producers := l.LogEnd(), l.Producers()
	l.Abandon()

	// What was recovered is durable, and a second recovery has nothing to do; but what an earlier one had cut off before it
	// was killed may be back, and is cut off again.
	cut := r.ScannedBytes > 0
	if cut {
		mem = mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 0)
	}
	o.on(w.recovered(mem))
	o.RecoveryPoint = point
	l, again, err := w.open(o)
	if err != nil {
		t.Fatalf("%s: open again: %v", what, err)
	}
	if again.TruncatedBytes != 0 && !cut || l.LogEnd() != end || !reflect.DeepEqual(l.Producers(), producers) {
		t.Fatalf("%s: first recovery %+v to %d, second %+v to %d", what, r, end, again, l.LogEnd())
	}
	from := max(r.From, again.From)
	w.compare(l, what+", second open")
	if _, err := l.Append(records("after", 2, batch.BuildOptions{}, startMs), AppendOptions{}); err != nil {
		t.Fatalf("%s: append after recovery: %v", what, err)
	}
	if err := l.Close(); err != nil {
		t.Fatalf("%s: close: %v", what, err)
	}
	checkIndexes(t, mem, o.Config, what)
	mem = mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 0) // a clean stop leaves nothing to lose
	o.on(w.recovered(mem))
	o.Clean = true
	if l, r, err = w.open(o); err != nil || l.LogEnd() != end+2 || r.ScannedBytes != 0 {
		t.Fatalf("%s: after a clean stop: end %d, %+v, %v", what, l.LogEnd(), r, err)
	}
	l.Abandon()
	for name, c := range verified(t, mem, true) {
		// Where a power cut has spoiled some of several snapshots, the last good one is as far as anybody looks.
		if offset, suffix, _ := parseName(name); c.bad() && !(suffix == snapshotSuffix && offset < from) {
			t.Fatalf("%s: verified: %s: %+v", what, name, c)
		}
	}
}

// compare checks that a recovered log is a prefix of what was appended and holds all that was synced.
func (w *world) compare(l *Log, what string) {
	t := w.t
	all := append(slices.Clone(w.pieces), w.trying...)
	if w.emptied >= 0 && l.LogStart() == l.LogEnd() && (l.LogEnd() == w.emptied || l.LogEnd() == w.start) {
		return // as it shall be, or all that is left is below the log start
	}
	if l.LogEnd() < w.kept {
		t.Fatalf("%s: log ends at %d, %d was synced", what, l.LogEnd(), w.kept)
	}
	first := l.Segments()[0].BaseOffset
	var want []byte
	var wantOffsets []kafka.Offset
	end := first
	for _, p := range all {
		if p.b.BaseOffset() >= first && p.b.NextOffset() <= l.LogEnd() {
			want = append(want, p.b...)
			end = p.b.NextOffset()
			wantOffsets = append(wantOffsets, p.b.BaseOffset())
		}
	}
	if len(wantOffsets) > 0 && wantOffsets[0] != first && !w.gaps || end != l.LogEnd() {
		t.Fatalf("%s: log [%d, %d) does not begin and end with batches: %v", what, first, l.LogEnd(), wantOffsets)
	}
	if l.LogStart() > max(first, w.start) || l.LogStart() < first {
		t.Fatalf("%s: log start %d, first segment %d, stored %d", what, l.LogStart(), first, w.start)
	}
	l.mu.Lock()
	l.logStart = first // look at the bytes before the log start too
	l.publishLocked()
	l.mu.Unlock()
	if got := readAll(t, l, first); !bytes.Equal(got, want) {
		t.Fatalf("%s: log holds %v, want %v", what, offsets(t, got), offsets(t, want))
	}
	if w.emptied < 0 { // else the snapshots have gone before the segments
		w.compareState(l, all, first, what)
	}
}

// compareState checks producers, epochs and aborted transactions against a replay of every batch that was ever appended.
func (w *world) compareState(l *Log, all []piece, first kafka.Offset, what string) {
	t := w.t
	type state struct {
		seq      int32
		last     kafka.Offset
		txnStart kafka.Offset
	}
	want := map[int64]state{}
	var aborted []AbortedTxn
	var es epochs
	for _, p := range all {
		if p.b.NextOffset() > l.LogEnd() {
			break
		}
		es = es.assign(p.b.LeaderEpoch(), p.b.BaseOffset())
		id := p.b.ProducerID()
		if id < 0 {
			continue
		}
		s, known := want[id]
		if !known {
			s = state{seq: -1, last: -1, txnStart: -1}
		}
		switch {
		case p.b.Control():
			m, err := endMarker(p.b)
			if err != nil {
				t.Fatal(err)
			}
			if !m.commit && s.txnStart >= 0 && p.b.BaseOffset() >= first {
				aborted = append(aborted, AbortedTxn{ProducerID: id, FirstOffset: s.txnStart, LastOffset: p.b.BaseOffset()})
			}
			s.txnStart = -1
		default:
			s.seq, s.last = p.b.LastSequence(), p.b.LastOffset()
			if p.b.Transactional() && s.txnStart < 0 {
				s.txnStart = p.b.BaseOffset()
			}
		}
		want[id] = s
	}
	got := map[int64]state{}
	for _, p := range l.Producers() {
		got[p.ProducerID] = state{seq: p.LastSequence, last: p.LastOffset, txnStart: p.TxnStart}
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s: producers %v, want %v", what, got, want)
	}
	found, err := l.AbortedTxns(0, math.MaxInt64)
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	for i := range found {
		found[i].LastStableOffset = 0
	}
	if !slices.Equal(found, aborted) {
		t.Fatalf("%s: aborted %v, want %v", what, found, aborted)
	}
	for _, p := range all {
		offset := p.b.LastOffset()
		if offset >= max(first, w.start) && offset < l.LogEnd() && l.EpochAt(offset) != es.at(offset) {
			t.Fatalf("%s: epoch at %d is %d, want %d; have %v", what, offset, l.EpochAt(offset), es.at(offset), l.bounds.Load().epochs)
		}
	}
}

// checkIndexes compares the index files of a cleanly closed log with those that its batches call for.
func checkIndexes(t tb, mem *vfs.Mem, c Config, what string) {
	t.Helper()
	entries, err := mem.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		base, suffix, ok := parseName(e.Name)
		if !ok || suffix != logSuffix {
			continue
		}
		l := &Log{fs: mem, files: NewFiles(mem, 7), dir: testDir, now: (&clock{}).now}
		l.SetConfig(c)
		a := l.newActive(base)
		content, err := vfs.ReadFile(mem, filepath.Join(testDir, e.Name))
		if err != nil {
			t.Fatal(err)
		}
		for len(content) > 0 {
			b, rest, err := batch.Next(content)
			if err != nil {
				t.Fatalf("%s: %s: %v", what, e.Name, err)
			}
			l.note(a, b, b.Size())
			content = rest
		}
		a.noteTime()
		for suffix, want := range map[string][]byte{indexSuffix: a.offset.tail, timeIndexSuffix: a.time.tail} {
			got, err := vfs.ReadFile(mem, filepath.Join(testDir, fileName(base, suffix)))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %s of segment %d holds %x, want %x (%v)", what, suffix, base, got, want, err)
			}
		}
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, tmpSuffix) || strings.HasSuffix(e.Name, swapSuffix) {
			t.Fatalf("%s: %s is left over", what, e.Name)
		}
	}
}

// TestCrashEverywhere: at every change of the disk the process is killed or the power fails, in several ways. Offsets go on without a
// hole or a repetition (KAFKA-3047, -6388, -6492, -10101).
func TestCrashEverywhere(t *testing.T) {
	few, many := smallConfig(), smallConfig()
	few.SegmentBytes, few.Preallocate = 100_000, true
	many.SegmentBytes, many.IndexIntervalBytes, many.MaxIndexBytes, many.Preallocate = 400, 0, 48, true
	for name, c := range map[string]Config{"segments of some batches": smallConfig(), "one segment": few, "many segments": many} {
		t.Run(name, func(t *testing.T) { crashEverywhere(t, c) })
	}
}

func crashEverywhere(t *testing.T, c Config) {
	crashes, states, again := crashStates(t, c, planted.None, nil)
	if crashes < 200 || again < 5 {
		t.Fatalf("only %d crash points and %d states in recovery: the script does too little", crashes, again)
	}
	t.Logf("%d crash states at %d operations, and in recovery after them %d", states, crashes, again)
}

// crashStates checks every crash state of the script, and some of the recovery after it. The bugs are those of the disk
// while the log lives, and of the disk that is recovered, which is told when that is.
func crashStates(t tb, c Config, bug planted.Bug, recoveryBug func(opening func() bool) planted.Bug) (crashes, states, again int) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	w := newWorld(t, mem, bug(fs), c)
	if recoveryBug != nil {
		w.recovered = recoveryBug(w.opening.Load)
	}
	cuts := thorough(4, 14)
	checkCrash := func(op vfs.Op) {
		rng := rand.New(rand.NewPCG(uint64(crashes), 1))
		here := 0
		for how, disk := range mem.Survivors(rng, cuts) {
			what := fmt.Sprintf("before #%d %v: %s", crashes, op, how)
			if here++; (crashes+here)%thorough(101, 61) == 0 {
				again += w.crashRecovery(disk.KillClone(), what)
			}
			w.check(disk, w.point, what)
		}
		states += here
	}
	fs.Hook = func(op vfs.Op) error {
		if !op.Kind.Mutates() || t.Failed() {
			return nil
		}
		crashes++
		apart(func() { checkCrash(op) })
		return nil
	}
	w.script()
	if w.fails != 0 {
		t.Fatalf("%d calls failed on a good disk", w.fails)
	}
	return crashes, states, again
}

// crashRecovery opens a disk as a crash left it and crashes again at every change that this makes. It returns how many
// different states that gave.
func (w *world) crashRecovery(mem *vfs.Mem, what string) (states int) {
	inject := vfs.NewInject(mem)
	fs := w.recovered(inject)
	changes := 0
	inject.Hook = func(op vfs.Op) error {
		if !op.Kind.Mutates() || w.t.Failed() {
			return nil
		}
		changes++
		apart(func() {
			for how, disk := range mem.Survivors(rand.New(rand.NewPCG(uint64(changes), 2)), 3) {
				states++
				w.check(disk, w.point, fmt.Sprintf("%s; and in recovery before #%d %v: %s", what, changes, op, how))
			}
		})
		return nil
	}
	o := w.o
	o.FS, o.Files, o.Clean, o.RecoveryPoint, o.LogStart = fs, NewFiles(fs, 7), false, w.point, w.start
	l, _, err := w.open(o)
	if err != nil {
		w.t.Fatalf("%s: open: %v", what, err)
	}
	l.Abandon()
	return states
}

// apart runs f in a goroutine of its own, so that a failed check ends that and not the caller, in the midst of its work.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// thorough returns how far to go at most: what is enough beside the code, or for a landing.
func thorough(normal, landing int) int {
	if effort := os.Getenv("MOLDAU_EFFORT"); effort == "ci" || effort == "night" {
		return landing
	}
	return normal
}

// TestErrorEverywhere: each operation of the disk fails once; somebody is told, the log holds exactly what it
// acknowledged, and a power cut at the end takes nothing of it. An index that fails between two appends leaves no offset twice
// (KAFKA-7866).
func TestErrorEverywhere(t *testing.T) {
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC, vfs.ShortWrite(20, syscall.ENOSPC)} {
		errorStates(t, cause, planted.None)
	}
}

func errorStates(t tb, cause error, bug planted.Bug) {
	count := func() int64 {
		mem := vfs.NewMem()
		fs := vfs.NewInject(mem)
		newWorld(t, mem, fs, smallConfig()).script()
		return fs.Count()
	}()
	silent := map[string]string{}
	for i := range count {
		mem := vfs.NewMem()
		var hit vfs.Op
		fs := vfs.NewInject(mem, func(op vfs.Op) error {
			if op.Index == i {
				hit = op
				return cause
			}
			return nil
		})
		w := newWorld(t, mem, bug(fs), smallConfig())
		w.script()
		what := fmt.Sprintf("%v at operation %d, %v", cause, i, hit)
		w.compare(w.l, what)
		exists, err := vfs.Exists(mem, hit.Path)
		if err != nil {
			t.Fatal(err)
		}
		if evicted := hit.Kind == vfs.OpSyncData && !exists; w.fails == 0 && !evicted { // and deleted before anybody asked
			silent[hit.Kind.String()+" "+filepath.Ext(hit.Path)] = what
		}
		w.l.Abandon()
		w.check(mem.CrashClone(rand.New(rand.NewPCG(1, uint64(i))), 0), w.point, what+", and a power cut")
	}
	// Nobody need know that an old snapshot stays, that closing a clean file failed, or that the recovery point
	// could not move because the disk was full.
	for kind, what := range silent {
		if !strings.HasPrefix(kind, "close ") && kind != "remove .snapshot" && kind != "remove .sequences" && !errors.Is(cause, syscall.ENOSPC) {
			t.Errorf("%s: went unnoticed", what)
		}
	}
}

// TestFullDisk: while the disk is full appends are refused and reads go on; with space again so do appends.
func TestFullDisk(t *testing.T) {
	mem := vfs.NewMem()
	full := false
	fs := vfs.NewInject(mem, func(op vfs.Op) error {
		if full && (op.Kind == vfs.OpWrite || op.Kind == vfs.OpCreate) {
			return vfs.ShortWrite(13, syscall.ENOSPC)
		}
		return nil
	})
	w := newWorld(t, mem, fs, smallConfig())
	w.reopen(false)
	for i := range 80 {
		full = i%20 >= 15
		w.append(1, 1+i%3, false)
		if i%5 == 0 {
			w.sync()
		}
	}
	if w.fails < 10 {
		t.Fatalf("%d appends failed", w.fails)
	}
	full = false
	w.append(1, 1, false)
	w.compare(w.l, "after the disk was full")
	w.check(mem.KillClone(), w.point, "killed after the disk was full")
}

// TestFailedSyncIsForGood: after a failed sync the log does nothing more, however good the disk is again: the kernel takes for written
// what it could not write (Rebello et al., ATC 2020).
func TestFailedSyncIsForGood(t *testing.T) {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	w := newWorld(t, mem, fs, smallConfig())
	w.reopen(false)
	w.append(1, 1, false)
	fs.SetRules(vfs.OnOp(vfs.OpSyncData, "*.log", syscall.EIO))
	if _, err := w.l.Sync(); !errors.Is(err, kerr.KafkaStorageError) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("sync: %v", err)
	}
	fs.SetRules()
	_, syncErr := w.l.Sync()
	_, appendErr := w.l.Append(records("x", 1, batch.BuildOptions{}, startMs), AppendOptions{})
	_, readErr := w.l.Read(0, ReadOptions{MaxBytes: 100, UpTo: 1})
	_, retainErr := w.l.Retain(w.clk.now())
	for _, err := range []error{syncErr, appendErr, readErr, retainErr, w.l.Truncate(0), w.l.SetLogStart(0)} {
		if !errors.Is(err, kerr.KafkaStorageError) {
			t.Fatalf("a failed log answers %v", err)
		}
	}
	if w.l.SyncedEnd() != 0 {
		t.Fatalf("synced end %d", w.l.SyncedEnd())
	}
}

// TestFailedTruncation: a log whose end was cut when a disk error came is left alone, also by a leader's epoch that begins before its
// replica has heard of the error. Readers go on seeing what was there.
func TestFailedTruncation(t *testing.T) {
	count := 0
	for failing := int64(0); ; failing++ {
		mem := vfs.NewMem()
		fs := vfs.NewInject(mem)
		l, _ := mustOpen(t, testOptions(fs, smallConfig()))
		for epoch := range int32(3) {
			if _, err := l.Append(records("e", 4, batch.BuildOptions{}, startMs), AppendOptions{LeaderEpoch: epoch}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := l.Sync(); err != nil {
			t.Fatal(err)
		}
		fs.SetRules(vfs.OnIndex(fs.Count()+failing, syscall.EIO))
		err := l.Truncate(8)
		if err == nil {
			l.Abandon()
			break
		}
		count++
		before := l.Bounds()
		l.AssignEpochStart(7, l.LogEnd())
		if l.Bounds() != before {
			t.Fatalf("after %v the log goes on", err)
		}
		l.Abandon()
	}
	if count < 4 {
		t.Fatalf("%d operations of a truncation can fail", count)
	}
}

// TestTruncateOnFullDisk: a disk that is full when a log is to be cut is no failure of the log. Either it is cut, or it is as it was and
// can be cut when there is space again; a restart in between finds what there is.
func TestTruncateOnFullDisk(t *testing.T) {
	for name, full := range map[string]func(op vfs.Op) bool{
		"data":   func(op vfs.Op) bool { return op.Kind == vfs.OpWrite || op.Kind == vfs.OpAllocate },
		"inodes": func(op vfs.Op) bool { return op.Kind == vfs.OpCreate },
		"the folder": func(op vfs.Op) bool {
			return op.Kind == vfs.OpCreate || op.Kind == vfs.OpRename && len(op.To) > len(op.Path)
		},
		"longer names": func(op vfs.Op) bool { return op.Kind == vfs.OpRename && len(op.To) > len(op.Path) },
		"names of a new segment": func(op vfs.Op) bool {
			return op.Kind == vfs.OpRename && strings.HasSuffix(op.Path, logSuffix+tmpSuffix)
		},
	} {
		t.Run(name, func(t *testing.T) { truncateOnFullDisk(t, full, name == "names of a new segment") })
	}
}

// truncateOnFullDisk does so on a disk that is full for some of what is asked of it; once says that it has space again afterwards.
func truncateOnFullDisk(t *testing.T, fullFor func(op vfs.Op) bool, once bool) {
	for name, cut := range map[string]func(w *world){
		"in the active segment": func(w *world) { w.truncate(w.l.LogEnd() - 1) },
		"to nothing unsynced":   func(w *world) { w.truncate(w.l.SyncedEnd()) },
		"segments":              func(w *world) { w.truncate(w.l.Segments()[1].BaseOffset + 1) },
		"all":                   func(w *world) { w.truncateFully(500) },
		"before all":            func(w *world) { w.truncateFully(1000); w.append(1, 3, false); w.truncate(10) },
	} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewMem()
			full := false
			fs := vfs.NewInject(mem, func(op vfs.Op) error {
				if full && fullFor(op) {
					full = !once
					return vfs.ShortWrite(3, syscall.ENOSPC)
				}
				return nil
			})
			c := smallConfig()
			c.Preallocate = name == "all"
			w := newWorld(t, mem, fs, c)
			w.reopen(false)
			for i := range 60 {
				w.append(1, 1+i%3, false)
				if i == 40 {
					w.sync()
				}
			}
			l := w.l
			full = true
			cut(w)
			if w.l != l {
				t.Fatal("the log has failed")
			}
			w.compare(l, "on a full disk")
			w.check(mem.CrashClone(rand.New(rand.NewPCG(1, 1)), 1), w.point, "killed on a full disk")
			full = false
			if fails := w.fails; fails > 0 {
				cut(w)
				if w.fails > fails {
					t.Fatal("not cut with space either")
				}
			}
			w.append(1, 1, false)
			w.sync()
			w.compare(w.l, "after the disk was full")
			w.check(mem.CrashClone(rand.New(rand.NewPCG(1, 2)), 0), w.point, "a power cut after the disk was full")
		})
	}
}
