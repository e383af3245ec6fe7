package commitlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// compactionRun is a log that is compacted again and again, and what may be found of it after a crash at any moment.
type compactionRun struct {
	*keyedLog
	fs     *vfs.Inject
	old    []said // what is there before the compaction that is going on
	left   []said // what it leaves
	logEnd kafka.Offset
	known  map[int64]ProducerState
	point  kafka.Offset
}

func newCompactionRun(t *testing.T, c Config) *compactionRun {
	mem := vfs.NewMem()
	fs := vfs.NewInject(mem)
	return &compactionRun{keyedLog: newKeyedLog(t, mem, fs, c), fs: fs}
}

// script appends, and calls compact when all is synced.
func (r *compactionRun) script(compact func()) {
	for round := range 3 {
		r.clk.ms += 600
		for i := range 8 {
			value := fmt.Sprintf("=round %d value %d", round, i)
			r.append(int64(i%2), false, batch.Codec(i%5), fmt.Sprint("a", i%3)+value, fmt.Sprint("b", i)+value, fmt.Sprint("c", i%4))
		}
		r.append(7, true, batch.None, "a1=in a transaction", "d=only there")
		r.append(-1, false, batch.None, "e=between")
		r.end(7, round == 1)
		r.append(8, true, batch.LZ4, "f=aborted")
		r.end(8, false)
		r.append(9, false, batch.None, "g=by a producer that is heard of no more")
		if err := r.l.AdvanceRecoveryPoint(); err != nil {
			r.t.Fatal(err)
		}
		compact()
	}
}

// predict notes what a compaction now finds and leaves.
func (r *compactionRun) predict() {
	todo, err := r.l.Compactable(r.clean, r.clk.now())
	if err != nil {
		r.t.Fatal(err)
	}
	next := *r.keyedLog
	next.all = slices.Clone(r.all)
	next.expect(r.l.Segments(), todo.End)
	r.old, r.left = slices.Clone(r.all), next.all
	r.logEnd, r.known, r.point = r.l.LogEnd(), sequencesOf(r.l), r.l.RecoveryPoint()
}

// checkFound says whether a log holds what it may hold in the midst of a compaction: no record that has not been there,
// and each that shall stay.
func (r *compactionRun) checkFound(l *Log, what string) {
	r.t.Helper()
	found := map[kafka.Offset]said{}
	for _, f := range r.records(l) {
		found[f.offset] = f
	}
	plain := func(s said) said {
		s.seenMs, s.aborted = 0, false
		return s
	}
	for _, s := range r.left {
		if f, ok := found[s.offset]; !s.control && s.offset < l.LogEnd() && (!ok || f != plain(s)) {
			r.t.Fatalf("%s: offset %d holds %+v, want %+v", what, s.offset, f, s)
		}
	}
	for _, s := range r.old {
		if f, ok := found[s.offset]; ok && f != plain(s) {
			r.t.Fatalf("%s: offset %d holds %+v, want %+v", what, s.offset, f, s)
		}
		delete(found, s.offset)
	}
	if len(found) > 0 {
		r.t.Fatalf("%s: %v was never there", what, found)
	}
}

// recover opens a disk as a crash left it.
func (r *compactionRun) recover(mem *vfs.Mem, fs vfs.FS, point kafka.Offset, what string) {
	r.t.Helper()
	o := r.o
	o.FS, o.Files, o.RecoveryPoint = fs, NewFiles(fs, 9), point
	l, report, err := Open(o)
	if err != nil {
		r.t.Fatalf("%s: %v", what, err)
	}
	if report.TruncatedBytes != 0 || l.LogEnd() != r.logEnd || !reflect.DeepEqual(sequencesOf(l), r.known) {
		r.t.Fatalf("%s: %+v, log end %d, want %d; producers %v, want %v", what, report, l.LogEnd(), r.logEnd, sequencesOf(l), r.known)
	}
	r.checkFound(l, what)
	if err := l.Close(); err != nil {
		r.t.Fatalf("%s: close: %v", what, err)
	}
	checkIndexes(r.t, mem, o.Config, what)
	wantVerified(r.t, mem, true, what)
	entries, err := mem.List(testDir)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, cleanedSuffix) || strings.HasSuffix(e.Name, deletedSuffix) {
			r.t.Fatalf("%s: %s is left", what, e.Name)
		}
	}
}

// TestCompactionCrashEverywhere: at every change of the disk by a compaction, and by the recovery after it, the process
// is killed or the power fails.
func TestCompactionCrashEverywhere(t *testing.T) {
	c := compactedConfig()
	r := newCompactionRun(t, c)
	crashes, states, again := 0, 0, 0
	on := false
	check := func(op vfs.Op) {
		rng := rand.New(rand.NewPCG(uint64(crashes), 1))
		here := 0
		for how, mem := range r.mem.Survivors(rng, thorough(8, 25)) {
			here++
			what := fmt.Sprintf("before #%d %v: %s", crashes, op, how)
			second := vfs.NewInject(mem)
			n := 0
			second.Hook = func(op vfs.Op) error {
				if n++; op.Kind.Mutates() && n < 40 && here == 2 {
					for how, mem := range mem.Survivors(rng, 2) {
						again++
						r.recover(mem, mem, 0, fmt.Sprintf("%s; and again before %v: %s", what, op, how))
					}
				}
				return nil
			}
			point := r.point
			if here%2 == 1 {
				point = 0 // somebody has an old one
			}
			r.recover(mem, second, point, what)
		}
		states += here
	}
	r.fs.Hook = func(op vfs.Op) error {
		if !on || !op.Kind.Mutates() || t.Failed() {
			return nil
		}
		crashes++
		apart(func() { check(op) })
		return nil
	}
	r.script(func() {
		r.predict()
		on = true
		done, err := r.compact(1000)
		on = false
		if err != nil || done.SegmentsNew == 0 {
			t.Fatalf("%+v, %v", done, err)
		}
		r.keyedLog.check(r.l, "at the end")
	})
	if crashes < 100 || again < 100 {
		t.Fatalf("%d crash points and %d in recovery: too few", crashes, again)
	}
	t.Logf("%d crash states at %d operations, and in recovery after them %d", states, crashes, again)
}

