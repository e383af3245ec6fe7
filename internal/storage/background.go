package storage

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
	"moldau/internal/xsync"
)

// keeper is one directory's memory: it brings changes to the journal, now and then to Kafka's checkpoint files, and
// looks at the free space. Its goroutine has no timer running while nothing changes.
type keeper struct {
	d    *Directory
	wake chan struct{} // capacity 1

	mu      xsync.Mutex
	changed []*Log
	removed []change

	// telling is held from reading a log's state until the journal has it, so that older news never follow newer.
	telling xsync.Mutex

	// What an unclean start would have to read, by log; only logs that were appended to since their recovery point. By the
	// goroutine only, like all that follow but active.
	toRecover map[*Log]int64

	active         atomic.Bool // something was written since the last look at the space
	stale          bool        // the checkpoint files are older than the journal
	lastCheckpoint time.Time
}

func newKeeper(d *Directory) *keeper {
	return &keeper{d: d, wake: make(chan struct{}, 1), toRecover: map[*Log]int64{}}
}

func (k *keeper) kick() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// note puts a log in line for the journal. Log.changed is taken.
func (k *keeper) note(l *Log) {
	k.mu.Lock()
	k.changed = append(k.changed, l)
	first := len(k.changed) == 1
	k.mu.Unlock()
	if first {
		k.kick()
	}
}

// forget tells the journal, some time, that a partition no longer lies here. Being late does no harm: the topic id tells
// a younger partition of the same name apart.
func (k *keeper) forget(tp kafka.TopicPartition, id kafka.TopicID) {
	k.mu.Lock()
	k.removed = append(k.removed, change{tp: tp, id: id, gone: true})
	k.mu.Unlock()
	k.kick()
}

// wrote says that the disk has less space than before.
func (k *keeper) wrote() {
	if !k.active.Load() && k.active.CompareAndSwap(false, true) {
		k.kick()
	}
}

func (k *keeper) run(stop <-chan struct{}) {
	journal, space, checkpoint := newAlarm(), newAlarm(), newAlarm()
	defer journal.stop()
	defer space.stop()
	defer checkpoint.stop()
	if k.d.Full() {
		space.set(k.d.o.SpaceInterval)
	}
	for k.d.Online() {
		woken := false
		select {
		case <-stop:
		case <-k.wake:
			woken = true
		case <-journal.c():
			journal.ring()
		case <-checkpoint.c():
			checkpoint.ring()
		case <-space.c():
			space.ring()
		}
		// The select takes any of what has come together; what is done about it has an order.
		if received(stop) {
			return
		}
		if woken || received(k.wake) {
			journal.set(phase(k.d.o.JournalInterval))
			if k.active.Load() {
				space.set(k.d.o.SpaceInterval)
			}
		}
		if journal.due() {
			k.boundRecovery()
			k.report(k.flush())
			if k.stale {
				checkpoint.set(k.d.o.CheckpointInterval - min(k.d.o.CheckpointInterval, k.d.since(k.lastCheckpoint)))
			}
		}
		if checkpoint.due() {
			k.report(k.checkpoint())
		}
		if space.due() {
			k.active.Store(false)
			k.report(k.d.space.look())
			if k.d.Full() {
				space.set(k.d.o.SpaceInterval)
			}
		}
	}
}

