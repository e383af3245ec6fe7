package api

import (
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
)

// TestQuorumIsDescribedOnce: whoever names the metadata partition again and again does not get all its replicas again and
// again, which would be an answer of any size.
func TestQuorumIsDescribedOnce(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		req := kmsg.NewPtrDescribeQuorumRequest()
		req.Version = 2
		for range 2 {
			topic := kmsg.NewDescribeQuorumRequestTopic()
			topic.Topic = quorum.TopicName
			topic.Partitions = make([]kmsg.DescribeQuorumRequestTopicPartition, 2)
			req.Topics = append(req.Topics, topic)
		}
		resp := n.ask(req).(*kmsg.DescribeQuorumResponse)
		described := 0
		for _, topic := range resp.Topics {
			for _, p := range topic.Partitions {
				switch {
				case p.ErrorCode == 0 && len(p.CurrentVoters) == 1:
					described++
				case p.ErrorCode != kerr.InvalidRequest.Code || len(p.CurrentVoters) > 0:
					n.t.Errorf("error %d and %d voters", p.ErrorCode, len(p.CurrentVoters))
				}
			}
		}
		if described != 1 {
			n.t.Errorf("the quorum is described %d times", described)
		}
	})
}

// TestVoterThatNeverComesIsNotWaitedForLong: answers to envelopes keep their order, so that a client who lets a broker wait
// for such a voter as long as he likes would hold up every other client of that broker.
func TestVoterThatNeverComesIsNotWaitedForLong(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		req := kmsg.NewPtrAddRaftVoterRequest()
		req.VoterID, req.VoterDirectoryID, req.TimeoutMillis = 7, kafka.DirID{7}, math.MaxInt32
		l := kmsg.NewAddRaftVoterRequestListener()
		l.Name, l.Host, l.Port = "CONTROLLER", "127.0.0.1", 1
		req.Listeners = append(req.Listeners, l)
		began := time.Now()
		resp := n.ask(req).(*kmsg.AddRaftVoterResponse)
		if took := time.Since(began); resp.ErrorCode != kerr.RequestTimedOut.Code || took > time.Minute {
			n.t.Errorf("error %d after %s", resp.ErrorCode, took)
		}
	})
}
