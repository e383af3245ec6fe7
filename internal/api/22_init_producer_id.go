package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// noProducerID and noProducerEpoch stand for a producer that has none yet.
const (
	noProducerID    = -1
	noProducerEpoch = -1
)

// initProducerID answers InitProducerId for idempotent producers. Mirrors KafkaApis.handleInitProducerIdRequest and
// TransactionCoordinator.handleInitProducerId without a transactional id: every call gets a new id at epoch 0.
//
// A transactional id is answered with UNSUPPORTED_VERSION. Clients take that as fatal and say "the version of API is not
// supported", which is nearer the truth than what an authorization error would make them say.
func (a *API) initProducerID(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.InitProducerIDRequest)
	resp := kmsg.NewPtrInitProducerIDResponse()
	resp.ProducerID, resp.ProducerEpoch = noProducerID, noProducerEpoch
	switch {
	case req.TransactionalID != nil && *req.TransactionalID == "":
		resp.ErrorCode = kerr.InvalidRequest.Code
	case req.TransactionalID != nil:
		resp.ErrorCode = kerr.UnsupportedVersion.Code
	case (req.ProducerID == noProducerID) != (req.ProducerEpoch == noProducerEpoch):
		resp.ErrorCode = kerr.InvalidRequest.Code
	default:
		ctx, cancel := a.within(r, 0)
		defer cancel()
		id, err := a.o.Uplink.ProducerID(ctx)
		if err != nil {
			// Whatever it is, asking again is right, and clients do for this one (RPCProducerIdManager).
			a.o.Logger.Warn("no producer id to give out", "error", err)
			resp.ErrorCode = wire.Code(kerr.CoordinatorLoadInProgress)
			break
		}
		resp.ProducerID, resp.ProducerEpoch = id, 0
	}
	return r.Answer(resp)
}
