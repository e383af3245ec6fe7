package controller

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
)

type counters struct {
	active   prometheus.Gauge
	fenced   prometheus.Counter
	eligible prometheus.Counter
	unclean  prometheus.Counter
}

// newCounters declares the controller's metrics. What they tell of the cluster is true of the newest image here, whoever leads.
func newCounters(set *metrics.Set, image func() *metadata.Image) counters {
	brokers := func(want func(*metadata.Broker) bool) func() float64 {
		return func() float64 {
			n := 0
			for _, b := range image().Cluster.Brokers() {
				if want(b) {
					n++
				}
			}
			return float64(n)
		}
	}
	partitions := func(want func(*metadata.PartitionRegistration) bool) func() float64 {
		return func() float64 {
			n := 0
			for _, topic := range image().Topics.All() {
				for _, p := range topic.Partitions.All() {
					if want(p) {
						n++
					}
				}
			}
			return float64(n)
		}
	}
	set.GaugeFunc("moldau_controller_brokers_active", "Brokers in service.", brokers((*metadata.Broker).Active))
	set.GaugeFunc("moldau_controller_brokers_fenced", "Registered brokers that are out of service.",
		brokers(func(b *metadata.Broker) bool { return b.Fenced }))
	set.GaugeFunc("moldau_controller_topics", "Topics of the cluster.", func() float64 { return float64(image().Topics.Len()) })
	set.GaugeFunc("moldau_controller_partitions", "Partitions of the cluster.",
		func() float64 { return float64(image().Topics.PartitionCount()) })
	set.GaugeFunc("moldau_controller_partitions_offline", "Partitions of the cluster that have no leader.",
		partitions(func(p *metadata.PartitionRegistration) bool { return p.Leader == kafka.NoNode }))
	set.GaugeFunc("moldau_controller_partitions_not_preferred", "Partitions of the cluster that another than their first replica leads.",
		partitions(func(p *metadata.PartitionRegistration) bool { return p.Leader != p.PreferredLeader() }))
	set.GaugeFunc("moldau_controller_partitions_reassigning", "Partitions of the cluster whose replicas are being changed.",
		partitions((*metadata.PartitionRegistration).Reassigning))
	return counters{
		active:   set.Gauge("moldau_controller_active", "1 while this node is the active controller."),
		fenced:   set.Counter("moldau_controller_brokers_lost_total", "Brokers that this controller fenced because they had vanished."),
		eligible: set.Counter("moldau_controller_eligible_elections_total", "Leaders elected here that were not in sync but had everything (KIP-966)."),
		unclean:  set.Counter("moldau_controller_unclean_elections_total", "Leaders elected here that may lack acknowledged records."),
	}
}

// countElections counts leaders that were not in sync, and reports those that may lack records. The records are about to
// be replayed on base.
func (l *loop) countElections(base *metadata.Image, records []metadata.Record) {
	unclean, first := 0, kafka.TopicPartition{}
	for _, r := range records {
		change, ok := r.(*metadata.PartitionChangeRecord)
		if !ok || change.Leader < 0 {
			continue
		}
		topic, ok := base.Topics.ByID(change.TopicID)
		if !ok {
			continue
		}
		p, ok := topic.Partitions.Get(change.PartitionID)
		switch {
		case !ok || slices.Contains(p.ISR, change.Leader):
		case slices.Contains(p.ELR, change.Leader):
			l.counters.eligible.Inc()
		case change.LeaderRecoveryState == metadata.LeaderRecovering || p.LeaderRecoveryState == metadata.LeaderRecovering:
			if unclean++; unclean == 1 {
				first = kafka.TopicPartition{Topic: topic.Name, Partition: change.PartitionID}
			}
		}
	}
	if unclean > 0 {
		l.counters.unclean.Add(float64(unclean))
		l.log.Warn("unclean elections: the new leaders may lack acknowledged records", "partitions", unclean, "first", first)
	}
}
