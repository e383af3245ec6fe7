package quorum

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metrics"
	"moldau/internal/vfs"
)

// recorder is a Listener whose state is the list of all record values.
type recorder struct {
	mu     sync.Mutex
	state  []string
	id     SnapshotID // of the state
	calls  []string
	leads  kafka.Epoch   // -1: does not lead
	gate   chan struct{} // if set, Commit waits for it to be closed
	refuse error
}

func (r *recorder) Snapshot(id SnapshotID, timestamp int64, records iter.Seq2[[]byte, error]) error {
	var state []string
	for v, err := range records {
		if err != nil {
			return err
		}
		state = append(state, string(v))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state, r.id = state, id
	r.calls = append(r.calls, fmt.Sprintf("snapshot %d-%d of %d", id.EndOffset, id.Epoch, len(state)))
	return nil
}

func (r *recorder) Commit(base kafka.Offset, epoch kafka.Epoch, timestamp int64, records [][]byte) error {
	r.mu.Lock()
	gate := r.gate
	r.mu.Unlock()
	if gate != nil {
		<-gate
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return r.refuse
	}
	if base < r.id.EndOffset || epoch < r.id.Epoch {
		return fmt.Errorf("batch %d of epoch %d after %v", base, epoch, r.id)
	}
	r.id = SnapshotID{EndOffset: base + int64(len(records)), Epoch: epoch}
	var values []string
	for _, v := range records {
		if string(v) != string(noOpRecord()) {
			values = append(values, string(v))
		}
	}
	r.state = append(r.state, values...)
	if len(values) > 0 {
		r.calls = append(r.calls, fmt.Sprintf("commit %d e%d %s", base, epoch, strings.Join(values, " ")))
	}
	return nil
}

func (r *recorder) Lead(epoch kafka.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = epoch
	r.calls = append(r.calls, fmt.Sprintf("lead %d", epoch))
}

func (r *recorder) Resign(epoch kafka.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leads = -1
	r.calls = append(r.calls, fmt.Sprintf("resign %d", epoch))
}

func (r *recorder) leading() (kafka.Epoch, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leads, r.leads >= 0
}

// snapshot returns the state and its id.
func (r *recorder) snapshot() (SnapshotID, [][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var values [][]byte
	for _, v := range r.state {
		values = append(values, []byte(v))
	}
	return r.id, values
}

func (r *recorder) heard() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

func testOptions(disk vfs.FS, l Listener) Options {
	return Options{
		FS: disk, Dir: "/meta", NodeID: 3, DirID: kafka.DirID{5: 5, 11: 1}, Listener: l,
		Endpoints: []Endpoint{{Name: "CONTROLLER", Host: "localhost", Port: 9093}},
		Voters:    []Voter{{ID: 3, DirID: kafka.DirID{5: 5, 11: 1}, Endpoints: []Endpoint{{Name: "CONTROLLER", Host: "localhost", Port: 9093}}}},
		Now:       time.Now, Logger: slog.New(slog.DiscardHandler),
		SegmentBytes: 1 << 20, SegmentMs: 1 << 40, SnapshotMaxBytes: 1 << 30, RetentionBytes: -1, RetentionMs: -1,
	}
}

func newDisk(t *testing.T) *vfs.Mem {
	t.Helper()
	disk := vfs.NewMem()
	if err := disk.MkdirAll("/meta"); err != nil {
		t.Fatal(err)
	}
	if err := disk.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	return disk
}

// start opens a quorum, waits until it leads, and stops it with the test. It runs in a synctest bubble.
func start(t *testing.T, disk vfs.FS, change ...func(*Options)) (*Quorum, *recorder, kafka.Epoch) {
	t.Helper()
	r := &recorder{leads: -1}
	o := testOptions(disk, r)
	for _, c := range change {
		c(&o)
	}
	q, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	q.Start()
	t.Cleanup(func() {
		if err := q.Stop(); err != nil && q.Err() == nil {
			t.Errorf("stop: %v", err)
		}
	})
	synctest.Wait()
	epoch, ok := r.leading()
	if !ok {
		t.Fatalf("does not lead; heard %v; %v", r.heard(), q.Err())
	}
	return q, r, epoch
}

func stop(t *testing.T, q *Quorum) {
	t.Helper()
	if err := q.Stop(); err != nil {
		t.Fatal(err)
	}
}

func values(v ...string) (records [][]byte) {
	for _, s := range v {
		records = append(records, []byte(s))
	}
	return records
}

// propose proposes one batch and waits for its end.
func propose(t *testing.T, q *Quorum, epoch kafka.Epoch, v ...string) kafka.Offset {
	t.Helper()
	last, done, err := q.Propose(epoch, values(v...))
	if err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return last
}

func takeSnapshot(t *testing.T, q *Quorum, r *recorder) SnapshotID {
	t.Helper()
	id, state := r.snapshot()
	if err := q.WriteSnapshot(id, emitAll(state)); err != nil {
		t.Fatal(err)
	}
	return id
}

func wantCalls(t *testing.T, r *recorder, want ...string) {
	t.Helper()
	if got := r.heard(); !slices.Equal(got, want) {
		t.Errorf("the listener heard\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// logLines describes the batches of the log.
func logLines(t *testing.T, q *Quorum) (lines []string) {
	t.Helper()
	err := q.store.eachBatch(q.store.log.LogStart(), q.store.log.LogEnd(), func(b batch.Batch) error {
		line := fmt.Sprintf("%d e%d", b.BaseOffset(), b.LeaderEpoch())
		err := b.Each(func(r batch.Record) error {
			if !b.Control() {
				line += fmt.Sprintf(" %q", r.Value)
				return nil
			}
			kind, _, err := batch.ParseControl(r)
			line += " " + kind.String()
			return err
		})
		lines = append(lines, line)
		return errors.Join(err, b.VerifyCRC())
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// TestSoleVoterLeadsAtOnce: a new disk gets a log of one voter, which leads without waiting for anything.
func TestSoleVoterLeadsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		q, r, epoch := start(t, newDisk(t))
		if time.Since(began) != 0 {
			t.Errorf("took %v", time.Since(began))
		}
		wantCalls(t, r, "snapshot 0-0 of 0", "lead 1")
		want := []string{`0 e1 "\x01\x14\x00\x00"`, "1 e1 LEADER_CHANGE KRAFT_VERSION KRAFT_VOTERS"}
		if got := logLines(t, q); !slices.Equal(got, want) {
			t.Errorf("the log holds %q", got)
		}
		s := q.Status()
		if s.LeaderID != 3 || s.Epoch != epoch || s.HighWatermark != 4 || s.LogEnd != 4 || s.LogStart != 0 ||
			len(s.Voters) != 1 || s.Voters[0].ID != 3 || s.Voters[0].LogEnd != 4 || s.Voters[0].LastCaughtUpMs != began.UnixMilli() ||
			len(s.VoterSet) != 1 || s.VoterSet[0].Endpoints[0].Port != 9093 || len(s.Observers) != 0 {
			t.Errorf("status %+v", s)
		}
	})
}

// TestMetrics: what an operator watches moves with the log.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := metrics.NewSet()
		q, _, epoch := start(t, newDisk(t), func(o *Options) { o.Metrics = set })
		propose(t, q, epoch, "a", "b")
		families, err := set.Gatherer().Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			got[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
		for name, want := range map[string]float64{
			"moldau_metadata_log_end_offset": 6, "moldau_metadata_high_watermark": 6, "moldau_metadata_leader_epoch": 1,
			"moldau_metadata_appended_batches_total": 3, "moldau_metadata_append_seconds": 2,
		} {
			if got[name] != want {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
		if got["moldau_metadata_appended_bytes_total"] == 0 {
			t.Error("no bytes counted")
		}
	})
}

// TestRestart: everything committed is delivered again, once and in order, and the epoch grows.
func TestRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, r, epoch := start(t, disk)
		propose(t, q, epoch, "a", "b")
		propose(t, q, epoch, "c")
		wantCalls(t, r, "snapshot 0-0 of 0", "lead 1", "commit 4 e1 a b", "commit 6 e1 c")
		stop(t, q)
		wantCalls(t, r, "snapshot 0-0 of 0", "lead 1", "commit 4 e1 a b", "commit 6 e1 c", "resign 1")

		q, r, epoch = start(t, disk)
		propose(t, q, epoch, "d")
		wantCalls(t, r, "snapshot 0-0 of 0", "commit 4 e1 a b", "commit 6 e1 c", "lead 2", "commit 9 e2 d")
		want := []string{`0 e1 "\x01\x14\x00\x00"`, "1 e1 LEADER_CHANGE KRAFT_VERSION KRAFT_VOTERS", `4 e1 "a" "b"`, `6 e1 "c"`,
			`7 e2 "\x01\x14\x00\x00"`, "8 e2 LEADER_CHANGE", `9 e2 "d"`}
		if got := logLines(t, q); !slices.Equal(got, want) {
			t.Errorf("the log holds %q", got)
		}
	})
}

// TestGroupCommit: proposals that arrive while a sync runs share the next one, keep their order, and get the offsets that
// were promised.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewInject(newDisk(t))
		var mu sync.Mutex
		var gate chan struct{}
		syncs := 0
		disk.Hook = func(op vfs.Op) error {
			if op.Kind != vfs.OpSyncData && op.Kind != vfs.OpSync || filepath.Ext(op.Path) != ".log" {
				return nil
			}
			mu.Lock()
			syncs++
			g := gate
			mu.Unlock()
			if g != nil {
				<-g
			}
			return nil
		}
		q, r, epoch := start(t, disk)
		mu.Lock()
		syncs, gate = 0, make(chan struct{})
		mu.Unlock()
		var results []<-chan error
		for i := range 50 {
			last, done, err := q.Propose(epoch, values(fmt.Sprint(i), "x"))
			if err != nil || last != kafka.Offset(4+2*i+1) {
				t.Fatalf("proposal %d: last offset %d, %v", i, last, err)
			}
			results = append(results, done)
			if i == 0 {
				synctest.Wait() // the first one is in its sync
			}
		}
		synctest.Wait()
		for _, done := range results {
			if len(done) > 0 {
				t.Fatal("a proposal ended before its sync")
			}
		}
		close(gate)
		synctest.Wait()
		for i, done := range results {
			if err := <-done; err != nil {
				t.Fatalf("proposal %d: %v", i, err)
			}
		}
		if syncs != 2 {
			t.Errorf("%d syncs for 50 proposals, want 2", syncs)
		}
		var want []string
		for i := range 50 {
			want = append(want, fmt.Sprint(i), "x")
		}
		if _, got := r.snapshot(); len(got) != 100 || !slices.EqualFunc(got, want, func(a []byte, b string) bool { return string(a) == b }) {
			t.Errorf("delivered %q", got)
		}
	})
}

