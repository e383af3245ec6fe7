package coordinator

import (
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/batch"
	"moldau/internal/commitlog"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/replica"
	"moldau/internal/storage"
	"moldau/internal/vfs"
)

const (
	topic              = "state"
	self  kafka.NodeID = 1
)

// world is a Runtime over real partitions on a disk in memory, with metadata that a test writes by hand. It lives in a
// synctest bubble.
type world struct {
	t        *testing.T
	disk     *vfs.Mem
	gate     *gate
	store    *storage.Store
	set      *replica.Set
	r        *Runtime
	image    *metadata.Image
	epoch    kafka.Epoch
	maxBytes int // max.message.bytes
	codec    batch.Codec
	log      lockedText
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

// gate holds back syncs of logs while it is shut, and writes to those whose path contains stalled.
type gate struct {
	mu      sync.Mutex
	shut    chan struct{} // nil = open
	stalled string
}

func (g *gate) hook(op vfs.Op) error {
	g.mu.Lock()
	wait := g.shut
	syncs := g.stalled == "" && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncData) && strings.HasSuffix(op.Path, ".log")
	writes := g.stalled != "" && op.Kind == vfs.OpWrite && strings.Contains(op.Path, g.stalled)
	g.mu.Unlock()
	if wait != nil && (syncs || writes) {
		<-wait
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

// inWorld runs a test in a bubble, with a topic of two partitions that are loaded.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, disk: vfs.NewMem(), gate: &gate{}, maxBytes: 1 << 20}
		w.disk.SetNow(time.Now)
		w.start()
		defer w.stop()
		test(w)
	})
}

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
			c.MaxMessageBytes = w.maxBytes
			return c
		},
	})
	w.image = metadata.EmptyImage()
	began := time.Now()
	w.r = New(Options{
		Topic: topic, NodeID: self, Replicas: w.set, Machine: func(int32) Machine { return &table{values: map[string]string{}} },
		Codec: w.codec, LoadBytes: 256, Now: time.Now, Elapsed: func() time.Duration { return time.Since(began) },
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	w.apply(&metadata.TopicRecord{Name: topic, TopicID: kafka.TopicID{7}}, w.partition(0, self), w.partition(1, self))
	for _, p := range w.set.Partitions() {
		<-p.Opened() // after a crash what was there is synced before it counts
	}
	synctest.Wait()
}

func (w *world) partition(p int32, leader kafka.NodeID) *metadata.PartitionRecord {
	return &metadata.PartitionRecord{
		TopicID: kafka.TopicID{7}, PartitionID: p, Replicas: []kafka.NodeID{self}, ISR: []kafka.NodeID{self}, Leader: leader,
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
	w.r.Apply(delta, w.image)
}

func (w *world) stop() {
	w.gate.open()
	w.r.Stop()
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

// table is a machine of keys and values.
type table struct {
	values   map[string]string
	last     kafka.Offset // of the record replayed last
	loads    int
	unloaded bool
	parked   []*Promise[string] // that wait for somebody to call
}

var errStrange = errors.New("a strange record")

func (m *table) Replay(r Record) error {
	m.last = r.Offset
	if string(r.Key) == "strange" {
		return errStrange
	}
	if r.Value == nil {
		delete(m.values, string(r.Key))
	} else {
		m.values[string(r.Key)] = string(r.Value)
	}
	return nil
}

func (m *table) Loaded(*Turn) { m.loads++ }

func (m *table) Unloaded(t *Turn) {
	m.unloaded = true
	for _, p := range m.parked {
		p.Give(t, "unloaded")
	}
}

func (m *table) text() string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m.values)) {
		b.WriteString(k + "=" + m.values[k] + " ")
	}
	return strings.TrimSpace(b.String())
}

// ask gives a partition's table a turn.
func (w *world) ask(partition int32, f func(*table, *Turn) (string, error)) *Promise[string] {
	p := NewPromise[string]()
	err := w.r.Turn(partition, func(m Machine, t *Turn) {
		answer, err := f(m.(*table), t)
		if err != nil {
			p.Fail(t, err)
			return
		}
		p.Give(t, answer)
	})
	if err != nil {
		return Broken[string](err)
	}
	return p
}

func (w *world) put(partition int32, key, value string) *Promise[string] {
	return w.ask(partition, func(m *table, t *Turn) (string, error) {
		return "put", t.Append(Record{Key: []byte(key), Value: []byte(value)})
	})
}

func (w *world) read(partition int32) *Promise[string] {
	return w.ask(partition, func(m *table, _ *Turn) (string, error) { return m.text(), nil })
}

// ready reports whether an answer may leave.
func ready[T any](p *Promise[T]) bool {
	select {
	case <-p.Given():
	default:
		return false
	}
	if p.Committed() == nil {
		return true
	}
	select {
	case <-p.Committed():
		return true
	default:
		return false
	}
}

// want waits for an answer.
func (w *world) want(p *Promise[string], answer string, want error) {
	w.t.Helper()
	synctest.Wait()
	if !ready(p) {
		w.t.Fatalf("no answer; want %q, %v", answer, want)
	}
	if got, err := p.Answer(); !errors.Is(err, want) || err == nil && got != answer {
		w.t.Fatalf("answer %q, %v; want %q, %v", got, err, answer, want)
	}
}
