package server

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"moldau/internal/wire"
	"moldau/internal/xsync"
)

// anonymous is the principal of a connection that has not authenticated.
const anonymous = "User:ANONYMOUS"

// Conn is one connection. Routes read who it is; the rest is the server's.
type Conn struct {
	srv      *Server
	nc       net.Conn
	listener Listener
	id       uint64
	log      *slog.Logger
	software atomic.Pointer[software]
	note     any // of the routes

	ctx     context.Context // ends when the connection has ended
	end     context.CancelCauseFunc
	closing chan struct{} // closed when no further request will be read
	idle    *time.Timer   // nil: never idle

	// The reader's own.
	header    wire.Header // of the last request
	in        *ahead
	taken     []*frame // buffers handed out while one frame is read
	proven    int      // bytes of the last frame, at most provenBytes
	getBuffer func(n int) []byte

	queue queue
	out   outbox
	write func() // writeLoop, made once
}

// queue is the requests that wait for their reply, oldest first.
type queue struct {
	mu      xsync.Mutex
	waiting []pending
	first   int  // index of the oldest: the slice is reused when all are gone
	held    int  // bytes of the frames that wait
	writing bool // the writer goroutine runs; only the reader starts it
	closed  bool // closing is closed
	// moved is signalled, with one slot, when a reply has left the queue. Only the reader waits on it.
	moved chan struct{}
}

type software struct{ name, version string }

func newConn(s *Server, nc net.Conn, l Listener) *Conn {
	c := &Conn{srv: s, nc: nc, listener: l, closing: make(chan struct{})}
	c.ctx, c.end = context.WithCancelCause(context.Background())
	c.log = s.log
	c.queue.moved = make(chan struct{}, 1)
	c.in = newAhead(c)
	c.getBuffer = c.takeBuffer
	c.out.c, c.write = c, c.writeLoop
	return c
}

// ID numbers the connections of a server from 1.
func (c *Conn) ID() uint64 { return c.id }

// Listener is the name of the listener that the connection arrived on.
func (c *Conn) Listener() string { return c.listener.Name }

// Kind is the kind of that listener.
func (c *Conn) Kind() Mask { return c.listener.Kind }

// LocalAddr is the node's end of the connection.
func (c *Conn) LocalAddr() net.Addr { return c.nc.LocalAddr() }

// RemoteAddr is the client's end of the connection.
func (c *Conn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Principal is who the client has proven to be, in Kafka's form "User:name".
func (c *Conn) Principal() string { return anonymous }

// Software is what the client said it is with ApiVersions (KIP-511); both are "" before.
func (c *Conn) Software() (name, version string) {
	if s := c.software.Load(); s != nil {
		return s.name, s.version
	}
	return "", ""
}

// Note is what SetNote has stored, nil before. Both are for handlers alone, which run one at a time.
func (c *Conn) Note() any { return c.note }

// SetNote stores what the handlers want to find with the connection.
func (c *Conn) SetNote(note any) { c.note = note }

// SetSoftware stores what the client said it is.
func (c *Conn) SetSoftware(name, version string) { c.software.Store(&software{name, version}) }

// serve reads requests until the connection ends, and returns when nothing of it is left.
func (c *Conn) serve() {
	if d := c.srv.limits.Idle; d > 0 {
		c.idle = time.AfterFunc(d, func() { c.cut(errIdle) })
		defer c.idle.Stop()
	}
	err := c.readLoop()
	if refused := (*refusal)(nil); errors.As(err, &refused) || errors.Is(err, errStopReading) {
		// What was asked before is answered first.
		c.stopReading()
		c.awaitReplies()
	}
	c.cut(err)
	c.awaitReplies()
	c.tell(context.Cause(c.ctx))
}

// tell writes the one log line of a connection that did not end by the client's will.
func (c *Conn) tell(err error) {
	remote := slog.String("remote", c.nc.RemoteAddr().String())
	listener := slog.String("listener", c.listener.Name)
	var r *refusal
	if errors.As(err, &r) {
		c.srv.meters.bad.Inc()
		c.log.Warn("connection closed", remote, listener, slog.String("reason", r.reason))
		return
	}
	c.log.Debug("connection ended", remote, listener, slog.Any("reason", err))
}

// active puts the idle timer back to its start.
func (c *Conn) active() {
	if c.idle != nil {
		c.idle.Reset(c.srv.limits.Idle)
	}
}

// stopReading makes the reader return and tells waiting replies to hurry.
func (c *Conn) stopReading() {
	c.queue.mu.Lock()
	first := !c.queue.closed
	c.queue.closed = true
	c.queue.mu.Unlock()
	if !first {
		return
	}
	close(c.closing)
	c.moved()
	// A deadline in the past ends a read that is under way. A connection that knows no deadlines is cut instead.
	if err := c.nc.SetReadDeadline(time.Unix(1, 0)); err != nil {
		c.cut(errStopped)
	}
}

// cut ends the connection at once. The first reason stays.
func (c *Conn) cut(reason error) {
	c.end(reason)
	_ = c.nc.Close()
	c.queue.mu.Lock()
	first := !c.queue.closed
	c.queue.closed = true
	c.queue.mu.Unlock()
	if first {
		close(c.closing)
		c.moved()
	}
}

// stopped reports whether no further request is to be read.
func (c *Conn) stopped() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}
