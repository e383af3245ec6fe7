package fetcher

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/peer"
)

// TestTooFewInSync: what a producer is told when min.insync.replicas is not met, at once or while it waits.
func TestTooFewInSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		both, two := []kafka.NodeID{1, 2}, "2"
		w.lead("t", 0, 0, both, 1, both...)
		w.apply(&metadata.ConfigRecord{ResourceType: int8(metadata.ConfigTopic), ResourceName: "t", Name: "min.insync.replicas", Value: &two})
		conn, err := peer.Dial(t.Context(), "1", peer.Options{Dial: w.dial, ClientID: "producer"})
		w.must(err)
		defer conn.Close()
		produce := func(acks int16) (code int16, took time.Duration) {
			t.Helper()
			req := kmsg.NewPtrProduceRequest()
			req.Version, req.Acks, req.TimeoutMillis = 9, acks, 2000
			topic := kmsg.NewProduceRequestTopic()
			topic.Topic = "t"
			p := kmsg.NewProduceRequestTopicPartition()
			p.Records = records(1, 10)
			topic.Partitions = append(topic.Partitions, p)
			req.Topics = append(req.Topics, topic)
			began := time.Now()
			resp, err := conn.Do(t.Context(), req)
			w.must(err)
			return resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, time.Since(began)
		}
		if code, _ := produce(-1); code != 0 {
			t.Errorf("with both in sync: error %d", code)
		}
		w.nodes[2].stop(true)
		if code, took := produce(-1); code != kerr.RequestTimedOut.Code || took != 2*time.Second {
			t.Errorf("a follower is slow: error %d after %s", code, took)
		}
		left := make(chan struct{})
		go func() {
			defer close(left)
			time.Sleep(time.Second)
			w.lead("t", 0, 0, both, 1, 1) // the in-sync set shrinks while the producer waits
		}()
		if code, took := produce(-1); code != kerr.NotEnoughReplicasAfterAppend.Code || took != 2*time.Second {
			t.Errorf("the in-sync set became too small: error %d after %s", code, took)
		}
		<-left
		if code, took := produce(-1); code != kerr.NotEnoughReplicas.Code || took > 100*time.Millisecond {
			t.Errorf("the in-sync set is too small: error %d after %s", code, took)
		}
		if code, took := produce(1); code != 0 || took > 100*time.Millisecond {
			t.Errorf("acks=1: error %d after %s", code, took)
		}
	})
}
