package controller

import (
	"slices"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// maxElections is how many leaders move back at a time (leader.imbalance… in QuorumController has the same number).
const maxElections = 1000

// preferLeaders moves leadership back to the first replicas that are fit for it, in at most limit partitions.
func (s *state) preferLeaders(limit int) []metadata.Record {
	var records []metadata.Record
	for _, topic := range s.image.Topics.All() {
		for index, p := range topic.Partitions.All() {
			if p.Leader == p.PreferredLeader() {
				continue
			}
			if len(records) == limit {
				return records
			}
			t := s.keep(topic, p)
			t.election = electPreferred
			if r := s.change(topic, index, p, t); r != nil {
				records = append(records, r)
			}
		}
	}
	return records
}

// revive elects leaders for partitions that have none, where their topics' settings allow it now.
func (s *state) revive() []metadata.Record {
	return s.changeAll(
		func(p *metadata.PartitionRegistration) bool { return p.Leader == kafka.NoNode },
		func(*metadata.PartitionRegistration, *partitionTarget) {})
}

// raiseInternal gives the partitions of internal topics more replicas, up to the factor that is configured for them and as
// far as there are brokers in service: those topics are created when the first client asks, often before all brokers are
// there. Whoever leads fewest is preferred in a partition that grows, so that the work spreads, too.
func (s *state) raiseInternal() []metadata.Record {
	var records []metadata.Record
	active := 0
	for _, b := range s.image.Cluster.Brokers() {
		if b.Active() {
			active++
		}
	}
	for name, topic := range s.image.Topics.All() {
		factor := min(int(s.Config.InternalFactors[name]), active)
		if factor <= 1 {
			continue
		}
		load, leads := map[kafka.NodeID]int{}, map[kafka.NodeID]int{}
		for _, p := range topic.Partitions.All() {
			leads[p.PreferredLeader()]++
			for _, id := range except(p.Replicas, p.RemovingReplicas) {
				load[id]++
			}
		}
		for index, p := range topic.Partitions.All() {
			replicas := except(p.Replicas, p.RemovingReplicas)
			if len(replicas) >= factor {
				continue
			}
			for len(replicas) < factor {
				id, ok := s.anotherBroker(replicas, load)
				if !ok {
					break
				}
				load[id]++
				replicas = append(slices.Clip(replicas), id)
			}
			leads[p.PreferredLeader()]--
			first := slices.MinFunc(replicas, func(a, b kafka.NodeID) int { return leads[a] - leads[b] })
			leads[first]++
			replicas = append([]kafka.NodeID{first}, without(replicas, first)...)
			if r := s.reassign(topic, index, p, replicas); r != nil {
				records = append(records, r)
			}
		}
	}
	return records
}

// anotherBroker is the active broker that a partition gains most by: in a rack that has none of its replicas, if there is
// one, and with the least load.
func (s *state) anotherBroker(replicas []kafka.NodeID, load map[kafka.NodeID]int) (best kafka.NodeID, ok bool) {
	used := map[string]bool{}
	for _, id := range replicas {
		if b, known := s.image.Cluster.Broker(id); known && b.Rack != nil {
			used[*b.Rack] = true
		}
	}
	bestRank := 0
	for id, b := range s.image.Cluster.Brokers() {
		if !b.Active() || slices.Contains(replicas, id) {
			continue
		}
		rank := load[id]
		if b.Rack != nil && used[*b.Rack] {
			rank += 1 << 30 // after every broker of another rack
		}
		if !ok || rank < bestRank {
			best, bestRank, ok = id, rank, true
		}
	}
	return best, ok
}
