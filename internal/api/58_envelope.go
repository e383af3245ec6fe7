package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/wire"
)

// envelope has this node's controller answer a request that a broker passes on for a client (KIP-590). Answers come in the
// order of the envelopes and do not hold the connection's reader, since some take long. Mirrors EnvelopeUtils and
// ControllerApis.handleEnvelopeRequest.
func (a *API) envelope(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.EnvelopeRequest)
	inner, header, principal, err := a.unpack(req)
	if err != nil {
		resp := kmsg.NewPtrEnvelopeResponse()
		resp.ErrorCode = wire.Code(err)
		return r.Answer(resp)
	}
	clientID := ""
	if header.ClientID != nil {
		clientID = *header.ClientID
	}
	return server.Reply{Wait: func() server.Response {
		ctx, cancel := a.within(r, timeoutOf(inner))
		defer cancel()
		resp := kmsg.NewPtrEnvelopeResponse()
		answer, err := a.passedOn(ctx, inner, principal, clientID)
		switch {
		case errors.Is(err, kerr.NotController):
			resp.ErrorCode = kerr.NotController.Code // the broker looks for the one that is
			return r.Response(resp)
		case err != nil:
			if answer = failure(inner, err); answer == nil {
				resp.ErrorCode = wire.Code(err)
				return r.Response(resp)
			}
		}
		answer.SetVersion(header.Version)
		resp.ResponseData = wire.AppendResponse(nil, header.CorrelationID, answer)[4:] // the length is the envelope's
		return r.Response(resp)
	}}
}

// passedOn answers a request that a broker passed on to the leader of the metadata quorum: those about the quorum itself here,
// the others by the controller.
func (a *API) passedOn(ctx context.Context, inner kmsg.Request, principal, clientID string) (kmsg.Response, error) {
	var answer func() kmsg.Response
	switch req := inner.(type) {
	case *kmsg.DescribeQuorumRequest:
		answer = func() kmsg.Response { return a.quorumState(req) }
	case *kmsg.AddRaftVoterRequest:
		answer = func() kmsg.Response { return a.addVoter(ctx, req) }
	case *kmsg.RemoveRaftVoterRequest:
		answer = func() kmsg.Response { return a.removeVoter(ctx, req) }
	default:
		return a.o.Local(ctx, inner, principal, clientID)
	}
	if a.o.Quorum.Status().LeaderID != a.o.NodeID {
		return nil, kerr.NotController
	}
	return answer(), nil
}

// unpack takes the request and its sender out of an envelope. Only what a broker forwards may be in one.
func (a *API) unpack(e *kmsg.EnvelopeRequest) (kmsg.Request, wire.Header, string, error) {
	var principal kmsg.DefaultPrincipalData
	if err := principal.ReadFrom(e.RequestPrincipal); err != nil {
		return nil, wire.Header{}, "", fmt.Errorf("principal in an envelope: %w (%w)", err, kerr.PrincipalDeserializationFailure)
	}
	h, err := wire.ParseHeader(e.RequestData)
	if err != nil {
		return nil, h, "", fmt.Errorf("request in an envelope: %w (%w)", err, kerr.InvalidRequest)
	}
	passed := func(row row) bool {
		return row.key == h.Key && row.forwarded && row.min <= h.Version && h.Version <= row.max
	}
	if !slices.ContainsFunc(a.table, passed) {
		return nil, h, "", fmt.Errorf("API key %d version %d in an envelope: %w", h.Key, h.Version, kerr.InvalidRequest)
	}
	inner, err := wire.DecodeRequest(h, e.RequestData[h.BodyOffset:])
	if err != nil {
		return nil, h, "", fmt.Errorf("request in an envelope: %w (%w)", err, kerr.InvalidRequest)
	}
	return inner, h, principal.Type + ":" + principal.Name, nil
}
