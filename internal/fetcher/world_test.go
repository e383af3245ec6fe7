package fetcher

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/api"
	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
	"moldau/internal/quota"
	"moldau/internal/replica"
	"moldau/internal/server"
	"moldau/internal/stand"
	"moldau/internal/storage"
	"moldau/internal/vfs"
)

// world is some brokers that share metadata which the test writes by hand. It lives in a synctest bubble.
type world struct {
	t     testing.TB
	image atomic.Pointer[metadata.Image]
	nodes map[kafka.NodeID]*broker
	log   lockedText

	bytes atomic.Int64 // that all followers have sent and received
}

// broker is one node: its store and Set are the real ones, and so are the server that answers fetches and the Fetcher.
type broker struct {
	w       *world
	id      kafka.NodeID
	disk    *vfs.Mem
	dirs    []string
	fs      *vfs.Inject
	store   *storage.Store
	set     *replica.Set
	fetcher *Fetcher
	quota   *quota.Replication
	srv     *server.Server
	ln      *stand.Pipes
	serving sync.WaitGroup
	options func(*Options)
	up      bool
}

func newWorld(t testing.TB, ids ...kafka.NodeID) *world {
	w := &world{t: t, nodes: map[kafka.NodeID]*broker{}}
	w.image.Store(metadata.EmptyImage())
	for _, id := range ids {
		b := &broker{w: w, id: id, disk: vfs.NewMem(), dirs: []string{"/data"}}
		w.nodes[id] = b
		b.start()
	}
	var records []metadata.Record
	for _, id := range ids {
		records = append(records, registration(id, 1))
	}
	w.apply(records...)
	return w
}

func registration(id kafka.NodeID, epoch int64) metadata.Record {
	rack := fmt.Sprintf("rack-%d", id)
	return &metadata.RegisterBrokerRecord{BrokerID: id, BrokerEpoch: epoch, Rack: &rack}
}

func (b *broker) start() {
	w := b.w
	b.fs = vfs.NewInject(b.disk)
	var err error
	b.store, err = storage.OpenDirectories(storage.Options{FS: b.fs, Dirs: b.dirs, NodeID: b.id, Now: time.Now, FlushBeforeAck: true})
	w.must(err)
	w.must(b.store.Format("cluster"))
	w.must(b.store.Start())
	m, logger := metrics.NewSet(), slog.New(slog.NewTextHandler(&w.log, nil))
	b.set = replica.NewSet(replica.Options{
		NodeID: b.id, Store: b.store, FlushBeforeAck: true, Now: time.Now, Metrics: m,
		LogConfig: func(string, map[string]string) commitlog.Config { return commitlog.DefaultConfig() },
		MinInSync: func(_ string, set map[string]string) int {
			n := 1
			if text, ok := set["min.insync.replicas"]; ok {
				_, err := fmt.Sscan(text, &n)
				w.must(err)
			}
			return n
		},
	})
	b.quota = quota.NewReplication(quota.ReplicationOptions{
		NodeID: b.id, Rates: quota.Rates{Leader: quota.Unlimited, Follower: quota.Unlimited}, Now: time.Now,
		Lists: func(_ string, set map[string]string) (leaders, followers []string) {
			return []string{set["leader.replication.throttled.replicas"]}, []string{set["follower.replication.throttled.replicas"]}
		},
	})
	o := Options{
		NodeID: b.id, Replicas: b.set, Logger: logger.With("node", b.id), Metrics: m,
		BrokerEpoch: func() int64 {
			known, _ := w.image.Load().Cluster.Broker(b.id)
			return known.Epoch
		},
		Dial:     w.dial,
		Throttle: b.quota.Follower,
		Address:  func(id kafka.NodeID) (string, bool) { return fmt.Sprint(id), true },
	}
	if b.options != nil {
		b.options(&o)
	}
	b.fetcher = New(o)
	served := api.New(api.Options{
		Owners: api.Owners{Image: w.image.Load, Replicas: b.set, Store: b.store},
		NodeID: b.id, FetchMaxBytes: 55 << 20, FetchSessionSlots: 10, NearestReplica: true, LeaderThrottle: b.quota.Leader, RequestTimeout: 30 * time.Second, Now: time.Now, Logger: logger, Metrics: m,
	})
	b.srv = server.New(server.Options{Routes: served.Routes(), Limits: server.Limits{RequestMaxBytes: 1 << 20}, Logger: logger, Metrics: m, Now: time.Now})
	b.ln = stand.NewPipes()
	ln := b.ln
	b.serving.Go(func() { _ = b.srv.Serve(ln, server.Listener{Name: "PLAINTEXT", Kind: server.Broker}) })
	b.up = true
	delta, image := metadata.Between(metadata.EmptyImage(), w.image.Load()), w.image.Load()
	b.quota.Apply(delta, image)
	b.set.Apply(delta, image)
}

