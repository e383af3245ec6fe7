package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"
)

// collectEvery is after how many rounds of the driver memory is collected.
const collectEvery = 10_000

// traceTail is how many releases a failure prints.
const traceTail = 2000

// World is everything outside the nodes, and the order in which it happens.
type World struct {
	seed uint64
	rng  *rand.Rand // the driver's only: used between synctest.Wait and the next release

	mu     sync.Mutex // guards the fields below; never held while anything waits
	parked map[string]func()
	count  map[string]int // how often a name's stem was used

	holds []hold

	trace []string // the last releases, or all of them if whole
	whole bool
	sum   uint64 // hash of all of them
	steps int

	rounds int // of the driver
	haste  int // one in so many lets time pass
}

// unhurried is the haste of a world in which a clock ticks now and then only, while much happens.
const unhurried = 20

// NewWorld returns a world whose course follows from seed and from what runs in it.
func NewWorld(seed uint64) *World {
	return &World{
		seed:   seed,
		rng:    rand.New(rand.NewPCG(seed, 0x6d6f6c646175)),
		parked: make(map[string]func()),
		count:  make(map[string]int),
		haste:  unhurried,
	}
}

// offer parks something that can happen: release makes it happen, on the driver's goroutine, and must not wait. The
// name is stem and a number that tells it from earlier ones of the same stem.
func (w *World) offer(stem string, release func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count[stem]++
	w.parked[fmt.Sprintf("%s #%d", stem, w.count[stem])] = release
}

// wait parks the calling goroutine until the driver lets it go on.
func (w *World) wait(stem string) {
	turn := make(chan struct{})
	w.offer(stem, func() { close(turn) })
	<-turn
}

// hold keeps operations parked for a while.
type hold struct {
	covers func(name string) bool
	until  time.Time
}

// Hold keeps everything parked whose name contains part, for so long: a slow network, a slow client, a stalled disk.
func (w *World) Hold(part string, d time.Duration) {
	w.HoldWhere(part, d, func(name string) bool { return strings.Contains(name, part) })
}

// HoldWhere does so for the names that covers picks; what says in the trace what they are.
func (w *World) HoldWhere(what string, d time.Duration, covers func(name string) bool) {
	w.Note("%s holds for %v", what, d)
	w.holds = append(w.holds, hold{covers, time.Now().Add(d)})
}

// LetGo ends everything that Hold has begun.
func (w *World) LetGo() { w.holds = nil }

func (w *World) held(name string) bool {
	for _, h := range w.holds {
		if h.covers(name) {
			return true
		}
	}
	return false
}

// Step lets one thing happen: it waits until every goroutine is blocked, then releases one parked operation or lets time
// pass, and waits for all that follows from it. Whatever the driver does next finds a world at rest.
//
// No two steps happen at the same instant, and so no two timers that were set in different steps: the order of timers that
// are due together is not the seed's to choose.
func (w *World) Step() {
	synctest.Wait()
	defer synctest.Wait()
	time.Sleep(time.Nanosecond)
	synctest.Wait()
	if w.rounds++; w.rounds%collectEvery == 0 {
		runtime.GC() // a collection at any other time would let goroutines go in another order
	}
	now := time.Now()
	w.holds = slices.DeleteFunc(w.holds, func(h hold) bool { return !now.Before(h.until) })
	w.mu.Lock()
	names := make([]string, 0, len(w.parked))
	for name := range w.parked {
		if !w.held(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	if len(names) == 0 || w.rng.IntN(w.haste) == 0 {
		d := time.Millisecond
		if w.rng.IntN(50) == 0 {
			d = 100 * time.Millisecond
		}
		w.recordLocked("time")
		w.mu.Unlock()
		time.Sleep(d)
		return
	}
	name := names[w.rng.IntN(len(names))]
	release := w.parked[name]
	delete(w.parked, name)
	w.recordLocked(fmt.Sprintf("%s (of %d)", name, len(names)))
	w.mu.Unlock()
	release()
}

// Busy tells whether something of a host is under way, on its disk or on the network.
func (w *World) Busy(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name := range w.parked {
		if strings.HasPrefix(name, "disk "+host+" ") || strings.Contains(name, ">"+host+" ") || strings.HasPrefix(name, "net "+host+">") {
			return true
		}
	}
	return false
}

// Within steps until done says so; false if that took longer than d by the world's clock.
func (w *World) Within(d time.Duration, done func() bool) bool {
	end := time.Now().Add(d)
	synctest.Wait()
	for time.Now().Before(end) {
		if done() {
			return true
		}
		w.Step()
	}
	return done()
}

// Note writes a line into the trace: a fault, a client's answer.
func (w *World) Note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.recordLocked(fmt.Sprintf(format, args...))
}

func (w *World) recordLocked(line string) {
	w.steps++
	h := fnv.New64a()
	fmt.Fprintf(h, "%d %s", w.sum, line)
	w.sum = h.Sum64()
	if len(w.trace) == 2*traceTail && !w.whole {
		w.trace = append(w.trace[:0], w.trace[traceTail:]...)
	}
	w.trace = append(w.trace, fmt.Sprintf("%6d %s", w.steps, line))
}

// Sum is the hash of all that has happened.
func (w *World) Sum() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sum
}

// Tail returns the last n lines of the trace.
func (w *World) Tail(n int) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.trace[max(0, len(w.trace)-n):], "\n")
}
