package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/api"
	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/config"
	"moldau/internal/controller"
	"moldau/internal/coordinator"
	"moldau/internal/fetcher"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
	"moldau/internal/quorum"
	"moldau/internal/quota"
	"moldau/internal/replica"
	"moldau/internal/server"
	"moldau/internal/storage"
	"moldau/internal/telemetry"
	"moldau/internal/uplink"
	"moldau/internal/vfs"
	"moldau/internal/znode"
	"moldau/internal/zookeeper"
)

// Options say what to build. Seams that are left empty are the operating system's.
type Options struct {
	Config   *config.Config
	Logger   *slog.Logger
	LogLevel *slog.LevelVar // of Logger; nil: it cannot be changed

	FS       vfs.FS
	Listen   func(address string) (net.Listener, error)
	Dial     func(ctx context.Context, address string) (net.Conn, error)
	Now      func() time.Time
	Hostname func() (string, error) // of this machine, for advertised addresses that nobody set

	// ProcessMetrics adds what the runtime and the operating system tell of the process: for one node of a process.
	ProcessMetrics bool
}

// Node is one node. Make it with Build.
type Node struct {
	o   Options
	cfg config.Node

	ctx     context.Context // ends when the node stops
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	failed  chan struct{} // closed when the node cannot go on
	failure error         // why; written before failed is closed
	fail    func(error)
	elapsed func() time.Duration // since the node was built: coordinators' timers run by a clock that nobody sets

	stopping atomic.Bool
	stopped  chan struct{} // closed when Stop is through
	stopErr  error         // written before that

	listeners []bound
	serving   bool
	metrics   *metrics.Set
	health    health
	phase     atomic.Int32

	store      *storage.Store
	settings   *settings
	loader     *metadata.Loader
	gate       *gate
	telemetry  *telemetry.Telemetry // nil on a mere controller
	quorum     *quorum.Quorum
	apis       atomic.Pointer[api.API] // nil until open is through
	server     *server.Server
	controller *controller.Controller // nil on a mere broker

	// Nil on a mere controller.
	replicas     *replica.Set
	first        *first
	fetcher      *fetcher.Fetcher
	throttles    *quota.Replication
	groups       *group.Coordinator
	tree         *znode.Coordinator
	zookeeper    *zookeeper.Server
	uplink       *uplink.Uplink
	beats, admin *uplink.Link // to the active controller: for what this broker says, and for what its clients ask
}

