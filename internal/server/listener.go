package server

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Listener says what a net.Listener given to Serve is.
type Listener struct {
	Name string
	Kind Mask // exactly one kind
	// Protected listeners take connections even when max.connections or max.connection.creation.rate is reached, so that
	// clients cannot keep the nodes of a cluster apart (the inter-broker listener; KIP-402, KIP-612).
	Protected bool
}

// Serve accepts connections on ln until ln fails or the server stops, and closes ln. It returns nil when the server
// stopped. Names of listeners are unique.
func (s *Server) Serve(ln net.Listener, l Listener) error {
	s.mu.Lock()
	if s.mu.stopped {
		s.mu.Unlock()
		_ = ln.Close()
		return nil
	}
	s.mu.listeners = append(s.mu.listeners, ln)
	own := newQuota(s.mu.ownLimits[l.Name].asLimits())
	s.mu.own[l.Name] = own
	s.running.Add(1)
	s.mu.Unlock()
	defer s.running.Done()
	defer func() {
		s.mu.Lock()
		s.mu.listeners = slices.DeleteFunc(s.mu.listeners, func(other net.Listener) bool { return other == ln })
		delete(s.mu.own, l.Name)
		s.mu.Unlock()
		_ = ln.Close()
	}()
	return s.accept(ln, l, own)
}

func (s *Server) accept(ln net.Listener, l Listener, own *connectionQuota) error {
	pause := time.Duration(0)
	for {
		// Room is waited for before the accept: what is over the limit stays in the kernel's queue, as in Apache Kafka.
		if !l.Protected && !s.quota.waitForRoom(s.stopping) || !own.waitForRoom(s.stopping) {
			return nil
		}
		early := own.early(s.now())
		if !l.Protected {
			early = max(early, s.quota.early(s.now()))
		}
		if early > 0 {
			if !s.sleep(early) {
				return nil
			}
			continue // by now there may be no room
		}
		nc, err := ln.Accept()
		if err != nil {
			select {
			case <-s.stopping:
				return nil
			default:
			}
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept on listener %s: %w", l.Name, err)
			}
			// Out of descriptors, most likely: the connections that are there must go on.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.log.Warn("cannot accept a connection; trying on", "listener", l.Name, "error", err)
			if !s.sleep(pause) {
				return nil
			}
			continue
		}
		pause = 0
		s.welcome(nc, l, own)
	}
}

// welcome starts serving a connection, or closes it when its address has too many.
func (s *Server) welcome(nc net.Conn, l Listener, own *connectionQuota) {
	ip := hostOf(nc.RemoteAddr())
	if !s.quota.enter(ip, s.now()) {
		s.meters.refused.Inc()
		s.log.Info("connection refused: max.connections.per.ip is reached", "listener", l.Name, "remote", nc.RemoteAddr().String())
		_ = nc.Close()
		return
	}
	own.enter(ip, s.now())
	c := newConn(s, nc, l)
	s.mu.Lock()
	if s.mu.stopped {
		s.mu.Unlock()
		own.leave(ip)
		s.quota.leave(ip)
		_ = nc.Close()
		return
	}
	s.mu.nextID++
	c.id = s.mu.nextID
	s.mu.conns[c.id] = c
	s.running.Add(1)
	s.mu.Unlock()
	s.meters.connections.Inc()
	go func() {
		defer s.running.Done()
		c.serve()
		s.mu.Lock()
		delete(s.mu.conns, c.id)
		s.mu.Unlock()
		s.meters.connections.Dec()
		own.leave(ip)
		s.quota.leave(ip)
	}()
}

// sleep waits for d; false when the server stops first.
func (s *Server) sleep(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stopping:
		return false
	}
}

// hostOf is the address without its port. In-memory networks may have addresses of any form.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
