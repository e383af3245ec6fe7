package replica

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/quota"
	"moldau/internal/storage"
	"moldau/internal/vfs"
)

// world is one node's Set over a memory disk, with metadata that a test writes by hand.
type world struct {
	t     testing.TB
	id    kafka.NodeID
	disk  *vfs.Mem
	fs    *vfs.Inject
	gate  *vfs.Gate
	store *storage.Store
	set   *Set
	image *metadata.Image
	now   atomic.Int64 // ms
	flush bool
	dirs  []string
	rate  *quota.Bucket // of moves between them
}

const self kafka.NodeID = 1

func topicID(name string) kafka.TopicID {
	id := kafka.TopicID{0: 7}
	copy(id[1:], name)
	return id
}

func newWorld(t testing.TB, flush bool) *world {
	w := newNode(t, self, flush)
	w.start()
	return w
}

// newNode is a world that has not been started.
func newNode(t testing.TB, id kafka.NodeID, flush bool) *world {
	w := &world{t: t, id: id, disk: vfs.NewMem(), gate: &vfs.Gate{}, flush: flush, image: metadata.EmptyImage(), dirs: []string{"/data"}}
	w.now.Store(1_700_000_000_000)
	w.rate = quota.NewBucket(quota.Unlimited, w.clock)
	return w
}

// start opens the store on the world's disk.
func (w *world) start() {
	w.fs = vfs.NewInject(w.disk)
	w.fs.Hook = w.gate.Hook
	store, err := storage.OpenDirectories(storage.Options{
		FS: w.fs, Dirs: w.dirs, NodeID: w.id, Now: w.clock, FlushBeforeAck: w.flush,
		JournalInterval: time.Hour, // or what a power cut leaves would depend on how long a test has taken
	})
	w.must(err)
	w.must(store.Format("cluster"))
	w.must(store.Start())
	w.store = store
	w.set = NewSet(Options{
		MoveRate: w.rate,
		NodeID:   w.id, Store: store, FlushBeforeAck: w.flush, Now: w.clock,
		LogConfig: func(_ string, overrides map[string]string) commitlog.Config {
			c := commitlog.DefaultConfig()
			if policy, ok := overrides["cleanup.policy"]; ok {
				c.Compact, c.Delete = strings.Contains(policy, "compact"), strings.Contains(policy, "delete")
			}
			return c
		},
		MinInSync: func(_ string, overrides map[string]string) int {
			n := 1
			if text, ok := overrides["min.insync.replicas"]; ok {
				_, err := fmt.Sscan(text, &n)
				w.must(err)
			}
			return n
		},
	})
}

func (w *world) stop(clean bool) {
	w.gate.Open()
	w.must(w.store.Stop(clean))
}

func (w *world) clock() time.Time { return time.UnixMilli(w.now.Load()) }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// apply replays records as one delta and waits until the workers have acted on it.
func (w *world) apply(records ...metadata.Record) {
	w.t.Helper()
	w.applyOnly(records...)
	for _, p := range w.set.Partitions() {
		w.settle(p.tp)
	}
}

func (w *world) applyOnly(records ...metadata.Record) {
	w.t.Helper()
	delta := metadata.NewDelta(w.image)
	for _, r := range records {
		w.must(delta.Replay(r))
	}
	w.image = delta.Image(w.image.Offset+1, 1)
	w.set.Apply(delta, w.image)
}

// settle waits until what was queued for a partition is done, what recovery has found is synced, and the role is taken.
func (w *world) settle(tp kafka.TopicPartition) {
	if p, err := w.set.Partition(tp); err == nil {
		<-p.Opened()
	}
	done := make(chan struct{})
	w.store.Run(tp, func() { close(done) })
	<-done
}

// lead creates topic name with one partition that this node leads alone.
func (w *world) lead(name string) *Partition {
	w.t.Helper()
	w.apply(&metadata.TopicRecord{Name: name, TopicID: topicID(name)}, partitionRecord(name, 0, self, []kafka.NodeID{self}))
	p, err := w.set.Partition(kafka.TopicPartition{Topic: name})
	w.must(err)
	return p
}

func partitionRecord(name string, epoch kafka.Epoch, leader kafka.NodeID, isr []kafka.NodeID, others ...kafka.NodeID) *metadata.PartitionRecord {
	replicas := append([]kafka.NodeID{}, isr...)
	replicas = append(replicas, others...)
	return &metadata.PartitionRecord{
		TopicID: topicID(name), Replicas: replicas, ISR: isr, Leader: leader, LeaderEpoch: epoch, PartitionEpoch: epoch,
		Directories: make([]kafka.DirID, len(replicas)),
	}
}

// records returns a batch of n records with timestamps ts, ts+1 and so on.
func records(n int, ts int64) []byte {
	b := batch.NewBuilder(batch.BuildOptions{LeaderEpoch: kafka.NoEpoch})
	for i := range n {
		b.Add(batch.Record{Offset: int64(i), Timestamp: ts + int64(i), Value: []byte("value")})
	}
	return b.Build()
}

// syncAll waits until all that is in the log is synced and the watermark has heard of it. That a sync is over says nothing of the
// latter: so the log is put in line in any case, and the waiter is released by whoever moves the watermark.
func (p *Partition) syncAll() error {
	p.mu.Lock()
	a := p.acting.Load()
	if a.diskErr != nil { // who waits from now on is told by nobody
		p.mu.Unlock()
		return a.diskErr
	}
	end := a.log.LogEnd()
	if !p.set.o.FlushBeforeAck && a.log.SyncedEnd() >= end { // the watermark does not depend on it
		p.mu.Unlock()
		return nil
	}
	w := p.forSync.add(end)
	p.mu.Unlock()
	a.log.AppendDone()
	a.log.Hurry()
	<-w.Done()
	return w.Err()
}
