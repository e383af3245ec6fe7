package fetcher

import (
	"cmp"
	"context"
	"hash/fnv"
	"log/slog"
	"net"
	"sync"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
	"moldau/internal/quota"
	"moldau/internal/replica"
	"moldau/internal/xsync"
)

// Options is what a Fetcher needs to know. Zero durations and sizes get Kafka's defaults.
type Options struct {
	NodeID      kafka.NodeID
	BrokerEpoch func() int64 // of this broker's registration; the leader counts no progress under another (KIP-903)
	Replicas    *replica.Set
	Dial        func(ctx context.Context, address string) (net.Conn, error)
	// Address is where a leader listens for brokers; false while the metadata do not tell.
	Address func(leader kafka.NodeID) (address string, ok bool)

	Shards           int             // num.replica.fetchers: loops per leader; 1
	PartitionBytes   int32           // replica.fetch.max.bytes; 1 MiB
	ResponseBytes    int32           // replica.fetch.response.max.bytes; 10 MiB
	MinBytes         int32           // replica.fetch.min.bytes; 1
	MaxWait          time.Duration   // replica.fetch.wait.max.ms; 500 ms
	Backoff          time.Duration   // replica.fetch.backoff.ms: longest pause after failures; 1 s
	Timeout          time.Duration   // replica.socket.timeout.ms: for an answer; 30 s
	SyncPatience     time.Duration   // how long a slow disk may hold up partitions of others; 500 ms
	Throttle         *quota.Throttle // on what followers fetch; nil: none
	Logger           *slog.Logger
	Metrics          *metrics.Set
	FirstBackoff     time.Duration // pause after the first failure, doubled with each; 20 ms
	MaxResponseBytes int           // an answer that claims to be larger ends the connection; 100 MiB
}

func (o *Options) setDefaults() {
	o.Shards = max(o.Shards, 1)
	o.PartitionBytes = cmp.Or(o.PartitionBytes, 1<<20)
	o.ResponseBytes = cmp.Or(o.ResponseBytes, 10<<20)
	o.MinBytes = cmp.Or(o.MinBytes, 1)
	o.MaxWait = cmp.Or(o.MaxWait, 500*time.Millisecond)
	o.Backoff = cmp.Or(o.Backoff, time.Second)
	o.Timeout = cmp.Or(o.Timeout, 30*time.Second)
	o.SyncPatience = cmp.Or(o.SyncPatience, 500*time.Millisecond)
	o.FirstBackoff = min(cmp.Or(o.FirstBackoff, 20*time.Millisecond), o.Backoff)
	o.MaxResponseBytes = cmp.Or(o.MaxResponseBytes, 100<<20)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
}

// Fetcher copies what this node's followers lack. Make it with New, before the first Apply of its Set.
type Fetcher struct {
	o       Options
	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
	meters  meters

	mu      xsync.Mutex
	loops   map[lane]*loop
	at      map[*replica.Partition]*loop // which loop fetches a partition
	stopped bool
}

// lane names a loop.
type lane struct {
	leader kafka.NodeID
	shard  int
}

// New returns a Fetcher that follows the roles of o.Replicas.
func New(o Options) *Fetcher {
	o.setDefaults()
	f := &Fetcher{o: o, loops: map[lane]*loop{}, at: map[*replica.Partition]*loop{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	f.meters = newMeters(o.Metrics)
	o.Replicas.OnRole(f.changed)
	return f
}

// Apply hears of brokers that have come back or moved, so that loops which pause because of them try at once. Partitions
// come from the Set when their roles are in force.
func (f *Fetcher) Apply(delta *metadata.Delta, _ *metadata.Image) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range delta.ChangedBrokers() {
		for shard := range f.o.Shards {
			if l := f.loops[lane{id, shard}]; l != nil {
				l.post(nil)
			}
		}
	}
}

// Stop ends all loops and waits for them.
func (f *Fetcher) Stop() {
	f.mu.Lock()
	f.stopped = true
	f.mu.Unlock()
	f.cancel()
	f.running.Wait()
}

// changed gives a partition to the loop that is to fetch it now.
func (f *Fetcher) changed(p *replica.Partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped {
		return
	}
	// Asked under the lock: of two calls for one partition the later one sees the newer role.
	leader, follows := p.Follows()
	old := f.at[p]
	var next *loop
	if follows {
		next = f.loopLocked(lane{leader, f.shard(p)})
		f.at[p] = next
	} else {
		delete(f.at, p)
	}
	if old != nil && old != next {
		old.post(p)
	}
	if next != nil {
		next.post(p)
	}
}

func (f *Fetcher) loopLocked(at lane) *loop {
	l := f.loops[at]
	if l == nil {
		l = newLoop(f, at)
		f.loops[at] = l
		f.running.Go(l.run)
	}
	return l
}

// shard spreads the partitions of a leader over its loops.
func (f *Fetcher) shard(p *replica.Partition) int {
	if f.o.Shards == 1 {
		return 0
	}
	id, n := p.TopicID(), p.TopicPartition().Partition
	h := fnv.New32a()
	_, _ = h.Write(id[:])
	_, _ = h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)})
	return int(h.Sum32() % uint32(f.o.Shards))
}
