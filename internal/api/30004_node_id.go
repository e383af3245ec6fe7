package api

import (
	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/uplink"
	"moldau/internal/wire"
)

// nodeID gives a number to a node that has none. It has no cluster yet either, so nothing is known of it.
func (a *API) nodeID(r *server.Request) server.Reply {
	ctx, cancel := a.within(r, 0)
	defer cancel()
	id := kafka.NoNode
	least, err := uplink.ReadNodeIDRequest(r.Body.(*wire.PrivateRequest).Body)
	if err == nil {
		id, err = a.o.NextNodeID(ctx, least)
	}
	return r.Answer(&wire.PrivateResponse{APIKey: wire.NodeIDKey, Body: uplink.AppendNodeIDAnswer(nil, id, timedOut(err))})
}
