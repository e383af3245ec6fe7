package group

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
	"moldau/internal/storage"
	"moldau/internal/vfs"
)

// world is one node's coordinator over real partitions on a disk in memory, with metadata that a test writes by hand. It
// lives in a synctest bubble.
type world struct {
	t      *testing.T
	disk   *vfs.Mem
	gate   *gate
	store  *storage.Store
	set    *replica.Set
	c      *Coordinator
	image  *metadata.Image
	groups config.Groups
	epoch  kafka.Epoch
}

// gate holds back syncs of the groups' log while it is shut.
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

// inWorld runs a test in a bubble, with a topic for groups of one partition that is loaded.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, disk: vfs.NewMem(), gate: &gate{}, groups: config.Groups{
			Partitions: 1, LoadBytes: 4096, CommitTimeoutMs: 5000, RetentionMs: 7 * 24 * 3600 * 1000, RetentionCheckMs: 600_000,
			MetadataMaxBytes: 8, MinSessionMs: 6000, MaxSessionMs: 1_800_000, InitialDelayMs: 3000, MaxSize: 5,
		}}
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
		LogConfig: func(string, map[string]string) commitlog.Config { return commitlog.DefaultConfig() },
	})
	w.image = metadata.EmptyImage()
	began := time.Now()
	w.c = New(Options{
		Groups: w.groups, Image: func() *metadata.Image { return w.image },
		Runtime: coordinator.Options{
			NodeID: self, Replicas: w.set, LoadBytes: int(w.groups.LoadBytes), Now: time.Now,
			Elapsed: func() time.Duration { return time.Since(began) },
		},
	})
	w.create("orders", 3)
	w.create(Topic, 1)
	for _, p := range w.set.Partitions() {
		<-p.Opened() // after a crash what was there is synced before it counts
	}
	synctest.Wait()
}

// create makes a topic whose partitions are led here.
func (w *world) create(name string, partitions int32) {
	id := kafka.TopicID{0: 7}
	copy(id[1:], name)
	records := []metadata.Record{&metadata.TopicRecord{Name: name, TopicID: id}}
	for p := range partitions {
		records = append(records, w.partition(id, p))
	}
	w.apply(records...)
}

func (w *world) partition(id kafka.TopicID, p int32) *metadata.PartitionRecord {
	return &metadata.PartitionRecord{
		TopicID: id, PartitionID: p, Replicas: []kafka.NodeID{self}, ISR: []kafka.NodeID{self}, Leader: self,
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

// stop ends everything in the order in which a node does.
func (w *world) stop() {
	w.gate.open()
	w.c.Stop()
	if held := w.c.held.Load(); held != 0 {
		w.t.Errorf("%d bytes are still held of members that are gone", held)
	}
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
