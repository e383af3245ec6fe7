package coordinator

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/stand"
)

const (
	topic = "state"
	self  = stand.Self
	lease = time.Second
)

// world is a Runtime over real partitions on a disk in memory. It lives in a synctest bubble.
type world struct {
	*stand.Node
	r     *Runtime
	codec batch.Codec
	log   lockedText
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

// inWorld runs a test in a bubble, with a topic of two partitions that are loaded.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{Node: stand.NewNode(t, time.Now)}
		w.Log.MaxMessageBytes = 1 << 20
		w.Begin, w.End = w.begin, func() {
			w.Gate.Open()
			w.r.Stop()
		}
		w.Subscribers = func() []metadata.Subscriber { return []metadata.Subscriber{w.r} }
		w.Start()
		defer w.Stop()
		test(w)
	})
}

func (w *world) begin() {
	w.SetImage(metadata.EmptyImage())
	began := time.Now()
	w.r = New(Options{
		Topic: topic, NodeID: self, Replicas: w.Set, Machine: func(int32) Machine { return &table{values: map[string]string{}} },
		Codec: w.codec, LoadBytes: 256, Now: time.Now, Elapsed: func() time.Duration { return time.Since(began) }, Lease: lease,
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	w.Apply(&metadata.TopicRecord{Name: topic, TopicID: kafka.TopicID{7}}, w.partition(0, self), w.partition(1, self))
}

func (w *world) partition(p int32, leader kafka.NodeID) *metadata.PartitionRecord {
	return w.Partition(kafka.TopicID{7}, p, leader)
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
	switch string(r.Key) {
	case "strange":
		return errStrange
	case "mark":
		return nil
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

func (m *table) Mark() Record { return Record{Key: []byte("mark")} }

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
	w.T.Helper()
	synctest.Wait()
	if !ready(p) {
		w.T.Fatalf("no answer; want %q, %v", answer, want)
	}
	if got, err := p.Answer(); !errors.Is(err, want) || err == nil && got != answer {
		w.T.Fatalf("answer %q, %v; want %q, %v", got, err, answer, want)
	}
}
