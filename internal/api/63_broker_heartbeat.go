package api

import (
	"context"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
)

// pulses is which broker each connection of the controllers' listeners keeps alive. A connection that breaks is a hint, no
// proof, that its broker is gone: the controller is told and looks.
type pulses struct {
	mu sync.Mutex
	of map[*server.Conn]pulse
}

type pulse struct {
	broker kafka.NodeID
	epoch  int64
}

// brokerHeartbeat has this node's controller answer a heartbeat, and remembers whose connection it came over.
func (a *API) brokerHeartbeat(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.BrokerHeartbeatRequest)
	reply := a.control(r)
	if a.o.Disconnected == nil {
		return reply
	}
	a.pulses.mu.Lock()
	defer a.pulses.mu.Unlock()
	if _, known := a.pulses.of[r.Conn]; !known {
		context.AfterFunc(r.Context(), func() { a.pulseStopped(r.Conn) })
	}
	a.pulses.of[r.Conn] = pulse{req.BrokerID, req.BrokerEpoch}
	return reply
}

func (a *API) pulseStopped(c *server.Conn) {
	a.pulses.mu.Lock()
	p := a.pulses.of[c]
	delete(a.pulses.of, c)
	a.pulses.mu.Unlock()
	a.o.Disconnected(p.broker, p.epoch)
}
