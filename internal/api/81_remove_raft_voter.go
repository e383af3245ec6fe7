package api

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/quorum"
	"moldau/internal/server"
)

// removeRaftVoter answers RemoveRaftVoter: a voter of the metadata quorum loses its vote (KIP-853).
func (a *API) removeRaftVoter(r *server.Request) server.Reply {
	if a.mustForward(r) {
		return a.forward(r)
	}
	ctx, cancel := a.within(r, 0)
	defer cancel()
	return r.Answer(a.removeVoter(ctx, r.Body.(*kmsg.RemoveRaftVoterRequest)))
}

func (a *API) removeVoter(ctx context.Context, req *kmsg.RemoveRaftVoterRequest) kmsg.Response {
	if !a.sameCluster(req.ClusterID) {
		return failure(req, kerr.InconsistentClusterID)
	}
	if err := a.o.Quorum.RemoveVoter(ctx, quorum.Voter{ID: req.VoterID, DirID: req.VoterDirectoryID}); err != nil {
		return a.votersKept(req, err)
	}
	return kmsg.NewPtrRemoveRaftVoterResponse()
}
