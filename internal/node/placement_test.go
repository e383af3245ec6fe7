package node

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/replica"
	"moldau/internal/vfs"
	"moldau/test/harness"
)

// TestControllerLearnsPlaces: of a broker with several directories the metadata come to say in which each replica lies,
// also one that was there before the controller knew (KIP-858).
func TestControllerLearnsPlaces(t *testing.T) {
	disk := vfs.NewMem()
	n := start(t, options(t, strings.Replace(base, "log.dirs=/disk", "log.dirs=/disk,/more", 1), disk))
	defer stop(t, n)
	var dirs []kafka.DirID
	for _, d := range n.store.Directories() {
		dirs = append(dirs, d.ID())
	}
	createTopic(t, n, "orders")
	told := func() (told []kafka.DirID) {
		topic, _ := n.loader.Image().Topics.ByName("orders")
		for partition, reg := range topic.Partitions.All() {
			p, err := n.replicas.Partition(kafka.TopicPartition{Topic: "orders", Partition: partition})
			if err != nil {
				t.Fatal(err)
			}
			if dir := reg.Directory(1); slices.Contains(dirs, dir) && p.Dir() != nil && p.Dir().ID() == dir {
				told = append(told, dir)
			}
		}
		return told
	}
	await(t, "the metadata know of both places", func() bool { return len(told()) == 2 })
	before := told()
	if before[0] == before[1] {
		t.Error("both replicas are in one directory")
	}
	// And of one that moves to the other directory.
	to := n.store.Directories()[slices.Index(dirs, before[1])]
	if err := <-n.replicas.Move(kafka.TopicPartition{Topic: "orders"}, to); err != nil {
		t.Fatal(err)
	}
	await(t, "the metadata know where it has moved", func() bool { return slices.Equal(told(), []kafka.DirID{before[1], before[1]}) })
}

// await waits until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	limit := time.After(time.Minute)
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for !so() {
		select {
		case <-pause.C:
		case <-limit:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// TestReplacedDiskIsFilledAgain: a broker that comes back with an empty disk is not its old self (KAFKA-14139): it copies its
// replicas anew, and only then is in sync.
func TestReplacedDiskIsFilledAgain(t *testing.T) {
	ports := harness.FreePorts(t, 3)
	bootstrap := fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d\nhttp.listeners=http://127.0.0.1:0\nlog.dirs=/disk\n", ports[0])
	properties := []string{
		fmt.Sprintf("process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:%d\n", ports[0]) + bootstrap,
		fmt.Sprintf("process.roles=broker\nnode.id=2\nlisteners=PLAINTEXT://127.0.0.1:%d\n", ports[1]) + bootstrap,
		fmt.Sprintf("process.roles=broker\nnode.id=3\nlisteners=PLAINTEXT://127.0.0.1:%d\n", ports[2]) + bootstrap,
	}
	nodes := startAll(t, properties, []*vfs.Mem{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()})
	defer func() { stopAll(t, nodes) }()
	awaitBrokers(t, nodes[1], 2, 3)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 4, 2
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10000
	req.Topics = append(req.Topics, topic)
	if resp := ask[*kmsg.CreateTopicsResponse](t, nodes[1], "PLAINTEXT", req); resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create: error %d", resp.Topics[0].ErrorCode)
	}
	// inSync waits until every partition is in sync on both brokers and has so many records there.
	inSync := func(records kafka.Offset) {
		t.Helper()
		limit := time.After(time.Minute)
		pause := time.NewTicker(20 * time.Millisecond)
		defer pause.Stop()
		for {
			good := 0
			orders, ok := nodes[1].loader.Image().Topics.ByName("orders")
			for i := range int32(4) {
				tp := kafka.TopicPartition{Topic: "orders", Partition: i}
				a, err1 := nodes[1].replicas.Partition(tp)
				b, err2 := nodes[2].replicas.Partition(tp)
				if !ok || err1 != nil || err2 != nil {
					continue
				}
				if reg, _ := orders.Partitions.Get(i); len(reg.ISR) == 2 && a.LogEnd() == records && b.LogEnd() == records {
					good++
				}
			}
			if good == 4 {
				return
			}
			select {
			case <-pause.C:
			case <-limit:
				t.Fatalf("%d of 4 partitions are in sync with %d records", good, records)
			}
		}
	}
	inSync(0)
	for i := range int32(4) {
		tp := kafka.TopicPartition{Topic: "orders", Partition: i}
		for at, taken := 0, false; !taken; at++ { // by its leader alone, once it leads
			p, err := nodes[1+at%2].replicas.Partition(tp)
			if err != nil {
				t.Fatal(err)
			}
			<-p.Opened()
			b := batch.NewBuilder(batch.BuildOptions{LeaderEpoch: kafka.NoEpoch})
			for offset := range int64(100) {
				b.Add(batch.Record{Offset: offset, Timestamp: 1000, Value: []byte("value")})
			}
			_, _, err = p.Append(b.Build(), replica.AppendOptions{Acks: kafka.AcksLeader, LeaderEpoch: kafka.NoEpoch})
			taken = err == nil
		}
	}
	inSync(100)
	stop(t, nodes[2])
	fresh := startAll(t, properties[2:], []*vfs.Mem{vfs.NewMem()})
	nodes[2] = fresh[0]
	inSync(100)
}

// TestDeleteTopicEnable: delete.topic.enable=false is obeyed.
func TestDeleteTopicEnable(t *testing.T) {
	n := start(t, options(t, base+"delete.topic.enable=false\n", vfs.NewMem()))
	defer stop(t, n)
	createTopic(t, n, "orders")
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis, req.TopicNames = 5, 10000, []string{"orders"}
	resp := ask[*kmsg.DeleteTopicsResponse](t, n, "PLAINTEXT", req)
	if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != kerr.TopicDeletionDisabled.Code {
		t.Errorf("%+v", resp.Topics)
	}
}
