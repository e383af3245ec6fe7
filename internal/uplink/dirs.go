package uplink

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// Assignment says that a replica of this broker lies in a directory.
type Assignment struct {
	TopicID   kafka.TopicID
	Partition int32
	Dir       kafka.DirID
}

// AssignReplicas tells the controller where replicas lie. What it takes of them arrives as metadata; what it refuses it
// refuses because the metadata have moved on (AssignmentsManager; KIP-858).
func (u *Uplink) AssignReplicas(ctx context.Context, all []Assignment) error {
	req := kmsg.NewAssignReplicasToDirsRequest()
	req.BrokerID, req.BrokerEpoch = u.o.NodeID, u.Epoch()
	dirs := make(map[kafka.DirID]int)
	type key struct {
		dir   kafka.DirID
		topic kafka.TopicID
	}
	topics := make(map[key]int)
	for _, a := range all {
		at, ok := dirs[a.Dir]
		if !ok {
			at = len(req.Directories)
			dirs[a.Dir] = at
			d := kmsg.NewAssignReplicasToDirsRequestDirectory()
			d.ID = a.Dir
			req.Directories = append(req.Directories, d)
		}
		d := &req.Directories[at]
		in, ok := topics[key{a.Dir, a.TopicID}]
		if !ok {
			in = len(d.Topics)
			topics[key{a.Dir, a.TopicID}] = in
			t := kmsg.NewAssignReplicasToDirsRequestDirectoryTopic()
			t.TopicID = a.TopicID
			d.Topics = append(d.Topics, t)
		}
		p := kmsg.NewAssignReplicasToDirsRequestDirectoryTopicPartition()
		p.Partition = a.Partition
		d.Topics[in].Partitions = append(d.Topics[in].Partitions, p)
	}
	resp, err := send[*kmsg.AssignReplicasToDirsResponse](ctx, u, &req)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("tell in which directories %d replicas lie: %w", len(all), err)
	}
	return nil
}
