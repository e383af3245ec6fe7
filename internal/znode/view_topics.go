package znode

import (
	"slices"
	"strconv"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

func topicPath(topic string) string { return "/brokers/topics/" + topic }

func partitionPath(topic string, partition int32) string {
	return topicPath(topic) + "/partitions/" + strconv.Itoa(int(partition))
}

// topic lists a topic without its partitions.
func (l *viewList) topic(topic *metadata.Topic, image *metadata.Image) {
	l.topicConfig(topic.Name, image.Configs)
	l.assignment(topic)
	l.folder(topicPath(topic.Name) + "/partitions")
}

func (l *viewList) assignment(topic *metadata.Topic) {
	l.node(topicPath(topic.Name), assignmentOf(topic))
}

func (l *viewList) partition(topic string, partition int32, p *metadata.PartitionRegistration, controllerEpoch kafka.Epoch) {
	state := partitionPath(topic, partition) + "/state"
	l.folder(state[:len(state)-len("/state")])
	l.node(state, stateOf(p, controllerEpoch))
}

// topicChanges lists what a delta did to topics and their partitions, and reports whether a reassignment began, ended or
// was changed.
func (v *Views) topicChanges(d *metadata.Delta, s Source, gone, now *viewList) (moved bool) {
	for _, topic := range d.DeletedTopics() {
		if topic.Name == Topic {
			continue
		}
		gone.folder("/config/topics/" + topic.Name)
		gone.folder(topicPath(topic.Name))
		gone.folder(topicPath(topic.Name) + "/partitions")
		for partition := range topic.Partitions.All() {
			gone.folder(partitionPath(topic.Name, partition))
			gone.folder(partitionPath(topic.Name, partition) + "/state")
			moved = v.reassigned(topic.Name, partition, nil) || moved
		}
	}
	for _, change := range d.ChangedTopics() {
		topic := change.After
		if topic.Name == Topic {
			continue
		}
		if change.Before == nil {
			now.topic(topic, s.Image)
		} else if assignmentChanged(change) {
			now.assignment(topic)
		}
		for _, partition := range change.Partitions {
			p, _ := topic.Partitions.Get(partition)
			now.partition(topic.Name, partition, p, s.Image.Epoch)
			moved = v.reassigned(topic.Name, partition, p) || moved
		}
	}
	return moved
}

func assignmentChanged(c metadata.TopicChange) bool {
	for _, partition := range c.Partitions {
		before, ok := c.Before.Partitions.Get(partition)
		after, _ := c.After.Partitions.Get(partition)
		if !ok || !slices.Equal(before.Replicas, after.Replicas) {
			return true
		}
	}
	return false
}

// reassigned notes where a partition is going, if it is; nil: it is gone. It reports whether that is news.
func (v *Views) reassigned(topic string, partition int32, p *metadata.PartitionRegistration) bool {
	key := kafka.TopicPartition{Topic: topic, Partition: partition}
	old, was := v.reassigning[key]
	if p == nil || !p.Reassigning() {
		delete(v.reassigning, key)
		return was
	}
	target := slices.DeleteFunc(slices.Clone(p.Replicas), func(id kafka.NodeID) bool { return slices.Contains(p.RemovingReplicas, id) })
	v.reassigning[key] = target
	return !was || !slices.Equal(old, target)
}
