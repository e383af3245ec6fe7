package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// promises is what a run was told by the store, and what a later start must therefore keep.
type promises struct {
	formatted bool
	dirID     kafka.DirID
	synced    map[string]kafka.Offset
	appended  map[string]kafka.Offset
	logStart  map[string]kafka.Offset // SetLogStart returned
	asked     map[string]kafka.Offset // SetLogStart was called
	deleted   map[string]bool         // Delete returned
	doomed    map[string]bool         // Delete was called
	epoch     int64                   // SetBrokerEpoch returned
	epochs    []int64                 // SetBrokerEpoch was called with these
	stopped   bool                    // a clean Stop returned without error
	visible   map[string]kafka.Offset // consumers may have seen all below
	hasty     func(l *Log, p *promises, name string)
	running   bool // Start returned and Stop was not called since
}

// live is a node's life in two runs on one disk. It ends at the first error. Background work is told when to run, so that
// the order of disk operations does not depend on timers.
func live(fs vfs.FS) promises { return liveWith(fs, nil) }

// liveWith is live with an owner of the logs who may have a bug: hasty is told of a log after each append, before it waits.
func liveWith(fs vfs.FS, hasty func(l *Log, p *promises, name string)) (p promises) {
	p = promises{synced: map[string]int64{}, appended: map[string]int64{}, logStart: map[string]int64{}, asked: map[string]int64{},
		deleted: map[string]bool{}, doomed: map[string]bool{}, visible: map[string]int64{}, epoch: -1, hasty: hasty}
	for round := range 2 {
		o := options(fs, "/data/logs")
		o.Cleaner = CleanerOptions{Threads: 1, Backoff: time.Hour}
		s, err := OpenDirectories(o)
		if err != nil {
			return p
		}
		if err := s.round(&p, round); err != nil {
			_ = s.Stop(false)
			return p
		}
		p.running = false
		if err := s.Stop(true); err != nil {
			return p
		}
		p.stopped = true
	}
	return p
}

func (s *Store) round(p *promises, round int) error {
	if err := s.Format("cluster"); err != nil {
		return err
	}
	p.formatted, p.dirID = true, s.Directories()[0].ID()
	p.stopped = false
	if err := s.Start(); err != nil {
		return err
	}
	p.running = true
	epoch := int64(10 + round)
	p.epochs = append(p.epochs, epoch)
	if err := s.SetBrokerEpoch(epoch); err != nil {
		return err
	}
	p.epoch = epoch
	for _, topic := range []string{"a", "b"} {
		if p.doomed[topic] {
			continue
		}
		tp, id := partition(topic)
		l, err := s.Open(tp, id, kafka.DirUnassigned, commitlog.DefaultConfig())
		if err != nil {
			return err
		}
		w := watchSync(l)
		for range 3 {
			a, err := l.Append(records(2), commitlog.AppendOptions{LeaderEpoch: int32(round)})
			if err != nil {
				return err
			}
			p.appended[topic] = a.Last + 1
			l.AppendDone()
			if p.hasty != nil {
				p.hasty(l, p, topic)
			}
			if err := w.wait(a.Last + 1); err != nil {
				return err
			}
			p.synced[topic] = a.Last + 1
			p.advance(l, topic, a.Last+1)
		}
		if err := l.dir.keeper.flush(); err != nil {
			return err
		}
		to := p.synced[topic] - 3
		p.asked[topic] = to
		if err := l.SetLogStart(to); err != nil {
			return err
		}
		p.logStart[topic] = to
		if err := l.dir.keeper.checkpoint(); err != nil {
			return err
		}
	}
	if err := s.shorten(p); err != nil {
		return err
	}
	if round == 1 {
		l, _ := s.Lookup(tp("b", 0))
		p.doomed["b"] = true
		if err := s.Delete(l); err != nil {
			return err
		}
		p.deleted["b"] = true
		return s.grow(p, again, 1, commitlog.DefaultConfig())
	}
	j := s.dirs[0].journal
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.rewriteLocked()
}

// advance moves the high watermark: consumers see what lies below it.
func (p *promises) advance(l *Log, name string, to kafka.Offset) {
	p.visible[name] = to
	l.SetHighWatermark(to)
}

// again is topic b once more, after it was deleted.
const again = "b again"

// partition returns what a name of the promises stands for.
func partition(name string) (kafka.TopicPartition, kafka.TopicID) {
	switch name {
	case again:
		return tp("b", 0), id(9)
	case "a", "b":
		return tp(name, 0), id(name[0] - 'a' + 1)
	}
	return tp(name, 0), id(name[0])
}

