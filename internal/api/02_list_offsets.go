package api

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/replica"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// specialSince is the version of ListOffsets in which each special timestamp came.
var specialSince = map[int64]int16{
	kafka.LatestTimestamp:          0,
	kafka.EarliestTimestamp:        0,
	kafka.MaxTimestamp:             7,  // KIP-734
	kafka.EarliestLocalTimestamp:   8,  // KIP-405
	kafka.LatestTieredTimestamp:    9,  // KIP-1005
	kafka.EarliestPendingTimestamp: 11, // KIP-1023
}

// listOffsets answers ListOffsets. Mirrors ReplicaManager.fetchOffset. The latest offset is that of what has been acked, and
// so is what a time is looked for in: it waits until the records that were there when the request came are as durable as
// they will be.
func (a *API) listOffsets(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.ListOffsetsRequest)
	resp := kmsg.NewPtrListOffsetsResponse()
	var waits waits
	seen := make(map[kafka.TopicPartition]bool)
	duplicate := make(map[kafka.TopicPartition]bool)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}
			duplicate[tp] = seen[tp]
			seen[tp] = true
		}
	}
	for _, t := range req.Topics {
		topic := kmsg.NewListOffsetsResponseTopic()
		topic.Topic = t.Topic
		topic.Partitions = make([]kmsg.ListOffsetsResponseTopicPartition, len(t.Partitions)) // its elements are pointed at
		for i := range t.Partitions {
			asked, answer := &t.Partitions[i], &topic.Partitions[i]
			answer.Default()
			answer.Partition = asked.Partition
			tp := kafka.TopicPartition{Topic: t.Topic, Partition: asked.Partition}
			if duplicate[tp] && req.Version > 0 {
				answer.ErrorCode = kerr.InvalidRequest.Code
				continue
			}
			if w := a.listOffset(req, tp, asked, answer); w != nil {
				waits.add(w, func(err error) {
					if err != nil {
						answer.ErrorCode = wire.Code(err)
						return
					}
					a.findOffset(req, tp, asked, answer)
				})
			}
		}
		resp.Topics = append(resp.Topics, topic)
	}
	timeout := a.o.RequestTimeout
	if req.Version >= 10 && req.TimeoutMillis > 0 {
		timeout = time.Duration(req.TimeoutMillis) * time.Millisecond
	}
	return waits.reply(r, timeout, resp)
}

// listOffset fills in an answer, or returns what has to be waited for before findOffset can.
func (a *API) listOffset(req *kmsg.ListOffsetsRequest, tp kafka.TopicPartition, asked *kmsg.ListOffsetsRequestTopicPartition, answer *kmsg.ListOffsetsResponseTopicPartition) *replica.Waiter {
	if since, known := specialSince[asked.Timestamp]; asked.Timestamp < 0 && (!known || req.Version < since) {
		answer.ErrorCode = kerr.UnsupportedVersion.Code
		return nil
	}
	if asked.Timestamp == kafka.LatestTimestamp || lookedFor(asked.Timestamp) {
		if w := a.awaitEnd(tp); w != nil {
			return w
		}
	}
	a.findOffset(req, tp, asked, answer)
	return nil
}

// lookedFor reports whether a timestamp is looked for among the records.
func lookedFor(timestamp int64) bool { return timestamp >= 0 || timestamp == kafka.MaxTimestamp }

func (a *API) findOffset(req *kmsg.ListOffsetsRequest, tp kafka.TopicPartition, asked *kmsg.ListOffsetsRequestTopicPartition, answer *kmsg.ListOffsetsResponseTopicPartition) {
	if req.Version == 0 {
		a.findOffsets(req, tp, asked, answer)
		return
	}
	if lookedFor(asked.Timestamp) { // the log looks into a batch, which may be large
		a.opening <- struct{}{}
		defer func() { <-a.opening }()
	}
	p, err := a.o.Replicas.Partition(tp)
	if err == nil {
		var found replica.TimestampOffset
		found, err = p.ListOffset(asked.Timestamp, kafka.Isolation(req.IsolationLevel), req.ReplicaID, asked.CurrentLeaderEpoch)
		if err == nil {
			answer.Timestamp, answer.Offset, answer.LeaderEpoch = found.Timestamp, found.Offset, found.LeaderEpoch
			return
		}
	}
	answer.ErrorCode = wire.Code(err)
	if answer.ErrorCode == kerr.OffsetNotAvailable.Code && req.Version < 5 {
		answer.ErrorCode = kerr.LeaderNotAvailable.Code // these clients do not know it (KIP-207)
	}
}

// findOffsets fills in an answer of version 0, which tells where segments begin.
func (a *API) findOffsets(req *kmsg.ListOffsetsRequest, tp kafka.TopicPartition, asked *kmsg.ListOffsetsRequestTopicPartition, answer *kmsg.ListOffsetsResponseTopicPartition) {
	p, err := a.o.Replicas.Partition(tp)
	if err == nil {
		answer.OldStyleOffsets, err = p.OffsetsBefore(asked.Timestamp, int(asked.MaxNumOffsets), req.ReplicaID, a.nowMs())
	}
	answer.ErrorCode = wire.Code(err)
}
