package api

import (
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/group"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// joinGroup answers JoinGroup: a member waits until its group's next generation has begun.
func (a *API) joinGroup(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.JoinGroupRequest)
	joined := a.o.Groups.Join(req, clientOf(r))
	return a.after(r, func() kmsg.Response {
		resp, err := outcome(joined)
		if err != nil {
			resp = kmsg.NewPtrJoinGroupResponse()
			resp.ErrorCode, resp.MemberID = wire.Code(err), req.MemberID
		}
		return resp
	}, joined)
}

// clientOf is who sends a request, with the host as Apache Kafka shows it.
func clientOf(r *server.Request) group.Client {
	host := ""
	if addr := r.Conn.RemoteAddr(); addr != nil {
		host = addr.String()
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
	}
	return group.Client{ID: r.ClientID(), Host: "/" + host}
}