// grow appends to a log and has it synced.
func (s *Store) grow(p *promises, name string, times int, c commitlog.Config) error {
	tp, id := partition(name)
	l, err := s.Open(tp, id, kafka.DirUnassigned, c)
	if err != nil {
		return err
	}
	w := watchSync(l)
	for range times {
		a, err := l.Append(records(2), commitlog.AppendOptions{})
		if err != nil {
			return err
		}
		p.appended[name] = a.Last + 1
		l.AppendDone()
		if err := w.wait(a.Last + 1); err != nil {
			return err
		}
		p.synced[name] = a.Last + 1
		p.advance(l, name, a.Last+1)
	}
	return nil
}

// shorten takes records out of logs in the three other ways: truncation, retention, and compaction, here of an internal
// topic, whose records have no key and go.
func (s *Store) shorten(p *promises) error {
	small := commitlog.DefaultConfig()
	small.SegmentBytes = 200
	retained := small
	retained.RetentionBytes, retained.FileDeleteDelayMs = 400, 0
	compacted := small
	compacted.Compact, compacted.Delete = true, false
	if err := s.grow(p, "retained", 6, retained); err != nil {
		return err
	}
	tp, _ := partition("retained")
	l, _ := s.Lookup(tp)
	for range 2 { // the second removes the files
		if _, err := l.retain(s.o.Now()); err != nil {
			return err
		}
	}
	if err := s.grow(p, "__consumer_offsets", 6, compacted); err != nil {
		return err
	}
	tp, _ = partition("__consumer_offsets")
	l, _ = s.Lookup(tp)
	if err := l.advanceRecoveryPoint(); err != nil {
		return err
	}
	if err := l.dir.keeper.flush(); err != nil { // compaction goes no further than what is stored
		return err
	}
	s.cleaner.compact(l, &job{}, s.cleaner.o.Load(), s.stop)
	if err := l.dir.Err(); err != nil {
		return err
	}
	if l.dir.cleaned.offset(tp, 0) == 0 {
		return errors.New("compaction had nothing to do")
	}
	if err := s.grow(p, "truncated", 4, small); err != nil {
		return err
	}
	tp, _ = partition("truncated")
	l, _ = s.Lookup(tp)
	to := p.synced["truncated"] - 3
	p.synced["truncated"], p.visible["truncated"] = to-1, to-1 // it lies inside a batch
	if err := l.Truncate(to); err != nil {
		return err
	}
	return s.grow(p, "truncated", 1, small)
}

// check opens the disk as the next start would and compares with what was promised.
func (p promises) check(disk vfs.FS) error {
	o := options(disk, "/data/logs")
	s, err := OpenDirectories(o)
	if err != nil {
		return fmt.Errorf("next start: %w", err)
	}
	defer func() { _ = s.Stop(false) }()
	if cluster, ok := s.ClusterID(); p.formatted && (!ok || cluster != "cluster" || s.Directories()[0].ID() != p.dirID) {
		return fmt.Errorf("identity lost: cluster %q %v, directory %s", cluster, ok, s.Directories()[0].ID())
	}
	if e := s.PreviousBrokerEpoch(); e < p.epoch || e >= 0 && (len(p.epochs) == 0 || e > p.epochs[len(p.epochs)-1]) {
		return fmt.Errorf("previous epoch %d, stored %d", e, p.epoch)
	}
	if clean := s.dirs[0].clean; p.stopped && !clean || p.running && clean {
		return fmt.Errorf("clean=%v, stopped cleanly %v, killed while running %v", clean, p.stopped, p.running)
	}
	if err := s.Format("cluster"); err != nil {
		return err
	}
	if err := s.Start(); err != nil {
		return err
	}
	for _, topic := range []string{"a", "b", again, "retained", "__consumer_offsets", "truncated"} {
		if !p.doomed[topic] && p.synced[topic] == 0 || topic == "b" && p.deleted[topic] && p.appended[again] > 0 {
			continue
		}
		tp, id := partition(topic)
		if _, there := s.folders[tp]; !there {
			if !p.doomed[topic] {
				return fmt.Errorf("%s is gone", topic)
			}
			continue
		}
		if p.deleted[topic] {
			// One that cannot be read yet is the new one's: what is deleted had one that could.
			if stored, err := commitlog.ReadPartitionMetadata(disk, filepath.Join("/data/logs", tp.String())); err == nil && stored == id {
				return fmt.Errorf("%s is back", topic)
			}
			continue // it is being made again
		}
		l, err := s.Open(tp, id, kafka.DirUnassigned, commitlog.DefaultConfig())
		if err != nil {
			return err
		}
		if l.LogEnd() < p.visible[topic] {
			return fmt.Errorf("%s ends at %d, and all below %d was visible", topic, l.LogEnd(), p.visible[topic])
		}
		if _, err := l.Sync(); err != nil { // the syncer may have been here before
			return err
		}
		if l.LogEnd() < p.synced[topic] || l.SyncedEnd() != l.LogEnd() {
			return fmt.Errorf("%s ends at %d and is synced to %d, reported synced %d", topic, l.LogEnd(), l.SyncedEnd(), p.synced[topic])
		}
		if l.LogStart() < p.logStart[topic] || topic != "retained" && l.LogStart() > max(p.asked[topic], p.logStart[topic]) {
			return fmt.Errorf("%s starts at %d, deleted up to %d", topic, l.LogStart(), p.logStart[topic])
		}
		if hw := l.StoredHighWatermark(); hw < l.LogStart() || hw > l.LogEnd() {
			return fmt.Errorf("%s has high watermark %d in [%d, %d)", topic, hw, l.LogStart(), l.LogEnd())
		}
		for from := l.LogStart(); from < l.LogEnd(); {
			r, err := l.Read(from, commitlog.ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd(), AtLeastOne: true})
			if err != nil {
				return fmt.Errorf("%s: read from %d: %w", topic, from, err)
			}
			if r.Region == nil {
				return fmt.Errorf("%s: nothing to read at %d before the end %d", topic, from, l.LogEnd())
			}
			r.Region.Release()
			from = r.NextOffset
		}
	}
	return nil
}

