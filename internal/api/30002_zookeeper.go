package api

import (
	"moldau/internal/server"
	"moldau/internal/wire"
)

// passed takes a connection of a ZooKeeper client that another node passes on to the one that has the tree. From the answer
// on its bytes are ZooKeeper's.
func (a *API) passed(r *server.Request) server.Reply {
	req := r.Body.(*wire.PrivateRequest)
	serve, err := a.o.Passed(req.Body)
	if err != nil {
		return server.Reply{None: true, Close: true, Reason: err.Error()}
	}
	reply := r.Answer(&wire.PrivateResponse{APIKey: req.APIKey})
	reply.Takeover = serve
	return reply
}
