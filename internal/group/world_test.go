package group

import (
	"testing"
	"testing/synctest"
	"time"

	"moldau/internal/config"
	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/stand"
)

// world is one node's coordinator over real partitions on a disk in memory. It lives in a synctest bubble.
type world struct {
	*stand.Node
	c      *Coordinator
	groups config.Groups
}

const self = stand.Self

// inWorld runs a test in a bubble, with a topic for groups of one partition that is loaded.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{Node: stand.NewNode(t, time.Now), groups: config.Groups{
			Partitions: 1, LoadBytes: 4096, CommitTimeoutMs: 5000, RetentionMs: 7 * 24 * 3600 * 1000, RetentionCheckMs: 600_000,
			MetadataMaxBytes: 8, MinSessionMs: 6000, MaxSessionMs: 1_800_000, InitialDelayMs: 3000, MaxSize: 5,
		}}
		w.Begin, w.End = w.begin, w.end
		w.Subscribers = func() []metadata.Subscriber { return []metadata.Subscriber{w.c} }
		w.Start()
		defer w.Stop()
		test(w)
	})
}

func (w *world) begin() {
	w.SetImage(metadata.EmptyImage())
	began := time.Now()
	w.c = New(Options{
		Groups: w.groups, Image: w.Image,
		Runtime: coordinator.Options{
			NodeID: self, Replicas: w.Set, LoadBytes: int(w.groups.LoadBytes), Now: time.Now,
			Elapsed: func() time.Duration { return time.Since(began) },
		},
	})
	w.create("orders", 3)
	w.create(Topic, 1)
}

func (w *world) end() {
	w.Gate.Open()
	w.c.Stop()
	if held := w.c.held.Load(); held != 0 {
		w.T.Errorf("%d bytes are still held of members that are gone", held)
	}
}

// create makes a topic whose partitions are led here.
func (w *world) create(name string, partitions int32) {
	id := kafka.TopicID{0: 7}
	copy(id[1:], name)
	records := []metadata.Record{&metadata.TopicRecord{Name: name, TopicID: id}}
	for p := range partitions {
		records = append(records, w.Partition(id, p, self))
	}
	w.Apply(records...)
}
