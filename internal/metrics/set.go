package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Set holds the metrics of one node.
type Set struct {
	registry *prometheus.Registry
}

// NewSet returns an empty Set.
func NewSet() *Set { return &Set{registry: prometheus.NewRegistry()} }

// AddRuntime adds what the Go runtime and the operating system tell about this process. A process calls it for one of
// its Sets only.
func (s *Set) AddRuntime() {
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// Counter declares a count that only grows.
func (s *Set) Counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	s.registry.MustRegister(c)
	return c
}

// CounterVec declares one count per combination of label values.
func (s *Set) CounterVec(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	s.registry.MustRegister(c)
	return c
}

// Gauge declares a value that rises and falls.
func (s *Set) Gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	s.registry.MustRegister(g)
	return g
}

// GaugeVec declares one value per combination of label values.
func (s *Set) GaugeVec(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	s.registry.MustRegister(g)
	return g
}

// GaugeFunc declares a value that is asked for when metrics are collected. The function must be cheap and must not wait.
func (s *Set) GaugeFunc(name, help string, value func() float64) {
	s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Seconds declares a distribution of durations in seconds, with buckets from 10 µs to about 10 s.
func (s *Set) Seconds(name, help string) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: secondBuckets()})
	s.registry.MustRegister(h)
	return h
}

// SecondsVec declares one distribution of durations in seconds per combination of label values.
func (s *Set) SecondsVec(name, help string, labels ...string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: secondBuckets()}, labels)
	s.registry.MustRegister(h)
	return h
}

// Register adds a collector that makes its metrics up while being collected, such as one per partition.
func (s *Set) Register(c prometheus.Collector) { s.registry.MustRegister(c) }

// Handler serves the metrics over HTTP in Prometheus's text format.
func (s *Set) Handler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{})
}

// Gatherer is for tests and for tools in the same process that read values back.
func (s *Set) Gatherer() prometheus.Gatherer { return s.registry }

// Eleven steps of a factor four: enough to tell a page-cache write from a disk sync from a stall, and few enough that a
// histogram per request type stays small.
func secondBuckets() []float64 { return prometheus.ExponentialBuckets(10e-6, 4, 11) }
