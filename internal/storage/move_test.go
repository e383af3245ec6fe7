package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// moving is what a run was told of a partition that moves between two directories.
type moving struct {
	synced kafka.Offset // all below was reported synced
	start  kafka.Offset // SetLogStart returned
	moved  int          // Promote returned a log
	ended  bool         // a clean Stop returned without error
}

func moveOptions(fs vfs.FS) Options {
	o := options(fs, "/data/a", "/data/b")
	o.Cleaner = CleanerOptions{Threads: 1, Backoff: time.Hour}
	return o
}

// copyLog brings a copy level with its log.
func copyLog(current, future *Log) error {
	for future.LogEnd() < current.LogEnd() {
		r, err := current.Read(future.LogEnd(), commitlog.ReadOptions{MaxBytes: 300, UpTo: current.LogEnd(), AtLeastOne: true})
		if err != nil {
			return err
		}
		b, err := r.Region.ReadAll()
		r.Region.Release()
		if err != nil {
			return err
		}
		if _, err := future.AppendFetched(b); err != nil {
			return err
		}
		future.AppendDone()
	}
	return nil
}

// append3 appends to a log and waits until that is synced.
func (m *moving) append3(l *Log) error {
	w := watchSync(l)
	for range 3 {
		a, err := l.Append(records(2), commitlog.AppendOptions{})
		if err != nil {
			return err
		}
		l.AppendDone()
		if err := w.wait(a.Last + 1); err != nil {
			return err
		}
		m.synced = a.Last + 1
		l.SetHighWatermark(m.synced)
	}
	return nil
}

// liveMoving is a partition's life in two directories. It goes on after an error as far as its owner would.
func liveMoving(fs vfs.FS) (m moving) {
	s, err := OpenDirectories(moveOptions(fs))
	if err != nil {
		return m
	}
	err = m.live(s)
	if stopErr := s.Stop(err == nil); err == nil && stopErr == nil {
		m.ended = true
	}
	return m
}

func (m *moving) live(s *Store) error {
	if err := errors.Join(s.Format("cluster"), s.Start()); err != nil {
		return err
	}
	cfg := commitlog.DefaultConfig()
	cfg.SegmentBytes = 300
	l, err := s.Open(tp("t", 0), id(1), s.Directories()[0].ID(), cfg)
	if err != nil {
		return err
	}
	for round := range 3 {
		if err := m.append3(l); err != nil {
			return err
		}
		to := s.Directories()[1]
		if l.Dir() == to {
			to = s.Directories()[0]
		}
		future, err := s.MakeFuture(l, to)
		if err != nil {
			if err := m.append3(l); err != nil { // it stays where it is
				return err
			}
			continue
		}
		if err := copyLog(l, future); err != nil {
			s.LetGo(future)
			if err := m.append3(l); err != nil {
				return err
			}
			continue
		}
		if round == 0 {
			if err := l.SetLogStart(m.synced - 4); err != nil {
				return err
			}
			m.start = m.synced - 4
		}
		if round == 1 { // and back
			if err := s.Delete(future); err != nil {
				return err
			}
			continue
		}
		next, err := s.Promote(l, future)
		if next == nil {
			return err
		}
		if err == nil {
			m.moved++
		}
		l = next
		if err := m.append3(l); err != nil {
			return err
		}
	}
	return nil
}

// check opens the disk as the next start would.
func (m moving) check(disk vfs.FS) error {
	s, err := OpenDirectories(moveOptions(disk))
	if err != nil {
		return fmt.Errorf("next start: %w", err)
	}
	defer func() { _ = s.Stop(false) }()
	if err := errors.Join(s.Format("cluster"), s.Start()); err != nil {
		return err
	}
	if m.synced == 0 {
		return nil
	}
	l, err := s.Open(tp("t", 0), id(1), kafka.DirUnassigned, commitlog.DefaultConfig())
	if err != nil {
		return err
	}
	for _, d := range s.Directories() {
		there, err := vfs.Exists(disk, filepath.Join(d.Path(), "t-0"))
		if err != nil || there != (d == l.Dir()) {
			return fmt.Errorf("a folder t-0 in %s: %v, %v; the log lies in %s", d.Path(), there, err, l.Dir().Path())
		}
	}
	if l.LogEnd() < m.synced || l.LogStart() < m.start {
		return fmt.Errorf("the log in %s is [%d, %d), promised [%d, %d)", l.Dir().Path(), l.LogStart(), l.LogEnd(), m.start, m.synced)
	}
	for from := l.LogStart(); from < l.LogEnd(); {
		r, err := l.Read(from, commitlog.ReadOptions{MaxBytes: 1 << 20, UpTo: l.LogEnd(), AtLeastOne: true})
		if err != nil || r.Region == nil {
			return fmt.Errorf("read from %d in %s: %v", from, l.Dir().Path(), err)
		}
		r.Region.Release()
		from = r.NextOffset
	}
	future, err := s.ReopenFuture(l)
	if err != nil {
		return fmt.Errorf("the copy: %w", err)
	}
	if future != nil && future.Dir() == l.Dir() {
		return errors.New("the copy lies where the log lies")
	}
	return nil
}

