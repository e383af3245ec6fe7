package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/quorum"
	"moldau/internal/server"
)

// updateRaftVoter answers UpdateRaftVoter: a voter of the metadata quorum listens elsewhere than before (KIP-853).
func (a *API) updateRaftVoter(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.UpdateRaftVoterRequest)
	leader, epoch, _ := a.o.Quorum.Leader()
	resp := kmsg.NewPtrUpdateRaftVoterResponse()
	resp.CurrentLeader.LeaderID, resp.CurrentLeader.LeaderEpoch = leader.ID, epoch
	for _, e := range leader.Endpoints {
		if e.Name == r.Conn.Listener() {
			resp.CurrentLeader.Host, resp.CurrentLeader.Port = e.Host, int32(e.Port)
		}
	}
	refuse := func(err *kerr.Error) server.Reply {
		resp.ErrorCode = err.Code
		return r.Answer(resp)
	}
	switch {
	case !a.sameCluster(req.ClusterID):
		return refuse(kerr.InconsistentClusterID)
	case req.CurrentLeaderEpoch < epoch:
		return refuse(kerr.FencedLeaderEpoch)
	case req.CurrentLeaderEpoch > epoch:
		return refuse(kerr.UnknownLeaderEpoch)
	case req.KRaftVersionFeature.MinSupportedVersion > quorum.KRaftLevel || req.KRaftVersionFeature.MaxSupportedVersion < quorum.KRaftLevel:
		return refuse(kerr.InvalidRequest)
	}
	v := quorum.Voter{ID: req.VoterID, DirID: req.VoterDirectoryID}
	for _, l := range req.Listeners {
		v.Endpoints = append(v.Endpoints, quorum.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port})
	}
	ctx, cancel := a.within(r, 0)
	defer cancel()
	if err := a.o.Quorum.UpdateVoter(ctx, v); err != nil {
		return r.Answer(a.votersKept(req, err))
	}
	return r.Answer(resp)
}
