package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/quorum"
	"moldau/internal/server"
)

// addRaftVoter answers AddRaftVoter: an observer of the metadata quorum becomes a voter (KIP-853). Only the quorum's leader can
// do it; on a broker's listener the request is forwarded to it.
func (a *API) addRaftVoter(r *server.Request) server.Reply {
	if a.mustForward(r) {
		return a.forward(r)
	}
	req := r.Body.(*kmsg.AddRaftVoterRequest)
	ctx, cancel := a.within(r, req.TimeoutMillis)
	defer cancel()
	return r.Answer(a.addVoter(ctx, req))
}

// addVoter waits for a voter that does not come no longer than request.timeout.ms, whatever the client says: other voter
// changes wait meanwhile, and so do the answers to what the same broker passes on.
func (a *API) addVoter(ctx context.Context, req *kmsg.AddRaftVoterRequest) kmsg.Response {
	ctx, cancel := context.WithTimeout(ctx, a.o.RequestTimeout)
	defer cancel()
	if !a.sameCluster(req.ClusterID) {
		return failure(req, kerr.InconsistentClusterID)
	}
	v := quorum.Voter{ID: req.VoterID, DirID: req.VoterDirectoryID}
	for _, l := range req.Listeners {
		v.Endpoints = append(v.Endpoints, quorum.Endpoint{Name: l.Name, Host: l.Host, Port: l.Port})
	}
	if err := a.o.Quorum.AddVoter(ctx, v); err != nil {
		return a.votersKept(req, err)
	}
	return kmsg.NewPtrAddRaftVoterResponse()
}

// votersKept is the answer to a voter change that was not made. The log says why, since an answer has little room for it.
func (a *API) votersKept(req kmsg.Request, err error) kmsg.Response {
	a.o.Logger.Warn("the voter set of the metadata quorum was not changed", "request", kmsg.NameForKey(req.Key()), "err", err)
	return failure(req, err)
}
