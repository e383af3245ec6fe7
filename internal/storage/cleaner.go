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

// cleaner compacts logs. One goroutine per directory picks the log that needs it most and starts a job for it; of those as many
// run at once as there are threads, in all directories together. A job whose disk stalls does not count: it holds up no other
// directory. Mirrors LogCleaner and LogCleanerManager.
type cleaner struct {
	s       *Store
	o       atomic.Pointer[CleanerOptions]
	pacer   pacer
	metrics *cleanerMetrics

	mu      xsync.Mutex
	jobs    map[*Log]*job      // that are being compacted
	broken  map[*Log]struct{}  // that compaction cannot read; until the next start
	renamed map[*Log]time.Time // that have replaced segments to remove, and when
}

// job is one compaction.
type job struct {
	busyNs atomic.Int64 // since when it has been at the disk, 0 = it waits for its rate
}

// jobPatience is how long a job may be at the disk, which is asked for some kilobytes at a time, before that counts as stalled.
const jobPatience = 10 * time.Second

func (j *job) stalled(now time.Time) bool {
	since := j.busyNs.Load()
	return since != 0 && now.Sub(time.Unix(0, since)) > jobPatience
}

// cleaning is the compaction of one directory.
type cleaning struct {
	c       *cleaner
	d       *Directory
	changed chan struct{} // capacity 1: the options are others
	ended   chan struct{} // capacity 1: a job has ended
	running sync.WaitGroup

	lookedMs atomic.Int64  // when it last looked for work
	dirtiest atomic.Uint64 // bits of a float64: the ratio of what it found then
}

func newCleaner(s *Store) *cleaner {
	c := &cleaner{s: s, jobs: map[*Log]*job{}, broken: map[*Log]struct{}{}, renamed: map[*Log]time.Time{}}
	o := s.o.Cleaner
	o.setDefaults()
	c.o.Store(&o)
	c.pacer = pacer{now: s.o.Now, perSecond: o.BytesPerSecond, changed: make(chan struct{})}
	return c
}

func newCleaning(c *cleaner, d *Directory) *cleaning {
	g := &cleaning{c: c, d: d, changed: make(chan struct{}, 1), ended: make(chan struct{}, 1)}
	g.lookedMs.Store(c.s.o.Now().UnixMilli())
	return g
}

// SetCleaner changes how logs are compacted. Compactions that are under way keep their memory and obey the new rate.
func (s *Store) SetCleaner(o CleanerOptions) {
	o.setDefaults()
	c := s.cleaner
	c.o.Store(&o)
	c.pacer.set(o.BytesPerSecond)
	for _, d := range s.dirs {
		signal(d.cleaning.changed)
	}
}

func (g *cleaning) run(stop <-chan struct{}) {
	defer g.running.Wait()
	look := newAlarm()
	look.set(phase(g.c.o.Load().Backoff))
	defer look.stop()
	for {
		woken := false
		select {
		case <-stop:
		case <-g.ended:
			woken = true
		case <-g.changed:
			look.stop() // it is set again below, with the new pause
		case <-look.c():
			look.ring()
		}
		// As in keeper.run: an order for what has come together.
		if received(stop) {
			return
		}
		if look.due() || woken || received(g.ended) {
			g.start(stop)
			g.removeFiles()
		}
		look.set(g.c.o.Load().Backoff)
	}
}

// start gives every idle thread a log of the directory, as long as there are some to compact.
func (g *cleaning) start(stop <-chan struct{}) {
	c, o := g.c, g.c.o.Load()
	if o.Threads <= 0 {
		return
	}
	for _, found := range g.candidates() {
		j, ok := c.take(found.l, o.Threads)
		if !ok {
			return
		}
		g.running.Go(func() {
			c.compact(found.l, j, o, stop)
			c.mu.Lock()
			delete(c.jobs, found.l)
			c.mu.Unlock()
			for _, d := range c.s.dirs {
				signal(d.cleaning.ended)
			}
		})
	}
}

// take makes a job for a log, if a thread is idle.
func (c *cleaner) take(l *Log, threads int) (*job, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, busy := c.s.o.Now(), 0
	for other, j := range c.jobs {
		stalled := j.stalled(now)
		if stalled && other.dir == l.dir {
			return nil, false
		}
		if !stalled {
			busy++
		}
	}
	if busy >= threads {
		return nil, false
	}
	j := &job{}
	j.busyNs.Store(now.UnixNano())
	c.jobs[l] = j
	return j, true
}

// candidate is a log that needs compaction.
type candidate struct {
	l     *Log
	ratio float64
}

// candidates returns the logs that need compaction and that nobody works on, the dirtiest first.
func (g *cleaning) candidates() []candidate {
	c, now := g.c, g.c.s.o.Now()
	var found []candidate
	dirtiest := 0.0
	for _, l := range g.d.logs() {
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
	g.lookedMs.Store(now.UnixMilli())
	g.dirtiest.Store(math.Float64bits(dirtiest))
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
func (c *cleaner) compact(l *Log, j *job, o *CleanerOptions, stop <-chan struct{}) {
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
			j.busyNs.Store(0)
			defer func() { j.busyNs.Store(c.s.o.Now().UnixNano()) }()
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
func (g *cleaning) removeFiles() {
	c, now := g.c, g.c.s.o.Now()
	var due []*Log
	c.mu.Lock()
	for l, at := range c.renamed {
		if l.dir == g.d && now.Sub(at).Milliseconds() >= l.Config().FileDeleteDelayMs {
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
