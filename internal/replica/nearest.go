package replica

import (
	"cmp"

	"moldau/internal/kafka"
)

// nearest returns the follower that a consumer in rack should read from: one there that has the offset; NoNode if there is
// none, or if the leader is as near. Of several the one that has most, and then the one that was last level with the
// leader. The caller holds p.mu. Mirrors ReplicaManager.findPreferredReadReplica and RackAwareReplicaSelector; KIP-392.
func (p *Partition) nearestLocked(rack string, from kafka.Offset) kafka.NodeID {
	cluster := p.set.image.Load().Cluster
	there := func(id kafka.NodeID) bool {
		b, ok := cluster.Broker(id)
		return ok && !b.Fenced && b.Rack != nil && *b.Rack == rack
	}
	if there(p.set.o.NodeID) {
		return kafka.NoNode
	}
	best := kafka.NoNode
	for _, id := range p.target.Load().replicas {
		f := p.progress[id]
		if f == nil || f.end < from || f.logStart > from || !there(id) {
			continue
		}
		if best == kafka.NoNode || p.progress[best].before(f) {
			best = id
		}
	}
	return best
}

// before reports whether g is the better one to read from.
func (f *progress) before(g *progress) bool {
	return cmp.Or(cmp.Compare(f.end, g.end), f.lastLevel().Compare(g.lastLevel())) < 0
}
