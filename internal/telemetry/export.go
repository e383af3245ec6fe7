package telemetry

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// clientLabels are the labels that tell clients apart.
func clientLabels() []string { return []string{"client_id", "client_instance_id"} }

// infoName is the series that says what a client is.
const infoName = namePrefix + "info"

// takeLocked makes points the client's values, and returns how many there was no room for. Series that the client no longer
// pushes go.
func (t *Telemetry) takeLocked(in *instance, points []*point) (dropped int) {
	next := make(map[string]*point, len(points))
	t.series -= len(in.series)
	for _, p := range points {
		key := p.key()
		if _, twice := next[key]; !twice && (len(next) >= maxClientSeries || t.series+len(next) >= maxSeries) {
			dropped++
			continue
		}
		if before, ok := in.series[key]; ok && p.delta {
			p.value += before.value
		}
		next[key] = p
	}
	// What did not change since the last push is not in one of deltas, and is still there.
	for key, p := range in.series {
		if _, ok := next[key]; !ok && p.delta && len(next) < maxClientSeries && t.series+len(next) < maxSeries {
			next[key] = p
		}
	}
	in.series = next
	t.series += len(next)
	return dropped
}

// exporter is the prometheus.Collector of what clients pushed. It describes nothing, because names are theirs.
type exporter struct{ t *Telemetry }

func (exporter) Describe(chan<- *prometheus.Desc) {}

func (e exporter) Collect(to chan<- prometheus.Metric) {
	for _, m := range e.t.collected() {
		to <- m
	}
}

// collected makes the metrics under the lock, for Prometheus takes its time with the channel.
func (t *Telemetry) collected() (all []prometheus.Metric) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.o.Now()
	for e := t.recent.Front(); e != nil; e = e.Next() {
		in := e.Value.(*instance)
		if in.expired(now) || len(in.series) == 0 {
			continue
		}
		id, instance := in.client.ID, in.id.String()
		info := prometheus.NewDesc(infoName, "A client that pushes metrics.", append(clientLabels(), "client_software_name", "client_software_version", "client_source_address"), nil)
		all = append(all, prometheus.MustNewConstMetric(info, prometheus.GaugeValue, 1, id, instance, in.client.SoftwareName, in.client.SoftwareVersion, in.client.Address))
		for _, p := range in.series {
			if p.name == infoName {
				continue
			}
			names, values := clientLabels(), []string{id, instance}
			for _, l := range p.labels {
				names, values = append(names, l.name), append(values, l.value)
			}
			kind := prometheus.GaugeValue
			if strings.HasSuffix(p.name, counterSuffix) {
				kind = prometheus.CounterValue
			}
			all = append(all, prometheus.MustNewConstMetric(prometheus.NewDesc(p.name, "Pushed by clients (KIP-714).", names, nil), kind, p.value, values...))
		}
	}
	return all
}
