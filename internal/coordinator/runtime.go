package coordinator

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
	"moldau/internal/xsync"
)

// Options is what a Runtime needs to know.
type Options struct {
	Topic    string // the internal topic
	NodeID   kafka.NodeID
	Replicas *replica.Set
	// Machine makes the machine of a partition, without any state.
	Machine   func(partition int32) Machine
	Codec     batch.Codec // of the batches that are written
	LoadBytes int         // read at a time at loading
	Now       func() time.Time
	Elapsed   func() time.Duration // since some moment; unlike Now it never jumps
	// Lease is how long a commit shows that this node leads: well below the time in which a leader that is not heard of is
	// deposed. 0: for ever.
	Lease  time.Duration
	Logger *slog.Logger
	Loads  prometheus.Observer // of seconds that the loading of a partition took; nil: nobody counts them
}

// Runtime is all shards of one internal topic that this node runs. Make it with New.
type Runtime struct {
	o      Options
	ctx    context.Context // ends with Stop
	cancel context.CancelFunc
	run    sync.WaitGroup
	slots  chan struct{} // holds one for each shard that is being read
	timers timers

	mu      xsync.Mutex
	shards  map[int32]*shard
	jobs    []job // for the timers' goroutine, in order
	stopped bool
}

// job is work for one shard that takes its lock.
type job struct {
	s   *shard
	run func()
}

// New returns a Runtime without shards. Apply brings them.
func New(o Options) *Runtime {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Runtime{o: o, slots: make(chan struct{}, loadingSlots), shards: map[int32]*shard{}}
	r.timers.elapsed, r.timers.wake = o.Elapsed, make(chan struct{}, 1)
	r.ctx, r.cancel = context.WithCancel(context.Background())
	r.run.Go(r.tick)
	return r
}

// Shards returns how many partitions this node is the coordinator of.
func (r *Runtime) Shards() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.shards)
}

// Apply brings the shards into line with new metadata, after the partitions themselves.
func (r *Runtime) Apply(delta *metadata.Delta, image *metadata.Image) {
	for _, t := range delta.DeletedTopics() {
		if t.Name == r.o.Topic {
			for partition := range t.Partitions.All() {
				r.resign(partition)
			}
		}
	}
	for _, change := range delta.ChangedTopics() {
		if change.After.Name != r.o.Topic {
			continue
		}
		for _, partition := range change.Partitions {
			if reg, ok := change.After.Partitions.Get(partition); ok && reg.Leader == r.o.NodeID {
				r.elect(partition, reg.LeaderEpoch)
			} else {
				r.resign(partition)
			}
		}
	}
}

// elect has a partition's shard loaded for a leader epoch.
func (r *Runtime) elect(partition int32, epoch kafka.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.shards[partition]
	if r.stopped || old != nil && old.epoch == epoch {
		return
	}
	r.dropLocked(old)
	s := &shard{r: r, partition: partition, epoch: epoch, appended: -never, loaded: make(chan struct{}), machine: r.o.Machine(partition)}
	r.shards[partition] = s
	r.run.Go(s.load)
}

// resign ends a partition's shard.
func (r *Runtime) resign(partition int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropLocked(r.shards[partition])
	delete(r.shards, partition)
}

// dropLocked leaves the end of a shard to the timers' goroutine: a turn of it may be at the disk.
func (r *Runtime) dropLocked(s *shard) {
	if s != nil {
		s.dropped.Store(true)
		r.jobs = append(r.jobs, job{s, s.drop})
		r.timers.rouse()
	}
}

func (s *shard) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.state
	s.state = over
	s.r.timers.drop(s)
	if was == active || was == broken {
		s.takeLocked(s.machine.Unloaded)
	}
}

