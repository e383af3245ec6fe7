package zkconsumer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-zookeeper/zk"
)

// view is what a member sees of its group and of the topics that the group reads.
type view struct {
	brokers    []string // addresses
	members    []member // by id
	partitions map[string][]int32
}

// look reads the view and watches everything that it depends on.
func (c *Consumer) look() (view, error) {
	v := view{partitions: make(map[string][]int32)}
	var err error
	if v.brokers, err = c.tree.Brokers(); err != nil {
		return v, err
	}
	if len(v.brokers) == 0 { // their coming is the only news that matters
		v.brokers, err = c.tree.brokers(c.tree.watchChildren)
		if err != nil || len(v.brokers) == 0 {
			return v, err
		}
	}
	ids, err := c.tree.watchChildren(c.groupPath("ids"))
	if err != nil {
		return v, err
	}
	subscriptions := make(map[string]Subscription)
	wild := false
	for _, id := range ids {
		data, _, err := c.tree.Get(c.groupPath("ids", id))
		if errors.Is(err, zk.ErrNoNode) {
			continue // left in between; the watch on ids fires
		}
		if err != nil {
			return v, err
		}
		s, err := decodeSubscription(data)
		if err != nil {
			return v, fmt.Errorf("member %s of group %s: %w", id, c.s.Group, err)
		}
		subscriptions[id] = s
		wild = wild || s.wild()
	}
	var topics []string
	if wild {
		if topics, err = c.tree.watchChildren("/brokers/topics"); err != nil {
			return v, err
		}
	}
	for _, id := range ids {
		s, ok := subscriptions[id]
		if !ok {
			continue
		}
		streams, err := s.streams(topics, c.s.IncludeInternal)
		if err != nil {
			return v, fmt.Errorf("member %s of group %s: %w", id, c.s.Group, err)
		}
		v.members = append(v.members, member{id, streams})
	}
	for topic := range streamsByTopic(v.members) {
		if v.partitions[topic], err = c.tree.partitions(topic, c.tree.watchData); err != nil {
			return v, err
		}
	}
	return v, nil
}

// partitions reads which partitions a topic has, in order; none if there is no such topic.
func (t *Tree) partitions(topic string, read func(path string) ([]byte, error)) ([]int32, error) {
	data, err := read("/brokers/topics/" + topic)
	if errors.Is(err, zk.ErrNoNode) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var node struct {
		Partitions map[string][]int32 `json:"partitions"`
	}
	if err := json.Unmarshal(data, &node); err != nil {
		return nil, fmt.Errorf("/brokers/topics/%s: %w", topic, err)
	}
	var partitions []int32
	for p := range node.Partitions {
		n, err := strconv.ParseInt(p, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("/brokers/topics/%s: %w", topic, err)
		}
		partitions = append(partitions, int32(n))
	}
	slices.Sort(partitions)
	return partitions, nil
}

// mine is what this member has to own.
func (c *Consumer) mine(v view) assignment {
	for _, m := range v.members {
		if m.id == c.id {
			if c.s.RoundRobin {
				return assignRoundRobin(v.members, v.partitions).of(c.id, m.streams)
			}
			return assignRange(v.members, v.partitions).of(c.id, m.streams)
		}
	}
	return assignment{}
}
