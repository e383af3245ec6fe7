package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/quorum"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// snapshotChunkMax is the most bytes of a snapshot in one answer: the whole answer is in memory.
const snapshotChunkMax = 8 << 20

// fetchSnapshot answers FetchSnapshot: a piece of a snapshot of the metadata partition (KIP-630). Mirrors
// KafkaRaftClient.handleFetchSnapshotRequest.
func (a *API) fetchSnapshot(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.FetchSnapshotRequest)
	resp := kmsg.NewPtrFetchSnapshotResponse()
	if !a.sameCluster(req.ClusterID) {
		resp.ErrorCode = kerr.InconsistentClusterID.Code
		return r.Answer(resp)
	}
	if len(req.Topics) == 0 {
		resp.ErrorCode = kerr.InvalidRequest.Code
		return r.Answer(resp)
	}
	left := max(min(int(req.MaxBytes), snapshotChunkMax), 1)
	status := a.o.Quorum.Status()
	for _, t := range req.Topics {
		topic := kmsg.NewFetchSnapshotResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewFetchSnapshotResponseTopicPartition()
			answer.Partition = p.Partition
			answer.SnapshotID.EndOffset, answer.SnapshotID.Epoch = p.SnapshotID.EndOffset, p.SnapshotID.Epoch
			if t.Topic != quorum.TopicName || p.Partition != 0 {
				answer.ErrorCode = kerr.UnknownTopicOrPartition.Code
				topic.Partitions = append(topic.Partitions, answer)
				continue
			}
			answer.CurrentLeader.LeaderID, answer.CurrentLeader.LeaderEpoch = status.LeaderID, status.Epoch
			id := quorum.SnapshotID{EndOffset: p.SnapshotID.EndOffset, Epoch: p.SnapshotID.Epoch}
			chunk, err := a.o.Quorum.FetchSnapshot(id, p.CurrentLeaderEpoch, p.Position, left)
			answer.ErrorCode = wire.Code(err)
			if err == nil {
				answer.Size, answer.Position, answer.Bytes = chunk.Size, p.Position, chunk.Bytes
				left -= len(chunk.Bytes)
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	return r.Answer(resp)
}

// sameCluster reports whether a request that names a cluster means this one.
func (a *API) sameCluster(id *string) bool { return id == nil || *id == a.o.ClusterID }