// TestStoreCrashEverywhere: the process is killed or the power cut before each disk operation of a node's life, and of the
// start after that.
func TestStoreCrashEverywhere(t *testing.T) {
	states, starts := 0, 0
	for crashAt := int64(0); ; crashAt += int64(thorough(3, 1)) {
		mem := vfs.NewMem()
		fs := vfs.NewInject(mem, vfs.FromIndex(crashAt, syscall.EIO))
		p := live(fs)
		if fs.Count() < crashAt && !p.stopped {
			t.Fatalf("a life without faults ends early: %+v", p)
		}
		rng := rand.New(rand.NewPCG(uint64(crashAt), 7))
		for how, disk := range mem.Survivors(rng, thorough(3, 8)) {
			states++
			what := fmt.Sprintf("crash at operation %d, %s", crashAt, how)
			if (crashAt+int64(states))%int64(thorough(7, 5)) == 0 {
				starts += p.crashStart(t, disk.KillClone(), rng, what)
			}
			if err := p.check(disk); err != nil {
				t.Fatalf("%s: %v\npromised %+v", what, err, p)
			}
			if err := p.started().check(disk.KillClone()); err != nil {
				t.Fatalf("%s, second start: %v\npromised %+v", what, err, p)
			}
		}
		if p.stopped && p.deleted["b"] {
			t.Logf("%d crash states at %d operations, and in the start after them %d", states, crashAt, starts)
			return
		}
	}
}

// started is what still holds when a start was tried: it takes the clean mark away.
func (p promises) started() promises {
	p.stopped = false
	return p
}

// crashStart lets the start after a crash crash too, somewhere. It returns how many different disks that gave.
func (p promises) crashStart(t *testing.T, disk *vfs.Mem, rng *rand.Rand, what string) (states int) {
	t.Helper()
	count := vfs.NewInject(disk.KillClone())
	if err := p.check(count); err != nil {
		t.Fatalf("%s: %v\npromised %+v", what, err, p)
	}
	at := rng.Int64N(count.Count())
	_ = p.check(vfs.NewInject(disk, vfs.FromIndex(at, syscall.EIO))) // it ends there
	for how, disk := range disk.Survivors(rng, thorough(2, 4)) {
		states++
		if err := p.started().check(disk); err != nil {
			t.Fatalf("%s, and in the next start at operation %d, %s: %v\npromised %+v", what, at, how, err, p)
		}
	}
	return states
}

// thorough returns how far to go at most: what is enough beside the code, or for a landing.
func thorough(normal, landing int) int {
	if effort := os.Getenv("MOLDAU_EFFORT"); effort == "ci" || effort == "night" {
		return landing
	}
	return normal
}

// TestStoreErrorEverywhere lets every disk operation fail once: the caller is told or it did no harm, and a later start
// finds everything that was promised.
func TestStoreErrorEverywhere(t *testing.T) {
	errorEverywhere(t, thorough(4, 1), 9, func(fs vfs.FS) checked { return live(fs) })
}

// checked is what a life on a disk has promised, to be found on what is left of the disk.
type checked interface{ check(disk vfs.FS) error }

// errorEverywhere lets every step-th disk operation of a life fail once, in two ways.
func errorEverywhere(t *testing.T, step int, seed uint64, live func(fs vfs.FS) checked) {
	t.Helper()
	for _, cause := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for failAt := int64(0); ; failAt += int64(step) {
			mem := vfs.NewMem()
			fs := vfs.NewInject(mem, vfs.OnIndex(failAt, cause))
			p := live(fs)
			rng := rand.New(rand.NewPCG(uint64(failAt), seed))
			for i, disk := range []*vfs.Mem{mem.KillClone(), mem.CrashClone(rng, 0), mem.CrashClone(rng, 0.5)} {
				if err := p.check(disk); err != nil {
					t.Fatalf("operation %d failed with %v, disk %d: %v\npromised %+v", failAt, cause, i, err, p)
				}
			}
			if fs.Count() <= failAt {
				break
			}
		}
	}
}
