package storage

import (
	"cmp"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/xsync"
)

// CleanerOptions is how logs with cleanup.policy=compact are compacted. Zero values get the defaults named here.
type CleanerOptions struct {
	Threads        int           // logs compacted at once (log.cleaner.threads); 0 = none ever is
	MapBytes       int64         // memory for the maps of keys, all threads together; 128 MiB
	MapLoad        float64       // how full a map may get; 0.9
	BufferBytes    int           // memory to read and write with, all threads together; 512 KiB
	BytesPerSecond float64       // most that is read and written, all threads together; no limit
	Backoff        time.Duration // between two looks when nothing was to do; 15 seconds
}

func (o *CleanerOptions) setDefaults() {
	o.MapBytes = cmp.Or(o.MapBytes, 128<<20)
	o.MapLoad = cmp.Or(o.MapLoad, 0.9)
	o.BufferBytes = cmp.Or(o.BufferBytes, 512<<10)
	o.BytesPerSecond = cmp.Or(o.BytesPerSecond, math.MaxFloat64)
	o.Backoff = cmp.Or(o.Backoff, 15*time.Second)
}

var (
	errCleanerStopped = errors.New("the cleaner stops")
	errLogLeaves      = errors.New("the log is being deleted")
)

// cleaner compacts logs. One goroutine picks the log that needs it most and starts a job for it, of which as many run at
// once as there are threads. Mirrors LogCleaner and LogCleanerManager.
type cleaner struct {
	s       *Store
	o       atomic.Pointer[CleanerOptions]
	pacer   pacer
	changed chan struct{} // capacity 1: o is another
	ended   chan struct{} // capacity 1: a job has ended
	metrics *cleanerMetrics

	mu      xsync.Mutex
	jobs    map[*Log]struct{}  // that are being compacted
	broken  map[*Log]struct{}  // that compaction cannot read; until the next start
	renamed map[*Log]time.Time // that have replaced segments to remove, and when
	running sync.WaitGroup
}

func newCleaner(s *Store) *cleaner {
	c := &cleaner{
		s: s, changed: make(chan struct{}, 1), ended: make(chan struct{}, 1),
		jobs: map[*Log]struct{}{}, broken: map[*Log]struct{}{}, renamed: map[*Log]time.Time{},
	}
	o := s.o.Cleaner
	o.setDefaults()
	c.o.Store(&o)
	c.pacer = pacer{now: s.o.Now, perSecond: o.BytesPerSecond, changed: make(chan struct{})}
	return c
}

// SetCleaner changes how logs are compacted. Compactions that are under way keep their memory and obey the new rate.
func (s *Store) SetCleaner(o CleanerOptions) {
	o.setDefaults()
	c := s.cleaner
	c.o.Store(&o)
	c.pacer.set(o.BytesPerSecond)
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *cleaner) run(stop <-chan struct{}) {
	defer c.running.Wait()
	look := newAlarm()
	look.set(phase(c.o.Load().Backoff))
	defer look.stop()
	for {
		woken := false
		select {
		case <-stop:
		case <-c.ended:
			woken = true
		case <-c.changed:
			look.stop() // it is set again below, with the new pause
		case <-look.c():
			look.ring()
		}
		// As in keeper.run: an order for what has come together.
		if received(stop) {
			return
		}
		if look.due() || woken || received(c.ended) {
			c.start(stop)
			c.removeFiles()
		}
		look.set(c.o.Load().Backoff)
	}
}

// start gives every idle thread a log, as long as there are some to compact.
func (c *cleaner) start(stop <-chan struct{}) {
	o := c.o.Load()
	if o.Threads <= 0 {
		return
	}
	for _, found := range c.candidates() {
		c.mu.Lock()
		if len(c.jobs) >= o.Threads {
			c.mu.Unlock()
			return
		}
		c.jobs[found.l] = struct{}{}
		c.mu.Unlock()
		c.running.Go(func() {
			c.compact(found.l, o, stop)
			c.mu.Lock()
			delete(c.jobs, found.l)
			c.mu.Unlock()
			select {
			case c.ended <- struct{}{}:
			default:
			}
		})
	}
}

// candidate is a log that needs compaction.
type candidate struct {
	l     *Log
	ratio float64
}

