package storage

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"

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
	running   bool                    // Start returned and Stop was not called since
}

// live is a node's life in two runs on one disk. It ends at the first error. Background work is told when to run, so that
// the order of disk operations does not depend on timers.
func live(fs vfs.FS) (p promises) {
	p = promises{synced: map[string]int64{}, appended: map[string]int64{}, logStart: map[string]int64{}, asked: map[string]int64{},
		deleted: map[string]bool{}, doomed: map[string]bool{}, epoch: -1}
	for round := range 2 {
		s, err := OpenDirectories(options(fs, "/data/logs"))
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
	for i, topic := range []string{"a", "b"} {
		if p.doomed[topic] {
			continue
		}
		l, err := s.Open(tp(topic, 0), id(byte(i+1)), kafka.DirUnassigned, commitlog.DefaultConfig())
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
			if err := w.wait(a.Last + 1); err != nil {
				return err
			}
			p.synced[topic] = a.Last + 1
			l.SetHighWatermark(a.Last + 1)
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
	if round == 1 {
		l, _ := s.Lookup(tp("b", 0))
		p.doomed["b"] = true
		if err := s.Delete(l); err != nil {
			return err
		}
		p.deleted["b"] = true
	}
	return nil
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
	for i, topic := range []string{"a", "b"} {
		if !p.doomed[topic] && p.synced[topic] == 0 {
			continue
		}
		if _, there := s.folders[tp(topic, 0)]; !there {
			if !p.doomed[topic] {
				return fmt.Errorf("%s is gone", topic)
			}
			continue
		}
		if p.deleted[topic] {
			return fmt.Errorf("%s is back", topic)
		}
		l, err := s.Open(tp(topic, 0), id(byte(i+1)), kafka.DirUnassigned, commitlog.DefaultConfig())
		if err != nil {
			return err
		}
		if l.LogEnd() < p.synced[topic] || l.SyncedEnd() != l.LogEnd() {
			return fmt.Errorf("%s ends at %d and is synced to %d, reported synced %d", topic, l.LogEnd(), l.SyncedEnd(), p.synced[topic])
		}
		if l.LogStart() < p.logStart[topic] || l.LogStart() > max(p.asked[topic], p.logStart[topic]) {
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

func TestStoreCrashEverywhere(t *testing.T) {
	for crashAt := int64(0); ; crashAt++ {
		mem := vfs.NewMem()
		fs := vfs.NewInject(mem, vfs.FromIndex(crashAt, syscall.EIO))
		p := live(fs)
		rng := rand.New(rand.NewPCG(uint64(crashAt), 7))
		for i, disk := range []*vfs.Mem{mem.KillClone(), mem.CrashClone(rng, 0), mem.CrashClone(rng, 1), mem.CrashClone(rng, 0.5)} {
			if err := p.check(disk); err != nil {
				t.Fatalf("crash at operation %d, disk %d: %v\npromised %+v", crashAt, i, err, p)
			}
			again := p
			again.stopped = false // the start that has just been tried took the mark away
			if err := again.check(disk.KillClone()); err != nil {
				t.Fatalf("crash at operation %d, disk %d, second start: %v\npromised %+v", crashAt, i, err, p)
			}
		}
		if p.stopped && p.deleted["b"] {
			t.Logf("%d operations", crashAt)
			return
		}
	}
}

// TestStoreErrorEverywhere lets every disk operation fail once: the caller is told or it did no harm, and a later start
// finds everything that was promised.
func TestStoreErrorEverywhere(t *testing.T) {
	for _, cause := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for failAt := int64(0); ; failAt++ {
			mem := vfs.NewMem()
			fs := vfs.NewInject(mem, vfs.OnIndex(failAt, cause))
			p := live(fs)
			rng := rand.New(rand.NewPCG(uint64(failAt), 9))
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
