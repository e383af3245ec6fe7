package api

import (
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/vfs"
)

// syncGate holds the syncs of partition t-0's files while it is closed.
type syncGate struct {
	mu   sync.Mutex
	shut chan struct{} // nil: open
}

func newSyncGate() *syncGate { return &syncGate{} }

func (g *syncGate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = make(chan struct{})
}

func (g *syncGate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	close(g.shut)
	g.shut = nil
}

func (g *syncGate) wait() {
	g.mu.Lock()
	shut := g.shut
	g.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

func (g *syncGate) wrap(fs vfs.FS) vfs.FS { return gatedFS{fs, g} }

type gatedFS struct {
	vfs.FS
	gate *syncGate
}

func (f gatedFS) Open(path string, flag vfs.Flag) (vfs.File, error) {
	file, err := f.FS.Open(path, flag)
	if err != nil || !strings.Contains(path, "/t-0/") {
		return file, err
	}
	return gatedFile{file, f.gate}, nil
}

type gatedFile struct {
	vfs.File
	gate *syncGate
}

func (f gatedFile) SyncData() error {
	f.gate.wait()
	return f.File.SyncData()
}

func (f gatedFile) Sync() error {
	f.gate.wait()
	return f.File.Sync()
}

// TestPipelinedProducesOverlap: five produces with acks=all on one connection are all in the log before the first is
// answered, and their answers come in order.
func TestPipelinedProducesOverlap(t *testing.T) {
	gate := newSyncGate()
	inNode(t, nodeOptions{disk: gate.wrap}, func(n *testNode) {
		n.create("t", 1)
		gate.close()
		c := n.dial(n.broker)
		defer c.close()
		var reqs []*kmsg.ProduceRequest
		for range 5 {
			req := n.produceRequest(9, -1, "t", 0, records(3, plain()))
			reqs = append(reqs, req)
			c.send(req)
		}
		synctest.Wait()
		p, err := n.set.Partition(kafka.TopicPartition{Topic: "t", Partition: 0})
		if err != nil {
			n.t.Fatal(err)
		}
		if end, hw := p.LogEnd(), p.HighWatermark(); end != 15 || hw != 0 {
			n.t.Errorf("before the sync: log end %d, high watermark %d; want 15 and 0", end, hw)
		}
		gate.open()
		for i, req := range reqs {
			answer := c.receive(req).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if answer.ErrorCode != 0 || answer.BaseOffset != int64(3*i) {
				n.t.Errorf("answer %d: error %d, offset %d", i, answer.ErrorCode, answer.BaseOffset)
			}
		}
	})
}

func TestProduceTimesOut(t *testing.T) {
	gate := newSyncGate()
	inNode(t, nodeOptions{disk: gate.wrap}, func(n *testNode) {
		n.create("t", 2)
		gate.close()
		req := n.produceRequest(9, -1, "t", 0, records(1, plain()))
		other := n.produceRequest(9, -1, "t", 1, records(1, plain()))
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, other.Topics[0].Partitions...)
		req.TimeoutMillis = 700
		begin := time.Now()
		p := n.ask(req).(*kmsg.ProduceResponse).Topics[0].Partitions
		if took := time.Since(begin); took != 700*time.Millisecond {
			n.t.Errorf("took %v", took)
		}
		wantError(n.t, p[0].ErrorCode, kerr.RequestTimedOut)
		if p[0].BaseOffset != -1 {
			n.t.Errorf("base offset %d of a produce that timed out", p[0].BaseOffset)
		}
		_ = p[1] // the same directory's syncer may hold it back, or not
		gate.open()
	})
}

func TestFailedProduceWithoutAcksClosesTheConnection(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		c := n.dial(n.broker)
		defer c.close()
		good := n.produceRequest(9, 0, "t", 0, records(1, plain()))
		c.send(good)
		c.send(n.produceRequest(9, 0, "t", 7, records(1, plain())))
		if rest, err := io.ReadAll(c.nc); err != nil || len(rest) > 0 {
			n.t.Errorf("got %d bytes, %v; want a closed connection", len(rest), err)
		}
		synctest.Wait()
		n.log.mu.Lock()
		text := n.log.buf.String()
		n.log.mu.Unlock()
		if strings.Count(text, "acks=0") != 1 || !strings.Contains(text, "partition 7 of topic t") {
			n.t.Errorf("log:\n%s", text)
		}
		if p, _ := n.set.Partition(kafka.TopicPartition{Topic: "t", Partition: 0}); p.LogEnd() != 1 {
			n.t.Errorf("log end %d: the produce before was lost", p.LogEnd())
		}
	})
}

// TestAutoCreatedTopicIsReady: once Metadata tells of a topic that it has made, the topic takes records.
func TestAutoCreatedTopicIsReady(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		c := n.dial(n.broker)
		defer c.close()
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = 9, true
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr("t")
		req.Topics = append(req.Topics, topic)
		if resp := c.do(req).(*kmsg.MetadataResponse); resp.Topics[0].ErrorCode != 0 || len(resp.Topics[0].Partitions) != 1 {
			n.t.Fatalf("%+v", resp.Topics)
		}
		resp := c.do(n.produceRequest(9, -1, "t", 0, records(1, plain()))).(*kmsg.ProduceResponse)
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 {
			n.t.Errorf("produce: error %d", p.ErrorCode)
		}
	})
}

