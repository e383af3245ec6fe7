package zookeeper

import (
	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/metrics"
)

type meters struct {
	connections prometheus.Gauge
	refused     prometheus.Counter
	latency     prometheus.Histogram
}

func newMeters(set *metrics.Set) meters {
	return meters{
		connections: set.Gauge("moldau_zookeeper_connections", "Connections to the ZooKeeper port, and those that other nodes passed on to this one."),
		refused:     set.Counter("moldau_zookeeper_connections_refused_total", "Connections to the ZooKeeper port that were one too many."),
		latency:     set.Seconds("moldau_zookeeper_request_seconds", "How long ZooKeeper requests took, until they were committed and their answers written."),
	}
}
