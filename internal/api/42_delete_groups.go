package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// deleteGroups answers DeleteGroups: groups without members, and all that they have committed, are forgotten (KIP-229).
func (a *API) deleteGroups(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DeleteGroupsRequest)
	var deleted []*coordinator.Promise[group.None]
	var promises []kept
	for _, id := range req.Groups {
		p := a.o.Groups.Delete(id)
		deleted, promises = append(deleted, p), append(promises, p)
	}
	return a.after(r, func() kmsg.Response {
		resp := kmsg.NewPtrDeleteGroupsResponse()
		for i, id := range req.Groups {
			_, err := outcome(deleted[i])
			answer := kmsg.NewDeleteGroupsResponseGroup()
			answer.Group, answer.ErrorCode, answer.ErrorMessage = id, wire.Code(err), wire.Message(err)
			resp.Groups = append(resp.Groups, answer)
		}
		return resp
	}, promises...)
}
