package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// names lists the files of the metadata log with a suffix.
func names(t *testing.T, disk vfs.FS, suffix string) (found []string) {
	t.Helper()
	entries, err := disk.List("/meta/__cluster_metadata-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name, suffix) {
			found = append(found, e.Name)
		}
	}
	return found
}

// TestSnapshotReplacesTheLog: a snapshot takes the place of the log before it, on disk and for the listener, and what is
// older than the newest snapshot goes when retention says so.
func TestSnapshotReplacesTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		small := func(o *Options) { o.SegmentBytes, o.RetentionBytes = 400, 0 }
		q, r, epoch := start(t, disk, small)
		var all []string
		add := func(n int) {
			for range n {
				all = append(all, fmt.Sprintf("record %d", len(all)))
				propose(t, q, epoch, all[len(all)-1])
			}
		}
		add(20)
		first := takeSnapshot(t, q, r)
		add(20)
		second := takeSnapshot(t, q, r)
		add(3)
		if got := names(t, disk, snapshotSuffix); !slices.Equal(got, []string{second.file()}) {
			t.Errorf("snapshots on disk: %v; taken: %v, %v", got, first, second)
		}
		if s := q.Status(); s.LogStart != second.EndOffset || s.LatestID != second {
			t.Errorf("status %+v", s)
		}
		if segments := q.store.log.Segments(); segments[0].BaseOffset <= first.EndOffset {
			t.Errorf("the oldest segment begins at %d", segments[0].BaseOffset)
		}
		end := q.Status().LogEnd
		stop(t, q)

		q, r, epoch = start(t, disk, small)
		if s := q.Status(); s.LogStart != second.EndOffset || s.HighWatermark != end+2 {
			t.Errorf("after restart: %+v", s)
		}
		if heard := r.heard(); heard[0] != fmt.Sprintf("snapshot %d-1 of 40", second.EndOffset) {
			t.Errorf("heard %v", heard)
		}
		add(1)
		if _, state := r.snapshot(); !slices.EqualFunc(state, all, func(a []byte, b string) bool { return string(a) == b }) {
			t.Errorf("state %q", state)
		}
		third := takeSnapshot(t, q, r)
		if third.Epoch != 2 {
			t.Errorf("third snapshot %v", third)
		}
	})
}

// TestSnapshotKeptAsRetentionSays: by age, and never the newest.
func TestSnapshotKeptAsRetentionSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, r, epoch := start(t, disk, func(o *Options) { o.RetentionMs = time.Hour.Milliseconds() })
		var want []string
		for i := range 4 {
			propose(t, q, epoch, fmt.Sprint(i))
			want = append(want, takeSnapshot(t, q, r).file())
			time.Sleep(25 * time.Minute)
		}
		// Taken after 0, 25, 50 and 75 minutes; 0-0 too is as old as the log.
		if got := names(t, disk, snapshotSuffix); !slices.Equal(got, want[1:]) {
			t.Errorf("snapshots %v, want %v", got, want[1:])
		}
		time.Sleep(24 * time.Hour)
		propose(t, q, epoch, "x")
		last := takeSnapshot(t, q, r)
		if got := names(t, disk, snapshotSuffix); !slices.Equal(got, []string{last.file()}) {
			t.Errorf("snapshots %v, want %v alone", got, last)
		}
	})
}

