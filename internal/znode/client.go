package znode

import (
	"context"
	"sync/atomic"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/xsync"
)

// Client is one connection to the tree. What it is told comes in one order, answers and events alike; each may be passed on
// when all that it shows is committed. Make it with Coordinator.Client, and end it with Leave.
type Client struct {
	c       *Coordinator
	id      uint64
	remote  string
	address string // of the host
	since   time.Time
	heard   atomic.Int64 // when it last said something, as Elapsed counts
	gone    chan struct{}
	isGone  atomic.Bool
	close   func() // of the connection itself; it does not wait

	// Of the shard's turns.
	session    *session
	ids        []ID
	said       []Message // in the turn that is running
	watched    map[string]struct{}
	watchBytes int
	ordered    bool // waits for a command to the cluster

	// Said and not yet passed on.
	mu     xsync.Mutex
	queue  []said
	left   *coordinator.Promise[[]Message] // taken, and not passed on by whoever took it
	taking bool                            // somebody has the right to pass on
	taken  int                             // bytes of what Next returned last: it may still be on its way
	held   int                             // bytes of that and of the queue, about
	ready  chan struct{}                   // capacity 1: something has been said
	room   chan struct{}                   // capacity 1: something has been passed on
}

type said struct {
	promise *coordinator.Promise[[]Message]
	size    int
}

// maxWatchBytes is what the watches of one connection may take; one that sets more is cut.
const maxWatchBytes = 64 << 20

// maxWatchBytesOfAll is the same for all connections together.
const maxWatchBytesOfAll = 512 << 20

// maxHeld is how many bytes, about, may have been said to a client that does not take them, before it is asked to wait.
const maxHeld = 4 << 20

// maxHeldOfAll is the same for all clients together. When it is reached, those who hold more than fairHeld are cut.
const (
	maxHeldOfAll = 512 << 20
	fairHeld     = 64 << 10
)

// Connect begins. The answer is a Connected among the messages. The error says that this node does not serve the tree. What is said
// while the caller is here Ready does not tell: after Connect and after Do it has to look itself.
func (c *Client) Connect(xid int32, req Connect) error {
	c.Heard()
	return c.c.turn(func(s *shard, t *coordinator.Turn) {
		s.asking = c
		if err := s.connect(t, c, xid, req); err != nil {
			s.lost(c, err)
		}
	})
}

// Do has something done, after Connect has been answered. The answer comes among the messages. Do returns when it has been
// decided, which for a write that is a command to the cluster is when the cluster has carried it out. The error says that
// this node no longer serves the tree.
func (c *Client) Do(ctx context.Context, xid int32, op Op) error {
	c.Heard()
	var order *order
	err := c.c.turn(func(s *shard, t *coordinator.Turn) {
		s.asking = c
		order = s.do(t, c, xid, op)
	})
	if err != nil || order == nil {
		return err
	}
	signal(c.ready) // the caller looks for what was said before only when the cluster has done its part
	return c.c.carryOut(ctx, order)
}

// Heard notes a sign of life.
func (c *Client) Heard() { c.heard.Store(int64(c.c.o.Runtime.Elapsed())) }

// Gone is closed when the connection has been cut.
func (c *Client) Gone() <-chan struct{} { return c.gone }

// cut may be called in any turn, and more than once.
func (c *Client) cut() {
	if c.isGone.CompareAndSwap(false, true) {
		close(c.gone)
		c.close()
	}
}

// Leave ends the connection. The session goes on.
func (c *Client) Leave() {
	c.cut()
	c.release()
	_ = c.c.runtime.Turn(0, func(m coordinator.Machine, _ *coordinator.Turn) { m.(*shard).detach(c) }) // or all are gone with the shard
}

// Ready delivers a value when there may be something new, and nobody has the right to pass it on.
func (c *Client) Ready() <-chan struct{} { return c.ready }

// Take takes the right to pass on what was said, which one has at a time; false if another has it, who will find what there is.
func (c *Client) Take() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.taking {
		return false
	}
	c.taking = true
	return true
}

// Next takes the oldest messages that have not been taken; nil if there are none. They may be passed on when they are
// committed. What it returned before has been passed on by now. It is for whoever has the right.
func (c *Client) Next() *coordinator.Promise[[]Message] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if left := c.left; left != nil {
		c.left = nil
		return left
	}
	c.held -= c.taken
	c.c.held.Add(int64(-c.taken))
	c.taken = 0
	signal(c.room)
	if len(c.queue) == 0 {
		return nil
	}
	next := c.queue[0]
	c.queue[0] = said{}
	c.queue = c.queue[1:]
	c.taken = next.size
	return next.promise
}

// Yield gives the right back. left is what Next returned last, if it has not been passed on. Ready tells of that, and of what has been
// said meanwhile.
func (c *Client) Yield(left *coordinator.Promise[[]Message]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left, c.taking = left, false
	if left != nil || len(c.queue) > 0 {
		signal(c.ready)
	}
}

// Room waits until the client has taken enough of what it was told for more to be asked; false when done comes first.
func (c *Client) Room(done <-chan struct{}) bool {
	for {
		c.mu.Lock()
		full := c.held >= maxHeld
		c.mu.Unlock()
		if !full {
			return true
		}
		signal(c.ready)
		select {
		case <-c.room:
		case <-done:
			return false
		}
	}
}

// push queues what was said, and has it told of unless somebody looks anyway. It is false when the client keeps too much from being
// passed on.
func (c *Client) push(next said, tell bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isGone.Load() {
		return true // nobody takes it any more
	}
	c.queue = append(c.queue, next)
	c.held += next.size
	all := c.c.held.Add(int64(next.size))
	if tell && !c.taking {
		signal(c.ready)
	}
	return all < maxHeldOfAll || c.held < fairHeld
}

// release gives up what has not been taken. Nothing is queued after that.
func (c *Client) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.c.held.Add(int64(-c.held))
	c.queue, c.left, c.held, c.taken = nil, nil, 0, 0
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// say puts a message into the client's queue at the end of the turn.
func (s *shard) say(c *Client, m Message) {
	if len(c.said) == 0 {
		s.speaking = append(s.speaking, c)
	}
	c.said = append(c.said, m)
}

// lost cuts a client whose request has an outcome that nobody knows.
func (s *shard) lost(c *Client, err error) {
	s.c.o.Logger.Warn("a ZooKeeper connection is cut: its request could not be stored", "remote", c.remote, "error", err)
	s.cut(c)
}

// flush promises what was said in this turn. Every turn ends with it.
func (s *shard) flush(t *coordinator.Turn) {
	for _, c := range s.speaking {
		size := 0
		for _, m := range c.said {
			size += m.size()
		}
		p := coordinator.NewPromise[[]Message]()
		p.Give(t, c.said)
		c.said = nil
		if !c.push(said{p, size}, c != s.asking) {
			s.c.o.Logger.Warn("a ZooKeeper connection is cut: it does not take its answers", "remote", c.remote)
			s.cut(c)
		}
	}
	s.speaking, s.asking = s.speaking[:0], nil
	s.considerSnapshot(t)
}
