package api

import (
	"slices"
	"strings"

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
	byDir := make(map[*storage.Directory][]described)
	add := func(l *storage.Log, future bool) {
		if tp := l.TopicPartition(); all || wanted[tp] {
			byDir[l.Dir()] = append(byDir[l.Dir()], described{l, future, a.lag(l, future)})
		}
	}
	for _, l := range a.o.Store.Logs() {
		add(l, false)
	}
	for _, l := range a.o.Store.Futures() {
		add(l, true)
	}
	for _, d := range a.o.Store.Directories() {
		resp.Dirs = append(resp.Dirs, describeDirectory(d, byDir[d]))
	}
	return r.Answer(resp)
}

// described is a log as DescribeLogDirs tells of it.
type described struct {
	*storage.Log
	future bool // it is the copy of one that moves here
	lag    int64
}

// lag is how many offsets a log is behind: a copy behind the log in use, and that behind the high watermark.
func (a *API) lag(l *storage.Log, future bool) int64 {
	if !future {
		return max(0, l.StoredHighWatermark()-l.LogEnd())
	}
	if current, ok := a.o.Store.Lookup(l.TopicPartition()); ok {
		return max(0, current.LogEnd()-l.LogEnd())
	}
	return -1 // DescribeLogDirsResponse.INVALID_OFFSET_LAG
}

func describeDirectory(d *storage.Directory, logs []described) kmsg.DescribeLogDirsResponseDir {
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
	slices.SortStableFunc(logs, func(a, b described) int { return strings.Compare(a.TopicPartition().Topic, b.TopicPartition().Topic) })
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
		p.Partition, p.Size, p.OffsetLag, p.IsFuture = tp.Partition, l.Size(), l.lag, l.future
		answer.Topics[last].Partitions = append(answer.Topics[last].Partitions, p)
	}
	return answer
}
