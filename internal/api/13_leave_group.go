package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// leaveGroup answers LeaveGroup, of one member to version 2, of several from 3 on (KIP-345).
func (a *API) leaveGroup(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.LeaveGroupRequest)
	leaving := req.Members
	if req.Version < 3 {
		one := kmsg.NewLeaveGroupRequestMember()
		one.MemberID = req.MemberID
		leaving = []kmsg.LeaveGroupRequestMember{one}
	}
	left := a.o.Groups.Leave(req.Group, leaving)
	return a.after(r, func() kmsg.Response {
		resp := kmsg.NewPtrLeaveGroupResponse()
		errs, err := outcome(left)
		if err == nil && req.Version < 3 {
			err = errs[0]
		}
		if err != nil {
			resp.ErrorCode = wire.Code(err)
			return resp
		}
		if req.Version < 3 {
			return resp
		}
		for i, l := range leaving {
			member := kmsg.NewLeaveGroupResponseMember()
			member.MemberID, member.InstanceID, member.ErrorCode = l.MemberID, l.InstanceID, wire.Code(errs[i])
			resp.Members = append(resp.Members, member)
		}
		return resp
	}, left)
}
