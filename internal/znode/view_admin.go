package znode

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"moldau/internal/kafka"
)

const reassignPath = "/admin/reassign_partitions"

// reassignments lists what is being moved, if anything is. Kafka 1.1 kept the partitions there that were not done.
func (l *viewList) reassignments(moving map[kafka.TopicPartition][]kafka.NodeID) {
	if len(moving) == 0 {
		return
	}
	list := partitionList{Version: 1}
	for _, tp := range slices.SortedFunc(maps.Keys(moving), byTopicAndNumber) {
		list.Partitions = append(list.Partitions, partitionPayload{Topic: tp.Topic, Partition: tp.Partition, Replicas: moving[tp]})
	}
	l.node(reassignPath, payload(list))
}

func byTopicAndNumber(a, b kafka.TopicPartition) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}
