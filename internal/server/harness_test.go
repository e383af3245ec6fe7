package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metrics"
	"moldau/internal/wire"
)

// memoryListener hands out in-memory connections, so that a test runs in a synctest bubble.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr("memory:1") }

type memoryAddr string

func (memoryAddr) Network() string  { return "memory" }
func (a memoryAddr) String() string { return string(a) }

type memoryConn struct {
	net.Conn
	remote memoryAddr
}

func (c memoryConn) RemoteAddr() net.Addr { return c.remote }

// world is a server in a bubble, with its log.
type world struct {
	t   *testing.T
	srv *Server
	ln  *memoryListener
	log lockedBuffer
	run sync.WaitGroup
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := strings.TrimSuffix(b.buf.String(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func newWorld(t *testing.T, limits Limits, l Listener, routes ...Route) *world {
	if limits.RequestMaxBytes == 0 {
		limits.RequestMaxBytes = 1 << 20
	}
	if l.Kind == 0 {
		l.Name, l.Kind = "PLAINTEXT", Broker
	}
	w := &world{t: t, ln: newMemoryListener()}
	w.srv = New(Options{
		Routes:  routes,
		Limits:  limits,
		Logger:  slog.New(slog.NewTextHandler(&w.log, nil)),
		Metrics: metrics.NewSet(),
		Now:     time.Now,
	})
	w.run.Go(func() {
		if err := w.srv.Serve(w.ln, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return w
}

// stop ends the server; everything must be gone when it returns.
func (w *world) stop() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.srv.Stop(ctx); err != nil {
		w.t.Errorf("Stop: %v", err)
	}
	w.run.Wait()
}

// client is the other end of a connection.
type client struct {
	t  *testing.T
	nc net.Conn
}

func (w *world) dial(remote string) *client {
	w.t.Helper()
	ours, theirs := net.Pipe()
	select {
	case w.ln.conns <- memoryConn{theirs, memoryAddr(remote)}:
	case <-time.After(time.Minute):
		w.t.Fatal("nobody accepts")
	}
	return &client{w.t, ours}
}

// send writes a request from a goroutine, because a pipe has no buffer.
func (c *client) send(id int32, req kmsg.Request) {
	c.sendBytes(wire.AppendRequest(nil, id, kmsg.StringPtr("test"), req))
}

func (c *client) sendBytes(b []byte) {
	if _, err := c.nc.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// receive reads one response and returns its correlation id.
func (c *client) receive(resp kmsg.Response) int32 {
	c.t.Helper()
	id, err := wire.ReadResponse(c.receiveFrame(), resp)
	if err != nil {
		c.t.Fatalf("read response: %v", err)
	}
	return id
}

func (c *client) receiveFrame() []byte {
	c.t.Helper()
	var size [4]byte
	if _, err := io.ReadFull(c.nc, size[:]); err != nil {
		c.t.Fatalf("read: %v", err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.nc, frame); err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return frame
}

// receiveEnd fails unless the server closes the connection without another byte.
func (c *client) receiveEnd() {
	c.t.Helper()
	rest, err := io.ReadAll(c.nc)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		c.t.Fatalf("read: %v", err)
	}
	if len(rest) > 0 {
		c.t.Fatalf("got %d bytes, want a closed connection: %x", len(rest), rest)
	}
}

// produce is a request that carries payload.
func produce(payload string) kmsg.Request {
	req := kmsg.NewPtrProduceRequest()
	req.Version = 9
	req.Acks = -1
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = "t"
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = []byte(payload)
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	return req
}

func payload(r *Request) string {
	return string(r.Body.(*kmsg.ProduceRequest).Topics[0].Partitions[0].Records)
}

func produceAnswer() *kmsg.ProduceResponse {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 9
	return resp
}

// gate is a route for Produce whose replies wait until the test opens them.
type gate struct {
	handled chan string // payloads, in the order of Handle
	open    map[string]chan struct{}
	wake    bool // return from Wait when the connection reads no more
	tell    bool // whether a reply is ready
	saw     chan string
}

func newGate(payloads ...string) *gate {
	g := &gate{handled: make(chan string, 200), open: map[string]chan struct{}{}, saw: make(chan string, 200)}
	for _, p := range payloads {
		g.open[p] = make(chan struct{})
	}
	return g
}

func (g *gate) route() Route {
	return Route{Key: 0, Min: 3, Max: 13, Listeners: Broker, Handle: func(r *Request) Reply {
		p := payload(r)
		g.handled <- p
		ready, waits := g.open[p]
		if !waits {
			return r.Answer(produceAnswer())
		}
		var isReady func() bool
		if g.tell {
			isReady = func() bool {
				select {
				case <-ready:
					return true
				default:
					return false
				}
			}
		}
		return Reply{Ready: isReady, Wait: func() Response {
			hurry := r.Closing()
			if !g.wake {
				hurry = nil
			}
			select {
			case <-ready:
			case <-hurry:
			case <-r.Context().Done():
			}
			g.saw <- payload(r) // the request's bytes must still be there
			return r.Response(produceAnswer())
		}}
	}}
}

func metadataRoute(handled chan<- string) Route {
	return Route{Key: 3, Min: 0, Max: 13, Listeners: Broker, Hold: true, Handle: func(r *Request) Reply {
		handled <- "metadata"
		return r.Answer(kmsg.NewPtrMetadataResponse())
	}}
}

func metadataRequest() kmsg.Request {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 12
	return req
}
