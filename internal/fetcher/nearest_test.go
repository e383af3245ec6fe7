package fetcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/peer"
)

// consumer fetches t-0 from one node, in a session.
type consumer struct {
	w       *world
	conn    *peer.Conn
	rack    string
	session session
}

func (w *world) consumer(node, rack string) *consumer {
	conn, err := peer.Dial(w.t.Context(), node, peer.Options{Dial: w.dial, ClientID: "consumer"})
	w.must(err)
	return &consumer{w: w, conn: conn, rack: rack}
}

// fetch returns what the answer tells of the partition; nil: nothing.
func (c *consumer) fetch(offset kafka.Offset, version int16, wait time.Duration) *kmsg.FetchResponseTopicPartition {
	c.w.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.Rack, req.MinBytes, req.MaxWaitMillis = version, c.rack, 1, int32(wait.Milliseconds())
	req.SessionID, req.SessionEpoch = c.session.id, c.session.epoch
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic, topic.TopicID = "t", topicID("t")
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.CurrentLeaderEpoch, p.PartitionMaxBytes = offset, -1, 1<<20
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	got, err := c.conn.Do(c.w.t.Context(), req)
	c.w.must(err)
	resp := got.(*kmsg.FetchResponse)
	c.w.must(kerr.ErrorForCode(resp.ErrorCode))
	c.session.answered(resp.SessionID)
	if len(resp.Topics) == 0 {
		return nil
	}
	return &resp.Topics[0].Partitions[0]
}

// TestConsumersReadFromTheirRack (KIP-392): the leader sends a consumer to the follower in its rack, every time it asks, and
// that one serves it, also with records that come later.
func TestConsumersReadFromTheirRack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2, 3)
		defer w.stop()
		all := []kafka.NodeID{1, 2, 3}
		w.lead("t", 0, 0, all, 1, all...)
		w.within(time.Second, w.nodes[1].produce("t", 0, 2))
		time.Sleep(time.Second)
		leader := w.consumer("1", "rack-2")
		defer leader.conn.Close()
		for range 3 {
			began := time.Now()
			p := leader.fetch(0, 13, 10*time.Second)
			if p == nil || p.PreferredReadReplica != 2 || len(p.RecordBatches) > 0 || p.HighWatermark != 2 || time.Since(began) > time.Second {
				t.Fatalf("after %s the leader answers %+v", time.Since(began), p)
			}
		}
		near := w.consumer("2", "rack-2")
		defer near.conn.Close()
		if p := near.fetch(0, 13, 0); p == nil || len(p.RecordBatches) == 0 || p.PreferredReadReplica != -1 {
			t.Fatalf("the follower answers %+v", p)
		}
		go func() {
			time.Sleep(3 * time.Second)
			w.nodes[1].produce("t", 0, 1)
		}()
		began := time.Now()
		p := near.fetch(2, 13, time.Minute)
		if took := time.Since(began); p == nil || len(p.RecordBatches) == 0 || took > 3*time.Second+100*time.Millisecond {
			t.Fatalf("after %s the follower answers %+v", took, p)
		}
		if p := near.fetch(7, 13, 0); p == nil || p.ErrorCode != kerr.OffsetOutOfRange.Code {
			t.Fatalf("beyond its end the follower answers %+v", p)
		}
		old := w.consumer("2", "")
		defer old.conn.Close()
		if p := old.fetch(0, 10, 0); p == nil || p.ErrorCode != kerr.NotLeaderForPartition.Code {
			t.Fatalf("to a consumer that knows no followers the follower answers %+v", p)
		}
		same := w.consumer("1", "rack-1")
		defer same.conn.Close()
		if p := same.fetch(0, 13, 0); p == nil || len(p.RecordBatches) == 0 || p.PreferredReadReplica != -1 {
			t.Fatalf("in the leader's rack the leader answers %+v", p)
		}
	})
}
