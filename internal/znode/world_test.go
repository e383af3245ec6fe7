package znode

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/commitlog"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
	"moldau/internal/storage"
	"moldau/internal/vfs"
)

// world is one node's tree over a real partition on a disk in memory, with metadata that a test writes by hand. It lives in
// a synctest bubble.
type world struct {
	t             *testing.T
	disk          *vfs.Mem
	gate          *gate
	store         *storage.Store
	set           *replica.Set
	c             *Coordinator
	image         *metadata.Image
	epoch         kafka.Epoch
	snapshotBytes int
	began         time.Time
	// command is what the controller does.
	command func(ctx context.Context, req kmsg.Request) (Outcome, error)
}

// gate holds back syncs of logs while it is shut.
type gate struct {
	mu   sync.Mutex
	shut chan struct{} // nil = open
}

func (g *gate) hook(op vfs.Op) error {
	if (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncData) && strings.HasSuffix(op.Path, ".log") {
		g.mu.Lock()
		wait := g.shut
		g.mu.Unlock()
		if wait != nil {
			<-wait
		}
	}
	return nil
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
		g.shut = nil
	}
}

const self kafka.NodeID = 1

// inWorld runs a test in a bubble, with a tree that is served.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, disk: vfs.NewMem(), gate: &gate{}, snapshotBytes: 1 << 30, image: metadata.EmptyImage(), began: time.Now()}
		w.disk.SetNow(time.Now)
		w.start()
		defer w.stop()
		test(w)
	})
}

// start opens what is on the disk under a new leader epoch.
func (w *world) start() {
	fs := vfs.NewInject(w.disk)
	fs.Hook = w.gate.hook
	store, err := storage.OpenDirectories(storage.Options{FS: fs, Dirs: []string{"/data"}, NodeID: self, Now: time.Now, FlushBeforeAck: true})
	w.must(err)
	w.must(store.Format("cluster"))
	w.must(store.Start())
	w.store = store
	w.set = replica.NewSet(replica.Options{
		NodeID: self, Store: store, FlushBeforeAck: true, Now: time.Now,
		LogConfig: func(string, map[string]string) commitlog.Config {
			c := commitlog.DefaultConfig()
			c.MaxMessageBytes, c.Delete = MaxRecordBytes, true
			return c
		},
	})
	w.c = New(Options{
		ClusterID: "cluster", Image: func() *metadata.Image { return w.image }, Controller: func() kafka.NodeID { return kafka.NoNode },
		Command:      func(ctx context.Context, req kmsg.Request) (Outcome, error) { return w.command(ctx, req) },
		MinTimeoutMs: 4000, MaxTimeoutMs: 40000, CommandTimeout: 5 * time.Second, SnapshotBytes: w.snapshotBytes,
		Runtime: coordinator.Options{
			NodeID: self, Replicas: w.set, LoadBytes: 4096, Now: time.Now,
			Elapsed: func() time.Duration { return time.Since(w.began) },
		},
	})
	topic, known := w.image.Topics.ByName(Topic)
	if known { // as a node that starts is told of everything at once
		delta := metadata.Between(metadata.EmptyImage(), w.image)
		w.set.Apply(delta, w.image)
		w.c.Apply(delta, w.image)
		w.apply(w.partition(topic.ID, self))
	} else {
		id := kafka.TopicID{7}
		w.apply(&metadata.TopicRecord{Name: Topic, TopicID: id}, w.partition(id, self))
	}
	for _, p := range w.set.Partitions() {
		<-p.Opened() // after a crash what was there is synced before it counts
	}
	synctest.Wait()
}

func (w *world) partition(id kafka.TopicID, leader kafka.NodeID) *metadata.PartitionRecord {
	return &metadata.PartitionRecord{
		TopicID: id, Replicas: []kafka.NodeID{self}, ISR: []kafka.NodeID{self}, Leader: leader,
		LeaderEpoch: w.epoch, PartitionEpoch: w.epoch, Directories: make([]kafka.DirID, 1),
	}
}

func (w *world) apply(records ...metadata.Record) {
	delta := metadata.NewDelta(w.image)
	for _, r := range records {
		w.must(delta.Replay(r))
	}
	w.image = delta.Image(w.image.Offset+1, 1)
	w.set.Apply(delta, w.image)
	w.c.Apply(delta, w.image)
}

// resign takes the tree from this node; elect gives it back.
func (w *world) resign() { w.lead(kafka.NoNode) }
func (w *world) elect()  { w.lead(self) }

func (w *world) lead(leader kafka.NodeID) {
	w.epoch++
	topic, _ := w.image.Topics.ByName(Topic)
	w.apply(w.partition(topic.ID, leader))
	synctest.Wait()
}

// stop ends everything in the order in which a node does.
func (w *world) stop() {
	w.c.Stop()
	w.gate.open()
	w.must(w.store.Stop(true))
}

// crash starts anew from what a power cut leaves on the disk: what was synced, and of the rest a random part.
func (w *world) crash(seed uint64, keep float64) {
	left := w.disk.CrashClone(rand.New(rand.NewPCG(seed, 1)), keep)
	w.stop()
	w.disk = left
	w.epoch++
	w.start()
}

// restart starts anew from a clean stop.
func (w *world) restart() {
	w.stop()
	w.epoch++
	w.start()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// caller is a client of a test.
type caller struct {
	w    *world
	name string
	*Client
	xid     int32
	session Connected
	pending *coordinator.Promise[[]Message] // taken and not committed
}

// call connects a client; what it is answered is among its messages.
func (w *world) call(name string, req Connect) *caller {
	c := &caller{w: w, name: name, Client: w.c.Client("127.0.0.1:"+name, func() {})}
	if err := c.Connect(0, req); err != nil {
		w.t.Fatalf("%s: connect: %v", name, err)
	}
	return c
}

// messages is what has come and may be passed on.
func (c *caller) messages() (out []Message, err error) {
	for {
		if c.pending == nil {
			if c.pending = c.Next(); c.pending == nil {
				return out, nil
			}
		}
		<-c.pending.Given()
		if committed := c.pending.Committed(); committed != nil {
			select {
			case <-committed:
			default:
				return out, nil
			}
		}
		some, err := c.pending.Answer()
		c.pending = nil
		if err != nil {
			return out, err
		}
		for _, m := range some {
			if connected, ok := m.Answer.(Connected); ok {
				c.session = connected
			}
		}
		out = append(out, some...)
	}
}

// do asks for something and returns the answer, with the events that came before it.
func (c *caller) do(op Op) (answer Message, events []Event) {
	c.w.t.Helper()
	c.xid++
	c.w.must(c.Do(context.Background(), c.xid, op))
	synctest.Wait()
	all, err := c.messages()
	c.w.must(err)
	for _, m := range all {
		if e, ok := m.Answer.(Event); ok {
			events = append(events, e)
		} else if m.Xid == c.xid {
			answer = m
		}
	}
	if answer.Xid != c.xid {
		c.w.t.Fatalf("%s: no answer to %T %+v", c.name, op, op)
	}
	return answer, events
}

// open is the ACL that clients send.
func open() []ACL { return []ACL{{permAll, anyone}} }