// TestRefusals: a proposal that cannot be is an error at once and leaves no trace.
func TestRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r, epoch := start(t, newDisk(t))
		if _, _, err := q.Propose(epoch-1, values("a")); !errors.Is(err, ErrNotLeader) || !errors.Is(err, kerr.NotController) {
			t.Errorf("old epoch: %v", err)
		}
		if _, _, err := q.Propose(epoch+1, values("a")); !errors.Is(err, ErrNotLeader) {
			t.Errorf("epoch to come: %v", err)
		}
		if _, _, err := q.Propose(epoch, values(strings.Repeat("x", MaxBatchBytes))); !errors.Is(err, kerr.MessageTooLarge) {
			t.Errorf("large: %v", err)
		}
		if last := propose(t, q, epoch, strings.Repeat("x", MaxBatchBytes-100)); last != 4 {
			t.Errorf("the largest batch is at %d", last)
		}
		r.mu.Lock()
		r.gate = make(chan struct{})
		r.mu.Unlock()
		var done []<-chan error
		for {
			_, d, err := q.Propose(epoch, values(strings.Repeat("x", MaxBatchBytes/2)))
			if errors.Is(err, ErrBusy) {
				break
			}
			if err != nil || len(done) > 100 {
				t.Fatalf("proposal %d: %v", len(done), err)
			}
			done = append(done, d)
		}
		close(r.gate)
		for _, d := range done {
			if err := <-d; err != nil {
				t.Fatal(err)
			}
		}
		propose(t, q, epoch, "again")
		stop(t, q)
		if _, _, err := q.Propose(epoch, values("a")); !errors.Is(err, ErrStopped) || !errors.Is(err, kerr.NotController) {
			t.Errorf("after stop: %v", err)
		}
	})
}