// TestSnapshotWishes: after so many bytes, or after so long if there is anything, and one at a time.
func TestSnapshotWishes(t *testing.T) {
	wished := func(q *Quorum) bool {
		synctest.Wait()
		select {
		case <-q.SnapshotWanted():
			return true
		default:
			return false
		}
	}
	t.Run("bytes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q, r, epoch := start(t, newDisk(t), func(o *Options) { o.SnapshotMaxBytes = 1000 })
			propose(t, q, epoch, strings.Repeat("x", 500))
			if wished(q) {
				t.Error("too early")
			}
			propose(t, q, epoch, strings.Repeat("x", 500))
			if !wished(q) {
				t.Error("no wish after 1000 bytes")
			}
			propose(t, q, epoch, strings.Repeat("x", 2000))
			if wished(q) {
				t.Error("a second wish before the first is done")
			}
			takeSnapshot(t, q, r)
			propose(t, q, epoch, strings.Repeat("x", 100))
			if wished(q) {
				t.Error("right after a snapshot")
			}
			propose(t, q, epoch, strings.Repeat("x", 1000))
			if !wished(q) {
				t.Error("no wish after 1000 more bytes")
			}
			if err := q.WriteSnapshot(SnapshotID{EndOffset: 1 << 40, Epoch: 1}, emitAll(nil)); err == nil {
				t.Error("took a snapshot of the future")
			}
			propose(t, q, epoch, "x")
			if !wished(q) {
				t.Error("a snapshot that failed is not wished for again")
			}
		})
	})
	t.Run("interval", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q, r, epoch := start(t, newDisk(t), func(o *Options) { o.SnapshotIntervalMs = 60_000 })
			propose(t, q, epoch, "a")
			time.Sleep(59 * time.Second)
			if wished(q) {
				t.Error("too early")
			}
			time.Sleep(2 * time.Second)
			if !wished(q) {
				t.Error("no wish after a minute")
			}
			takeSnapshot(t, q, r)
			time.Sleep(time.Hour)
			if wished(q) {
				t.Error("wish without anything new")
			}
			propose(t, q, epoch, "b")
			if !wished(q) {
				t.Error("no wish though the last snapshot is an hour old")
			}
		})
	})
}

// TestSnapshotMustEndAtABatch: an id that is not the end of a committed batch of its epoch is refused; an old one is done.
func TestSnapshotMustEndAtABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, r, epoch := start(t, disk)
		last := propose(t, q, epoch, "a", "b", "c")
		for _, id := range []SnapshotID{{last, epoch}, {last + 2, epoch}, {last + 1, epoch + 1}} {
			if err := q.WriteSnapshot(id, emitAll(nil)); err == nil {
				t.Errorf("snapshot %v was taken", id)
			}
		}
		id := takeSnapshot(t, q, r)
		if err := q.WriteSnapshot(id, func(func([]byte) error) error { return errors.New("asked for records again") }); err != nil {
			t.Error(err)
		}
		if got := names(t, disk, snapshotSuffix); len(got) != 2 {
			t.Errorf("snapshots %v", got)
		}
	})
}

// TestSnapshotOfABusyListener: whoever writes snapshots takes the state as the Listener has published it, while that is at work for
// it still: with a listener that is never idle there would be no snapshot else, and the log would grow for ever.
func TestSnapshotOfABusyListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		busy := &busyListener{done: make(chan struct{})}
		q, _, epoch := start(t, disk, func(o *Options) {
			busy.recorder = o.Listener.(*recorder)
			o.Listener, o.RetentionBytes = busy, 0
		})
		through := sync.OnceFunc(func() { close(busy.done) })
		defer through()
		busy.on.Store(true)
		_, proposed, err := q.Propose(epoch, values("a", "b"))
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		id := takeSnapshot(t, q, busy.recorder)
		if got := names(t, disk, snapshotSuffix); !slices.Equal(got, []string{id.file()}) {
			t.Errorf("snapshots %v, want %v alone", got, id)
		}
		through()
		if err := <-proposed; err != nil {
			t.Error(err)
		}
		propose(t, q, epoch, "c")
		if _, state := busy.snapshot(); len(state) != 3 {
			t.Errorf("state %q", state)
		}
	})
}

// busyListener publishes what it is given at once, and is not through with it before done is closed.
type busyListener struct {
	*recorder
	on   atomic.Bool
	done chan struct{}
}

func (l *busyListener) Commit(base kafka.Offset, epoch kafka.Epoch, timestamp int64, records [][]byte) error {
	err := l.recorder.Commit(base, epoch, timestamp, records)
	if l.on.Load() {
		<-l.done
	}
	return err
}

// TestSnapshotOnAFullDisk: it fails alone, leaves nothing behind, and works when there is space.
func TestSnapshotOnAFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inject := vfs.NewInject(newDisk(t))
		q, r, epoch := start(t, inject)
		propose(t, q, epoch, "a")
		inject.SetRules(vfs.OnOp(vfs.OpWrite, "*"+partSuffix, vfs.ShortWrite(10, syscall.ENOSPC)))
		id, state := r.snapshot()
		if err := q.WriteSnapshot(id, emitAll(state)); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("snapshot on a full disk: %v", err)
		}
		if got := names(t, inject, partSuffix); len(got) != 0 {
			t.Errorf("left behind: %v", got)
		}
		propose(t, q, epoch, "b")
		inject.SetRules()
		takeSnapshot(t, q, r)
	})
}

