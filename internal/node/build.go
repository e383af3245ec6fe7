package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/api"
	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/config"
	"moldau/internal/controller"
	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
	"moldau/internal/quorum"
	"moldau/internal/replica"
	"moldau/internal/server"
	"moldau/internal/storage"
	"moldau/internal/uplink"
	"moldau/internal/vfs"
)

// Options say what to build. Seams that are left empty are the operating system's.
type Options struct {
	Config *config.Config
	Logger *slog.Logger

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

	stopping atomic.Bool
	stopped  chan struct{} // closed when Stop is through
	stopErr  error         // written before that

	listeners []bound
	serving   bool
	metrics   *metrics.Set
	health    health
	phase     atomic.Int32

	atStart      atomic.Pointer[[]*replica.Partition] // that were here when the node began to run
	recoveredAll atomic.Bool                          // all of those have been open at one time

	store      *storage.Store
	loader     *metadata.Loader
	gate       *gate
	quorum     *quorum.Quorum
	controller *controller.Controller
	replicas   *replica.Set
	groups     *group.Coordinator
	uplink     *uplink.Uplink
	server     *server.Server
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
	if err := n.supported(); err != nil {
		return nil, err
	}
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
	n.health = health{ready: n.ready, startup: n.recovered, live: n.alive, metrics: n.metrics.Handler()}
	return n, nil
}

// supported refuses what a single node cannot be.
func (n *Node) supported() error {
	q := n.cfg.Quorum
	switch {
	case !n.cfg.Roles.Broker || !n.cfg.Roles.Controller:
		return errors.New("process.roles: a node has to be broker and controller for now; set process.roles=broker,controller")
	case len(q.Voters) > 1:
		return fmt.Errorf("controller.quorum.voters lists %d nodes: clusters of several nodes are not supported yet; list this node only, or leave the key out", len(q.Voters))
	case len(q.Voters) == 1 && q.Voters[0].ID != n.cfg.ID:
		return fmt.Errorf("controller.quorum.voters lists node %d, and this is node %d (node.id)", q.Voters[0].ID, n.cfg.ID)
	}
	return nil
}

// open locks the directories, recovers the metadata log and builds every part, in an order in which each needs only
// those before it.
func (n *Node) open() error {
	cfg, logger := n.cfg, n.o.Logger
	var err error
	n.store, err = storage.OpenDirectories(storage.Options{
		FS: n.o.FS, Dirs: cfg.Storage.Dirs, NodeID: cfg.ID, Now: n.o.Now, Logger: logger, Metrics: n.metrics,
		FlushBeforeAck:    cfg.Storage.FlushBeforeAck,
		RecoveryThreads:   int(cfg.Storage.RecoveryThreads),
		RetentionInterval: milliseconds(cfg.Retention.CheckMs),
		ProducerExpiryMs:  int64(cfg.Producers.ExpiryMs),
		Cleaner: storage.CleanerOptions{
			Threads: int(cfg.Cleaner.Threads), MapBytes: cfg.Cleaner.MapBytes, MapLoad: cfg.Cleaner.MapLoad,
			BufferBytes: int(cfg.Cleaner.BufferBytes), BytesPerSecond: cfg.Cleaner.BytesPerSecond, Backoff: milliseconds(max(1, cfg.Cleaner.BackoffMs)),
		},
	})
	if err != nil {
		return &dataError{err}
	}
	clusterID, err := n.identify()
	if err != nil {
		return &dataError{err}
	}
	home, err := n.metadataDirectory()
	if err != nil {
		return err
	}

	n.gate = &gate{}
	n.quorum, err = quorum.Open(quorum.Options{
		FS: n.o.FS, Dir: home.Path(), NodeID: cfg.ID, DirID: home.ID(),
		Endpoints: n.controllerEndpoints(), Listener: &stream{n}, Now: n.o.Now, Logger: logger, Metrics: n.metrics,
		SegmentBytes: int(cfg.Quorum.SegmentBytes), SegmentMs: cfg.Quorum.SegmentMs,
		SnapshotMaxBytes: cfg.Quorum.SnapshotMaxNewBytes, SnapshotIntervalMs: cfg.Quorum.SnapshotMaxIntervalMs,
		RetentionBytes: cfg.Quorum.RetentionBytes, RetentionMs: cfg.Quorum.RetentionMs,
	})
	if err != nil {
		return &dataError{fmt.Errorf("open the metadata log in %s: %w", home.Path(), err)}
	}
	n.controller = controller.New(controller.Options{
		NodeID: cfg.ID, ClusterID: clusterID, Log: n.quorum, Logger: logger,
		Config: n.controllerConfig(), Rules: configRules(n.o.Config), Features: features(),
	})
	n.replicas = replica.NewSet(replica.Options{
		NodeID: cfg.ID, Store: n.store, FlushBeforeAck: cfg.Storage.FlushBeforeAck, Now: n.o.Now, Logger: logger, Metrics: n.metrics,
		LogConfig: func(topic string, overrides map[string]string) commitlog.Config {
			return logConfig(n.topicConfig(topic, overrides))
		},
		MinInSync: func(topic string, overrides map[string]string) int {
			return int(n.topicConfig(topic, overrides).MinInSyncReplicas)
		},
	})
	// The controller is last: its answers leave from there, and what they say is then true of this node.
	n.loader = metadata.NewLoader(n.gate, n.controller)
	n.groups = group.New(n.groupOptions())
	n.gate.subscribers = []metadata.Subscriber{n.replicas, n.groups}
	n.uplink = uplink.New(n.uplinkOptions(clusterID))
	n.server = server.New(server.Options{
		Routes: api.New(n.apiOptions(clusterID)).Routes(), Limits: n.limits(), Logger: logger, Metrics: n.metrics, Now: n.o.Now,
	})
	return nil
}

