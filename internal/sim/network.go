package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing/synctest"
	"time"
)

// Network joins clients and nodes. Bytes written on a connection stay with the driver, chunk by chunk, until it lets
// them arrive; the order of chunks on one connection is kept.
type Network struct {
	world *World

	mu        sync.Mutex
	listeners map[string]*listener
	conns     map[*conn]struct{} // both ends of every open connection
	next      int
	halves    []*conn // whose other ends are gone; the driver's only
}

// NewNetwork returns a network on which nobody listens.
func NewNetwork(w *World) *Network {
	return &Network{world: w, listeners: make(map[string]*listener), conns: make(map[*conn]struct{})}
}

// Listen returns the listen function of the host named host.
func (n *Network) Listen(host string) func(address string) (net.Listener, error) {
	return func(address string) (net.Listener, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if _, taken := n.listeners[address]; taken {
			return nil, &net.OpError{Op: "listen", Net: "sim", Err: syscall.EADDRINUSE}
		}
		l := &listener{network: n, host: host, address: address, arrivals: make(chan net.Conn, 64), closed: make(chan struct{})}
		n.listeners[address] = l
		return l, nil
	}
}

// Dial returns the dial function of the host named host.
func (n *Network) Dial(host string) func(ctx context.Context, address string) (net.Conn, error) {
	return func(ctx context.Context, address string) (net.Conn, error) {
		n.world.wait(fmt.Sprintf("dial %s>%s", host, address))
		n.mu.Lock()
		defer n.mu.Unlock()
		l := n.listeners[address]
		if l == nil {
			return nil, &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}
		}
		n.next++
		name := fmt.Sprintf("net %s>%s c%d", host, l.host, n.next)
		near := &conn{network: n, host: host, local: addr(host), remote: addr(address), name: name + " out"}
		far := &conn{network: n, host: l.host, local: addr(address), remote: addr(fmt.Sprintf("%s:%d", host, n.next)), name: name + " back"}
		near.peer, far.peer = far, near
		near.changed.init()
		far.changed.init()
		select {
		case l.arrivals <- far:
		default:
			return nil, &net.OpError{Op: "dial", Net: "sim", Err: syscall.ECONNREFUSED}
		}
		n.conns[near], n.conns[far] = struct{}{}, struct{}{}
		return near, nil
	}
}

// Drop ends everything of one host: its listeners and both ends of its connections, as when its process dies.
func (n *Network) Drop(host string) {
	n.mu.Lock()
	var gone []*conn
	for c := range n.conns {
		if c.host == host {
			gone = append(gone, c, c.peer)
		}
	}
	var closed []*listener
	for _, l := range n.listeners {
		if l.host == host {
			closed = append(closed, l)
		}
	}
	n.mu.Unlock()
	slices.SortFunc(closed, func(a, b *listener) int { return strings.Compare(a.address, b.address) })
	slices.SortFunc(gone, func(a, b *conn) int { return strings.Compare(a.name, b.name) })
	for _, l := range closed {
		_ = l.Close()
	}
	for _, c := range gone {
		c.fail(syscall.ECONNRESET)
		synctest.Wait() // what one end does about it comes before the next one knows
	}
}

// Reset ends one connection that rng picks, if there is one, as a router that forgets its state does.
func (n *Network) Reset(rng *rand.Rand) {
	c := n.pick(rng)
	if c == nil {
		return
	}
	n.world.Note("%s resets", c.name)
	for _, end := range []*conn{c, c.peer} {
		end.fail(syscall.ECONNRESET)
		synctest.Wait()
	}
}

// pick returns an end of a connection, nil if none is open.
func (n *Network) pick(rng *rand.Rand) *conn {
	n.mu.Lock()
	var open []*conn
	for c := range n.conns {
		open = append(open, c)
	}
	n.mu.Unlock()
	if len(open) == 0 {
		return nil
	}
	slices.SortFunc(open, func(a, b *conn) int { return strings.Compare(a.name, b.name) })
	return open[rng.IntN(len(open))]
}

// Halve ends one end of a connection that rng picks, and tells the other nothing: what it still writes goes nowhere.
func (n *Network) Halve(rng *rand.Rand) {
	c := n.pick(rng)
	if c == nil {
		return
	}
	n.world.Note("%s is half open", c.name)
	c.fail(syscall.ECONNRESET)
	n.halves = append(n.halves, c.peer)
	synctest.Wait()
}

// Mend tells the ends of half-open connections that the others are gone.
func (n *Network) Mend() {
	for _, c := range n.halves {
		c.fail(syscall.ECONNRESET)
		synctest.Wait()
	}
	n.halves = nil
}

// Open returns the ends of connections that are open, those of one host if it is named.
func (n *Network) Open(host string) (names []string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if host == "" || c.host == host {
			names = append(names, c.name)
		}
	}
	slices.Sort(names)
	return names
}

// listener is a place to dial.
type listener struct {
	network  *Network
	host     string
	address  string
	arrivals chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.arrivals:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.network.mu.Lock()
		delete(l.network.listeners, l.address)
		l.network.mu.Unlock()
		for { // nobody will take these
			select {
			case c := <-l.arrivals:
				c.(*conn).fail(syscall.ECONNRESET)
				c.(*conn).peer.fail(syscall.ECONNRESET)
				continue
			default:
			}
			break
		}
	})
	return nil
}

