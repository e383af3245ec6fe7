package api

import (
	"context"
	"iter"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

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
	"moldau/internal/stand"
	"moldau/internal/storage"
	"moldau/internal/telemetry"
	"moldau/internal/uplink"
	"moldau/internal/vfs"
	"moldau/internal/wire"
	"moldau/internal/znode"
	"moldau/internal/zookeeper"
)

// testNode is a whole node on a disk in memory: the owners are the real ones, and so is the server. Only the network is
// made of pipes. It lives in a synctest bubble.
type testNode struct {
	t          *testing.T
	api        *API
	store      *storage.Store
	set        *replica.Set
	groups     *group.Coordinator
	tree       *znode.Coordinator
	zookeeper  *zookeeper.Server
	loader     *metadata.Loader
	quorum     *quorum.Quorum
	controller *controller.Controller
	uplink     *uplink.Uplink
	srv        *server.Server
	broker     *stand.Pipes
	control    *stand.Pipes
	log        lockedText
	level      slog.LevelVar
	metrics    *metrics.Set
	run        sync.WaitGroup
	stopUplink context.CancelFunc
	next       int32 // correlation id
	members    memberNames
}

// nodeOptions is what a test wants to be different.
type nodeOptions struct {
	settings string // server.properties
	slots    int    // of fetch sessions; 0: 1000
	disk     func(vfs.FS) vfs.FS
}

const testNodeID = 1

// inNode runs a test against a node, in a bubble.
func inNode(t *testing.T, o nodeOptions, test func(n *testNode)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, o)
		defer n.stop()
		test(n)
	})
}

