package fetcher

import (
	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/metrics"
)

type meters struct {
	bytes, requests, failures prometheus.Counter
}

func newMeters(m *metrics.Set) meters {
	return meters{
		bytes:    m.Counter("moldau_fetcher_bytes_total", "Bytes of records that followers here have copied."),
		requests: m.Counter("moldau_fetcher_requests_total", "Fetch requests that followers here have sent."),
		failures: m.Counter("moldau_fetcher_failures_total", "Fetches of followers here that failed, of a partition or of all that a node leads."),
	}
}
