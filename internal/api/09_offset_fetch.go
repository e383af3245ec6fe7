package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/coordinator"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// offsetFetch answers OffsetFetch: what groups have committed. To version 7 it asks for one group, from 8 on for several;
// from 10 on topics have ids. Version 0 is of clients that keep their offsets in ZooKeeper. Mirrors
// KafkaApis.handleOffsetFetchRequest.
func (a *API) offsetFetch(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.OffsetFetchRequest)
	if req.Version == 0 {
		return a.treeOffsets(r)
	}
	groups := req.Groups
	if req.Version < 8 {
		groups = []kmsg.OffsetFetchRequestGroup{oneGroup(req)}
	}
	var fetches []offsetsOfGroup
	var promises []kept
	for _, g := range groups {
		f := a.fetchOffsets(g, req.Version >= 10)
		fetches = append(fetches, f)
		promises = append(promises, f.found)
	}
	return a.after(r, func() kmsg.Response {
		resp := kmsg.NewPtrOffsetFetchResponse()
		for _, f := range fetches {
			resp.Groups = append(resp.Groups, f.answer())
		}
		if req.Version < 8 {
			asOneGroup(req, resp)
		}
		return resp
	}, promises...)
}

// oneGroup is the form of a request to version 7 in that of later ones.
func oneGroup(req *kmsg.OffsetFetchRequest) kmsg.OffsetFetchRequestGroup {
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = req.Group
	if req.Topics != nil {
		g.Topics = []kmsg.OffsetFetchRequestGroupTopic{}
	}
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetFetchRequestGroupTopic()
		topic.Topic, topic.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, topic)
	}
	return g
}

// asOneGroup brings an answer back into the form of versions to 7. Version 1 has errors in partitions only.
func asOneGroup(req *kmsg.OffsetFetchRequest, resp *kmsg.OffsetFetchResponse) {
	g := resp.Groups[0]
	resp.Groups, resp.ErrorCode = nil, g.ErrorCode
	if g.ErrorCode != 0 && req.Version < 2 {
		for _, t := range req.Topics {
			topic := kmsg.NewOffsetFetchResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				answer := kmsg.NewOffsetFetchResponseTopicPartition()
				answer.Partition, answer.Offset, answer.Metadata, answer.ErrorCode = p, -1, new(string), g.ErrorCode
				topic.Partitions = append(topic.Partitions, answer)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return
	}
	for _, t := range g.Topics {
		topic := kmsg.NewOffsetFetchResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewOffsetFetchResponseTopicPartition()
			answer.Partition, answer.Offset, answer.LeaderEpoch, answer.Metadata, answer.ErrorCode = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
}

// offsetsOfGroup is what is asked of one group.
type offsetsOfGroup struct {
	a     *API
	asked kmsg.OffsetFetchRequestGroup
	byID  bool
	names []string // of asked.Topics; "" where the id is of none
	found *coordinator.Promise[[]group.Offset]
}

func (a *API) fetchOffsets(g kmsg.OffsetFetchRequestGroup, byID bool) offsetsOfGroup {
	f := offsetsOfGroup{a: a, asked: g, byID: byID}
	if g.Topics == nil {
		f.found = a.o.Groups.FetchAll(g.Group)
		return f
	}
	image := a.o.Image()
	var partitions []kafka.TopicPartition
	for _, t := range g.Topics {
		name := t.Topic
		if byID {
			name, _, _ = topicOf(image, true, "", t.TopicID)
		}
		f.names = append(f.names, name)
		for _, p := range t.Partitions {
			partitions = append(partitions, kafka.TopicPartition{Topic: name, Partition: p})
		}
	}
	f.found = a.o.Groups.Fetch(g.Group, partitions)
	return f
}

func (f offsetsOfGroup) answer() kmsg.OffsetFetchResponseGroup {
	out := kmsg.NewOffsetFetchResponseGroup()
	out.Group = f.asked.Group
	offsets, err := outcome(f.found)
	if err != nil {
		out.ErrorCode = wire.Code(err)
		return out
	}
	if f.asked.Topics == nil {
		out.Topics = f.all(offsets)
		return out
	}
	// Topics that are not known come last, as from Kafka.
	var unknown []kmsg.OffsetFetchResponseGroupTopic
	for i, t := range f.asked.Topics {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		nobody := f.byID && f.names[i] == ""
		for range t.Partitions {
			p := partitionOffset(offsets[0])
			if nobody {
				p.ErrorCode = kerr.UnknownTopicID.Code
			}
			topic.Partitions = append(topic.Partitions, p)
			offsets = offsets[1:]
		}
		if nobody {
			unknown = append(unknown, topic)
		} else {
			out.Topics = append(out.Topics, topic)
		}
	}
	out.Topics = append(out.Topics, unknown...)
	return out
}

// all puts offsets, which come by topic, into topics. Topics without an id any more cannot be told of by id.
func (f offsetsOfGroup) all(offsets []group.Offset) []kmsg.OffsetFetchResponseGroupTopic {
	var out []kmsg.OffsetFetchResponseGroupTopic
	image := f.a.o.Image()
	for len(offsets) > 0 {
		topic := kmsg.NewOffsetFetchResponseGroupTopic()
		topic.Topic = offsets[0].Topic
		for len(offsets) > 0 && offsets[0].Topic == topic.Topic {
			topic.Partitions = append(topic.Partitions, partitionOffset(offsets[0]))
			offsets = offsets[1:]
		}
		if t, ok := image.Topics.ByName(topic.Topic); ok {
			topic.TopicID = t.ID
		} else if f.byID {
			continue
		}
		out = append(out, topic)
	}
	return out
}

func partitionOffset(o group.Offset) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = o.Partition, o.Offset, o.LeaderEpoch, &o.Metadata
	return p
}
