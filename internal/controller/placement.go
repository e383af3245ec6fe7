package controller

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// place chooses replicas for count partitions. Leaders go round all active brokers, beginning where the partitions that
// exist, and those that the same request plans before these, leave off; the followers of a partition are the brokers after its leader, in other
// racks as long as there are any, and shifted by one with every full round, so that no pair of brokers shares all of its
// partitions. Fenced brokers get replicas only where there are not enough others, and never the first.
func (s *state) place(planned, count int32, factor int16) ([][]kafka.NodeID, error) {
	active, fenced, racks := s.candidates()
	total := len(active) + len(fenced)
	fault := func(reason string, args ...any) error {
		return faultf(kerr.InvalidReplicationFactor, "Unable to replicate the partition %d time(s): "+reason, append([]any{factor}, args...)...)
	}
	switch {
	case factor <= 0:
		return nil, fault("Invalid replication factor %d: the replication factor must be positive.", factor)
	case len(active) == 0:
		return nil, fault("All brokers are currently fenced.")
	case int(factor) > total:
		return nil, fault("The target replication factor of %d cannot be reached because only %d broker(s) are registered.", factor, total)
	}
	start := s.image.Topics.PartitionCount()
	assignments := make([][]kafka.NodeID, count)
	for i := range assignments {
		turn := start + int(planned) + i
		leader := turn % len(active)
		shift := 0
		if len(active) > 1 {
			shift = turn / len(active) % (len(active) - 1)
		}
		order := make([]kafka.NodeID, 0, len(active))
		for j := range len(active) - 1 {
			order = append(order, active[(leader+1+(shift+j)%(len(active)-1))%len(active)])
		}
		replicas := spread([]kafka.NodeID{active[leader]}, order, racks, min(int(factor), len(active)))
		assignments[i] = spread(replicas, fenced, racks, int(factor))
	}
	return assignments, nil
}

// spread adds brokers out of order until there are factor replicas, those in racks that have fewest replicas first. There
// must be enough.
func spread(replicas, order []kafka.NodeID, racks map[kafka.NodeID]string, factor int) []kafka.NodeID {
	used := map[string]bool{}
	for _, id := range replicas {
		used[racks[id]] = true
	}
	taken := make([]bool, len(order))
	for len(replicas) < factor {
		found := false
		for i, id := range order {
			if !taken[i] && !used[racks[id]] && len(replicas) < factor {
				taken[i], used[racks[id]], found = true, true, true
				replicas = append(replicas, id)
			}
		}
		if !found {
			clear(used) // every rack in reach has one more: the next round
		}
	}
	return replicas
}

// candidates returns the brokers that may get replicas. Neighbours are in different racks where possible.
func (s *state) candidates() (active, fenced []kafka.NodeID, racks map[kafka.NodeID]string) {
	racks = map[kafka.NodeID]string{}
	byRack := map[string][]*metadata.Broker{}
	for id, b := range s.image.Cluster.Brokers() {
		if b.InControlledShutdown {
			continue
		}
		if b.Rack != nil {
			racks[id] = *b.Rack
		}
		byRack[racks[id]] = append(byRack[racks[id]], b)
	}
	names := slices.Sorted(maps.Keys(byRack))
	for row, found := 0, true; found; row++ {
		found = false
		for _, rack := range names {
			if row >= len(byRack[rack]) {
				continue
			}
			found = true
			if b := byRack[rack][row]; b.Fenced {
				fenced = append(fenced, b.ID)
			} else {
				active = append(active, b.ID)
			}
		}
	}
	return active, fenced, racks
}

// defaultDir is the directory that a new replica on a broker is given: the only one there is, or none, so that the broker
// chooses and tells (KIP-858).
func (s *state) defaultDir(id kafka.NodeID) kafka.DirID {
	b, ok := s.image.Cluster.Broker(id)
	switch {
	case !ok || len(b.LogDirs) == 0:
		return kafka.DirMigrating
	case len(b.LogDirs) == 1:
		return b.LogDirs[0]
	}
	return kafka.DirUnassigned
}
