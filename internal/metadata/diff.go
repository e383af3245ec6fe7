package metadata

import (
	"maps"
	"moldau/internal/kafka"
	"slices"
)

// Between returns the delta that leads from one image to another. The parts that it names as changed are those that
// differ. The loader uses it for a snapshot, which states everything and not what changed.
func Between(base, next *Image) *Delta {
	d := NewDelta(base)
	d.next = *next
	eachDifference(base.Cluster.brokers, next.Cluster.brokers, func(id kafka.NodeID, _, _ *Broker) {
		d.brokers[id] = struct{}{}
	})
	eachDifference(base.Topics.byID, next.Topics.byID, func(id kafka.TopicID, a, b *Topic) {
		partitions := d.touch(id)
		if b == nil {
			return
		}
		before := newOrderedTree[int32, *PartitionRegistration]()
		if a != nil {
			before = a.Partitions
		}
		eachDifference(before, b.Partitions, func(partition int32, p, q *PartitionRegistration) {
			if p == nil || q == nil || !p.equal(q) {
				partitions[partition] = struct{}{}
			}
		})
		if a != nil && len(partitions) == 0 {
			delete(d.topics, id) // the same content in other nodes
		}
	})
	for resource, values := range base.Configs.All() {
		if !maps.Equal(values, next.Configs.Get(resource.Type, resource.Name)) {
			d.configs[resource] = struct{}{}
		}
	}
	for resource, values := range next.Configs.All() {
		if !maps.Equal(values, base.Configs.Get(resource.Type, resource.Name)) {
			d.configs[resource] = struct{}{}
		}
	}
	d.producerIDs = base.ProducerIDs != next.ProducerIDs
	// The rest is small and seldom read: a snapshot counts as a change of it unless nothing was ever there.
	d.quotas = base.ClientQuotas.entities.Len()+next.ClientQuotas.entities.Len() > 0
	d.acls = base.Acls.entries.Len()+next.Acls.entries.Len() > 0
	return d
}

// eachDifference calls f for every key whose pointer differs; nil stands for a key that is not there. Subtrees that both
// maps share are still walked: the images compared here seldom share any.
func eachDifference[K comparable, V any](base, next Tree[K, *V], f func(key K, base, next *V)) {
	for key, a := range base.All() {
		if b, _ := next.Get(key); a != b {
			f(key, a, b)
		}
	}
	for key, b := range next.All() {
		if _, ok := base.Get(key); !ok {
			f(key, nil, b)
		}
	}
}

func (p *PartitionRegistration) equal(q *PartitionRegistration) bool {
	return slices.Equal(p.Replicas, q.Replicas) && slices.Equal(p.Directories, q.Directories) && slices.Equal(p.ISR, q.ISR) &&
		slices.Equal(p.RemovingReplicas, q.RemovingReplicas) && slices.Equal(p.AddingReplicas, q.AddingReplicas) &&
		slices.Equal(p.ELR, q.ELR) && slices.Equal(p.LastKnownELR, q.LastKnownELR) &&
		p.Leader == q.Leader && p.LeaderRecoveryState == q.LeaderRecoveryState &&
		p.LeaderEpoch == q.LeaderEpoch && p.PartitionEpoch == q.PartitionEpoch
}
