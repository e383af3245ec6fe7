package zkconsumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"time"
)

// ErrRebalance says that a partition could not be had in rebalance.max.retries tries: its owner holds on to it.
var ErrRebalance = errors.New("cannot rebalance")

// run follows the tree until Close.
func (c *Consumer) run(ctx context.Context) {
	defer close(c.done)
	var autoCommit, apart <-chan time.Time
	if c.s.AutoCommit && c.s.AutoCommitInterval > 0 {
		ticker := time.NewTicker(c.s.AutoCommitInterval)
		defer ticker.Stop()
		autoCommit = ticker.C
	}
	for {
		var again <-chan time.Time // something is left to do, whatever the tree says
		switch connected := c.tree.Connected(); {
		case connected:
			apart = nil
			if c.failed {
				again = time.After(c.s.RebalanceBackoff)
			} else if c.share != nil && len(c.share.unplaced()) > 0 {
				again = time.After(c.s.RefreshLeader)
			}
		case apart == nil:
			apart = time.After(c.s.SessionTimeout)
		}
		select {
		case <-ctx.Done():
			left := <-c.leave
			c.end(left)
			c.report("cannot give partitions up", c.release())
			return
		case <-autoCommit:
			if c.share != nil && c.tree.Connected() {
				c.report("cannot commit", c.commit(ctx, c.share))
			}
		case <-c.wake:
			c.follow(ctx)
		case <-apart:
			// By now the session may be over, and others may own what this member reads.
			if c.share != nil {
				c.s.Log.Warn("ZooKeeper is not to be reached; nothing is read until it is", slog.String("group", c.s.Group))
				c.share.halt()
				c.show(nil)
			}
		case <-again:
			if c.failed {
				c.follow(ctx)
			} else {
				c.share.place(ctx)
			}
		}
	}
}

// follow does what the tree asks for now.
func (c *Consumer) follow(ctx context.Context) {
	if !c.tree.Connected() {
		return
	}
	err := c.rebalance(ctx)
	c.failed = err != nil && ctx.Err() == nil
	if c.failed {
		c.report("cannot rebalance; trying again", err)
	}
}

func (c *Consumer) report(what string, err error) {
	if err != nil {
		c.s.Log.Warn(what, slog.String("group", c.s.Group), slog.Any("error", err))
	}
}

// rebalance tries to own what is this member's, rebalance.max.retries times.
func (c *Consumer) rebalance(ctx context.Context) error {
	for try := 1; ; {
		err := c.balance(ctx)
		if err == nil || !c.tree.Connected() { // of a new connection c.wake tells
			return err
		}
		c.s.Log.Debug("rebalance", slog.Int("try", try), slog.Any("error", err))
		if try >= c.s.RebalanceRetries {
			return fmt.Errorf("%w after %d retries: %w", ErrRebalance, try, err)
		}
		pause := time.NewTimer(c.s.RebalanceBackoff)
		select {
		case <-ctx.Done():
			pause.Stop()
			return context.Cause(ctx)
		case <-c.wake: // something has changed: that was no try lost
			pause.Stop()
		case <-pause.C:
			try++
		}
	}
}

// balance compares what this member owns with what it has to own, and makes them the same.
func (c *Consumer) balance(ctx context.Context) error {
	if session := c.tree.Session(); session != c.session {
		c.forget()
		if err := c.register(); err != nil {
			return err
		}
		c.session = session
	}
	v, err := c.look()
	if err != nil {
		return err
	}
	if len(v.brokers) == 0 {
		c.s.Log.Warn("no broker is registered in ZooKeeper", slog.String("zookeeper.connect", c.s.Connect))
		return nil
	}
	mine := c.mine(v)
	if c.share != nil && maps.Equal(c.share.parts, mine) {
		c.share.resume()
		c.show(c.share)
		return nil
	}
	c.end(ctx)
	if err := c.release(); err != nil || len(mine) == 0 {
		return err
	}
	s, err := newShare(c.s, v.brokers, mine, c.nudge)
	if err != nil {
		return err
	}
	if err := c.take(ctx, s); err != nil {
		s.close()
		clear(c.inTree)
		// What somebody else still owns is read by nobody until all is settled; nor is the rest.
		return errors.Join(err, c.release())
	}
	c.share = s
	c.show(s)
	c.s.Log.Debug("owns", slog.Any("partitions", mine.inOrder()))
	return nil
}

// take makes the nodes that say who owns a share, and places it. Offsets are read after that: the owner before commits first.
func (c *Consumer) take(ctx context.Context, s *share) error {
	for _, tp := range s.parts.inOrder() {
		err := c.tree.hold(c.ownerPath(tp), []byte(s.parts[tp]))
		if errors.Is(err, errTaken) {
			// Its going wakes; if it is gone by now, the next try comes at once.
			if there, errWatch := c.tree.watchExists(c.ownerPath(tp)); errWatch == nil && !there {
				c.nudge()
			}
		}
		if err != nil {
			return err
		}
		c.owned[tp] = true
	}
	offsets, err := c.committed(ctx, s)
	if err != nil {
		return err
	}
	s.begin(offsets)
	s.place(ctx)
	return nil
}

// end stops reading, in order: hand out nothing more, then commit.
func (c *Consumer) end(ctx context.Context) {
	s := c.share
	if s == nil {
		return
	}
	s.halt()
	c.show(nil)
	if c.s.AutoCommit {
		c.report("cannot commit", c.commitOnce(ctx, s))
	}
	s.close()
	c.share = nil
	clear(c.inTree)
}

// release lets others have what this member owned.
func (c *Consumer) release() error {
	var all error
	for tp := range c.owned {
		if err := c.tree.Delete(c.ownerPath(tp)); err != nil {
			all = errors.Join(all, err)
			continue
		}
		delete(c.owned, tp)
	}
	return all
}

// forget gives up what a session before owned: it is gone from the tree, and others may have committed since.
func (c *Consumer) forget() {
	clear(c.owned)
	clear(c.inTree)
	if s := c.share; s != nil {
		c.share = nil
		c.show(nil)
		s.close()
		c.s.Log.Warn("the ZooKeeper session has ended; joining anew", slog.String("group", c.s.Group))
	}
}

// register makes the node of this member.
func (c *Consumer) register() error {
	data, err := c.s.Subscription.encode(c.s.Now())
	if err != nil {
		return err
	}
	return c.tree.hold(c.groupPath("ids", c.id), data)
}
