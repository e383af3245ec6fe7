package api

import (
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/storage"
	"moldau/internal/wire"
)

// alterReplicaLogDirs answers AlterReplicaLogDirs: replicas of this node move to other directories of it, and the answer
// comes when the moves have begun (KIP-113). Mirrors ReplicaManager.alterReplicaLogDirs.
func (a *API) alterReplicaLogDirs(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.AlterReplicaLogDirsRequest)
	resp := kmsg.NewPtrAlterReplicaLogDirsResponse()
	type begun struct {
		topic, partition int
		err              <-chan error
	}
	var moves []begun
	topics := make(map[string]int) // of the answer
	for _, d := range req.Dirs {
		dir := a.directory(d.Dir)
		for _, t := range d.Topics {
			at, known := topics[t.Topic]
			if !known {
				at = len(resp.Topics)
				topics[t.Topic] = at
				topic := kmsg.NewAlterReplicaLogDirsResponseTopic()
				topic.Topic = t.Topic
				resp.Topics = append(resp.Topics, topic)
			}
			for _, partition := range t.Partitions {
				answer := kmsg.NewAlterReplicaLogDirsResponseTopicPartition()
				answer.Partition = partition
				if dir == nil {
					answer.ErrorCode = kerr.LogDirNotFound.Code
				} else {
					tp := kafka.TopicPartition{Topic: t.Topic, Partition: partition}
					moves = append(moves, begun{at, len(resp.Topics[at].Partitions), a.o.Replicas.Move(tp, dir)})
				}
				resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, answer)
			}
		}
	}
	for _, m := range moves {
		answer := &resp.Topics[m.topic].Partitions[m.partition]
		select {
		case err := <-m.err:
			answer.ErrorCode = wire.Code(err)
		case <-r.Context().Done(): // the node stops
			answer.ErrorCode = kerr.ReplicaNotAvailable.Code
		}
		if answer.ErrorCode == kerr.NotLeaderForPartition.Code {
			answer.ErrorCode = kerr.ReplicaNotAvailable.Code // as clients know it from before KIP-588
		}
	}
	return r.Answer(resp)
}

// directory returns the directory that log.dirs names so, nil if there is none.
func (a *API) directory(path string) *storage.Directory {
	for _, d := range a.o.Store.Directories() {
		if filepath.Clean(d.Path()) == filepath.Clean(path) {
			return d
		}
	}
	return nil
}
