package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/metrics"
)

// meters are the server's metrics.
type meters struct {
	requests    *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	connections prometheus.Gauge
	refused     prometheus.Counter
	bad         prometheus.Counter
	bytesIn     prometheus.Counter
	bytesOut    prometheus.Counter
}

func newMeters(m *metrics.Set) meters {
	return meters{
		requests:    m.CounterVec("moldau_requests_total", "Requests answered, by API.", "api"),
		seconds:     m.SecondsVec("moldau_request_seconds", "Time from a request's arrival to its answer's departure, by API.", "api"),
		connections: m.Gauge("moldau_connections", "Open connections."),
		refused:     m.Counter("moldau_connections_refused_total", "Connections closed at once because their address has too many."),
		bad:         m.Counter("moldau_connections_closed_total", "Connections closed because of what the client sent."),
		bytesIn:     m.Counter("moldau_request_bytes_total", "Bytes of requests received."),
		bytesOut:    m.Counter("moldau_response_bytes_total", "Bytes of responses sent."),
	}
}

// routeMetrics are one API's metrics, looked up once.
type routeMetrics struct {
	requests prometheus.Counter
	seconds  prometheus.Observer
}

func (m routeMetrics) done(took time.Duration) {
	m.requests.Inc()
	m.seconds.Observe(took.Seconds())
}

func newTable(routes []Route, m meters) table {
	t := make(table, 2*len(routes))
	for _, r := range routes {
		name := nameOf(r.Key)
		s := &served{Route: r, metrics: routeMetrics{m.requests.WithLabelValues(name), m.seconds.WithLabelValues(name)}}
		for _, kind := range []Mask{Broker, Controller} {
			if r.Listeners&kind != 0 {
				t[routeKey{r.Key, kind}] = s
			}
		}
	}
	return t
}
