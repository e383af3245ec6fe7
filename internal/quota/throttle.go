package quota

import (
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
)

// Throttle limits the bytes per second that some replicas of this node copy together. Mirrors ReplicationQuotaManager; KIP-73.
type Throttle struct {
	bucket *Bucket
	topics atomic.Pointer[map[string]covered] // never changed in place
}

// covered is which partitions of a topic a throttle covers.
type covered struct {
	all        bool
	partitions map[int32]bool
}

func newThrottle(rate int64, now func() time.Time) *Throttle {
	t := &Throttle{bucket: NewBucket(rate, now)}
	t.topics.Store(&map[string]covered{})
	return t
}

// Pause returns how long a partition that is not in sync has to wait before it copies more; 0: not at all.
func (t *Throttle) Pause(tp kafka.TopicPartition) time.Duration {
	if !t.covers(tp) {
		return 0
	}
	return t.bucket.Pause()
}

// Copied tells of bytes that were copied for a partition.
func (t *Throttle) Copied(tp kafka.TopicPartition, n int) {
	if n > 0 && t.covers(tp) {
		t.bucket.Use(n)
	}
}

func (t *Throttle) covers(tp kafka.TopicPartition) bool {
	if t == nil {
		return false
	}
	topics := *t.topics.Load()
	if len(topics) == 0 {
		return false
	}
	c := topics[tp.Topic]
	return c.all || c.partitions[tp.Partition]
}

// cover sets which replicas of a topic on this node are covered: "*" or partition:broker pairs.
func (t *Throttle) cover(topic string, list []string, self kafka.NodeID) {
	c := covered{partitions: map[int32]bool{}}
	for _, item := range list {
		if item == "*" {
			c.all = true
			continue
		}
		partition, broker, _ := strings.Cut(item, ":")
		p, err1 := strconv.ParseInt(partition, 10, 32)
		b, err2 := strconv.ParseInt(broker, 10, 32)
		if err1 == nil && err2 == nil && kafka.NodeID(b) == self {
			c.partitions[int32(p)] = true
		}
	}
	old := *t.topics.Load()
	_, known := old[topic]
	if !known && !c.all && len(c.partitions) == 0 {
		return
	}
	next := maps.Clone(old)
	if c.all || len(c.partitions) > 0 {
		next[topic] = c
	} else {
		delete(next, topic)
	}
	t.topics.Store(&next)
}
