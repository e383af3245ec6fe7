package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"moldau/internal/metrics"
	"moldau/internal/xsync"
)

// Limits bound what clients can take.
type Limits struct {
	RequestMaxBytes int              // socket.request.max.bytes
	Connections     ConnectionLimits // see SetConnectionLimits
	Idle            time.Duration    // connections.max.idle.ms; 0 or less: for ever
	MaxUnanswered   int              // requests of one connection that wait for their answer; 0: 100
	MaxHeldBytes    int              // bytes of those requests; 0: 8 MiB
}

// Options are what a server needs.
type Options struct {
	Routes  []Route
	Limits  Limits
	Logger  *slog.Logger
	Metrics *metrics.Set
	Now     func() time.Time
}

// Server serves connections. Make it with New, give it listeners with Serve, end it with Stop.
type Server struct {
	limits Limits
	log    *slog.Logger
	now    func() time.Time
	routes table
	meters meters
	frames frames
	quota  *connectionQuota
	heavy  chan struct{} // holds one for each heavy request that is being served

	stopping chan struct{} // closed by Stop
	running  sync.WaitGroup

	mu struct {
		xsync.Mutex
		stopped   bool
		nextID    uint64
		listeners []net.Listener   // that accept
		conns     map[uint64]*Conn // by id
		ownLimits map[string]OwnLimits
		own       map[string]*connectionQuota // of the listeners that accept, by name
	}
}

// errStopped is why connections end when the server stops.
var errStopped = errors.New("the server stops")

// New returns a server for a table of routes. An API key has at most one row per kind of listener.
func New(o Options) *Server {
	s := &Server{limits: o.Limits, log: o.Logger, now: o.Now, stopping: make(chan struct{}), heavy: make(chan struct{}, heavySlots)}
	if s.limits.MaxUnanswered <= 0 {
		s.limits.MaxUnanswered = 100
	}
	if s.limits.MaxHeldBytes <= 0 {
		s.limits.MaxHeldBytes = 8 << 20
	}
	s.meters = newMeters(o.Metrics)
	s.routes = newTable(o.Routes, s.meters)
	s.quota = newQuota(s.limits.Connections)
	s.mu.ownLimits = s.limits.Connections.Own
	s.mu.own = make(map[string]*connectionQuota)
	s.mu.conns = make(map[uint64]*Conn)
	return s
}

// SetConnectionLimits changes how many connections there may be and how fast new ones come. Connections that are over the
// limits stay.
func (s *Server) SetConnectionLimits(l ConnectionLimits) {
	s.quota.set(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ownLimits = l.Own
	for _, name := range slices.Sorted(maps.Keys(s.mu.own)) {
		s.mu.own[name].set(l.Own[name].asLimits())
	}
}

// Stop ends the server. Listeners close at once and connections read no further requests; replies that are due go out
// until ctx ends, then everything that is left is cut. When Stop returns no goroutine of the server runs.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	if !s.mu.stopped {
		s.mu.stopped = true
		close(s.stopping)
	}
	for _, ln := range s.mu.listeners {
		_ = ln.Close() // Serve sees it and returns
	}
	for _, id := range slices.Sorted(maps.Keys(s.mu.conns)) {
		s.mu.conns[id].stopReading()
	}
	s.mu.Unlock()

	gone := make(chan struct{})
	go func() {
		s.running.Wait()
		close(gone)
	}()
	select {
	case <-gone:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	cut := len(s.mu.conns)
	for _, id := range slices.Sorted(maps.Keys(s.mu.conns)) {
		s.mu.conns[id].cut(errStopped)
	}
	s.mu.Unlock()
	<-gone
	return fmt.Errorf("stop the server: %d connections had answers due: %w", cut, context.Cause(ctx))
}
