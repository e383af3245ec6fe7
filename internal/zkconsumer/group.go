package zkconsumer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"moldau/internal/kafka"
)

// Group is what ZooKeeper has of a group.
type Group struct {
	Members    []string // by name
	Partitions []GroupPartition
}

// GroupPartition is a partition of a topic that a group owns or has owned.
type GroupPartition struct {
	kafka.TopicPartition
	Owner  string       // the member, or ""
	Offset kafka.Offset // the next to read, or -1 if none is stored
}

// ErrNoGroup says that ZooKeeper has no such group.
var ErrNoGroup = errors.New("no such group in ZooKeeper")

// Groups lists the groups, by name.
func (t *Tree) Groups() ([]string, error) { return t.Children("/consumers") }

// Group reads one group. Partitions are in order of topic and number.
func (t *Tree) Group(name string) (Group, error) {
	var g Group
	base := "/consumers/" + name
	if there, err := t.Exists(base); err != nil || !there {
		if err == nil {
			err = fmt.Errorf("%w: %s", ErrNoGroup, name)
		}
		return g, err
	}
	var err error
	if g.Members, err = t.Children(base + "/ids"); err != nil {
		return g, err
	}
	topics, err := t.Children(base + "/owners")
	if err != nil {
		return g, err
	}
	for _, topic := range topics {
		partitions, err := t.partitions(topic, t.read)
		if err != nil {
			return g, err
		}
		for _, p := range partitions {
			at := GroupPartition{kafka.TopicPartition{Topic: topic, Partition: p}, "", -1}
			place := "/" + topic + "/" + strconv.Itoa(int(p))
			stream, err := t.read(base + "/owners" + place)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return g, err
			}
			at.Owner = string(stream)[:max(0, strings.LastIndexByte(string(stream), '-'))]
			offset, err := t.read(base + "/offsets" + place)
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				return g, err
			}
			if n, err := strconv.ParseInt(string(offset), 10, 64); err == nil {
				at.Offset = n
			}
			g.Partitions = append(g.Partitions, at)
		}
	}
	return g, nil
}

func (t *Tree) read(p string) ([]byte, error) {
	data, _, err := t.Get(p)
	return data, err
}

// Topics are those of the group's partitions, in order.
func (g Group) Topics() []string {
	var topics []string
	for _, p := range g.Partitions {
		topics = append(topics, p.Topic)
	}
	return slices.Compact(topics)
}

// Idle lists the members that own nothing.
func (g Group) Idle() []string {
	return slices.DeleteFunc(slices.Clone(g.Members), func(m string) bool {
		return slices.ContainsFunc(g.Partitions, func(p GroupPartition) bool { return p.Owner == m })
	})
}