// TestStopEndsProposals: whoever waits for a proposal learns that its end is not known.
func TestStopEndsProposals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r, epoch := start(t, newDisk(t))
		r.mu.Lock()
		r.gate = make(chan struct{})
		r.mu.Unlock()
		_, first, err := q.Propose(epoch, values("a"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_, second, err := q.Propose(epoch, values("b"))
		if err != nil {
			t.Fatal(err)
		}
		changed := q.Changed()
		stopped := make(chan error)
		go func() { stopped <- q.Stop() }()
		synctest.Wait()
		close(r.gate)
		if err := <-stopped; err != nil {
			t.Fatal(err)
		}
		if err := <-first; err != nil {
			t.Errorf("delivered proposal: %v", err)
		}
		if err := <-second; err != nil && !errors.Is(err, ErrStopped) {
			t.Errorf("proposal in flight: %v", err)
		}
		<-changed
		<-q.Changed()
	})
}

// TestListenerRefuses: a record that the listener cannot take ends the quorum and tells why.
func TestListenerRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, r, epoch := start(t, newDisk(t))
		r.mu.Lock()
		r.refuse = errors.New("no such record type")
		r.mu.Unlock()
		_, done, err := q.Propose(epoch, values("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, r.refuse) {
			t.Errorf("the proposal ended with %v", err)
		}
		<-q.Failed()
		if err := q.Err(); !errors.Is(err, r.refuse) || !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("the quorum failed with %v", err)
		}
		synctest.Wait()
		wantCalls(t, r, "snapshot 0-0 of 0", "lead 1", "resign 1")
		if _, _, err := q.Propose(epoch, values("b")); !errors.Is(err, r.refuse) {
			t.Errorf("proposal afterwards: %v", err)
		}
	})
}