// candidates returns the logs that need compaction and that nobody works on, the dirtiest first.
func (c *cleaner) candidates() []candidate {
	now := c.s.o.Now()
	var found []candidate
	dirtiest := 0.0
	for _, l := range c.s.Logs() {
		cfg := l.Config()
		if !cfg.Compact || !l.dir.Online() || l.dir.Full() || l.leaving.Load() || c.s.moves(l.tp) || !c.idle(l) {
			continue
		}
		state, err := l.compactable(now)
		if err != nil {
			c.failed(l, err)
			continue
		}
		dirtiest = max(dirtiest, state.Ratio())
		if state.DirtyBytes > 0 && (state.Overdue || state.Ratio() > cfg.MinCleanableDirtyRatio) {
			found = append(found, candidate{l, state.Ratio()})
		}
	}
	c.metrics.looked(now, dirtiest)
	slices.SortStableFunc(found, func(a, b candidate) int { return cmp.Compare(b.ratio, a.ratio) })
	return found
}

func (c *cleaner) idle(l *Log) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, busy := c.jobs[l]
	_, broken := c.broken[l]
	return !busy && !broken
}

func (l *Log) compactable(now time.Time) (commitlog.Compactable, error) {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.gone.Load() {
		return commitlog.Compactable{}, nil
	}
	return l.Log.Compactable(l.dir.cleaned.offset(l.tp, l.LogStart()), now)
}

// compact makes one pass over a log.
func (c *cleaner) compact(l *Log, o *CleanerOptions, stop <-chan struct{}) {
	l.use.RLock()
	defer l.use.RUnlock()
	if l.gone.Load() || l.leaving.Load() {
		return
	}
	started := c.s.o.Now()
	done, err := l.Log.Compact(commitlog.CompactOptions{
		FirstDirty: l.dir.cleaned.begin(l.tp, l.LogStart()), Now: started,
		MapBytes: o.MapBytes / int64(o.Threads), MapLoad: o.MapLoad, BufferBytes: max(4096, o.BufferBytes/o.Threads/2),
		Pace: func(bytes int) error {
			return c.pacer.wait(bytes, stop, l.leaves)
		},
	})
	c.metrics.count(done)
	if done.SegmentsNew > 0 {
		c.mu.Lock()
		c.renamed[l] = c.s.o.Now()
		c.mu.Unlock()
		l.AppendDone() // the last names are to be synced like bytes
	}
	if err == nil {
		err = l.dir.cleaned.set(l.tp, done.FirstDirty)
	}
	if err != nil {
		c.failed(l, err)
		return
	}
	l.dir.logger.Info("compacted partition", "partition", l.tp.String(), "below", done.FirstDirty, "readBytes", done.ReadBytes,
		"writtenBytes", done.WrittenBytes, "records", done.RecordsRead, "kept", done.RecordsKept, "segments", done.SegmentsRead,
		"became", done.SegmentsNew, "mapFull", done.Full, "took", l.dir.since(started))
}

// failed is told why a log could not be compacted.
func (c *cleaner) failed(l *Log, err error) {
	if errors.Is(err, errCleanerStopped) || errors.Is(err, errLogLeaves) || errors.Is(err, commitlog.ErrCompactionMoot) {
		return
	}
	_ = l.dir.ioFailed(err) // there is nobody else to tell; the directory is offline or full now, unless the log is at fault
	if !l.dir.Online() || l.dir.Full() {
		return
	}
	c.mu.Lock()
	c.broken[l] = struct{}{}
	c.metrics.broken.Store(int64(len(c.broken)))
	c.mu.Unlock()
	l.dir.logger.Error("partition cannot be compacted and is left alone until the next start", "partition", l.tp.String(), "error", err)
}

// leave forgets a log that is about to be deleted. A compaction of it ends soon, and gives up Log.use.
func (c *cleaner) leave(l *Log) {
	if l.leaving.CompareAndSwap(false, true) {
		close(l.leaves)
	}
	c.mu.Lock()
	delete(c.broken, l)
	c.metrics.broken.Store(int64(len(c.broken)))
	delete(c.renamed, l)
	c.mu.Unlock()
}

// removeFiles removes replaced segments whose file.delete.delay.ms is over.
func (c *cleaner) removeFiles() {
	now := c.s.o.Now()
	var due []*Log
	c.mu.Lock()
	for l, at := range c.renamed {
		if now.Sub(at).Milliseconds() >= l.Config().FileDeleteDelayMs {
			due = append(due, l)
			delete(c.renamed, l)
		}
	}
	c.mu.Unlock()
	slices.SortFunc(due, func(a, b *Log) int { return compareTP(a.tp, b.tp) })
	for _, l := range due {
		if _, err := l.removeFiles(now); err != nil && l.dir.Online() {
			_ = l.dir.ioFailed(err)
		}
	}
}