// Turn gives a partition's machine a turn on the caller's goroutine. Errors: NOT_COORDINATOR when another node is it,
// COORDINATOR_LOAD_IN_PROGRESS. f has not run then.
func (r *Runtime) Turn(partition int32, f func(Machine, *Turn)) error {
	r.mu.Lock()
	s := r.shards[partition]
	r.mu.Unlock()
	if s == nil {
		return kerr.NotCoordinator
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.refusalLocked(); err != nil {
		return err
	}
	s.takeLocked(func(t *Turn) { f(s.machine, t) })
	return nil
}

// Partitions returns the partitions whose shards are here, loaded or not, in ascending order.
func (r *Runtime) Partitions() []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.shards))
}

// Later gives every machine that is loaded a turn soon, on the timers' goroutine. It never waits.
func (r *Runtime) Later(f func(Machine, *Turn)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, partition := range slices.Sorted(maps.Keys(r.shards)) {
		s := r.shards[partition]
		r.jobs = append(r.jobs, job{s, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.refusalLocked() == nil { // one that is not loaded yet learns of it in Loaded
				s.takeLocked(func(t *Turn) { f(s.machine, t) })
			}
		}})
	}
	r.timers.rouse()
}

// Loaded waits until the shard of a partition has been loaded, or could not be, or ctx ends. Without a shard here it
// returns at once.
func (r *Runtime) Loaded(ctx context.Context, partition int32) {
	r.mu.Lock()
	s := r.shards[partition]
	r.mu.Unlock()
	if s == nil {
		return
	}
	select {
	case <-s.loaded:
	case <-ctx.Done():
	}
}

// tick runs jobs and timers until Stop.
func (r *Runtime) tick() {
	alarm := time.NewTimer(never)
	defer alarm.Stop()
	for {
		stopping := r.ctx.Err() != nil // asked first: the jobs that Stop leaves come before
		next, left := r.takeJob()
		if next.s != nil {
			r.do(next)
			continue
		}
		tm, s, wait := r.timers.first()
		if tm != nil {
			r.do(job{s, func() { s.fire(tm) }})
			continue
		}
		if stopping && !left {
			return
		}
		alarm.Reset(wait)
		done := r.ctx.Done()
		if stopping {
			done = nil // all that is to come are shards that are at the disk
		}
		select { // only waits: what has come is looked for above, in a fixed order
		case <-alarm.C:
		case <-r.timers.wake:
		case <-done:
		}
	}
}

// turnPatience is how long the turn of one shard may hold up those of others. A longer one is at a disk that stalls.
const turnPatience = 100 * time.Millisecond

// do runs a job, and waits for it as long as turnPatience: so turns come in order, and yet a stalled disk delays only the
// shards on it.
func (r *Runtime) do(j job) {
	j.s.busy.Store(true)
	done := make(chan struct{})
	r.run.Go(func() {
		j.run()
		j.s.busy.Store(false)
		close(done)
		r.timers.rouse()
	})
	patience := time.NewTimer(turnPatience)
	defer patience.Stop()
	select {
	case <-done:
	case <-patience.C:
	}
}

// takeJob takes the first job whose shard is not busy with another, and tells whether there are others.
func (r *Runtime) takeJob() (next job, left bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, j := range r.jobs {
		if !j.s.busy.Load() {
			r.jobs = slices.Delete(r.jobs, i, i+1)
			return j, true
		}
	}
	return job{}, len(r.jobs) > 0
}

// fire runs a timer that is due, unless a turn has set it anew or cancelled it while this one waited.
func (s *shard) fire(tm *Timer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.r.timers.take(tm)
	if run != nil && s.refusalLocked() == nil {
		s.takeLocked(run)
	}
}

// Stop ends every shard: what waits for an answer is told NOT_COORDINATOR. When it returns, nothing runs.
func (r *Runtime) Stop() {
	r.mu.Lock()
	r.stopped = true
	for _, partition := range slices.Sorted(maps.Keys(r.shards)) {
		r.dropLocked(r.shards[partition])
	}
	clear(r.shards)
	r.mu.Unlock()
	r.cancel()
	r.run.Wait()
}