// groupOptions is what consumer groups need. Their timers run by a clock that nobody sets.
func (n *Node) groupOptions() group.Options {
	began := time.Now()
	return group.Options{
		Groups: n.cfg.Groups, Image: n.loader.Image, Logger: n.o.Logger, Metrics: n.metrics,
		Runtime: coordinator.Options{
			NodeID: n.cfg.ID, Replicas: n.replicas, Codec: batch.Codec(n.cfg.Groups.Codec), LoadBytes: int(n.cfg.Groups.LoadBytes),
			Now: n.o.Now, Elapsed: func() time.Duration { return time.Since(began) },
		},
	}
}

// ErrData is in the chain of Start's error when a data directory is damaged, another's, or in use. To start again is
// no cure for it.
var ErrData = errors.New("a data directory cannot be used")

type dataError struct{ err error }

func (e *dataError) Error() string        { return e.err.Error() }
func (e *dataError) Unwrap() error        { return e.err }
func (e *dataError) Is(target error) bool { return target == ErrData }

// identify returns the cluster's id: that of the data, or the one configured, or a new one.
func (n *Node) identify() (string, error) {
	id, formatted := n.store.ClusterID()
	switch {
	case formatted && n.cfg.ClusterID != "" && n.cfg.ClusterID != id:
		return "", fmt.Errorf("the data in %v belongs to cluster %s, and cluster.id is %s: point log.dirs to other folders, or drop cluster.id", n.cfg.Storage.Dirs, id, n.cfg.ClusterID)
	case !formatted && n.cfg.ClusterID != "":
		id = n.cfg.ClusterID
	case !formatted:
		id = kafka.NewUUID().String()
	}
	// Also for directories that were added to a formatted node.
	return id, n.store.Format(id)
}

// metadataDirectory is where the metadata log lies.
func (n *Node) metadataDirectory() (*storage.Directory, error) {
	for _, d := range n.store.Directories() {
		if d.Path() != n.cfg.Storage.MetadataDir {
			continue
		}
		if err := d.Err(); err != nil {
			return nil, fmt.Errorf("metadata.log.dir: %w", err)
		}
		return d, nil
	}
	return nil, fmt.Errorf("metadata.log.dir=%s: name one of log.dirs (%v)", n.cfg.Storage.MetadataDir, n.cfg.Storage.Dirs)
}
