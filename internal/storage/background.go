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

	"moldau/internal/commitlog"
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

	// behind and flying together are no less than what an unclean start would have to read here, in bytes: all that lies
	// after the recovery points that the journal knows, and what is being appended. room is closed, and replaced, when
	// behind may have become less. All three are guarded by mu.
	behind, flying int64
	room           chan struct{}
	waiting        int  // appends that wait for room; guarded by mu
	opened         bool // a log with something to recover, since the goroutine last looked; guarded by mu

	// What an unclean start would have to read, by log; only logs that were appended to since their recovery point. By the
	// goroutine only, like all that follow but active.
	toRecover map[*Log]int64

	active         atomic.Bool // something was written since the last look at the space
	stale          bool        // the checkpoint files are older than the journal
	lastCheckpoint time.Time
}

func newKeeper(d *Directory) *keeper {
	return &keeper{d: d, wake: make(chan struct{}, 1), room: make(chan struct{}), toRecover: map[*Log]int64{}}
}

// admit lets an append of so many bytes begin, once an unclean start would not have more to read than Options.RecoveryBytes
// after it. It waits only where the disk takes appends faster than recovery points can follow. landed has to follow.
func (k *keeper) admit(n int64) error {
	for {
		k.mu.Lock()
		sum, room := k.behind+k.flying, k.room
		if sum+n <= k.d.o.RecoveryBytes || sum == 0 {
			k.flying += n
			k.mu.Unlock()
			return nil
		}
		k.waiting++
		k.mu.Unlock()
		k.kick()
		stopped := false
		select {
		case <-room:
		case <-k.d.failed:
		case <-k.d.s.stop:
			stopped = true
		}
		k.mu.Lock()
		k.waiting--
		k.mu.Unlock()
		if stopped {
			return storageError(errStopped)
		}
		if err := k.d.writable(); err != nil {
			return err
		}
	}
}

// landed ends what admit began, with as many bytes in the log now. The log is noted before its bytes count as behind: who
// counts what is behind finds them in the log.
func (k *keeper) landed(l *Log, admitted, appended int64) {
	if appended > 0 {
		l.NoteChange()
	}
	k.mu.Lock()
	k.flying -= admitted
	before := k.behind
	k.behind += appended
	half := k.d.o.RecoveryBytes / 2
	crossed := before <= half && k.behind > half
	k.mu.Unlock()
	if crossed {
		k.kick()
	}
}

// recovered counts what an opened log has after its recovery point.
func (k *keeper) recovered(bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.behind += bytes
	k.opened = k.opened || bytes > 0
}

// afterOpening is how long recovery points wait after a log was opened that had something to recover. To move one costs more than
// that recovery did, and while thousands are opened there are those who wait for the next.
const afterOpening = time.Second

// resting notes openings, and tells whether recovery points have to wait for that: not if an append waits for them.
func (k *keeper) resting(rest *alarm) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.opened {
		k.opened = false
		rest.stop()
		rest.set(afterOpening)
	}
	return rest.armed && k.waiting == 0
}

// idleFile is how long a file may go unused, about, before its descriptor is closed.
const idleFile = time.Minute

// errStopped is why an append that waited for the disk was not made.
var errStopped = errors.New("the node stops")

// toRead returns no less than what an unclean start would have to read here, in bytes.
func (k *keeper) toRead() int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.behind + k.flying
}

// crowded tells whether recovery points should move now.
func (k *keeper) crowded() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.behind > k.d.o.RecoveryBytes/2
}

