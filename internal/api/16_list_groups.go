package api

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// listGroups answers ListGroups: the groups that this broker coordinates. A client asks all brokers.
func (a *API) listGroups(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.ListGroupsRequest)
	lists := a.o.Groups.List(req.StatesFilter, req.TypesFilter)
	var promises []kept
	for _, p := range lists {
		promises = append(promises, p)
	}
	return a.after(r, func() kmsg.Response {
		resp := kmsg.NewPtrListGroupsResponse()
		for _, p := range lists {
			groups, err := outcome(p)
			if err != nil && !errors.Is(err, kerr.NotCoordinator) { // what another broker coordinates by now, it tells
				resp.ErrorCode, resp.Groups = wire.Code(err), nil
				return resp
			}
			resp.Groups = append(resp.Groups, groups...)
		}
		return resp
	}, promises...)
}
