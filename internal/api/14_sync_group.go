package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// syncGroup answers SyncGroup: a member waits until the leader has brought the assignment.
func (a *API) syncGroup(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.SyncGroupRequest)
	if req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) { // KIP-559
		resp := kmsg.NewPtrSyncGroupResponse()
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		return r.Answer(resp)
	}
	synced := a.o.Groups.Sync(req)
	return a.after(r, func() kmsg.Response {
		resp, err := outcome(synced)
		if err != nil {
			resp = kmsg.NewPtrSyncGroupResponse()
			resp.ErrorCode = wire.Code(err)
		}
		return resp
	}, synced)
}
