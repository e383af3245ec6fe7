package server

import (
	"sync"

	"moldau/internal/wire"
)

// Mask is a set of listener kinds.
type Mask uint8

// The kinds of listener.
const (
	Broker     Mask = 1 << iota // clients and other brokers
	Controller                  // brokers and controllers
)

// Route is one row of the table of APIs: who serves an API key on which listeners.
type Route struct {
	Key       int16
	Min, Max  int16 // versions served, both inclusive
	Listeners Mask
	MaxBytes  int  // largest request in bytes; 0: whatever the server takes
	Hold      bool // run only after all earlier requests of the connection are answered
	Reused    bool // nothing of a Request is in use once its reply is written: the next one is decoded into its memory
	Handle    func(*Request) Reply
}

// routeKey finds a route: rows of one API key may differ between listener kinds.
type routeKey struct {
	key  int16
	kind Mask
}

// table maps to the index of a route, so that its metrics are found without a second look-up.
type table map[routeKey]*served

type served struct {
	Route
	metrics routeMetrics
	spare   sync.Pool // of *Request, if Reused
}

// request returns a Request to fill, which may have served others.
func (s *served) request() *Request {
	if r, ok := s.spare.Get().(*Request); ok {
		return r
	}
	return &Request{route: s}
}

func (t table) find(h wire.Header, kind Mask) (*served, bool) {
	r, ok := t[routeKey{h.Key, kind}]
	return r, ok
}
