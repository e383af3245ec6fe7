package znode

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// listed reads a list of partitions, by topic.
func listed(data []byte) (map[string][]partitionPayload, bool) {
	list, ok := read[partitionList](data)
	if !ok || len(list.Partitions) == 0 {
		return nil, false
	}
	byTopic := map[string][]partitionPayload{}
	for _, p := range list.Partitions {
		byTopic[p.Topic] = append(byTopic[p.Topic], p)
	}
	return byTopic, true
}

// reassign is a create of /admin/reassign_partitions. Kafka 1.1 leaves out the partitions that cannot be moved and moves
// the others.
func reassign(data []byte) (*Command, Code) {
	byTopic, ok := listed(data)
	if !ok {
		return nil, BadArguments
	}
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.Version = 0
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = topic
		for _, p := range byTopic[topic] {
			if len(p.Replicas) == 0 {
				return nil, BadArguments // to the controller it would mean to cancel
			}
			q := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			q.Partition, q.Replicas = p.Partition, p.Replicas
			t.Partitions = append(t.Partitions, q)
		}
		req.Topics = append(req.Topics, t)
	}
	return &Command{Request: req, Marker: true, Verdict: func(r kmsg.Response) (Code, string) {
		resp, ok := r.(*kmsg.AlterPartitionAssignmentsResponse)
		if !ok {
			return unexpected(r)
		}
		if resp.ErrorCode != 0 {
			return judge(resp.ErrorCode, resp.ErrorMessage)
		}
		var o outcomes
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				o.add(t.Topic, p.Partition, p.ErrorCode, p.ErrorMessage)
			}
		}
		return o.verdict()
	}}, OK
}

// elect is a create of /admin/preferred_replica_election. A partition whose preferred replica cannot lead stays with its
// leader, which Kafka 1.1 only logs.
func elect(data []byte) (*Command, Code) {
	byTopic, ok := listed(data)
	if !ok {
		return nil, BadArguments
	}
	req := kmsg.NewPtrElectLeadersRequest()
	req.Version = 2
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic = topic
		for _, p := range byTopic[topic] {
			t.Partitions = append(t.Partitions, p.Partition)
		}
		req.Topics = append(req.Topics, t)
	}
	return &Command{Request: req, Marker: true, Verdict: func(r kmsg.Response) (Code, string) {
		resp, ok := r.(*kmsg.ElectLeadersResponse)
		if !ok {
			return unexpected(r)
		}
		if resp.ErrorCode != 0 {
			return judge(resp.ErrorCode, nil)
		}
		var o outcomes
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != kerr.ElectionNotNeeded.Code {
					o.add(t.Topic, p.Partition, p.ErrorCode, p.ErrorMessage)
				}
			}
		}
		_, why := o.verdict()
		return OK, why
	}}, OK
}

// outcomes adds up what became of the partitions of one command.
type outcomes struct {
	done  bool // at least one
	code  Code // of the first that was refused
	why   string
	count int // refused
}

func (o *outcomes) add(topic string, partition int32, code int16, message *string) {
	verdict, why := judge(code, message)
	if verdict == OK {
		o.done = true
		return
	}
	if o.count++; o.count == 1 {
		o.code, o.why = verdict, fmt.Sprintf("%s-%d: %s", topic, partition, why)
	}
}

// verdict is OK unless nothing at all was done.
func (o *outcomes) verdict() (Code, string) {
	why := o.why
	if o.count > 1 {
		why = fmt.Sprintf("%s, and %d more", why, o.count-1)
	}
	if o.done || o.count == 0 {
		return OK, why
	}
	return o.code, why
}
