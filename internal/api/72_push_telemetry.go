package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/telemetry"
	"moldau/internal/wire"
)

// pushTelemetry answers PushTelemetry: a client's metrics, which the node exports with its own (KIP-714).
func (a *API) pushTelemetry(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.PushTelemetryRequest)
	resp := kmsg.NewPtrPushTelemetryResponse()
	resp.ErrorCode = wire.Code(a.o.Telemetry.Push(telemetry.Push{
		Instance: req.ClientInstanceID, Subscription: req.SubscriptionID, Terminating: req.Terminating, Codec: req.CompressionType, Metrics: req.Metrics,
	}, senderOfMetrics(r)))
	return r.Answer(resp)
}
