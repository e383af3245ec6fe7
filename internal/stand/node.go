package stand

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
	"moldau/internal/storage"
	"moldau/internal/vfs"
)

// Self is the id of a Node.
const Self kafka.NodeID = 1

// Node is the storage and the replicas of one node on a disk in memory, whose log's syncs a gate can hold back.
type Node struct {
	T     *testing.T
	Disk  *vfs.Mem
	Gate  *vfs.Gate
	Store *storage.Store
	Set   *replica.Set
	Epoch kafka.Epoch // leader epoch, and partition epoch, of what Partition makes
	Log   commitlog.Config
	// Begin makes what is tested, over Set, and brings its partitions; End ends it.
	Begin, End func()
	// Subscribers returns who hears of metadata after Set.
	Subscribers func() []metadata.Subscriber

	now   func() time.Time
	image atomic.Pointer[metadata.Image] // written by the test's goroutine
}

// NewNode returns a node with an empty disk, on which nothing runs, and its wall clock. Set its functions before Start.
func NewNode(t *testing.T, now func() time.Time) *Node {
	n := &Node{T: t, now: now, Disk: vfs.NewMem(), Gate: &vfs.Gate{}, Log: commitlog.DefaultConfig()}
	n.SetImage(metadata.EmptyImage())
	n.Disk.SetNow(now)
	return n
}

// Start opens what is on the disk, begins what is tested, and waits until its partitions are open.
func (n *Node) Start() {
	n.T.Helper()
	fs := vfs.NewInject(n.Disk)
	fs.Hook = n.Gate.Hook
	store, err := storage.OpenDirectories(storage.Options{FS: fs, Dirs: []string{"/data"}, NodeID: Self, Now: n.now, FlushBeforeAck: true})
	n.Must(err)
	n.Must(store.Format("cluster"))
	n.Must(store.Start())
	n.Store = store
	n.Set = replica.NewSet(replica.Options{
		NodeID: Self, Store: store, FlushBeforeAck: true, Now: n.now,
		LogConfig: func(string, map[string]string) commitlog.Config { return n.Log },
	})
	n.Begin()
	for _, p := range n.Set.Partitions() {
		<-p.Opened() // after a crash what was there is synced before it counts
	}
	synctest.Wait()
}

// Stop ends everything in the order in which a node does.
func (n *Node) Stop() {
	n.End()
	n.Gate.Open()
	n.Must(n.Store.Stop(true))
}

// Restart starts anew from a clean stop, under a new leader epoch.
func (n *Node) Restart() {
	n.Stop()
	n.Epoch++
	n.Start()
}

// Crash starts anew from what a power cut leaves on the disk: what was synced, and of the rest a random part.
func (n *Node) Crash(seed uint64, keep float64) {
	left := n.Disk.CrashClone(rand.New(rand.NewPCG(seed, 1)), keep)
	n.Stop()
	n.Disk = left
	n.Epoch++
	n.Start()
}

// Image is what the metadata say. What is tested may ask on goroutines of its own.
func (n *Node) Image() *metadata.Image { return n.image.Load() }

// SetImage has them say something else, and tells nobody.
func (n *Node) SetImage(image *metadata.Image) { n.image.Store(image) }

// Partition is a partition of which this node has the only replica.
func (n *Node) Partition(id kafka.TopicID, partition int32, leader kafka.NodeID) *metadata.PartitionRecord {
	return &metadata.PartitionRecord{
		TopicID: id, PartitionID: partition, Replicas: []kafka.NodeID{Self}, ISR: []kafka.NodeID{Self}, Leader: leader,
		LeaderEpoch: n.Epoch, PartitionEpoch: n.Epoch, Directories: make([]kafka.DirID, 1),
	}
}

// Apply makes the records true and tells everybody.
func (n *Node) Apply(records ...metadata.Record) {
	n.T.Helper()
	delta := metadata.NewDelta(n.Image())
	for _, r := range records {
		n.Must(delta.Replay(r))
	}
	n.SetImage(delta.Image(n.Image().Offset+1, 1))
	n.Tell(delta)
}

// Tell tells everybody how Image has come about.
func (n *Node) Tell(delta *metadata.Delta) {
	n.Set.Apply(delta, n.Image())
	for _, s := range n.Subscribers() {
		s.Apply(delta, n.Image())
	}
}

// Must ends the test if there is an error.
func (n *Node) Must(err error) {
	n.T.Helper()
	if err != nil {
		n.T.Fatal(err)
	}
}
