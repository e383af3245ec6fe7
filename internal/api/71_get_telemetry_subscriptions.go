package api

import (
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/server"
	"moldau/internal/telemetry"
	"moldau/internal/wire"
)

// getTelemetrySubscriptions answers GetTelemetrySubscriptions: which metrics this client is to push, and how often
// (KIP-714).
func (a *API) getTelemetrySubscriptions(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.GetTelemetrySubscriptionsRequest)
	resp := kmsg.NewPtrGetTelemetrySubscriptionsResponse()
	offer, err := a.o.Telemetry.Subscribe(req.ClientInstanceID, senderOfMetrics(r))
	if err != nil {
		resp.ErrorCode = wire.Code(err)
		return r.Answer(resp)
	}
	resp.ClientInstanceID, resp.SubscriptionID = offer.Instance, offer.Subscription
	resp.AcceptedCompressionTypes = []int8{int8(batch.Zstd), int8(batch.LZ4), int8(batch.Gzip), int8(batch.Snappy)}
	resp.PushIntervalMillis, resp.TelemetryMaxBytes = int32(offer.Interval.Milliseconds()), int32(offer.MaxBytes)
	resp.DeltaTemporality = false // Prometheus takes values that add up
	resp.RequestedMetrics = offer.Metrics
	return r.Answer(resp)
}

// senderOfMetrics is what subscriptions are matched with.
func senderOfMetrics(r *server.Request) telemetry.Client {
	c := telemetry.Client{ID: r.ClientID()}
	c.SoftwareName, c.SoftwareVersion = r.Conn.Software()
	if host, port, err := net.SplitHostPort(r.Conn.RemoteAddr().String()); err == nil {
		c.Address, c.Port = host, port
	}
	return c
}