// TestSnapshotBeyondTheLog: a snapshot that came from elsewhere replaces a log that ends before it.
func TestSnapshotBeyondTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, _, epoch := start(t, disk)
		propose(t, q, epoch, "old")
		voters := q.members.newest()
		stop(t, q)
		fetched := snapshot{id: SnapshotID{EndOffset: 1000, Epoch: 5}, index: 400, timestamp: 1, voters: voters}
		if _, err := writeSnapshotFile(disk, "/meta/__cluster_metadata-0", fetched, emitAll(values("new"))); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			q, r, epoch := start(t, disk)
			if s := q.Status(); epoch <= 5 || s.LogStart != 1000 || s.LatestID != fetched.id {
				t.Errorf("epoch %d, status %+v", epoch, s)
			}
			if heard := r.heard(); heard[0] != "snapshot 1000-5 of 1" {
				t.Errorf("heard %v", heard)
			}
			stop(t, q)
		}
	})
}

// TestReadFailureAtStart: a disk that cannot give back what raft needs ends the quorum with the disk's error.
func TestReadFailureAtStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, _, epoch := start(t, disk)
		propose(t, q, epoch, "a")
		stop(t, q) // stores the commit index, so that raft reads the entries below it
		inject := vfs.NewInject(disk)
		q, err := Open(testOptions(inject, &recorder{leads: -1}))
		if err != nil {
			t.Fatal(err)
		}
		inject.SetRules(vfs.OnOp(vfs.OpRead, "*.log", syscall.EIO), vfs.OnOp(vfs.OpSend, "*.log", syscall.EIO))
		q.Start()
		<-q.Failed()
		if err := q.Stop(); !errors.Is(err, syscall.EIO) {
			t.Errorf("stop: %v", err)
		}
	})
}

// TestFetch: an observer reads what is committed, learns where its log parts from ours, and is sent to a snapshot when the
// log it needs is gone.
func TestFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		small := func(o *Options) { o.SegmentBytes, o.RetentionBytes = 200, 0 }
		q, _, epoch := start(t, disk, small)
		propose(t, q, epoch, "a")
		propose(t, q, epoch, "b")
		stop(t, q)
		q, r, epoch := start(t, disk, small)
		last := propose(t, q, epoch, "c")
		end := last + 1

		fetch := func(r FetchRequest) FetchResult {
			t.Helper()
			r.ReplicaID, r.MaxBytes = 9, 1<<20
			got, err := q.Fetch(r)
			if err != nil || got.LeaderID != 3 || got.LeaderEpoch != 2 {
				t.Fatalf("fetch %+v: %+v, %v", r, got, err)
			}
			return got
		}
		got := fetch(FetchRequest{CurrentEpoch: 2, Offset: 0, LastFetchedEpoch: -1})
		if got.Region == nil || got.HighWatermark != end || got.LogStart != 0 {
			t.Fatalf("from the start: %+v", got)
		}
		bytesGot, err := got.Region.ReadAll()
		got.Region.Release()
		if err != nil || !bytes.Contains(bytesGot, []byte{1, 20, 0, 0}) {
			t.Errorf("read %q, %v", bytesGot, err)
		}
		if got := fetch(FetchRequest{CurrentEpoch: 2, Offset: end, LastFetchedEpoch: 2}); got.Region != nil || got.Diverging != nil || got.SnapshotID != nil {
			t.Errorf("at the end: %+v", got)
		}
		if got := fetch(FetchRequest{CurrentEpoch: 2, Offset: end + 5, LastFetchedEpoch: 2}); got.Diverging == nil || *got.Diverging != (SnapshotID{end, 2}) {
			t.Errorf("beyond the end: %+v", got)
		}
		if got := fetch(FetchRequest{CurrentEpoch: 2, Offset: end, LastFetchedEpoch: 1}); got.Diverging == nil || *got.Diverging != (SnapshotID{6, 1}) {
			t.Errorf("longer in epoch 1 than we: %+v", got)
		}
		if s := q.Status(); len(s.Observers) != 1 || s.Observers[0].ID != 9 || s.Observers[0].LogEnd != end || s.Observers[0].LastCaughtUpMs != time.Now().UnixMilli() {
			t.Errorf("observers %+v", s.Observers)
		}

		for range 20 {
			propose(t, q, epoch, "more")
		}
		id := takeSnapshot(t, q, r)
		for _, r := range []FetchRequest{
			{CurrentEpoch: 2, Offset: 0, LastFetchedEpoch: -1}, {CurrentEpoch: 2, Offset: 5, LastFetchedEpoch: 1},
			{CurrentEpoch: 2, Offset: id.EndOffset, LastFetchedEpoch: 1},
		} {
			if got := fetch(r); got.SnapshotID == nil || *got.SnapshotID != id || got.Region != nil {
				t.Errorf("%+v after a snapshot: %+v", r, got)
			}
		}
		changed := q.Changed()
		if got := fetch(FetchRequest{CurrentEpoch: 2, Offset: id.EndOffset, LastFetchedEpoch: 2}); got.Region != nil || got.SnapshotID != nil || got.Diverging != nil {
			t.Errorf("after the snapshot: %+v", got)
		}
		select {
		case <-changed:
			t.Error("changed without a change")
		default:
		}
		propose(t, q, epoch, "new")
		<-changed
		if got := fetch(FetchRequest{CurrentEpoch: 2, Offset: id.EndOffset, LastFetchedEpoch: 2}); got.Region == nil {
			t.Errorf("after a change: %+v", got)
		} else {
			got.Region.Release()
		}

		time.Sleep(6 * time.Minute)
		if s := q.Status(); len(s.Observers) != 0 {
			t.Errorf("observers that left: %+v", s.Observers)
		}
	})
}