// Build checks that the configuration is one that a node can be started with, and fills the seams. Nothing outside is
// touched before Start.
func Build(o Options) (*Node, error) {
	if o.FS == nil {
		o.FS = vfs.NewOS()
	}
	if o.Listen == nil {
		o.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	if o.Dial == nil {
		var d net.Dialer
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Hostname == nil {
		o.Hostname = os.Hostname
	}
	n := &Node{o: o, cfg: o.Config.Node(), failed: make(chan struct{}), stopped: make(chan struct{}), metrics: metrics.NewSet()}
	began := time.Now()
	n.elapsed = func() time.Duration { return time.Since(began) }
	n.settings = newSettings(n)
	if o.ProcessMetrics {
		n.metrics.AddRuntime()
	}
	n.ctx, n.cancel = context.WithCancelCause(context.Background())
	var once sync.Once
	n.fail = func(err error) {
		once.Do(func() {
			n.failure = err
			close(n.failed)
		})
	}
	n.health = health{ready: n.ready, startup: n.recovered, live: n.alive, metrics: n.metrics.Handler(), clients: n.clients}
	return n, nil
}

// open locks the directories, recovers the metadata log and builds every part, in an order in which each needs only
// those before it.
func (n *Node) open(ctx context.Context) error {
	if err := n.keepNumber(); err != nil {
		return err
	}
	if err := n.openStore(); err != nil {
		return err
	}
	if n.cfg.ID == kafka.NoNode {
		if err := n.getNumber(ctx); err != nil {
			return err
		}
	}
	home, err := n.metadataDirectory()
	if err != nil {
		return err
	}
	place, err := n.belong(ctx, home)
	if err != nil {
		return err
	}
	clusterID := place.ClusterID
	if err := n.openQuorum(ctx, home, place); err != nil {
		return err
	}
	subscribers := []metadata.Subscriber{n.settings}
	if n.cfg.Roles.Broker {
		n.gate = newGate(n.cfg.ID, n.prepare, n.fail)
		n.telemetry = telemetry.New(telemetry.Options{MaxBytes: int(n.cfg.Requests.TelemetryMaxBytes), Now: n.o.Now, Logger: n.o.Logger, Metrics: n.metrics})
		subscribers = append(subscribers, n.telemetry, n.gate)
	}
	if n.cfg.Roles.Controller {
		first, err := n.firstLevels(home)
		if err != nil {
			return err
		}
		n.controller = controller.New(controller.Options{
			NodeID: n.cfg.ID, ClusterID: clusterID, Log: n.quorum, Logger: n.o.Logger, Metrics: n.metrics,
			Config: n.controllerConfig(first), Rules: configRules(n.settings.now.Load), Features: Features(), Probe: n.probe,
		})
		// Last: its answers leave from there, and what they say is then true of this node.
		subscribers = append(subscribers, n.controller)
	}
	n.loader = metadata.NewLoader(subscribers...)
	if n.cfg.Roles.Broker {
		n.buildBroker(clusterID)
	}
	apis := api.New(n.apiOptions(clusterID))
	n.apis.Store(apis)
	n.server = server.New(server.Options{
		Routes: apis.Routes(), Limits: n.limits(), Logger: n.o.Logger, Metrics: n.metrics, Now: n.o.Now,
	})
	return nil
}

func (n *Node) openStore() error {
	cfg := n.cfg
	var err error
	n.store, err = storage.OpenDirectories(storage.Options{
		FS: n.o.FS, Dirs: cfg.Storage.Dirs, Apart: n.apart(), NodeID: cfg.ID, Now: n.o.Now, Logger: n.o.Logger, Metrics: n.metrics,
		FlushBeforeAck:    cfg.Storage.FlushBeforeAck,
		MaxOpenFiles:      n.openFiles(),
		RecoveryThreads:   int(cfg.Storage.RecoveryThreads),
		RetentionInterval: milliseconds(cfg.Retention.CheckMs),
		ProducerExpiryMs:  int64(cfg.Producers.ExpiryMs),
		ProducerInterval:  milliseconds(cfg.Producers.ExpiryCheckMs),
		Cleaner:           cleanerOptions(cfg.Cleaner),
		Scrub:             storage.ScrubOptions{BytesPerSecond: cfg.Scrub.BytesPerSecond, Interval: milliseconds(cfg.Scrub.IntervalMs)},
	})
	if err != nil {
		return &dataError{err}
	}
	return nil
}

func (n *Node) openQuorum(ctx context.Context, home *storage.Directory, place quorum.Formed) error {
	cfg := n.cfg.Quorum
	o := quorum.Options{
		FS: n.o.FS, Dir: home.Path(), NodeID: n.cfg.ID, DirID: home.ID(), ClusterID: place.ClusterID,
		Endpoints: n.controllerEndpoints(), Listener: &stream{n}, Now: n.o.Now, Logger: n.o.Logger, Metrics: n.metrics,
		Voters: place.Voters, Used: home.Used(), Bootstrap: n.controllers(), Dial: n.o.Dial,
		CanVote: n.cfg.Roles.Controller, AutoJoin: cfg.AutoJoin, Joined: place.Join,
		ElectionTimeoutMs: cfg.ElectionTimeoutMs, RequestTimeoutMs: cfg.RequestTimeoutMs, RetryBackoffMs: cfg.RetryBackoffMs,
		FetchTimeoutMs: cfg.FetchTimeoutMs, FetchMaxBytes: cfg.FetchMaxBytes, ChunkMaxBytes: cfg.FetchSnapshotMaxBytes,
		SegmentBytes: int(cfg.SegmentBytes), SegmentMs: cfg.SegmentMs,
		SnapshotMaxBytes: cfg.SnapshotMaxNewBytes, SnapshotIntervalMs: cfg.SnapshotMaxIntervalMs,
		RetentionBytes: cfg.RetentionBytes, RetentionMs: cfg.RetentionMs,
	}
	var err error
	n.quorum, err = quorum.Open(o)
	if err != nil {
		return &dataError{fmt.Errorf("open the metadata log in %s: %w", home.Path(), err)}
	}
	if err := n.quorum.Double(ctx); err != nil {
		return &dataError{err}
	}
	return nil
}

// buildBroker makes what a node has only as a broker.
func (n *Node) buildBroker(clusterID string) {
	n.throttles = quota.NewReplication(quota.ReplicationOptions{
		NodeID: n.cfg.ID, Rates: throttleRates(n.cfg), Now: n.o.Now,
		Lists: func(topic string, overrides map[string]string) (leaders, followers []string) {
			t := n.topicConfig(topic, overrides)
			return t.ThrottledLeaders, t.ThrottledFollowers
		},
	})
	n.replicas = replica.NewSet(replica.Options{
		NodeID: n.cfg.ID, Store: n.store, FlushBeforeAck: n.cfg.Storage.FlushBeforeAck, Now: n.o.Now, Logger: n.o.Logger, Metrics: n.metrics,
		MoveRate: n.throttles.Dirs, MoveCount: int(n.cfg.Storage.MoveThreads),
		LogConfig: func(topic string, overrides map[string]string) commitlog.Config {
			return logConfig(n.topicConfig(topic, overrides))
		},
		MinInSync: func(topic string, overrides map[string]string) int {
			return int(n.topicConfig(topic, overrides).MinInSyncReplicas)
		},
	})
	n.first = newFirst(n.replicas)
	n.groups = group.New(n.groupOptions())
	n.beats, n.admin = uplink.NewLink(n.linkOptions()), uplink.NewLink(n.linkOptions())
	n.uplink = uplink.New(n.uplinkOptions(clusterID))
	n.fetcher = fetcher.New(n.fetcherOptions())
	n.buildZooKeeper(clusterID)
	n.gate.subscribers = []metadata.Subscriber{n.throttles, n.replicas, n.first, n.fetcher, n.groups, n.tree, n.zookeeper, peers{n}}
}

// groupOptions is what consumer groups need.
func (n *Node) groupOptions() group.Options {
	return group.Options{
		Groups: n.cfg.Groups, Image: n.loader.Image, Logger: n.o.Logger, Metrics: n.metrics,
		Runtime: coordinator.Options{
			NodeID: n.cfg.ID, Replicas: n.replicas, Codec: batch.Codec(n.cfg.Groups.Codec), LoadBytes: int(n.cfg.Groups.LoadBytes),
			Now: n.o.Now, Elapsed: n.elapsed, Lease: n.lease(),
		},
	}
}

// lease is how long a coordinator believes that it still leads. The controller deposes a leader broker.session.timeout.ms after
// its last heartbeat, which may be an interval older than the last commit.
func (n *Node) lease() time.Duration {
	timeout, interval := milliseconds(n.cfg.Session.TimeoutMs), milliseconds(n.cfg.Session.HeartbeatMs)
	return min(timeout/2, timeout-interval)
}

// ErrData is in the chain of Start's error when a data directory is damaged, another's, or in use. To start again is
// no cure for it.
var ErrData = errors.New("a data directory cannot be used")

type dataError struct{ err error }

func (e *dataError) Error() string        { return e.err.Error() }
func (e *dataError) Unwrap() error        { return e.err }
func (e *dataError) Is(target error) bool { return target == ErrData }

// metadataDirectory is where the metadata log lies. A log that lies in another of the node's directories is not passed by:
// without it every topic would be gone.
func (n *Node) metadataDirectory() (*storage.Directory, error) {
	home := n.store.Apart()
	for _, d := range n.store.Directories() {
		if home == nil && filepath.Clean(d.Path()) == filepath.Clean(n.cfg.Storage.MetadataDir) {
			home = d
		}
	}
	if err := home.Err(); err != nil {
		return nil, fmt.Errorf("metadata.log.dir: %w", err)
	}
	folder := func(d *storage.Directory) string { return filepath.Join(d.Path(), "__cluster_metadata-0") }
	here, err := vfs.Exists(n.o.FS, folder(home))
	if err != nil || here {
		return home, err
	}
	for _, d := range n.store.Directories() {
		if there, err := vfs.Exists(n.o.FS, folder(d)); d.Online() && err == nil && there {
			return nil, &dataError{fmt.Errorf("the metadata log is %s, and metadata.log.dir is %s: set metadata.log.dir=%s, or move that folder while the node is down",
				folder(d), n.cfg.Storage.MetadataDir, d.Path())}
		}
	}
	return home, nil
}

// apart is the metadata log's directory if it is none of log.dirs.
func (n *Node) apart() string {
	for _, dir := range n.cfg.Storage.Dirs {
		if filepath.Clean(dir) == filepath.Clean(n.cfg.Storage.MetadataDir) {
			return ""
		}
	}
	return n.cfg.Storage.MetadataDir
}

// openFiles is how many files of partitions may be open in each log directory: together half of what the process may have
// open, the rest is for connections. 0, which is the Store's default, where nobody tells.
func (n *Node) openFiles() int {
	limited, ok := n.o.FS.(interface{ MaxOpen() (int, error) })
	if !ok {
		return 0
	}
	limit, err := limited.MaxOpen()
	if err != nil {
		return 0
	}
	return max(16, limit/2/len(n.cfg.Storage.Dirs))
}