func startNode(t *testing.T, o nodeOptions) *testNode {
	n := &testNode{t: t, broker: stand.NewPipes(), control: stand.NewPipes()}
	logger := slog.New(slog.NewTextHandler(&n.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	text := "node.id=1\nlisteners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\n" + o.settings
	cfg, _, err := config.Load(config.Source{File: "test.properties", Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	settings := cfg.Node()
	memory := vfs.NewMem()
	memory.SetNow(time.Now)
	disk := vfs.FS(memory)
	if o.disk != nil {
		disk = o.disk(disk)
	}
	m := metrics.NewSet()
	n.metrics = m
	n.store, err = storage.OpenDirectories(storage.Options{
		FS: disk, Dirs: []string{"/data"}, NodeID: testNodeID, Now: time.Now, Logger: logger, Metrics: m, FlushBeforeAck: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	const clusterID = "MkU3OEVBNTcwNTJENDM2Qg"
	if err := n.store.Format(clusterID); err != nil {
		t.Fatal(err)
	}
	if err := n.store.Start(); err != nil {
		t.Fatal(err)
	}
	n.set = replica.NewSet(replica.Options{
		NodeID: testNodeID, Store: n.store, FlushBeforeAck: true, Now: time.Now, Logger: logger, Metrics: m,
		LogConfig: func(topic string, overrides map[string]string) commitlog.Config { return logConfig(t, cfg, overrides) },
	})
	var q *quorum.Quorum
	n.controller = controller.New(controller.Options{
		NodeID: testNodeID, ClusterID: clusterID, Logger: logger,
		Log: proposer(func(epoch int32, records [][]byte) (int64, <-chan error, error) { return q.Propose(epoch, records) }),
		Config: controller.Config{
			NumPartitions: settings.Topics.Partitions, DefaultReplicationFactor: 1, MinInsyncReplicas: 1, SessionTimeoutMs: 9000,
		},
		Rules: controller.ConfigRules{Check: func(r metadata.ConfigResource, values, brokers map[string]string) error {
			switch r.Type {
			case metadata.ConfigBroker:
				return cfg.CheckBrokers(values)
			case metadata.ConfigGroup:
				return cfg.CheckGroup(values, brokers)
			case metadata.ConfigClientMetrics:
				return config.CheckClientMetrics(values)
			}
			_, err := cfg.Topic(values)
			return err
		}},
		Features: testFeatures(),
	})
	began := time.Now()
	n.groups = group.New(group.Options{
		Groups: settings.Groups, Image: func() *metadata.Image { return n.loader.Image() }, Logger: logger, Metrics: m,
		Runtime: coordinator.Options{
			NodeID: testNodeID, Replicas: n.set, LoadBytes: int(settings.Groups.LoadBytes), Now: time.Now,
			Elapsed: func() time.Duration { return time.Since(began) },
		},
	})
	elapsed := func() time.Duration { return time.Since(began) }
	n.tree = znode.New(znode.Options{
		ClusterID: clusterID, Image: func() *metadata.Image { return n.loader.Image() }, Controller: func() kafka.NodeID { return testNodeID },
		SnapshotBytes: 1 << 20, Logger: logger, Metrics: m,
		Runtime: coordinator.Options{NodeID: testNodeID, Replicas: n.set, LoadBytes: 1 << 20, Now: time.Now, Elapsed: elapsed},
	})
	n.zookeeper = zookeeper.New(zookeeper.Options{
		NodeID: testNodeID, Tree: n.tree, Image: func() *metadata.Image { return n.loader.Image() }, Elapsed: elapsed, Logger: logger, Metrics: m,
		Create: func(ctx context.Context) error {
			topic := kmsg.NewCreateTopicsRequestTopic()
			topic.Topic, topic.NumPartitions, topic.ReplicationFactor = znode.Topic, 1, 1
			return n.uplink.AutoCreateAs(ctx, topic)
		},
	})
	pushed := telemetry.New(telemetry.Options{MaxBytes: 1 << 20, Now: time.Now, Logger: logger, Metrics: m})
	n.loader = metadata.NewLoader(n.set, n.groups, n.tree, n.zookeeper, pushed, n.controller)
	dir := n.store.Directories()[0]
	self := quorum.Voter{ID: testNodeID, DirID: dir.ID(), Endpoints: []quorum.Endpoint{{Name: "CONTROLLER", Host: "127.0.0.1", Port: 9093}}}
	q, err = quorum.Open(quorum.Options{
		FS: disk, Dir: "/data", NodeID: self.ID, DirID: self.DirID, Endpoints: self.Endpoints, Voters: []quorum.Voter{self}, CanVote: true,
		Listener: &applier{n}, Now: time.Now, Logger: logger,
		SegmentBytes: 1 << 20, SegmentMs: 1 << 40, SnapshotMaxBytes: 1 << 20, RetentionBytes: -1, RetentionMs: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	n.quorum = q
	n.controller.Start()
	q.Start()
	n.uplink = uplink.New(uplink.Options{
		NodeID: testNodeID, ClusterID: clusterID, Dirs: []kafka.DirID{dir.ID()},
		Listeners:     []uplink.Listener{{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 9092}},
		Features:      []metadata.FeatureRange{{Name: "metadata.version", Min: 7, Max: 33}, {Name: "kraft.version", Min: 0, Max: 1}},
		PreviousEpoch: -1,
		Call: func(ctx context.Context, req kmsg.Request, client uplink.Client) (kmsg.Response, error) {
			return n.controller.Handle(ctx, controller.Request{Body: req, Principal: client.Principal})
		},
		Caught:  func() int64 { return n.loader.Image().Offset },
		Offline: func() []kafka.DirID { return nil }, Heartbeat: 2 * time.Second, Timeout: 10 * time.Second, Logger: logger,
	})
	ctx, cancel := context.WithCancel(context.Background())
	n.stopUplink = cancel
	n.run.Go(func() { n.uplink.Run(ctx) })
	if err := n.uplink.WaitUnfenced(ctx); err != nil {
		t.Fatal(err)
	}
	n.api = New(Options{
		Owners: Owners{
			Image: n.loader.Image, Replicas: n.set, Groups: n.groups, Store: n.store, Uplink: n.uplink, Quorum: q, Telemetry: pushed, Config: func() *config.Config { return cfg }, LogLevel: &n.level,
			TreeOffsets: n.zookeeper.Offsets, PassedOffsets: n.zookeeper.PassedOffsets, NextNodeID: n.controller.NextNodeID,
			Local: func(ctx context.Context, req kmsg.Request, principal, clientID string) (kmsg.Response, error) {
				return n.controller.Handle(ctx, controller.Request{Body: req, Principal: principal, ClientID: clientID})
			},
		},
		NodeID: testNodeID, ClusterID: clusterID, Features: testFeatures(),
		Offsets:          settings.Groups,
		AutoCreateTopics: settings.Topics.AutoCreate, FetchMaxBytes: 55 << 20, FetchSessionSlots: max(o.slots, 1),
		MaxPartitions: 2000, RequestTimeout: 30 * time.Second, Now: time.Now, Logger: logger, Metrics: m,
	})
	if o.slots == 0 {
		n.api.sessions.slots = 1000
	}
	n.srv = server.New(server.Options{
		Routes: n.api.Routes(), Limits: server.Limits{RequestMaxBytes: 1 << 20}, Logger: logger, Metrics: m, Now: time.Now,
	})
	for _, l := range []struct {
		p *stand.Pipes
		l server.Listener
	}{{n.broker, server.Listener{Name: "PLAINTEXT", Kind: server.Broker}}, {n.control, server.Listener{Name: "CONTROLLER", Kind: server.Controller}}} {
		n.run.Go(func() { _ = n.srv.Serve(l.p, l.l) })
	}
	return n
}

func testFeatures() []metadata.FeatureRange {
	return []metadata.FeatureRange{
		{Name: metadata.FeatureMetadataVersion, Min: metadata.MinMetadataVersion, Max: metadata.MaxMetadataVersion},
		{Name: metadata.FeatureKRaftVersion, Min: 0, Max: quorum.KRaftLevel},
	}
}

func (n *testNode) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n.groups.Stop()
	n.tree.Stop()
	n.zookeeper.Stop()
	if err := n.srv.Stop(ctx); err != nil {
		n.t.Error(err)
	}
	n.stopUplink()
	n.run.Wait()
	n.controller.Stop()
	if err := n.quorum.Stop(); err != nil {
		n.t.Error(err)
	}
	if err := n.store.Stop(true); err != nil {
		n.t.Error(err)
	}
}

// proposer is the controller's log.
type proposer func(epoch int32, records [][]byte) (int64, <-chan error, error)

func (p proposer) Propose(epoch int32, records [][]byte) (int64, <-chan error, error) {
	return p(epoch, records)
}

// applier brings what is committed to the loader, as package node does.
type applier struct{ n *testNode }

func (a *applier) Snapshot(id quorum.SnapshotID, _ int64, records iter.Seq2[[]byte, error]) error {
	var values [][]byte
	for v, err := range records {
		if err != nil {
			return err
		}
		values = append(values, append([]byte(nil), v...))
	}
	decoded, err := metadata.DecodeAll(values)
	if err != nil || id.EndOffset == 0 {
		return err
	}
	return a.n.loader.Snapshot(id.EndOffset-1, id.Epoch, decoded)
}

func (a *applier) Commit(base kafka.Offset, epoch kafka.Epoch, _ int64, records [][]byte) error {
	decoded, err := metadata.DecodeAll(records)
	if err != nil {
		return err
	}
	return a.n.loader.Commit(base+int64(len(records))-1, epoch, decoded)
}

func (a *applier) Lead(epoch kafka.Epoch)   { a.n.controller.Lead(epoch) }
func (a *applier) Resign(epoch kafka.Epoch) { a.n.controller.Resign() }

func logConfig(t *testing.T, cfg *config.Config, overrides map[string]string) commitlog.Config {
	c, err := cfg.Topic(overrides)
	if err != nil {
		t.Error(err)
	}
	l := commitlog.DefaultConfig()
	l.SegmentBytes, l.MaxMessageBytes, l.TimestampTypeAppend = int(c.SegmentBytes), int(c.MaxMessageBytes), c.LogAppendTime
	l.BeforeMaxMs, l.AfterMaxMs, l.Compact, l.Delete = c.TimestampBeforeMaxMs, c.TimestampAfterMaxMs, c.Compact, c.Delete
	return l
}

// lockedText is a log that is written from many goroutines.
type lockedText struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *lockedText) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// conn is a client's connection.
type conn struct {
	n  *testNode
	nc net.Conn
}

func (n *testNode) dial(p *stand.Pipes) *conn {
	ours, theirs := net.Pipe()
	p.Conns <- theirs
	return &conn{n, ours}
}

func (c *conn) close() { _ = c.nc.Close() }

// send sends a request and does not wait for its answer.
func (c *conn) send(req kmsg.Request) {
	c.n.t.Helper()
	c.n.next++
	if _, err := c.nc.Write(wire.AppendRequest(nil, c.n.next, kmsg.StringPtr("test"), req)); err != nil {
		c.n.t.Fatalf("send %s: %v", kmsg.NameForKey(req.Key()), err)
	}
}

// receive reads the answer to req.
func (c *conn) receive(req kmsg.Request) kmsg.Response {
	c.n.t.Helper()
	frame, err := wire.ReadFrame(c.nc, 64<<20, nil)
	if err != nil {
		c.n.t.Fatalf("answer to %s: %v\n%s", kmsg.NameForKey(req.Key()), err, c.n.log.buf.String())
	}
	resp := req.ResponseKind()
	if _, err := wire.ReadResponse(frame, resp); err != nil {
		c.n.t.Fatalf("answer to %s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp
}

func (c *conn) do(req kmsg.Request) kmsg.Response {
	c.n.t.Helper()
	c.send(req)
	return c.receive(req)
}

// ask sends one request on a connection of its own.
func (n *testNode) ask(req kmsg.Request) kmsg.Response {
	n.t.Helper()
	c := n.dial(n.broker)
	defer c.close()
	return c.do(req)
}

// create makes a topic and waits until it is ready.
func (n *testNode) create(topic string, partitions int32, configs ...string) {
	n.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, partitions, 1
	for _, c := range configs {
		name, value, _ := strings.Cut(c, "=")
		entry := kmsg.NewCreateTopicsRequestTopicConfig()
		entry.Name, entry.Value = name, &value
		t.Configs = append(t.Configs, entry)
	}
	req.Topics = append(req.Topics, t)
	resp := n.ask(req).(*kmsg.CreateTopicsResponse)
	if code := resp.Topics[0].ErrorCode; code != 0 {
		n.t.Fatalf("create %s: error %d", topic, code)
	}
	n.ready(topic, partitions)
}

// ready waits until a topic's logs are open.
func (n *testNode) ready(topic string, partitions int32) {
	n.t.Helper()
	synctest.Wait()
	for i := range partitions {
		p, err := n.set.Partition(kafka.TopicPartition{Topic: topic, Partition: i})
		if err != nil {
			n.t.Fatal(err)
		}
		<-p.Opened()
	}
}

func (n *testNode) topicID(topic string) kafka.TopicID {
	n.t.Helper()
	t, ok := n.loader.Image().Topics.ByName(topic)
	if !ok {
		n.t.Fatalf("no topic %s", topic)
	}
	return t.ID
}