// TestMoveCrashEverywhere (KAFKA-16424, -13127): the process is killed or the power cut before each disk operation while a partition moves to
// another directory and back. After each there is one log of it, with all that was promised.
func TestMoveCrashEverywhere(t *testing.T) {
	states := 0
	for at := int64(0); ; at += int64(thorough(3, 1)) {
		mem := vfs.NewMem()
		fs := vfs.NewInject(mem, vfs.FromIndex(at, syscall.EIO))
		m := liveMoving(fs)
		rng := rand.New(rand.NewPCG(uint64(at), 3))
		for how, disk := range mem.Survivors(rng, thorough(2, 8)) {
			states++
			if err := m.check(disk.KillClone()); err != nil {
				t.Fatalf("crash at operation %d, %s: %v\npromised %+v", at, how, err, m)
			}
			count := vfs.NewInject(disk.KillClone())
			if err := m.check(count); err != nil {
				t.Fatal(err)
			}
			again := disk.KillClone() // the start after it crashes too, somewhere
			_ = m.check(vfs.NewInject(again, vfs.FromIndex(rng.Int64N(count.Count()), syscall.EIO)))
			if err := m.check(again.CrashClone(rng, 0.5)); err != nil {
				t.Fatalf("crash at operation %d, %s, and in the next start: %v\npromised %+v", at, how, err, m)
			}
		}
		if fs.Count() <= at {
			if !m.ended || m.moved != 2 {
				t.Fatalf("without faults: %+v", m)
			}
			t.Logf("%d disks after crashes at %d operations", states, at)
			return
		}
	}
}

// TestMoveErrorEverywhere lets every disk operation of it fail once. Who goes on with the log that Promote returned loses
// nothing.
func TestMoveErrorEverywhere(t *testing.T) {
	errorEverywhere(t, thorough(3, 1), 4, func(fs vfs.FS) checked { return liveMoving(fs) })
}

// TestMoveTwice: what a directory remembers of a partition that has left it does not stand for what comes back later.
func TestMoveTwice(t *testing.T) {
	disk := vfs.NewMem()
	s := run(t, moveOptions(disk))
	m := &moving{}
	l, err := s.Open(tp("t", 0), id(1), s.Directories()[0].ID(), commitlog.DefaultConfig())
	must(t, err)
	for i := range 4 {
		must(t, m.append3(l))
		to := s.Directories()[(i+1)%2]
		future, err := s.MakeFuture(l, to)
		must(t, err)
		if i == 2 {
			must(t, to.keeper.flush())
			if o := to.journal.recall(l.tp, l.id); o.recoveryPoint > future.SyncedEnd() {
				t.Fatalf("an empty copy has recovery point %d", o.recoveryPoint)
			}
		}
		must(t, copyLog(l, future))
		if l, err = s.Promote(l, future); err != nil || l.Dir() != to || l.LogEnd() != m.synced || l.SyncedEnd() != m.synced {
			t.Fatalf("move %d: %+v, %v, want [.., %d) in %s", i, l, err, m.synced, to.Path())
		}
	}
	if n, err := readMoves(disk, l.Log.Dir()); n != 4 || err != nil {
		t.Errorf("moved %d times, %v", n, err)
	}
	if a, b := s.foldersIn(s.Directories()[0]), s.foldersIn(s.Directories()[1]); a != 1 || b != 0 {
		t.Errorf("%d and %d partitions are counted", a, b)
	}
	must(t, s.Stop(true))
	s = run(t, moveOptions(disk))
	defer func() { must(t, s.Stop(true)) }()
	if again := open(t, s, "t", 1); again.LogEnd() != m.synced || again.Dir() != s.Directories()[0] || !again.dir.clean {
		t.Errorf("opened again: [.., %d) in %s", again.LogEnd(), again.Dir().Path())
	}
}

// TestCopyOfADeletedTopic: a copy that belongs to no topic any more is removed.
func TestCopyOfADeletedTopic(t *testing.T) {
	disk := vfs.NewMem()
	s := run(t, moveOptions(disk))
	l, err := s.Open(tp("t", 0), id(1), s.Directories()[0].ID(), commitlog.DefaultConfig())
	must(t, err)
	_, err = s.MakeFuture(l, s.Directories()[1])
	must(t, err)
	must(t, s.Stop(true))
	s = run(t, moveOptions(disk))
	defer func() { must(t, s.Stop(true)) }()
	if !s.moves(tp("t", 0)) {
		t.Fatal("the copy is forgotten")
	}
	must(t, s.Strays(func(kafka.TopicPartition, kafka.TopicID) bool { return false }))
	if s.moves(tp("t", 0)) {
		t.Error("the copy is kept")
	}
	if n := s.foldersIn(s.Directories()[1]); n != 0 {
		t.Errorf("%d folders are counted", n)
	}
}