func (l *listener) Addr() net.Addr { return addr(l.address) }

type addr string

func (a addr) Network() string { return "sim" }
func (a addr) String() string  { return string(a) }

// conn is one end of a connection.
type conn struct {
	network       *Network
	host          string
	peer          *conn
	local, remote addr
	name          string // of the direction in which this end writes

	mu      sync.Mutex
	unread  int      // bytes that this end has written and the other has not read
	inbox   []byte   // arrived, not yet read
	sent    [][]byte // written, not yet arrived
	offered bool     // the first of sent is parked with the driver
	eof     bool     // the other end has closed and all it wrote has arrived
	closing bool     // this end has closed; what is in sent still arrives
	err     error
	changed signal // wakes whoever reads or writes

	readBy, writeBy time.Time // deadlines
}

// signal wakes everybody who waits.
type signal struct{ c chan struct{} }

func (s *signal) init() { s.c = make(chan struct{}) }
func (s *signal) fire() { close(s.c); s.c = make(chan struct{}) }

func (c *conn) Read(b []byte) (int, error) {
	for {
		c.mu.Lock()
		deadline, changed := c.readBy, c.changed.c
		switch {
		case c.err != nil:
			err := c.err
			c.mu.Unlock()
			return 0, err
		case over(deadline):
			c.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(c.inbox) > 0:
			n := copy(b, c.inbox)
			c.inbox = c.inbox[n:]
			c.mu.Unlock()
			c.peer.taken(n)
			return n, nil
		case c.eof:
			c.mu.Unlock()
			return 0, io.EOF
		}
		c.mu.Unlock()
		await(changed, deadline)
	}
}

func over(deadline time.Time) bool { return !deadline.IsZero() && !time.Now().Before(deadline) }

// await waits for a change, but no longer than until the deadline, if there is one.
func await(changed <-chan struct{}, deadline time.Time) {
	if deadline.IsZero() {
		<-changed
		return
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	}
}

// window is how many bytes may be on their way before a writer has to wait: what the buffers of two kernels hold, made
// small.
const window = 4 << 10

func (c *conn) Write(b []byte) (int, error) {
	for {
		c.mu.Lock()
		deadline, changed := c.writeBy, c.changed.c
		switch {
		case c.err != nil:
			err := c.err
			c.mu.Unlock()
			return 0, err
		case over(deadline):
			c.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case c.unread < window:
			if len(b) > 0 {
				c.sent = append(c.sent, append([]byte(nil), b...))
				c.unread += len(b)
				c.offerLocked()
			}
			c.mu.Unlock()
			return len(b), nil
		}
		c.mu.Unlock()
		await(changed, deadline)
	}
}

// taken makes room for a writer.
func (c *conn) taken(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	waits := c.unread >= window
	if c.unread -= n; waits {
		c.changed.fire()
	}
}

// offerLocked parks the arrival of the oldest chunk.
func (c *conn) offerLocked() {
	if c.offered || len(c.sent) == 0 && !c.closing {
		return
	}
	c.offered = true
	c.network.world.offer(c.name, c.deliver)
}

// deliver lets the oldest chunk, or the end of the stream, arrive.
func (c *conn) deliver() {
	c.mu.Lock()
	c.offered = false
	var chunk []byte
	end := false
	if len(c.sent) > 0 {
		chunk = c.sent[0]
		if n := len(chunk); n > 1 && c.network.world.rng.IntN(8) == 0 { // a stream has no borders
			n = 1 + c.network.world.rng.IntN(n-1)
			chunk, c.sent[0] = chunk[:n], chunk[n:]
		} else {
			c.sent = c.sent[1:]
		}
		c.offerLocked()
	} else {
		end = c.closing
	}
	c.mu.Unlock()
	c.peer.arrive(chunk, end)
}

func (c *conn) arrive(chunk []byte, end bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.inbox = append(c.inbox, chunk...)
	c.eof = c.eof || end
	c.changed.fire()
}

func (c *conn) Close() error {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return nil
	}
	c.err = net.ErrClosed
	c.closing = true
	c.changed.fire()
	c.offerLocked()
	c.mu.Unlock()
	c.network.forget(c)
	return nil
}

// fail ends this end at once; what it has sent and not delivered is lost.
func (c *conn) fail(err error) {
	c.mu.Lock()
	c.sent, c.closing = nil, false
	if c.err == nil {
		c.err = err
		c.changed.fire()
	}
	c.mu.Unlock()
	c.network.forget(c)
}

func (n *Network) forget(c *conn) {
	n.mu.Lock()
	delete(n.conns, c)
	n.mu.Unlock()
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetReadDeadline ends a read under way when the deadline is past.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readBy = t
	c.changed.fire()
	return nil
}

// SetWriteDeadline ends a write under way when the deadline is past.
func (c *conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeBy = t
	c.changed.fire()
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

var (
	_ net.Conn     = (*conn)(nil)
	_ net.Listener = (*listener)(nil)
)
