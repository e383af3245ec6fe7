package zookeeper

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
	"moldau/internal/xsync"
	"moldau/internal/znode"
)

// Options are what a Server needs.
type Options struct {
	NodeID kafka.NodeID
	Tree   *znode.Coordinator
	// Create makes the topic of the tree if it is not there.
	Create func(ctx context.Context) error
	// Dial connects to another node's listener for brokers.
	Dial    func(ctx context.Context, node kafka.NodeID) (net.Conn, error)
	Image   func() *metadata.Image
	Limits  Limits
	Chroot  string               // what clients may write before every path: "" or /kafka
	Elapsed func() time.Duration // the tree's
	Logger  *slog.Logger
	Metrics *metrics.Set

	MinTimeoutMs, MaxTimeoutMs int32 // of sessions, for words
}

// Limits bound what clients can take.
type Limits struct {
	Connections int           // 0: 10000
	Begin       time.Duration // within which a connection has to say what it wants; 0: 10 s
}

// Server serves connections. Make it with New, give it listeners with Serve, end it with Stop.
type Server struct {
	o      Options
	log    *slog.Logger
	meters meters
	counts counts

	ctx     context.Context // ends with Stop
	cancel  context.CancelFunc
	running sync.WaitGroup
	link    link
	large   chan struct{} // holds one for each large frame that is being read or served
	surveys chan struct{} // holds one for each word about the tree that is being answered

	mu struct {
		xsync.Mutex
		stopped   bool
		nextID    uint64
		listeners []net.Listener
		conns     map[uint64]*conn
		leader    leader
		moved     chan struct{} // closed when the leader is another
	}
}

// leader is the node that has the tree, as the metadata say.
type leader struct {
	node  kafka.NodeID // kafka.NoNode: none
	epoch kafka.Epoch
	topic bool // there is a topic for the tree
}

// counts is what words tell of this node.
type counts struct {
	received, sent            atomic.Int64 // packets
	answers, latency, longest atomic.Int64 // latency is the sum, in µs
}

// New returns a server without connections.
func New(o Options) *Server {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Metrics = cmp.Or(o.Metrics, metrics.NewSet())
	o.Limits.Connections = cmp.Or(o.Limits.Connections, 10_000)
	o.Limits.Begin = cmp.Or(o.Limits.Begin, 10*time.Second)
	s := &Server{o: o, log: o.Logger}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.large = make(chan struct{}, largeSlots)
	s.surveys = make(chan struct{}, surveySlots)
	s.mu.conns = map[uint64]*conn{}
	s.mu.moved = make(chan struct{})
	s.mu.leader = leader{node: kafka.NoNode, epoch: kafka.NoEpoch}
	s.meters = newMeters(o.Metrics)
	s.link.turn = make(chan struct{}, 1)
	return s
}

// Apply learns from new metadata who has the tree. It never waits.
func (s *Server) Apply(_ *metadata.Delta, image *metadata.Image) {
	now := leader{node: kafka.NoNode, epoch: kafka.NoEpoch}
	if _, p, ok := image.Topics.Partition(kafka.TopicPartition{Topic: znode.Topic}); ok {
		now = leader{node: p.Leader, epoch: p.LeaderEpoch, topic: true}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.leader != now {
		s.mu.leader = now
		close(s.mu.moved)
		s.mu.moved = make(chan struct{})
	}
}

// leader returns who has the tree. moved is closed when that is another.
func (s *Server) leader() (now leader, moved <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.leader, s.mu.moved
}

// Serve accepts connections on ln until ln fails or the server stops, and closes ln. It returns nil when the server
// stopped.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	if s.mu.stopped {
		s.mu.Unlock()
		_ = ln.Close()
		return nil
	}
	s.mu.listeners = append(s.mu.listeners, ln)
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	defer func() { _ = ln.Close() }()
	pause := time.Duration(0)
	for {
		nc, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.welcome(nc)
			continue
		case s.ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept ZooKeeper connections: %w", err)
		}
		// Out of descriptors, most likely: the connections that are there must go on.
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		s.log.Warn("cannot accept a ZooKeeper connection; trying on", "error", err)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return nil
		}
	}
}

// welcome serves a connection on a goroutine of its own.
func (s *Server) welcome(nc net.Conn) {
	c := s.enter(nc, nc.RemoteAddr().String(), kafka.NoNode)
	if c == nil {
		_ = nc.Close()
		return
	}
	go func() {
		defer s.running.Done()
		c.serve()
		s.leave(c)
	}()
}

// Passed answers another node that has a connection for this one: what it returns serves the connection until that ends. body
// is the request's.
func (s *Server) Passed(body []byte) (func(net.Conn), error) {
	by, remote, err := parsePassed(body)
	if err != nil {
		return nil, err
	}
	return func(nc net.Conn) {
		c := s.enter(nc, remote, by)
		if c == nil {
			_ = nc.Close()
			return
		}
		defer s.running.Done()
		c.serve()
		s.leave(c)
	}, nil
}

// enter counts a connection; nil when there are too many, or the server has stopped. running has it, too.
func (s *Server) enter(nc net.Conn, remote string, by kafka.NodeID) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stopped {
		return nil
	}
	if len(s.mu.conns) >= s.o.Limits.Connections {
		s.meters.refused.Inc()
		s.log.Warn("a ZooKeeper connection was refused: there are too many", "remote", remote, "connections", len(s.mu.conns))
		return nil
	}
	c := newConn(s, nc, remote, by)
	s.mu.nextID++
	c.id = s.mu.nextID
	s.mu.conns[c.id] = c
	s.running.Add(1)
	s.meters.connections.Inc()
	return c
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	delete(s.mu.conns, c.id)
	s.mu.Unlock()
	s.meters.connections.Dec()
}

// connections is those that there are, in the order in which they came.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*conn, 0, len(s.mu.conns))
	for _, id := range slices.Sorted(maps.Keys(s.mu.conns)) {
		out = append(out, s.mu.conns[id])
	}
	return out
}

// Stop ends the server and all its connections: their clients go to another node, and keep their sessions. When it returns
// nothing of the server runs. It has to be called once.
func (s *Server) Stop() {
	s.mu.Lock()
	s.mu.stopped = true
	listeners := s.mu.listeners
	s.mu.Unlock()
	s.cancel()
	for _, ln := range listeners {
		_ = ln.Close()
	}
	for _, c := range s.connections() {
		c.cut()
	}
	s.link.close()
	s.running.Wait()
}
