package znode

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/coordinator"
	"moldau/internal/kafka"
)

// NoOffset is what FetchOffsets gives where a group has none.
const NoOffset kafka.Offset = -1

func offsetPath(group string, tp kafka.TopicPartition) string {
	return "/consumers/" + group + "/offsets/" + tp.Topic + "/" + strconv.Itoa(int(tp.Partition))
}

// isGroup reports whether a group can have a node.
func isGroup(name string) bool { return !strings.Contains(name, "/") && validPath("/consumers/"+name) }

// CommitOffsets writes where a group goes on, into the nodes that its consumers write themselves if they speak ZooKeeper's
// protocol: one transaction for each offset, and one for each node above it that is not there yet. Errors:
// INVALID_GROUP_ID, and those of a coordinator that is not here.
func (c *Coordinator) CommitOffsets(group string, partitions []kafka.TopicPartition, offsets []kafka.Offset) *coordinator.Promise[struct{}] {
	if !isGroup(group) {
		return coordinator.Broken[struct{}](kerr.InvalidGroupID)
	}
	p := coordinator.NewPromise[struct{}]()
	err := c.turn(func(s *shard, t *coordinator.Turn) {
		x := s.begin(t)
		for i, tp := range partitions {
			if err := x.store(offsetPath(group, tp), strconv.AppendInt(nil, offsets[i], 10)); err != nil {
				p.Fail(t, err)
				return
			}
		}
		if err := x.commit(t); err != nil {
			p.Fail(t, coordinator.Fault(err))
			return
		}
		p.Give(t, struct{}{})
	})
	if err != nil {
		return coordinator.Broken[struct{}](err)
	}
	return p
}

// store sets the data of a node, which is made if it is not there, and the nodes above it too.
func (x *transaction) store(path string, data []byte) error {
	if d := x.find(path); d != nil {
		x.replace(path, d, data)
		x.next()
		return nil
	}
	parent, _ := split(path)
	if x.find(parent) == nil {
		if err := x.store(parent, nil); err != nil {
			return err
		}
	}
	if x.find(parent).owner != 0 {
		return fmt.Errorf("%s: %w (%w)", parent, NoChildrenForEphemerals, kerr.UnknownServerError)
	}
	x.put(path, data, nil, 0, false)
	x.next()
	return nil
}

// FetchOffsets reads where a group goes on, NoOffset where nothing says so. Errors are those of CommitOffsets.
func (c *Coordinator) FetchOffsets(group string, partitions []kafka.TopicPartition) *coordinator.Promise[[]kafka.Offset] {
	if !isGroup(group) {
		return coordinator.Broken[[]kafka.Offset](kerr.InvalidGroupID)
	}
	p := coordinator.NewPromise[[]kafka.Offset]()
	err := c.turn(func(s *shard, t *coordinator.Turn) {
		offsets := make([]kafka.Offset, len(partitions))
		for i, tp := range partitions {
			offsets[i] = NoOffset
			if n := s.tree.find(offsetPath(group, tp)); n != nil {
				if offset, err := strconv.ParseInt(string(n.data), 10, 64); err == nil && offset >= 0 {
					offsets[i] = offset
				}
			}
		}
		p.Give(t, offsets)
	})
	if err != nil {
		return coordinator.Broken[[]kafka.Offset](err)
	}
	return p
}