func (b *broker) stop(clean bool) {
	b.up = false
	b.fetcher.Stop()
	b.w.must(b.srv.Stop(context.Background()))
	b.serving.Wait()
	b.w.must(b.store.Stop(clean))
}

func (w *world) stop() {
	up := w.up()
	for _, b := range up {
		b.fetcher.Stop()
	}
	for _, b := range up {
		b.stop(true)
	}
	if w.t.Failed() {
		w.t.Log(w.log.String())
	}
}

// up are the brokers that run.
func (w *world) up() []*broker {
	var up []*broker
	for _, b := range w.nodes {
		if b.up {
			up = append(up, b)
		}
	}
	slices.SortFunc(up, func(a, b *broker) int { return int(a.id - b.id) })
	return up
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// flip changes a bit of a file on a node's disk, and back the next time.
func (b *broker) flip(path string, at int64) {
	f, err := b.disk.Open(path, vfs.Write)
	b.w.must(err)
	defer f.Close()
	var one [1]byte
	_, err = f.ReadAt(one[:], at)
	b.w.must(err)
	one[0] ^= 1
	_, err = f.WriteAt(one[:], at)
	b.w.must(err)
}

// dial connects to a node, whose address is its id.
func (w *world) dial(ctx context.Context, address string) (net.Conn, error) {
	var id kafka.NodeID
	if _, err := fmt.Sscan(address, &id); err != nil {
		return nil, err
	}
	ln := w.nodes[id].ln
	ours, theirs := net.Pipe()
	select {
	case ln.Conns <- theirs:
		return &countedConn{ours, &w.bytes}, nil
	case <-ln.Closed():
		return nil, fmt.Errorf("connection to %s refused", address)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// countedConn counts what goes over a connection.
type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.bytes.Add(int64(n))
	return n, err
}

// apply replays records as one delta on every node that is up, and waits until it is done.
func (w *world) apply(records ...metadata.Record) {
	w.t.Helper()
	old := w.image.Load()
	delta := metadata.NewDelta(old)
	for _, r := range records {
		w.must(delta.Replay(r))
	}
	image := delta.Image(old.Offset+1, 1)
	w.image.Store(image)
	for _, b := range w.up() {
		b.quota.Apply(delta, image)
		b.set.Apply(delta, image)
		b.fetcher.Apply(delta, image)
	}
	if _, bubble := w.t.(*testing.T); bubble { // a benchmark is in none, and waits for what it needs
		synctest.Wait()
	}
}

func topicID(name string) kafka.TopicID {
	id := kafka.TopicID{0: 7}
	copy(id[1:], name)
	return id
}

// lead makes or changes a partition.
func (w *world) lead(name string, partition int32, epoch kafka.Epoch, replicas []kafka.NodeID, leader kafka.NodeID, isr ...kafka.NodeID) {
	w.t.Helper()
	var records []metadata.Record
	if _, ok := w.image.Load().Topics.ByName(name); !ok {
		records = append(records, &metadata.TopicRecord{Name: name, TopicID: topicID(name)})
	}
	w.apply(append(records, &metadata.PartitionRecord{
		TopicID: topicID(name), PartitionID: partition, Replicas: replicas, ISR: isr, Leader: leader, LeaderEpoch: epoch, PartitionEpoch: epoch,
		Directories: make([]kafka.DirID, len(replicas)),
	})...)
}

func (b *broker) partition(name string, partition int32) *replica.Partition {
	b.w.t.Helper()
	p, err := b.set.Partition(kafka.TopicPartition{Topic: name, Partition: partition})
	b.w.must(err)
	<-p.Opened()
	return p
}

// produce appends n records as one batch with acks=all and returns the Waiter.
func (b *broker) produce(name string, partition int32, n int) *replica.Waiter {
	b.w.t.Helper()
	_, w, err := b.partition(name, partition).Append(records(n, 10), replica.AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
	b.w.must(err)
	if w != nil {
		replica.Hurry(w)
	}
	return w
}

func records(n, size int) []byte {
	b := batch.NewBuilder(batch.BuildOptions{LeaderEpoch: kafka.NoEpoch})
	for i := range n {
		b.Add(batch.Record{Offset: int64(i), Timestamp: 1000, Value: make([]byte, size)})
	}
	return b.Build()
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

func (b *lockedText) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