// received takes a value from a channel, or finds it closed, without waiting.
func received(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// boundRecovery moves recovery points, those of the logs with the most behind them first, when all logs together have
// more than the limit to recover. A log's own rule, which looks at that log alone, would let many logs add up to minutes.
func (k *keeper) boundRecovery() {
	k.mu.Lock()
	for _, l := range k.changed {
		k.toRecover[l] = 0
	}
	k.mu.Unlock()
	var sum int64
	var logs []*Log
	for _, l := range slices.SortedFunc(maps.Keys(k.toRecover), func(a, b *Log) int { return compareTP(a.tp, b.tp) }) {
		n := l.BytesToRecover()
		if n == 0 {
			delete(k.toRecover, l)
			continue
		}
		k.toRecover[l] = n
		sum += n
		logs = append(logs, l)
	}
	if sum <= k.d.o.RecoveryBytes {
		return
	}
	slices.SortFunc(logs, func(a, b *Log) int {
		return cmp.Or(cmp.Compare(k.toRecover[b], k.toRecover[a]), compareTP(a.tp, b.tp))
	})
	for _, l := range logs {
		if sum <= k.d.o.RecoveryBytes/2 || !k.d.Online() {
			return
		}
		sum -= k.toRecover[l]
		if err := l.advanceRecoveryPoint(); err != nil {
			k.d.syncFailed(l, err)
		}
	}
}

// report takes the directory offline for an error that is not just a full disk; what a full disk kept from being written
// is tried again with the next change.
func (k *keeper) report(err error) {
	if err != nil {
		_ = k.d.ioFailed(err) // the directory knows; there is nobody else to tell
	}
}

// flush brings all changes to the journal.
func (k *keeper) flush() error {
	k.mu.Lock()
	logs, changes := k.changed, k.removed
	k.changed, k.removed = nil, nil
	k.mu.Unlock()
	if len(logs) == 0 && len(changes) == 0 {
		return nil
	}
	k.telling.Lock()
	for _, l := range logs {
		l.changed.Store(false) // before reading: a change from here on is told again
		// One that is deleted from here on is in removed afterwards, so that its end is the journal's last word on it.
		if !l.gone.Load() {
			changes = append(changes, l.news())
		}
	}
	k.stale = true
	err := k.d.journal.write(changes)
	k.telling.Unlock()
	if err != nil {
		if errors.Is(err, syscall.ENOSPC) {
			k.mu.Lock()
			for _, c := range changes {
				if c.gone {
					k.removed = append(k.removed, c)
				}
			}
			k.mu.Unlock()
			for _, l := range logs {
				l.NoteChange()
			}
		}
		return err
	}
	return nil
}

// tell brings one log's state to the journal now.
func (k *keeper) tell(l *Log) error {
	k.telling.Lock()
	defer k.telling.Unlock()
	return k.d.journal.write([]change{l.news()})
}

// checkpoint writes Kafka's three files from the journal's state.
func (k *keeper) checkpoint() error {
	for i, c := range k.d.journal.checkpoints() {
		text := c.text()
		if err := k.d.journal.wrote(i, text); err != nil {
			return err
		}
		path := filepath.Join(k.d.path, checkpointFiles()[i])
		if err := vfs.WriteFileAtomic(k.d.o.FS, path, text); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	k.stale = false
	k.lastCheckpoint = k.d.o.Now()
	return nil
}

// alarm is a timer that is either set or not; setting a set one changes nothing.
type alarm struct {
	timer *time.Timer
	after time.Duration // what it was set to
	armed bool
	rang  bool
}

func newAlarm() *alarm { return &alarm{} }

func (a *alarm) set(d time.Duration) {
	if a.armed {
		return
	}
	a.armed, a.after = true, d
	if a.timer == nil {
		a.timer = time.NewTimer(d)
		return
	}
	a.timer.Reset(d)
}

// advance sets the alarm, or sets it anew if it was set to longer.
func (a *alarm) advance(d time.Duration) {
	if a.armed && !a.rang && d < a.after {
		a.stop()
	}
	a.set(d)
}

func (a *alarm) c() <-chan time.Time {
	if a.timer == nil {
		return nil
	}
	return a.timer.C
}

// ring says that c has delivered.
func (a *alarm) ring() { a.rang = true }

// due tells whether the alarm has rung, and ends it if so.
func (a *alarm) due() bool {
	if !a.armed {
		return false
	}
	if !a.rang {
		select {
		case <-a.timer.C:
		default:
			return false
		}
	}
	a.armed, a.rang = false, false
	return true
}

// stop ends the alarm, whether it has rung or not.
func (a *alarm) stop() {
	a.armed, a.rang = false, false
	if a.timer != nil {
		a.timer.Stop()
	}
}