func (k *keeper) kick() { signal(k.wake) }

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
	journal, space, checkpoint, idle, rest := newAlarm(), newAlarm(), newAlarm(), newAlarm(), newAlarm()
	defer rest.stop()
	defer idle.stop()
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
		case <-k.d.files.Used(): // see idle below
		case <-journal.c():
			journal.ring()
		case <-checkpoint.c():
			checkpoint.ring()
		case <-space.c():
			space.ring()
		case <-idle.c():
			idle.ring()
		case <-rest.c():
			rest.ring()
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
		rested := rest.due()
		resting := k.resting(rest)
		if journal.due() || rested || k.crowded() && !resting {
			k.report(k.boundRecovery(!resting))
			if k.stale {
				checkpoint.set(k.d.o.CheckpointInterval - min(k.d.o.CheckpointInterval, k.d.since(k.lastCheckpoint)))
			}
		}
		if checkpoint.due() {
			k.report(k.checkpoint())
		}
		if idle.due() {
			k.d.files.CloseIdle()
		}
		if k.d.files.Open() > 0 {
			idle.set(idleFile)
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

// signal puts a value into a channel of capacity 1, if there is none.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
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

// boundRecovery moves recovery points, if it may, and brings all changes to the journal. Those that are due move, and, when all logs
// together have more behind them than half the limit, others too, those with the most first. A log's own rule, which looks
// at that log alone, would let many logs add up to minutes.
func (k *keeper) boundRecovery(mayMove bool) error {
	k.mu.Lock()
	for _, l := range k.changed {
		k.toRecover[l] = 0
	}
	before := k.behind
	k.mu.Unlock()
	logs := k.behindLogs()
	if mayMove {
		k.advance(k.choose(logs))
	}
	// Before the journal hears of the recovery points, which may have moved on by then. Appends that come meanwhile are in
	// both numbers, until the next time.
	var sum int64
	for _, l := range logs {
		sum += l.BytesToRecover()
	}
	err := k.flush()
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		k.behind += sum - before
	}
	close(k.room)
	k.room = make(chan struct{})
	return err
}

// behindLogs brings toRecover up to date and returns its logs, those with the most to recover first.
func (k *keeper) behindLogs() []*Log {
	// In an order that is not the map's: to ask one of them may take until its append is on the disk, and others grow meanwhile.
	var logs []*Log
	for _, l := range slices.SortedFunc(maps.Keys(k.toRecover), func(a, b *Log) int { return compareTP(a.tp, b.tp) }) {
		var n int64
		if !l.gone.Load() {
			n = l.BytesToRecover()
		}
		if n == 0 {
			delete(k.toRecover, l)
			continue
		}
		k.toRecover[l] = n
		logs = append(logs, l)
	}
	slices.SortStableFunc(logs, func(a, b *Log) int { return cmp.Compare(k.toRecover[b], k.toRecover[a]) })
	return logs
}

// choose returns the logs whose recovery points should move.
func (k *keeper) choose(logs []*Log) []*Log {
	var sum int64
	for _, l := range logs {
		sum += k.toRecover[l]
	}
	spare := sum - k.d.o.RecoveryBytes/4
	if sum <= k.d.o.RecoveryBytes/2 {
		spare = 0
	}
	return slices.DeleteFunc(slices.Clone(logs), func(l *Log) bool {
		if spare > 0 {
			spare -= k.toRecover[l]
			return false
		}
		return !l.RecoveryDue()
	})
}

// advance moves the recovery points of logs to their ends.
func (k *keeper) advance(logs []*Log) {
	if k.d.whole.disk == nil || len(logs) < k.d.o.SyncWholeFrom {
		for _, l := range logs {
			if !k.d.Online() {
				return
			}
			if err := l.advanceRecoveryPoint(); err != nil {
				k.d.syncFailed(l, err)
			}
		}
		return
	}
	steps := make([]advance, len(logs))
	for i, l := range logs {
		steps[i] = advance{l: l, f: l.beginAdvance(func() (*commitlog.Flush, error) { return l.BeginSync(true) })}
	}
	k.d.whole.advance(steps)
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
		if _, known := k.toRecover[l]; !known {
			k.toRecover[l] = 0 // noted since boundRecovery has looked
		}
		l.changed.Store(false) // before reading: a change from here on is told again
		// One that is deleted from here on is in removed afterwards, so that its end is the journal's last word on it.
		if !l.gone.Load() {
			changes = append(changes, l.news())
		}
	}
	k.stale = true
	err := k.d.journal.write(changes)
	if err == nil {
		for _, l := range logs {
			l.remembered(k.d.journal.recall(l.tp, l.id))
		}
	}
	k.telling.Unlock()
	if err == nil {
		k.stored(logs)
	}
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

// stored lets the logs forget what stood for recovery points before the journal's.
func (k *keeper) stored(logs []*Log) {
	for _, l := range logs {
		l.use.RLock()
		if !l.gone.Load() {
			l.RecoveryPointStored(k.d.journal.recall(l.tp, l.id).recoveryPoint)
		}
		l.use.RUnlock()
	}
}

// tell brings one log's state to the journal now.
func (k *keeper) tell(l *Log) error {
	k.telling.Lock()
	defer k.telling.Unlock()
	return l.tellJournal(l.news())
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
