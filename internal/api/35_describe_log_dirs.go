package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/server"
	"moldau/internal/storage"
	"moldau/internal/wire"
)

// describeLogDirs answers DescribeLogDirs: what lies in each directory and how much room there is (KIP-113, KIP-827).
// Mirrors ReplicaManager.describeLogDirs.
func (a *API) describeLogDirs(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DescribeLogDirsRequest)
	resp := kmsg.NewPtrDescribeLogDirsResponse()
	wanted := make(map[kafka.TopicPartition]bool)
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			wanted[kafka.TopicPartition{Topic: t.Topic, Partition: p}] = true
		}
	}
	all := req.Topics == nil
	byDir := make(map[*storage.Directory][]*storage.Log)
	for _, l := range a.o.Store.Logs() { // sorted, and so is each directory's share
		if all || wanted[l.TopicPartition()] {
			byDir[l.Dir()] = append(byDir[l.Dir()], l)
		}
	}
	for _, d := range a.o.Store.Directories() {
		resp.Dirs = append(resp.Dirs, directory(d, byDir[d]))
	}
	return r.Answer(resp)
}

func directory(d *storage.Directory, logs []*storage.Log) kmsg.DescribeLogDirsResponseDir {
	answer := kmsg.NewDescribeLogDirsResponseDir()
	answer.Dir = d.Path()
	if err := d.Err(); err != nil {
		answer.ErrorCode = wire.Code(err)
		return answer
	}
	usage, err := d.Usage()
	if err != nil {
		answer.ErrorCode = wire.Code(err)
		return answer
	}
	answer.TotalBytes, answer.UsableBytes = usage.Total, usage.Free
	for _, l := range logs {
		tp := l.TopicPartition()
		last := len(answer.Topics) - 1
		if last < 0 || answer.Topics[last].Topic != tp.Topic {
			topic := kmsg.NewDescribeLogDirsResponseDirTopic()
			topic.Topic = tp.Topic
			answer.Topics = append(answer.Topics, topic)
			last++
		}
		p := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		p.Partition, p.Size = tp.Partition, l.Size()
		answer.Topics[last].Partitions = append(answer.Topics[last].Partitions, p)
	}
	return answer
}