// TestEndpointsFollowTheNode: a voter that listens elsewhere than before says so in the voter set, and only then.
func TestEndpointsFollowTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, _, _ := start(t, disk)
		stop(t, q)
		moved := func(o *Options) { o.Endpoints = []Endpoint{{Name: "CONTROLLER", Host: "localhost", Port: 40000}} }
		q, r, epoch := start(t, disk, moved)
		synctest.Wait()
		if got := q.Status().VoterSet[0].Endpoints[0].Port; got != 40000 {
			t.Errorf("the voter set says port %d", got)
		}
		// The commit index was stored before the change came into force: of the entries 2 to 6, the change is the last.
		if commit, err := readCommit(disk, "/meta/__cluster_metadata-0"); commit != 6 || err != nil {
			t.Errorf("quorum-commit holds %d, %v", commit, err)
		}
		if last := propose(t, q, epoch, "a"); last != 7 {
			t.Errorf("a record after the voter change is at %d, log %q", last, logLines(t, q))
		}
		id := takeSnapshot(t, q, r)
		stop(t, q)

		q, _, _ = start(t, disk, moved)
		want := []string{`4 e2 "\x01\x14\x00\x00"`, "5 e2 LEADER_CHANGE", "6 e2 KRAFT_VOTERS", `7 e2 "a"`, `8 e3 "\x01\x14\x00\x00"`, "9 e3 LEADER_CHANGE"}
		if got := logLines(t, q); !slices.Equal(got[len(got)-len(want):], want) {
			t.Errorf("the log holds %q", got)
		}
		if s := q.Status(); s.VoterSet[0].Endpoints[0].Port != 40000 || s.LatestID != id {
			t.Errorf("status %+v", s)
		}
	})
}

// TestOtherVoter: a log of another voter is not taken over, and a wiped disk is not its old self.
func TestOtherVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, _, _ := start(t, disk)
		stop(t, q)
		for name, change := range map[string]func(*Options){
			"node id":      func(o *Options) { o.NodeID = 4 },
			"directory id": func(o *Options) { o.DirID = kafka.DirID{1} },
		} {
			o := testOptions(disk, &recorder{})
			change(&o)
			if _, err := Open(o); err == nil || !strings.Contains(err.Error(), "voter") {
				t.Errorf("other %s: %v", name, err)
			}
		}
	})
}

