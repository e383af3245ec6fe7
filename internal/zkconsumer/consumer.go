package zkconsumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/kafka"
)

// ErrClosed is what Poll returns after Close.
var ErrClosed = errors.New("the consumer is closed")

// Consumer is a member of a group.
type Consumer struct {
	s    Settings
	id   string
	tree *Tree
	wake chan struct{} // one is enough: what has changed is looked up

	leave chan context.Context // from Close to run: how long leaving may take
	quit  context.CancelFunc
	done  chan struct{} // closed when run has returned

	// Only of Start's goroutine, then of run's.
	share   *share                                // nil: nothing is owned
	owned   map[kafka.TopicPartition]bool         // owner nodes that are this session's
	inTree  map[kafka.TopicPartition]kafka.Offset // offsets as ZooKeeper has them, of the share
	session int64                                 // the one that the member is registered in
	failed  bool                                  // the last rebalance

	mu      sync.Mutex
	shown   *share        // what Poll reads from
	changed chan struct{} // closed when shown changes
	closed  bool
}

// Start joins the group and returns when it owns what it has to, or with ErrRebalance if it cannot.
func Start(ctx context.Context, s Settings) (*Consumer, error) {
	c := &Consumer{
		s: s, id: s.Group + "_" + s.ConsumerID, wake: make(chan struct{}, 1), leave: make(chan context.Context, 1), done: make(chan struct{}),
		owned: make(map[kafka.TopicPartition]bool), inTree: make(map[kafka.TopicPartition]kafka.Offset), changed: make(chan struct{}),
	}
	if s.ConsumerID == "" {
		var word [4]byte
		_, _ = rand.Read(word[:])
		c.id = fmt.Sprintf("%s_%s-%d-%x", s.Group, s.Host, s.Now().UnixMilli(), word)
	}
	place := Place{s.Connect, s.SessionTimeout, s.ConnectionTimeout, s.Dial, s.Now, s.Log}
	var err error
	if c.tree, err = Open(ctx, place, c.nudge); err != nil {
		return nil, err
	}
	if err := c.join(ctx); err != nil {
		c.tree.Close()
		return nil, fmt.Errorf("join group %s: %w", s.Group, err)
	}
	life, quit := context.WithCancel(context.WithoutCancel(ctx))
	c.quit = quit
	go c.run(life)
	return c, nil
}

// join rebalances for the first time; a connection that is lost meanwhile may come back.
func (c *Consumer) join(ctx context.Context) error {
	late := time.After(c.s.ConnectionTimeout)
	for {
		err := c.rebalance(ctx)
		if err == nil || c.tree.Connected() {
			return err
		}
		select {
		case <-c.wake:
		case <-late:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// ID is the member's name in the group.
func (c *Consumer) ID() string { return c.id }

// Poll waits for records and calls hand for each, at most limit times, in the order of offsets within a partition. It returns
// the number of records consumed. hand must not call the consumer; while it runs no rebalance goes on. After an error of hand
// the same record comes again.
func (c *Consumer) Poll(ctx context.Context, limit int, hand func(*kgo.Record) error) (int, error) {
	for {
		c.mu.Lock()
		s, changed, closed := c.shown, c.changed, c.closed
		c.mu.Unlock()
		if closed {
			return 0, ErrClosed
		}
		if s != nil {
			if n, err := s.poll(ctx, limit, hand); n > 0 || err != nil {
				return n, err
			}
		}
		// Nothing is owned, or what was owned is over.
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Close commits if auto.commit.enable says so, and leaves the group. When ctx ends before that the session is given up as it is.
func (c *Consumer) Close(ctx context.Context) {
	c.mu.Lock()
	closed := c.closed
	c.closed = true
	c.mu.Unlock()
	if closed {
		return
	}
	c.leave <- ctx
	c.quit()
	select {
	case <-c.done:
	case <-ctx.Done():
	}
	c.tree.Close() // ends what run may be waiting for
	<-c.done
	c.show(nil)
}

// nudge makes run look at the tree.
func (c *Consumer) nudge() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// show makes Poll read from s.
func (c *Consumer) show(s *share) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = s
	close(c.changed)
	c.changed = make(chan struct{})
}
