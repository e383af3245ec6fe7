package api

import (
	"moldau/internal/quorum"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// raft takes messages of another voter of the metadata quorum. The answer says that they are here, not what raft makes of them:
// that comes as messages of this node.
func (a *API) raft(r *server.Request) server.Reply {
	req := r.Body.(*wire.PrivateRequest)
	err := a.o.Quorum.Receive(req.Body)
	return r.Answer(&wire.PrivateResponse{APIKey: req.APIKey, Body: quorum.AppendRaftAnswer(nil, err)})
}