// TestFetchErrors: only the leader of the epoch that the observer knows answers.
func TestFetchErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, _, _ := start(t, disk)
		stop(t, q)
		q, _, _ = start(t, disk)
		for epoch, want := range map[kafka.Epoch]string{1: "FENCED_LEADER_EPOCH", 3: "UNKNOWN_LEADER_EPOCH"} {
			got, err := q.Fetch(FetchRequest{CurrentEpoch: epoch, MaxBytes: 1})
			if err == nil || !strings.Contains(err.Error(), want) || got.LeaderID != 3 || got.LeaderEpoch != 2 {
				t.Errorf("epoch %d: %+v, %v", epoch, got, err)
			}
			if _, err := q.FetchSnapshot(SnapshotID{}, epoch, 0, 10); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("snapshot, epoch %d: %v", epoch, err)
			}
		}
		stop(t, q)
		if _, err := q.Fetch(FetchRequest{CurrentEpoch: 2}); err == nil || !strings.Contains(err.Error(), "NOT_LEADER") {
			t.Errorf("after stop: %v", err)
		}
	})
}

// TestFetchSnapshot: chunks put together are the file.
func TestFetchSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := newDisk(t)
		q, r, epoch := start(t, disk)
		propose(t, q, epoch, strings.Repeat("a", 1000))
		id := takeSnapshot(t, q, r)
		var all []byte
		for {
			c, err := q.FetchSnapshot(id, epoch, int64(len(all)), 100)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c.Bytes...)
			if int64(len(all)) == c.Size {
				break
			}
			if len(c.Bytes) != 100 {
				t.Fatalf("chunk of %d bytes", len(c.Bytes))
			}
		}
		if want := content(t, disk, filepath.Join("meta/__cluster_metadata-0", id.file())); !bytes.Equal(all, want) {
			t.Error("the chunks are not the file")
		}
		for _, position := range []int64{-1, int64(len(all)), 1 << 40} {
			if _, err := q.FetchSnapshot(id, -1, position, 100); err == nil || !strings.Contains(err.Error(), "POSITION_OUT_OF_RANGE") {
				t.Errorf("position %d: %v", position, err)
			}
		}
		if _, err := q.FetchSnapshot(SnapshotID{id.EndOffset, 7}, -1, 0, 100); err == nil || !strings.Contains(err.Error(), "SNAPSHOT_NOT_FOUND") {
			t.Errorf("unknown snapshot: %v", err)
		}
	})
}