// TestWrongNodeTellsWhoLeads: who asks a node that does not lead learns who does, and where (KIP-951).
func TestWrongNodeTellsWhoLeads(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.join(2)
		n.createOn("t", 2)
		for _, version := range []int16{9, 10, 13} {
			resp := n.ask(n.produceRequest(version, -1, "t", 0, records(1, plain()))).(*kmsg.ProduceResponse)
			p := resp.Topics[0].Partitions[0]
			wantError(n.t, p.ErrorCode, kerr.NotLeaderForPartition)
			if version < 10 {
				continue
			}
			if p.CurrentLeader.LeaderID != 2 || len(resp.Brokers) != 1 || resp.Brokers[0].Host != "node2" || resp.Brokers[0].Port != 9192 {
				n.t.Errorf("Produce %d: leader %+v, brokers %+v", version, p.CurrentLeader, resp.Brokers)
			}
		}
		for _, version := range []int16{12, 16, 18} {
			resp := n.ask(n.fetchRequest(fetchOptions{version: version, epoch: finalEpoch}, "t", map[int32]int64{0: 0})).(*kmsg.FetchResponse)
			p := told(resp)[0]
			wantError(n.t, p.ErrorCode, kerr.NotLeaderForPartition)
			if version < 16 {
				continue
			}
			if p.CurrentLeader.LeaderID != 2 || len(resp.Brokers) != 1 || resp.Brokers[0].Host != "node2" || resp.Brokers[0].Port != 9192 {
				n.t.Errorf("Fetch %d: leader %+v, brokers %+v", version, p.CurrentLeader, resp.Brokers)
			}
		}
	})
}

// join registers another broker, which does not exist, and lives for one session.
func (n *testNode) join(id int32) {
	n.t.Helper()
	c := n.dial(n.control)
	defer c.close()
	req := kmsg.NewPtrBrokerRegistrationRequest()
	req.Version, req.BrokerID, req.ClusterID, req.IncarnationID = 4, id, n.api.o.ClusterID, kafka.NewUUID()
	req.LogDirs = [][16]byte{kafka.NewUUID()}
	req.PreviousBrokerEpoch = -1
	l := kmsg.NewBrokerRegistrationRequestListener()
	l.Name, l.Host, l.Port = "PLAINTEXT", "node2", 9192
	req.Listeners = append(req.Listeners, l)
	for _, f := range testFeatures() {
		feature := kmsg.NewBrokerRegistrationRequestFeature()
		feature.Name, feature.MinSupportedVersion, feature.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, feature)
	}
	resp := c.do(req).(*kmsg.BrokerRegistrationResponse)
	if resp.ErrorCode != 0 {
		n.t.Fatalf("register broker %d: error %d", id, resp.ErrorCode)
	}
	beat := kmsg.NewPtrBrokerHeartbeatRequest()
	beat.Version, beat.BrokerID, beat.BrokerEpoch, beat.CurrentMetadataOffset = 1, id, resp.BrokerEpoch, 1<<40
	if got := c.do(beat).(*kmsg.BrokerHeartbeatResponse); got.ErrorCode != 0 || got.IsFenced {
		n.t.Fatalf("heartbeat of broker %d: error %d, fenced %v", id, got.ErrorCode, got.IsFenced)
	}
}

// createOn makes a topic of one partition on one broker.
func (n *testNode) createOn(topic string, broker int32) {
	n.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version = 7
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, -1, -1
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Replicas = []int32{broker}
	t.ReplicaAssignment = append(t.ReplicaAssignment, a)
	req.Topics = append(req.Topics, t)
	if resp := n.ask(req).(*kmsg.CreateTopicsResponse); resp.Topics[0].ErrorCode != 0 {
		n.t.Fatalf("create %s: error %d %s", topic, resp.Topics[0].ErrorCode, *resp.Topics[0].ErrorMessage)
	}
	synctest.Wait()
}

// TestDeleteWhatWasAcked: records that acks=1 has answered can be deleted, although the disk does not have them yet; the
// answer waits for the disk.
func TestDeleteWhatWasAcked(t *testing.T) {
	gate := newSyncGate()
	inNode(t, nodeOptions{disk: gate.wrap}, func(n *testNode) {
		n.create("t", 1)
		gate.close()
		c := n.dial(n.broker)
		defer c.close()
		c.do(n.produceRequest(9, 1, "t", 0, records(3, plain())))
		for i, offset := range []int64{2, -1} {
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.Version, req.TimeoutMillis = 2, 5000
			topic := kmsg.NewDeleteRecordsRequestTopic()
			topic.Topic = "t"
			topic.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: offset}}
			req.Topics = append(req.Topics, topic)
			c.send(req)
			synctest.Wait()
			if i == 0 {
				gate.open()
			}
			answer := c.receive(req).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
			want := offset
			if offset < 0 {
				want = 3
			}
			if answer.ErrorCode != 0 || answer.LowWatermark != want {
				n.t.Errorf("delete before %d: error %d, low watermark %d", offset, answer.ErrorCode, answer.LowWatermark)
			}
		}
	})
}

// TestCreatedTopicIsReady: once CreateTopics or CreatePartitions has answered, the partitions take records.
func TestCreatedTopicIsReady(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		c := n.dial(n.broker)
		defer c.close()
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "t", 20, 1
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 7, 5000
		create.Topics = append(create.Topics, topic)
		c.do(create)
		more := kmsg.NewCreatePartitionsRequestTopic()
		more.Topic, more.Count = "t", 40
		grow := kmsg.NewPtrCreatePartitionsRequest()
		grow.Version, grow.TimeoutMillis = 3, 5000
		grow.Topics = append(grow.Topics, more)
		for _, last := range []int32{20, 40} {
			if last == 40 {
				c.do(grow)
			}
			for partition := range last {
				resp := c.do(n.produceRequest(9, -1, "t", partition, records(1, plain()))).(*kmsg.ProduceResponse)
				if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 {
					n.t.Fatalf("produce to partition %d of %d: error %d", partition, last, p.ErrorCode)
				}
			}
		}
	})
}
