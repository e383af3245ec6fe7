package znode

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
	"moldau/internal/xsync"
)

// Options is what a Coordinator needs to know.
type Options struct {
	Runtime    coordinator.Options // Topic and Machine are filled in
	ClusterID  string
	Image      func() *metadata.Image
	Controller func() kafka.NodeID // the active one; kafka.NoNode if none is known
	// Command has the active controller do something. It returns when the outcome is known.
	Command func(ctx context.Context, req kmsg.Request) (Outcome, error)

	MinTimeoutMs, MaxTimeoutMs int32         // of sessions
	CommandTimeout             time.Duration // how long the cluster may take for a command
	SnapshotBytes              int           // transactions after which a snapshot is written, at least

	Logger  *slog.Logger
	Metrics *metrics.Set
}

// Coordinator is the tree, on the node that leads its partition. Make it with New.
type Coordinator struct {
	o       Options
	runtime *coordinator.Runtime
	meters  meters
	held    atomic.Int64 // bytes that clients have not taken yet, about

	mu      xsync.Mutex
	clients uint64        // that there ever were
	serving *shard        // nil: none is
	changed chan struct{} // closed when that is another
}

type meters struct {
	expired, snapshots prometheus.Counter
}

// New returns a Coordinator that does not serve. Apply brings the tree.
func New(o Options) *Coordinator {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	c := &Coordinator{o: o, changed: make(chan struct{}), meters: meters{
		expired:   o.Metrics.Counter("moldau_zookeeper_sessions_expired_total", "ZooKeeper sessions that ended because their clients were silent."),
		snapshots: o.Metrics.Counter("moldau_zookeeper_snapshots_total", "Snapshots of the ZooKeeper tree that were written."),
	}}
	o.Runtime.Topic = Topic
	o.Runtime.Machine = func(int32) coordinator.Machine { return newShard(c) }
	o.Runtime.Logger = o.Logger
	o.Runtime.Loads = o.Metrics.Seconds("moldau_zookeeper_load_seconds", "How long the loading of the ZooKeeper tree took.")
	c.o = o
	c.runtime = coordinator.New(o.Runtime)
	o.Metrics.GaugeFunc("moldau_zookeeper_shards", "1 where the ZooKeeper tree is.", func() float64 { return float64(c.runtime.Shards()) })
	return c
}

// Apply brings the tree in line with new metadata, after the partitions themselves. It never waits.
func (c *Coordinator) Apply(delta *metadata.Delta, image *metadata.Image) {
	c.runtime.Apply(delta, image)
	c.runtime.Later(func(m coordinator.Machine, t *coordinator.Turn) {
		s := m.(*shard)
		s.show(t, delta, image)
		s.flush(t)
	})
}

// Stop ends all connections here.
func (c *Coordinator) Stop() { c.runtime.Stop() }

// serves is told by a shard when it begins to serve and when it ends. Its successor may come first.
func (c *Coordinator) serves(s *shard, now bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case now:
		c.serving = s
	case c.serving == s:
		c.serving = nil
	default:
		return
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// Serving reports whether this node serves the tree. changed is closed when that is another.
func (c *Coordinator) Serving() (serving bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.serving != nil, c.changed
}

// Client returns a new connection from an address, host:port. cut is called, once, when the connection has to end at once,
// whatever it is doing, and must not wait.
func (c *Coordinator) Client(remote string, cut func()) *Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients++
	host := hostOf(remote)
	return &Client{
		c: c, id: c.clients, remote: remote, address: host, since: c.o.Runtime.Now(), ids: []ID{{"ip", host}},
		close: cut, gone: make(chan struct{}), ready: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
}

// turn gives the tree a turn, if it is served here.
func (c *Coordinator) turn(f func(*shard, *coordinator.Turn)) error {
	served := false
	err := c.runtime.Turn(0, func(m coordinator.Machine, t *coordinator.Turn) {
		s := m.(*shard)
		if served = s.mirror.serving; served {
			f(s, t)
			s.flush(t)
		}
	})
	if err == nil && !served {
		err = kerr.CoordinatorLoadInProgress
	}
	return err
}