// TestCompactionErrorEverywhere: each operation of a compaction fails once. Either the log goes on, and the next
// compaction does the work, or it has failed, and holds the same when it is opened again.
func TestCompactionErrorEverywhere(t *testing.T) {
	count := func() (n int64) {
		r := newCompactionRun(t, compactedConfig())
		r.script(func() {
			before := r.fs.Count()
			if _, err := r.compact(1000); err != nil {
				t.Fatal(err)
			}
			n += r.fs.Count() - before
		})
		return n
	}()
	for _, cause := range []error{syscall.EIO, syscall.ENOSPC, vfs.ShortWrite(20, syscall.ENOSPC)} {
		silent := map[string]string{}
		failed, went := 0, 0
		step := int64(2)
		if cause != syscall.EIO {
			step = 7
		}
		for i := int64(0); i < count; i += step {
			r := newCompactionRun(t, compactedConfig())
			var hit vfs.Op
			var seen int64
			r.script(func() {
				r.predict()
				var was int64
				r.fs.SetRules(func(op vfs.Op) error {
					if seen++; seen == i+1 {
						was, hit = op.Index, op
						return cause
					}
					return nil
				})
				_, err := r.compact(1000)
				r.fs.SetRules()
				what := fmt.Sprintf("%v at operation %d, %v: %v", cause, i, hit, err)
				switch {
				case err == nil && was > 0:
					silent[hit.Kind.String()] = what
				case err != nil && !errors.Is(err, cause) && !errors.Is(err, syscall.ENOSPC):
					t.Fatalf("%s: the cause is lost", what)
				}
				if err == nil {
					return
				}
				if errors.Is(err, kerr.KafkaStorageError) {
					failed++
					r.l.Abandon()
					r.o.RecoveryPoint = r.point
					r.l, _ = mustOpen(t, r.o)
					r.l.SetDeletionBound(r.l.LogEnd())
				} else {
					went++
				}
				if r.l.LogEnd() != r.logEnd || !reflect.DeepEqual(sequencesOf(r.l), r.known) {
					t.Fatalf("%s: log end %d, want %d", what, r.l.LogEnd(), r.logEnd)
				}
				r.checkFound(r.l, what)
				// Groups before the failure may have been swapped in: their tombstones were looked at twice then.
				r.clk.ms -= 500
				if _, err := r.compact(1000); err != nil {
					t.Fatalf("%s: and the next: %v", what, err)
				}
				r.clk.ms += 500
				r.keyedLog.check(r.l, what)
				mem := r.mem.CrashClone(rand.New(rand.NewPCG(1, uint64(i))), 0)
				r.left, r.old = r.all, r.all
				r.recover(mem, mem, r.point, what)
			})
		}
		for kind, what := range silent {
			if kind != "close" && !(kind == "rename" && errors.Is(cause, syscall.ENOSPC)) { // an old file for whose new name there is no room is removed
				t.Errorf("%s: went unnoticed", what)
			}
		}
		if failed == 0 || went == 0 {
			t.Errorf("%v: the log failed %d times and went on %d times", cause, failed, went)
		}
	}
}

// TestCompactionStopsAtTheStoredRecoveryPoint: whoever opens the log after a crash knows an earlier recovery point than the log
// itself, and has to find it between two batches.
func TestCompactionStopsAtTheStoredRecoveryPoint(t *testing.T) {
	r := newCompactionRun(t, compactedConfig())
	r.o.StoresRecoveryPoint = true
	r.reopen(true)
	fill := func(round int) {
		for i := range 20 {
			r.append(int64(i%2), false, batch.None, fmt.Sprint("a", i%3, "=round ", round, " value ", i))
		}
		if err := r.l.AdvanceRecoveryPoint(); err != nil {
			t.Fatal(err)
		}
	}
	fill(0)
	stored := r.l.RecoveryPoint()
	r.l.RecoveryPointStored(stored)
	fill(1)
	fill(2)
	if _, err := r.compact(100); err != nil {
		t.Fatal(err)
	}
	if r.clean == 0 {
		t.Fatal("nothing was compacted")
	}
	mem := r.mem.KillClone()
	o := r.o
	o.FS, o.Files, o.RecoveryPoint, o.Clean = mem, NewFiles(mem, 9), stored, false
	l, report := mustOpen(t, o)
	defer l.Abandon()
	if report.TruncatedBytes > 0 || l.LogEnd() != r.l.LogEnd() {
		t.Errorf("recovered %+v, to %d of %d", report, l.LogEnd(), r.l.LogEnd())
	}
	r.check(l, "opened at the stored recovery point")
	r.l.Abandon()
}
