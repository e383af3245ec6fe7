package api

import (
	"container/list"
	"sync"

	"moldau/internal/batch"
	"moldau/internal/kafka"
)

// Bounds of the cache of converted batches. It is for consumers that read the same end of a log at about the same time, and
// it spares the first batch of an answer from being converted twice.
const (
	cacheBytes    = 16 << 20
	cacheSetBytes = 2 << 20 // larger ones are not kept
)

// setKey names a converted batch by all that its header tells, CRC and offset included: what is converted differently
// differs here.
type setKey struct {
	topic     kafka.TopicID
	partition int32
	magic     int8
	header    [batch.HeaderSize]byte
}

// setCache holds the message sets that were asked for last. What it returns is shared: nobody writes to it.
type setCache struct {
	mu    sync.Mutex
	byKey map[setKey]*list.Element // of *cachedSet
	order list.List                // the last used one in front
	bytes int
}

type cachedSet struct {
	key setKey
	set []byte
}

func (c *setCache) get(key setKey) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return nil, false
	}
	c.order.MoveToFront(e)
	return e.Value.(*cachedSet).set, true
}

func (c *setCache) put(key setKey, set []byte) {
	if cap(set) > cacheSetBytes {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; ok {
		return // two converted it at once
	}
	if c.byKey == nil {
		c.byKey = make(map[setKey]*list.Element)
	}
	c.byKey[key] = c.order.PushFront(&cachedSet{key, set})
	for c.bytes += cap(set); c.bytes > cacheBytes; {
		oldest := c.order.Back()
		old := c.order.Remove(oldest).(*cachedSet)
		delete(c.byKey, old.key)
		c.bytes -= cap(old.set)
	}
}
