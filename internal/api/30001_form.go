package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// whatAreYou tells a node that is not formatted which cluster this one belongs to.
func (a *API) whatAreYou(r *server.Request) server.Reply {
	return r.Answer(&wire.PrivateResponse{APIKey: wire.FormKey, Body: a.o.Quorum.FormAnswer()})
}

// FormingRoutes is what a node serves on its controller listeners while it forms a cluster: nothing but who it is. answer makes
// the body (quorum.FormOptions.Answer).
func FormingRoutes(answer func() []byte) []server.Route {
	versions := func(r *server.Request) server.Reply {
		return r.Answer(kmsg.NewPtrApiVersionsResponse())
	}
	form := func(r *server.Request) server.Reply {
		return r.Answer(&wire.PrivateResponse{APIKey: wire.FormKey, Body: answer()})
	}
	return []server.Route{
		{Key: kmsg.ApiVersions.Int16(), Max: 5, Listeners: server.Controller, MaxBytes: small, Handle: versions},
		{Key: wire.FormKey, Listeners: server.Controller, MaxBytes: small, Handle: form},
	}
}
