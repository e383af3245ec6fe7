package api

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/znode"
)

// maxTopicName is the longest name of a topic, so that a partition's folder fits what file systems take.
const maxTopicName = 249

// checkTopicName fails with INVALID_TOPIC_EXCEPTION for a name that no topic can have (org.apache.kafka Topic.validate).
func checkTopicName(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > maxTopicName {
		return kerr.InvalidTopicException
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return kerr.InvalidTopicException
		}
	}
	return nil
}

// missing is the error for a topic that is not there, which depends on whether it could be.
func missing(name string) error {
	if err := checkTopicName(name); err != nil {
		return err
	}
	return kerr.UnknownTopicOrPartition
}

// metadataTopic is the one topic that brokers' clients neither see nor make.
const metadataTopic = "__cluster_metadata"

// internal reports whether clients may not write to a topic.
func internal(topic string) bool {
	return topic == group.Topic || topic == znode.Topic || topic == "__transaction_state" || topic == "__share_group_state"
}

// leader is who leads a partition and, if it is reachable on the client's listener, where.
type leader struct {
	id       kafka.NodeID
	epoch    kafka.Epoch
	endpoint *metadata.Endpoint
	rack     *string
}

// leaderOf tells a client whom to ask instead (KIP-951).
func leaderOf(image *metadata.Image, topic string, partition int32, listener string) leader {
	_, p, ok := image.Topics.Partition(kafka.TopicPartition{Topic: topic, Partition: partition})
	if !ok {
		return leader{id: kafka.NoNode, epoch: kafka.NoEpoch}
	}
	l := leader{id: p.Leader, epoch: p.LeaderEpoch}
	if b, ok := image.Cluster.Broker(p.Leader); ok {
		if e, ok := b.Endpoint(listener); ok {
			l.endpoint, l.rack = &e, b.Rack
		}
	}
	return l
}

// Bits of the operations that a client without restrictions may do (AclOperation; KIP-430). There is no authorizer yet.
const (
	opRead            = 1 << 3
	opWrite           = 1 << 4
	opCreate          = 1 << 5
	opDelete          = 1 << 6
	opAlter           = 1 << 7
	opDescribe        = 1 << 8
	opClusterAction   = 1 << 9
	opDescribeConfigs = 1 << 10
	opAlterConfigs    = 1 << 11
	opIdempotentWrite = 1 << 12

	topicOperations   int32 = opRead | opWrite | opCreate | opDelete | opAlter | opDescribe | opDescribeConfigs | opAlterConfigs
	clusterOperations int32 = opCreate | opAlter | opDescribe | opClusterAction | opDescribeConfigs | opAlterConfigs | opIdempotentWrite
)
