package zookeeper

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
	"moldau/internal/znode"
)

// conn is one connection.
type conn struct {
	s      *Server
	nc     net.Conn
	in     *bufio.Reader
	id     uint64
	remote string
	by     kafka.NodeID // the node that passed it on; kafka.NoNode: it came by itself

	ctx    context.Context // ends when the connection is cut
	cancel context.CancelFunc

	client   *znode.Client
	chroot   chroot
	flagged  bool   // the client wants the read-only flag
	out      []byte // gathered for the next write, by whoever has the right to pass on
	received atomic.Int64
	sent     atomic.Int64
	session  atomic.Int64
}

func newConn(s *Server, nc net.Conn, remote string, by kafka.NodeID) *conn {
	c := &conn{s: s, nc: nc, in: bufio.NewReaderSize(nc, 4<<10), remote: remote, by: by}
	c.chroot.prefix = s.o.Chroot
	c.ctx, c.cancel = context.WithCancel(s.ctx)
	return c
}

// cut ends the connection at once.
func (c *conn) cut() {
	c.cancel()
	_ = c.nc.Close()
}

// errMoved ends a connection whose tree is served by another node now, or by none.
var errMoved = errors.New("another node serves the ZooKeeper tree")

// serve serves the connection until it ends.
func (c *conn) serve() {
	defer c.cut()
	late := time.AfterFunc(c.s.o.Limits.Begin, c.cut)
	defer late.Stop()
	var first [4]byte
	if _, err := io.ReadFull(c.in, first[:]); err != nil {
		return
	}
	if word, ok := words[string(first[:])]; ok {
		late.Stop()
		c.tell(word, first[:])
		return
	}
	n, err := length(first, maxConnect)
	if err != nil {
		c.refused(err)
		return
	}
	frame, err := readBody(c.in, nil, n)
	if err != nil {
		return
	}
	late.Stop()
	req, flagged, err := readConnect(frame)
	if err != nil {
		c.refused(err)
		return
	}
	c.flagged = flagged
	c.s.counts.received.Add(1)
	c.received.Add(1)
	if err := c.route(append(first[:], frame...), func() error { return c.attend(req) }); err != nil {
		c.s.log.Debug("a ZooKeeper connection ended", "remote", c.remote, "reason", err)
	}
}

func (c *conn) refused(err error) {
	if errors.Is(err, errFrame) || errors.Is(err, errRequest) || errors.Is(err, errLarge) {
		c.s.log.Warn("a ZooKeeper connection was closed", "remote", c.remote, "reason", err)
	}
}

// patience is how long a connection waits for the tree to be served somewhere.
const patience = 10 * time.Second

