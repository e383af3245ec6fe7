package api

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// heartbeat answers Heartbeat. While the coordinator loads, all is well: a member has nothing to do about it.
func (a *API) heartbeat(r *server.Request) server.Reply {
	beat := a.o.Groups.Heartbeat(r.Body.(*kmsg.HeartbeatRequest))
	return a.after(r, func() kmsg.Response {
		resp := kmsg.NewPtrHeartbeatResponse()
		if _, err := outcome(beat); err != nil && !errors.Is(err, kerr.CoordinatorLoadInProgress) {
			resp.ErrorCode = wire.Code(err)
		}
		return resp
	}, beat)
}
