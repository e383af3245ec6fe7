package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// offsetCommit answers OffsetCommit. Offsets are stored for topics that exist, named by id from version 10 on. Version
// 1 knows no members; 0 is of clients that keep their offsets in ZooKeeper. Mirrors KafkaApis.handleOffsetCommitRequest.
func (a *API) offsetCommit(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.OffsetCommitRequest)
	if req.Version == 0 {
		return a.treeOffsets(r)
	}
	resp := kmsg.NewPtrOffsetCommitResponse()
	commit := group.Commit{
		Group: req.Group, Generation: req.Generation, MemberID: req.MemberID, InstanceID: req.InstanceID,
		Version: req.Version, RetentionMs: req.RetentionTimeMillis,
	}
	var codes []*int16 // of commit.Offsets, in the response
	image := a.o.Image()
	for _, t := range req.Topics {
		topic := kmsg.NewOffsetCommitResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		name, count, err := topicOf(image, req.Version >= 10, t.Topic, t.TopicID)
		topic.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(t.Partitions)) // its elements are pointed at
		for i, p := range t.Partitions {
			answer := &topic.Partitions[i]
			answer.Partition, answer.ErrorCode = p.Partition, wire.Code(partitionIn(count, p.Partition, err))
			if answer.ErrorCode == 0 {
				commit.Offsets = append(commit.Offsets, group.Offset{
					TopicPartition: kafka.TopicPartition{Topic: name, Partition: p.Partition},
					Offset:         p.Offset, LeaderEpoch: p.LeaderEpoch, Metadata: *named(p.Metadata),
				})
				codes = append(codes, &answer.ErrorCode)
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if len(commit.Offsets) == 0 && len(req.Topics) > 0 {
		return r.Answer(resp)
	}
	committed := a.o.Groups.Commit(commit)
	return a.after(r, func() kmsg.Response {
		errs, err := outcome(committed)
		for i, code := range codes {
			if err != nil {
				*code = wire.Code(err)
			} else {
				*code = wire.Code(errs[i])
			}
		}
		return resp
	}, committed)
}

// topicOf is the name of a topic that exists, of which a request tells name or id, and how many partitions it has.
func topicOf(image *metadata.Image, byID bool, name string, id kafka.TopicID) (string, int32, error) {
	unknown := kerr.UnknownTopicOrPartition
	t, ok := image.Topics.ByName(name)
	if byID {
		unknown = kerr.UnknownTopicID
		t, ok = image.Topics.ByID(id)
	}
	if !ok {
		return "", 0, unknown
	}
	return t.Name, int32(t.Partitions.Len()), nil
}

// partitionIn is err, or what is wrong with a partition of a topic that has count of them.
func partitionIn(count, partition int32, err error) error {
	if err == nil && (partition < 0 || partition >= count) {
		return kerr.UnknownTopicOrPartition
	}
	return err
}