// TestStopAtAnyTime: before the start, right after it, and twice.
func TestStopAtAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		for i := range 3 {
			r := &recorder{leads: -1}
			q, err := Open(testOptions(disk, r))
			if err != nil {
				t.Fatal(err)
			}
			if i > 0 {
				q.Start()
			}
			stop(t, q)
			stop(t, q)
			if _, leads := r.leading(); leads {
				t.Errorf("leads after the stop; heard %v", r.heard())
			}
			if _, _, err := q.Propose(1, values("a")); !errors.Is(err, ErrStopped) {
				t.Errorf("proposal after the stop: %v", err)
			}
		}
		_, _, epoch := start(t, disk)
		if epoch > 3 {
			t.Errorf("epoch %d", epoch)
		}
	})
}

// TestFullDisk: changes wait while the disk is full, and go on by themselves.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		inject := vfs.NewInject(disk)
		q, r, epoch := start(t, inject)
		inject.SetRules(vfs.OnOp(vfs.OpWrite, "*.log", vfs.ShortWrite(20, syscall.ENOSPC)))
		var waiting []<-chan error
		for i := range 3 {
			_, done, err := q.Propose(epoch, values(fmt.Sprint(i)))
			if err != nil {
				t.Fatal(err)
			}
			waiting = append(waiting, done)
		}
		time.Sleep(10 * time.Second)
		for i, done := range waiting {
			if len(done) > 0 {
				t.Fatalf("proposal %d ended on a full disk: %v", i, <-done)
			}
		}
		if err := q.Err(); err != nil {
			t.Fatal(err)
		}
		inject.SetRules()
		for i, done := range waiting {
			if err := <-done; err != nil {
				t.Fatalf("proposal %d: %v", i, err)
			}
		}
		wantCalls(t, r, "snapshot 0-0 of 0", "lead 1", "commit 4 e1 0", "commit 5 e1 1", "commit 6 e1 2")

		inject.SetRules(vfs.OnOp(vfs.OpWrite, "*.log", syscall.ENOSPC))
		_, done, err := q.Propose(epoch, values("lost"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		stop(t, q) // does not wait for space
		if err := <-done; !errors.Is(err, ErrStopped) {
			t.Errorf("proposal in flight: %v", err)
		}
	})
}

// TestFullDiskOfAVoterChange: a voter set waits for space too before it comes into force.
func TestFullDiskOfAVoterChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, _, _ := start(t, disk)
		stop(t, q)
		inject := vfs.NewInject(disk)
		inject.SetRules(vfs.OnOp(vfs.OpWrite, "*"+commitFile+tmpSuffix, syscall.ENOSPC))
		moved := func(o *Options) { o.Endpoints = []Endpoint{{Name: "CONTROLLER", Host: "localhost", Port: 40000}} }
		q, _, epoch := start(t, inject, moved)
		time.Sleep(10 * time.Second)
		if err := q.Err(); err != nil {
			t.Fatal(err)
		}
		if got := q.Status().VoterSet[0].Endpoints[0].Port; got == 40000 {
			t.Error("the voter set is in force, and no disk knows")
		}
		inject.SetRules()
		time.Sleep(10 * time.Second)
		if got := q.Status().VoterSet[0].Endpoints[0].Port; got != 40000 {
			t.Errorf("the voter set says port %d when there is space", got)
		}
		propose(t, q, epoch, "a")
	})
}

// TestBrokenDisk: a failed sync ends the quorum and is not repeated.
func TestBrokenDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inject := vfs.NewInject(newDisk(t))
		q, r, epoch := start(t, inject)
		inject.SetRules(vfs.Nth(0, vfs.OnOp(vfs.OpSyncData, "*.log", syscall.EIO)), vfs.Nth(0, vfs.OnOp(vfs.OpSync, "*.log", syscall.EIO)))
		_, done, err := q.Propose(epoch, values("a"))
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, syscall.EIO) || !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("the proposal ended with %v", err)
		}
		<-q.Failed()
		synctest.Wait()
		wantCalls(t, r, "snapshot 0-0 of 0", "lead 1", "resign 1")
		if err := q.Stop(); !errors.Is(err, syscall.EIO) {
			t.Errorf("stop: %v", err)
		}
	})
}

// TestLostMetadata: a log that ends before what was committed is told, not served.
func TestLostMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, _, epoch := start(t, disk)
		propose(t, q, epoch, "a")
		stop(t, q)
		folder := "/meta/__cluster_metadata-0"
		if err := writeCommit(disk, folder, 99); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(testOptions(disk, &recorder{})); err == nil || !strings.Contains(err.Error(), "lost") {
			t.Errorf("opened: %v", err)
		}
	})
}