// route has the connection served by the node that serves the tree: here, or by another, to which begun is passed on.
func (c *conn) route(begun []byte, here func() error) error {
	ctx, cancel := context.WithTimeout(c.ctx, patience)
	defer cancel()
	for ctx.Err() == nil {
		now, moved := c.s.leader()
		serving, changed := c.s.o.Tree.Serving()
		switch {
		case now.node == c.s.o.NodeID && serving:
			return here()
		case now.node == c.s.o.NodeID:
		case c.by != kafka.NoNode:
			return errMoved // whoever passed it on knows no better
		case now.node != kafka.NoNode:
			return c.pass(ctx, now.node, moved, begun)
		case !now.topic:
			if err := c.s.o.Create(ctx); err != nil {
				c.s.log.Warn("the topic for ZooKeeper clients cannot be created", "topic", znode.Topic, "error", err)
				return err
			}
		}
		select {
		case <-moved:
		case <-changed:
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// attend serves the connection here.
func (c *conn) attend(req znode.Connect) error {
	c.client = c.s.o.Tree.Client(c.remote, c.cut)
	defer c.client.Leave()
	if err := c.client.Connect(0, req); err != nil {
		return err
	}
	writing := make(chan struct{})
	go func() {
		defer close(writing)
		defer c.cut()
		c.write()
	}()
	err := c.read()
	if errors.Is(err, errClosing) && c.speak(false) {
		<-writing // what was answered goes out first
	}
	c.cut()
	<-writing
	return err
}

// errClosing ends reading after a request that ends the connection.
var errClosing = errors.New("the client closes its session")

// errSaid ends reading when all has been said, or cannot be.
var errSaid = errors.New("nothing more can be told")

// read serves requests. Before it waits for one it passes on what came of those before, as far as it can without waiting: whoever waits
// for each answer gets it from here, and no other goroutine has to be woken.
func (c *conn) read() error {
	var frame []byte
	for c.client.Room(c.ctx.Done()) {
		if !c.here() && !c.speak(false) {
			return errSaid
		}
		n, err := readLength(c.in, maxFrame)
		if err == nil && n > largeFrame {
			err = c.readLarge(n)
		} else if err == nil {
			if frame, err = readBody(c.in, frame, n); err == nil {
				err = c.request(frame)
			}
		}
		if err != nil {
			c.refused(err)
			return err
		}
		if cap(frame) > growth {
			frame = nil
		}
	}
	return context.Cause(c.ctx)
}

// readLarge serves a request that few may have at a time.
func (c *conn) readLarge(n int) error {
	timer := time.NewTimer(largePatience)
	defer timer.Stop()
	select {
	case c.s.large <- struct{}{}:
	case <-timer.C:
		return errLarge
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
	defer func() { <-c.s.large }()
	frame, err := readBody(c.in, nil, n)
	if err != nil {
		return err
	}
	return c.request(frame)
}

// request serves one request.
func (c *conn) request(frame []byte) error {
	xid, kind, op, err := readRequest(frame)
	if err != nil {
		return err
	}
	c.s.counts.received.Add(1)
	c.received.Add(1)
	if kind == opPing {
		xid = pingXid
	}
	if err := c.client.Do(c.ctx, xid, c.chroot.request(op)); err != nil {
		return err
	}
	if closes(op) {
		return errClosing
	}
	return nil
}

func closes(op znode.Op) bool {
	switch op := op.(type) {
	case znode.CloseSession:
		return true
	case znode.Unreadable:
		return op.Close
	}
	return false
}

// here reports whether the whole of the next request has been received.
func (c *conn) here() bool {
	if c.in.Buffered() < 4 {
		return false
	}
	head, err := c.in.Peek(4)
	return err == nil && int64(c.in.Buffered()-4) >= int64(binary.BigEndian.Uint32(head))
}

// writeBytes is how much is gathered for one write.
const writeBytes = 64 << 10

// write passes on what the reader does not: what has to wait for its commit, and what others' requests lead to.
func (c *conn) write() {
	for {
		select {
		case <-c.client.Ready():
			if !c.speak(true) {
				return
			}
		case <-c.ctx.Done():
			return
		}
	}
}

// speak writes what the client is told, when it is committed, unless another does. Messages that are ready together leave together. A
// patient caller waits for what is not committed, another leaves it to the writer. It is false when the connection is over.
func (c *conn) speak(patient bool) bool {
	if !c.client.Take() {
		return true
	}
	for {
		next := c.client.Next()
		if next == nil {
			if !c.flush() {
				return false
			}
			c.client.Yield(nil)
			return true
		}
		if !leaves(next) {
			// What is ready before it need not wait for it.
			if !c.flush() {
				return false
			}
			if !patient {
				c.client.Yield(next)
				return true
			}
			if !c.await(next) {
				return false
			}
		}
		messages, err := next.Answer()
		if err != nil {
			return false // the tree has moved to another node
		}
		for _, m := range messages {
			m.Answer = c.chroot.answer(m.Answer)
			c.out = appendMessage(c.out, m, c.flagged)
			c.count(m)
			if m.Close {
				c.flush()
				return false
			}
			if len(c.out) >= writeBytes && !c.flush() {
				return false
			}
		}
	}
}

func (c *conn) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	_, err := c.nc.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > 4*writeBytes {
		c.out = nil
	}
	return err == nil
}

// leaves reports whether messages may leave now.
func leaves(p *coordinator.Promise[[]znode.Message]) bool {
	select {
	case <-p.Given():
	default:
		return false
	}
	committed := p.Committed()
	if committed == nil {
		return true
	}
	select {
	case <-committed:
		return true
	default:
		return false
	}
}

// await waits until messages may leave.
func (c *conn) await(next *coordinator.Promise[[]znode.Message]) bool {
	select {
	case <-next.Given():
	case <-c.ctx.Done():
		return false
	}
	committed := next.Committed()
	if committed == nil {
		return true
	}
	select {
	case <-committed:
		return true
	case <-c.ctx.Done():
		return false
	}
}

// count notes what leaves.
func (c *conn) count(m znode.Message) {
	c.sent.Add(1)
	c.s.counts.sent.Add(1)
	if connected, ok := m.Answer.(znode.Connected); ok {
		c.session.Store(connected.SessionID)
		return
	}
	if m.Asked == 0 {
		return
	}
	took := c.s.o.Elapsed() - m.Asked
	c.s.meters.latency.Observe(took.Seconds())
	c.s.counts.answers.Add(1)
	c.s.counts.latency.Add(took.Microseconds())
	for longest := c.s.counts.longest.Load(); took.Microseconds() > longest; longest = c.s.counts.longest.Load() {
		if c.s.counts.longest.CompareAndSwap(longest, took.Microseconds()) {
			break
		}
	}
}
