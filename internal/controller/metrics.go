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

// countElection counts and reports a leader that was not in sync. The record is about to be replayed on base.
func (l *loop) countElection(base *metadata.Image, r *metadata.PartitionChangeRecord) {
	topic, ok := base.Topics.ByID(r.TopicID)
	if r.Leader < 0 || !ok {
		return
	}
	p, ok := topic.Partitions.Get(r.PartitionID)
	switch {
	case !ok || slices.Contains(p.ISR, r.Leader):
	case slices.Contains(p.ELR, r.Leader):
		l.counters.eligible.Inc()
	case r.LeaderRecoveryState == metadata.LeaderRecovering || p.LeaderRecoveryState == metadata.LeaderRecovering:
		l.counters.unclean.Inc()
		l.log.Warn("an unclean election: the new leader may lack acknowledged records",
			"topic", topic.Name, "partition", r.PartitionID, "leader", r.Leader, "inSync", p.ISR)
	}
}
