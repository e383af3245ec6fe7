package zkconsumer

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"

	"moldau/internal/kafka"
)

// member is one of a group, with what it reads.
type member struct {
	id      string
	streams map[string]int // topic to streams
}

// assignment is partitions and the streams that they go to. A stream is called "member-number".
type assignment map[kafka.TopicPartition]string

// streamsByTopic lists, for each topic, the streams of all members that read it, in order.
func streamsByTopic(members []member) map[string][]string {
	all := make(map[string][]string)
	for _, m := range members {
		for topic, n := range m.streams {
			for i := range n {
				all[topic] = append(all[topic], m.id+"-"+strconv.Itoa(i))
			}
		}
	}
	for _, streams := range all {
		slices.Sort(streams)
	}
	return all
}

// assignRange gives each stream of a topic a run of its partitions, the first streams one more if they do not come out even
// (kafka.consumer.RangeAssignor). partitions are sorted.
func assignRange(members []member, partitions map[string][]int32) assignment {
	all := make(assignment)
	for topic, streams := range streamsByTopic(members) {
		list := partitions[topic]
		each, extra := len(list)/len(streams), len(list)%len(streams)
		from := 0
		for i, stream := range streams {
			to := from + each
			if i < extra {
				to++
			}
			for _, p := range list[from:to] {
				all[kafka.TopicPartition{Topic: topic, Partition: p}] = stream
			}
			from = to
		}
	}
	return all
}

// assignRoundRobin deals the partitions of all topics out to all streams, each to the next that reads its topic
// (kafka.consumer.RoundRobinAssignor as of 1.0).
func assignRoundRobin(members []member, partitions map[string][]int32) assignment {
	byTopic := streamsByTopic(members)
	var streams []string
	for _, list := range byTopic {
		streams = append(streams, list...)
	}
	slices.Sort(streams)
	streams = slices.Compact(streams)

	type dealt struct {
		tp   kafka.TopicPartition
		hash int32
	}
	var deck []dealt
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		for _, p := range partitions[topic] {
			tp := kafka.TopicPartition{Topic: topic, Partition: p}
			deck = append(deck, dealt{tp, javaHash(tp.String())})
		}
	}
	// Kafka's way to keep the partitions of one topic from all going to one member.
	slices.SortStableFunc(deck, func(a, b dealt) int { return cmp.Compare(a.hash, b.hash) })

	all := make(assignment)
	next := 0
	for _, d := range deck {
		for {
			stream := streams[next%len(streams)]
			next++
			if _, reads := slices.BinarySearch(byTopic[d.tp.Topic], stream); reads {
				all[d.tp] = stream
				break
			}
		}
	}
	return all
}

// javaHash is String.hashCode.
func javaHash(s string) int32 {
	var h int32
	for _, unit := range utf16.Encode([]rune(s)) {
		h = 31*h + int32(unit)
	}
	return h
}

// of is the part of an assignment that goes to a member.
func (a assignment) of(id string, streams map[string]int) assignment {
	mine := make(assignment)
	for tp, stream := range a {
		for i := range streams[tp.Topic] {
			if stream == id+"-"+strconv.Itoa(i) {
				mine[tp] = stream
			}
		}
	}
	return mine
}

// inOrder lists the partitions of an assignment.
func (a assignment) inOrder() []kafka.TopicPartition {
	return slices.SortedFunc(maps.Keys(a), func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
}
