package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/quorum"
	"moldau/internal/server"
)

// describeQuorum answers DescribeQuorum for the metadata partition (KIP-595, KIP-836, KIP-853). Only its leader
// knows how far the others are: on a broker's listener the request is forwarded to it.
func (a *API) describeQuorum(r *server.Request) server.Reply {
	if a.mustForward(r) {
		return a.forward(r)
	}
	return r.Answer(a.quorumState(r.Body.(*kmsg.DescribeQuorumRequest)))
}

// mustForward reports whether a request about the metadata quorum came in on a broker's listener of a node that does not lead it.
func (a *API) mustForward(r *server.Request) bool {
	return r.Conn.Kind() == server.Broker && (a.o.Quorum == nil || a.o.Quorum.Status().LeaderID != a.o.NodeID)
}

// quorumState is what this node can tell of the quorum.
func (a *API) quorumState(req *kmsg.DescribeQuorumRequest) *kmsg.DescribeQuorumResponse {
	status := a.o.Quorum.Status()
	asked, described := false, false
	resp := kmsg.NewPtrDescribeQuorumResponse()
	resp.ErrorMessage = new("") // as Apache Kafka leaves it, not null
	for _, t := range req.Topics {
		topic := kmsg.NewDescribeQuorumResponseTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			answer := kmsg.NewDescribeQuorumResponseTopicPartition()
			answer.Partition, answer.ErrorMessage = p.Partition, new("")
			if t.Topic != quorum.TopicName || p.Partition != 0 {
				err := kerr.UnknownTopicOrPartition
				answer.ErrorCode, answer.ErrorMessage = err.Code, &err.Description
				topic.Partitions = append(topic.Partitions, answer)
				continue
			}
			asked = true
			answer.LeaderID, answer.LeaderEpoch = status.LeaderID, status.Epoch
			switch {
			case status.LeaderID != a.o.NodeID:
				answer.ErrorCode = kerr.NotLeaderForPartition.Code
			case described: // all replicas for every few bytes of a request would be an answer of any size
				answer.ErrorCode = kerr.InvalidRequest.Code
			default:
				described = true
				answer.HighWatermark = status.HighWatermark
				answer.CurrentVoters = replicaStates(status.Voters)
				answer.Observers = replicaStates(status.Observers)
			}
			topic.Partitions = append(topic.Partitions, answer)
		}
		resp.Topics = append(resp.Topics, topic)
	}
	if !asked {
		return resp
	}
	for _, v := range status.VoterSet {
		node := kmsg.NewDescribeQuorumResponseNode()
		node.NodeID = v.ID
		for _, e := range v.Endpoints {
			l := kmsg.NewDescribeQuorumResponseNodeListener()
			l.Name, l.Host, l.Port = e.Name, e.Host, e.Port
			node.Listeners = append(node.Listeners, l)
		}
		resp.Nodes = append(resp.Nodes, node)
	}
	return resp
}

func replicaStates(replicas []quorum.Replica) []kmsg.DescribeQuorumResponseTopicPartitionReplicaState {
	states := make([]kmsg.DescribeQuorumResponseTopicPartitionReplicaState, 0, len(replicas))
	for _, r := range replicas {
		s := kmsg.NewDescribeQuorumResponseTopicPartitionReplicaState()
		s.ReplicaID, s.ReplicaDirectoryID, s.LogEndOffset = r.ID, r.DirID, r.LogEnd
		s.LastFetchTimestamp, s.LastCaughtUpTimestamp = r.LastFetchMs, r.LastCaughtUpMs
		states = append(states, s)
	}
	return states
}
