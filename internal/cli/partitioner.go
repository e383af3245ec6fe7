package cli

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"
)

// pickPartition is how a producer's records find their partition. An explicit one goes before everything; then roundRobin
// deals records without a key out in turn, while those with a key stay together; without it records without a key fill
// one partition after the other, batch by batch, as Java's do.
func pickPartition(explicit int32, partitioner string) (kgo.Partitioner, error) {
	switch {
	case explicit >= 0:
		return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			return func(*kgo.Record, int) int { return int(explicit) }
		}), nil
	case partitioner == "default":
		return kgo.UniformBytesPartitioner(64<<10, true, true, kgo.KafkaHasher(murmur2)), nil
	case partitioner == "round-robin":
		return kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record, int) int {
			next := -1
			return func(r *kgo.Record, n int) int {
				if r.Key != nil {
					return partitionOfKey(r.Key, n)
				}
				next = (next + 1) % n
				return next
			}
		}), nil
	}
	return nil, &failure{exitUsage, fmt.Errorf("--partitioner %s: want default or round-robin", partitioner)}
}
