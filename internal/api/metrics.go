package api

import (
	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/metrics"
)

// meters are the metrics of records, as opposed to requests, which the server counts.
type meters struct {
	bytesIn, bytesOut prometheus.Counter
}

func newMeters(m *metrics.Set) meters {
	return meters{
		bytesIn:  m.Counter("moldau_produced_bytes_total", "Bytes of record batches appended for producers."),
		bytesOut: m.Counter("moldau_fetched_bytes_total", "Bytes of record batches in answers to Fetch."),
	}
}

func (m meters) received(bytes int) { m.bytesIn.Add(float64(bytes)) }

func (m meters) sent(bytes int) {
	if bytes > 0 {
		m.bytesOut.Add(float64(bytes))
	}
}
