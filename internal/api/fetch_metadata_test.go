package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/metadata"
	"moldau/internal/quorum"
)

// metadataFetch is a Fetch of the metadata partition.
func (n *testNode) metadataFetch(version int16, offset int64, maxWaitMs int32) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version = version
	req.ReplicaID = 5
	req.ReplicaState.ID, req.ReplicaState.Epoch = 5, 1
	req.MaxWaitMillis, req.MaxBytes = maxWaitMs, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = quorum.TopicName, metadataTopicID
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = offset, 1<<20
	epoch := n.quorum.Status().Epoch
	p.CurrentLeaderEpoch, p.LastFetchedEpoch = epoch, epoch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// TestObserverFollowsTheMetadataLog: a fetch at its end waits for what is committed next, and gets just that.
func TestObserverFollowsTheMetadataLog(t *testing.T) {
	for _, version := range []int16{12, 13, 17, 18} {
		inNode(t, nodeOptions{}, func(n *testNode) {
			c := n.dial(n.control)
			defer c.close()
			req := n.metadataFetch(version, n.quorum.Status().HighWatermark, 60_000)
			begin := time.Now()
			c.send(req)
			time.Sleep(700 * time.Millisecond)
			n.create("t", 1)
			resp := c.receive(req).(*kmsg.FetchResponse)
			if took := time.Since(begin); took < 700*time.Millisecond || took > 800*time.Millisecond {
				n.t.Errorf("version %d: took %v", version, took)
			}
			p := told(resp)[0]
			if p.ErrorCode != 0 || p.CurrentLeader.LeaderID != testNodeID {
				n.t.Fatalf("version %d: error %d, leader %d", version, p.ErrorCode, p.CurrentLeader.LeaderID)
			}
			if version >= 17 && (len(resp.Brokers) != 1 || resp.Brokers[0].Port != 9093) {
				n.t.Errorf("version %d: endpoints %+v", version, resp.Brokers)
			}
			if !hasTopicRecord(n.t, p.RecordBatches, "t") {
				n.t.Errorf("version %d: the answer has no record of the topic", version)
			}
		})
	}
}

func hasTopicRecord(t *testing.T, data []byte, topic string) bool {
	found := false
	for len(data) > 0 {
		b, rest, err := batch.Next(data)
		if err != nil {
			t.Fatal(err)
		}
		err = b.Each(func(r batch.Record) error {
			decoded, err := metadata.Decode(r.Value)
			if record, ok := decoded.(*metadata.TopicRecord); ok && record.Name == topic {
				found = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		data = rest
	}
	return found
}

func TestObserverWaitsNoLongerThanItWants(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		c := n.dial(n.control)
		defer c.close()
		begin := time.Now()
		resp := c.do(n.metadataFetch(17, n.quorum.Status().HighWatermark, 500)).(*kmsg.FetchResponse)
		if took := time.Since(begin); took != 500*time.Millisecond {
			n.t.Errorf("took %v", took)
		}
		if p := told(resp)[0]; p.ErrorCode != 0 || len(p.RecordBatches) != 0 || p.HighWatermark != n.quorum.Status().HighWatermark {
			n.t.Errorf("error %d, %d bytes, high watermark %d", p.ErrorCode, len(p.RecordBatches), p.HighWatermark)
		}
	})
}
