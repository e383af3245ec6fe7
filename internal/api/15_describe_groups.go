package api

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// groupOperations are what a client without restrictions may do with a group (KIP-430).
const groupOperations int32 = opRead | opDelete | opDescribe | opDescribeConfigs | opAlterConfigs

// describeGroups answers DescribeGroups. A group that does not exist is dead, and from version 6 on an error (KIP-1043).
func (a *API) describeGroups(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DescribeGroupsRequest)
	var shown []*coordinator.Promise[*kmsg.DescribeGroupsResponseGroup]
	var promises []kept
	for _, id := range req.Groups {
		p := a.o.Groups.Describe(id)
		shown, promises = append(shown, p), append(promises, p)
	}
	return a.after(r, func() kmsg.Response {
		resp := kmsg.NewPtrDescribeGroupsResponse()
		for i, id := range req.Groups {
			g, err := outcome(shown[i])
			switch {
			case err == nil:
				if req.IncludeAuthorizedOperations {
					g.AuthorizedOperations = groupOperations
				}
				resp.Groups = append(resp.Groups, *g)
				continue
			case errors.Is(err, kerr.GroupIDNotFound):
				resp.Groups = append(resp.Groups, deadGroup(id, req))
			default:
				failed := kmsg.NewDescribeGroupsResponseGroup()
				failed.Group, failed.ErrorCode = id, wire.Code(err)
				resp.Groups = append(resp.Groups, failed)
			}
		}
		return resp
	}, promises...)
}

func deadGroup(id string, req *kmsg.DescribeGroupsRequest) kmsg.DescribeGroupsResponseGroup {
	g := kmsg.NewDescribeGroupsResponseGroup()
	g.Group, g.State = id, "Dead"
	if req.Version >= 6 {
		message := "Group " + id + " not found."
		g.ErrorCode, g.ErrorMessage = kerr.GroupIDNotFound.Code, &message
	} else if req.IncludeAuthorizedOperations {
		g.AuthorizedOperations = groupOperations
	}
	return g
}
