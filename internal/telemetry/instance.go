package telemetry

import (
	"time"

	"moldau/internal/config"
	"moldau/internal/kafka"
)

const (
	maxInstances    = 4096
	maxClientSeries = 1000
	maxSeries       = 20_000

	defaultInterval = 5 * time.Minute
	shortestMemory  = time.Minute // a client is forgotten after this or three intervals
)

// instance is what is known of one client.
type instance struct {
	id     kafka.UUID
	client Client

	version      int64 // of the subscriptions that the rest follows from
	subscription int32
	metrics      []string
	interval     time.Duration

	asked, pushed, seen time.Time
	terminating         bool

	series map[string]*point // by key
}

// mayAsk and mayPush mirror ClientMetricsInstance: a push may come at any moment after the question, since clients spread
// their first ones; then an interval has to pass.
func (in *instance) mayAsk(now time.Time) bool {
	last := in.asked
	if in.pushed.After(last) {
		last = in.pushed
	}
	return now.Sub(last) >= in.interval
}

func (in *instance) mayPush(now time.Time) bool {
	return in.asked.After(in.pushed) || now.Sub(in.pushed) >= in.interval
}

func (in *instance) expired(now time.Time) bool {
	return now.Sub(in.seen) > max(shortestMemory, 3*in.interval)
}

// matches reports whether a subscription is about this client: all its patterns have to match in full.
func (in *instance) matches(s config.Subscription) bool {
	for _, p := range s.Match {
		if !p.Pattern.MatchString(in.property(p.Property)) {
			return false
		}
	}
	return true
}

func (in *instance) property(name string) string {
	switch name {
	case "client_instance_id":
		return in.id.String()
	case "client_id":
		return in.client.ID
	case "client_software_name":
		return in.client.SoftwareName
	case "client_software_version":
		return in.client.SoftwareVersion
	case "client_source_address":
		return in.client.Address
	case "client_source_port":
		return in.client.Port
	}
	return ""
}
