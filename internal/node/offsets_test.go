package node

import (
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/vfs"
)

// commitOld has a node keep an offset of group g as clients of 0.8 ask for it, and returns the error code.
func commitOld(t *testing.T, n *Node, topic string, partition int32, offset int64) int16 {
	t.Helper()
	p := kmsg.OffsetCommitRequestTopicPartition{Partition: partition, Offset: offset, Metadata: new(string)}
	req := &kmsg.OffsetCommitRequest{Group: "g", Topics: []kmsg.OffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}}
	return ask[*kmsg.OffsetCommitResponse](t, n, "PLAINTEXT", req).Topics[0].Partitions[0].ErrorCode
}

// fetchOld reads it again.
func fetchOld(t *testing.T, n *Node, topic string, partition int32) (int64, int16) {
	t.Helper()
	req := &kmsg.OffsetFetchRequest{Group: "g", Topics: []kmsg.OffsetFetchRequestTopic{{Topic: topic, Partitions: []int32{partition}}}}
	p := ask[*kmsg.OffsetFetchResponse](t, n, "PLAINTEXT", req).Topics[0].Partitions[0]
	return p.Offset, p.ErrorCode
}

// TestOldOffsets: every broker keeps the offsets of clients of 0.8 in the one ZooKeeper tree, where those clients look for them
// too that speak ZooKeeper's protocol, and the loss of the node that has the tree takes none.
func TestOldOffsets(t *testing.T) {
	properties := clustered(t, 3, "zookeeper.listeners=127.0.0.1:0", "offsets.topic.replication.factor=3", "broker.session.timeout.ms=2000", "broker.heartbeat.interval.ms=200")
	nodes := startAll(t, properties, []*vfs.Mem{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()})
	running := map[int]*Node{0: nodes[0], 1: nodes[1], 2: nodes[2]}
	defer func() {
		for _, n := range running {
			stop(t, n)
		}
	}()
	for _, n := range nodes {
		awaitBrokers(t, n, 1, 2, 3)
	}
	createTopic(t, nodes[0], "t")
	for _, n := range nodes {
		awaitTopic(t, n, "t")
	}
	none := kerr.UnknownTopicOrPartition.Code
	if offset, code := fetchOld(t, nodes[1], "t", 0); offset != -1 || code != none {
		t.Errorf("before anybody has committed: %d, error %d", offset, code)
	}
	for i, n := range nodes {
		if code := commitOld(t, n, "t", 0, int64(10+i)); code != 0 {
			t.Fatalf("commit at node %d: error %d", i+1, code)
		}
		for j, other := range nodes {
			if offset, code := fetchOld(t, other, "t", 0); offset != int64(10+i) || code != 0 {
				t.Errorf("committed at node %d, fetched at node %d: %d, error %d", i+1, j+1, offset, code)
			}
		}
	}
	if code := commitOld(t, nodes[0], "none", 0, 1); code != none {
		t.Errorf("a topic that does not exist: error %d", code)
	}

	client := zkClient(t, nodes[2])
	data, stat, err := client.Get("/consumers/g/offsets/t/0")
	if err != nil || string(data) != "12" || stat.Version != 2 {
		t.Errorf("the node is %q, %+v, %v", data, stat, err)
	}
	if data, _, err := client.Get("/consumers/g/offsets"); err != nil || len(data) != 0 {
		t.Errorf("the node above has %q, %v", data, err)
	}
	if _, err := client.Create("/consumers/g/offsets/t/1", []byte("5"), 0, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for i, n := range nodes {
		if offset, code := fetchOld(t, n, "t", 1); offset != 5 || code != 0 {
			t.Errorf("written by ZooKeeper's protocol, fetched at node %d: %d, error %d", i+1, offset, code)
		}
	}
	client.Close()

	for i, n := range nodes {
		if serving, _ := n.tree.Serving(); serving {
			delete(running, i)
			stop(t, n)
			break
		}
	}
	if len(running) != 2 {
		t.Fatal("no node had the tree")
	}
	for i, n := range running {
		if offset, code := fetchOld(t, n, "t", 0); offset != 12 || code != 0 {
			t.Errorf("after the loss of the tree's node, fetched at node %d: %d, error %d", i+1, offset, code)
		}
		if code := commitOld(t, n, "t", 0, 12); code != 0 {
			t.Errorf("after the loss of the tree's node, commit at node %d: error %d", i+1, code)
		}
	}
}

// awaitTopic waits until a node knows a topic, which it hears of a moment later than the one that made it.
func awaitTopic(t *testing.T, n *Node, name string) {
	t.Helper()
	limit := time.After(time.Minute)
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for {
		for _, topic := range metadataOf(t, n, "PLAINTEXT").Topics {
			if *topic.Topic == name {
				return
			}
		}
		select {
		case <-pause.C:
		case <-limit:
			t.Fatalf("node %d does not know topic %s", n.cfg.ID, name)
		}
	}
}

func zkClient(t *testing.T, n *Node) *zk.Conn {
	t.Helper()
	client, events, err := zk.Connect([]string{n.address("ZOOKEEPER")}, 10*time.Second, zk.WithLogInfo(false))
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.State == zk.StateHasSession {
			break
		}
	}
	return client
}
