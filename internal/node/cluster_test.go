package node

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/quorum"
	"moldau/internal/vfs"
	"moldau/test/harness"
)

// clustered is the configuration of n nodes that are told who the controllers are.
func clustered(t *testing.T, n int, extra ...string) []string {
	ports := harness.FreePorts(t, 2*n)
	var controllers, out []string
	for i := range n {
		controllers = append(controllers, fmt.Sprintf("127.0.0.1:%d", ports[2*i+1]))
	}
	for i := range n {
		out = append(out, strings.Join(append([]string{
			fmt.Sprintf("node.id=%d", i+1),
			fmt.Sprintf("listeners=PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", ports[2*i], ports[2*i+1]),
			"controller.quorum.bootstrap.servers=" + strings.Join(controllers, ","),
			"http.listeners=http://127.0.0.1:0",
			"log.dirs=/disk",
		}, extra...), "\n"))
	}
	return out
}

// startAll starts nodes at the same time.
func startAll(t *testing.T, properties []string, disks []*vfs.Mem) []*Node {
	t.Helper()
	nodes := make([]*Node, len(properties))
	var wg sync.WaitGroup
	for i, p := range properties {
		n, err := Build(options(t, p, disks[i]))
		if err != nil {
			t.Fatal(err)
		}
		nodes[i] = n
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		wg.Go(func() {
			defer cancel()
			if err := n.Start(ctx); err != nil {
				t.Errorf("node %d: %v", i+1, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return nodes
}

func stopAll(t *testing.T, nodes []*Node) {
	var wg sync.WaitGroup
	for _, n := range nodes {
		wg.Go(func() { stop(t, n) })
	}
	wg.Wait()
}

// awaitBrokers waits until a node tells clients of these brokers: of the others it hears a moment later than of itself.
func awaitBrokers(t *testing.T, n *Node, want ...int32) *kmsg.MetadataResponse {
	t.Helper()
	limit := time.After(time.Minute)
	pause := time.NewTicker(10 * time.Millisecond)
	defer pause.Stop()
	for {
		m := metadataOf(t, n, "PLAINTEXT")
		var ids []int32
		for _, b := range m.Brokers {
			ids = append(ids, b.NodeID)
		}
		if slices.Equal(ids, want) {
			return m
		}
		select {
		case <-pause.C:
		case <-limit:
			t.Fatalf("node %d knows the brokers %v, not %v", n.cfg.ID, ids, want)
		}
	}
}

// TestThreeNodes: nodes that are told who the controllers are become one cluster, which is the same after a restart of all.
func TestThreeNodes(t *testing.T) {
	properties := clustered(t, 3, "controlled.shutdown.enable=false")
	disks := []*vfs.Mem{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()}
	var clusterID string
	for range 2 {
		nodes := startAll(t, properties, disks)
		for _, n := range nodes {
			m := awaitBrokers(t, n, 1, 2, 3)
			if clusterID == "" {
				clusterID = *m.ClusterID
			}
			if *m.ClusterID != clusterID {
				t.Errorf("node %d is of cluster %s, others of %s", n.cfg.ID, *m.ClusterID, clusterID)
			}
		}
		stopAll(t, nodes)
	}
}

// needLoopback skips a test whose nodes stand for several hosts where only Linux has an address for each.
func needLoopback(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("this machine has one address of loopback only: ", err)
	}
	_ = ln.Close()
}

// TestFilesFromBeforeKRaft: three files that differ in their listeners only, as those of Kafka 1.1 may, make a cluster.
func TestFilesFromBeforeKRaft(t *testing.T) {
	needLoopback(t)
	ports := harness.FreePorts(t, 3)
	var properties []string
	for i := range 3 {
		host := fmt.Sprintf("127.0.0.%d", i+1)
		properties = append(properties, fmt.Sprintf(
			"listeners=PLAINTEXT://%s:%d,CONTROLLER://%s:%d\ncontroller.listener.names=CONTROLLER\n"+ // not the usual port: it may be taken
				"zookeeper.connect=127.0.0.1:%d,127.0.0.2:%d,127.0.0.3:%d\nzookeeper.connection.timeout.ms=6000\nhttp.listeners=http://127.0.0.1:0\nlog.dirs=/disk\n",
			host, ports[0], host, ports[1], ports[2], ports[2], ports[2]))
	}
	nodes := startAll(t, properties, []*vfs.Mem{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()})
	defer stopAll(t, nodes)
	for i, n := range nodes {
		awaitBrokers(t, n, 1001, 1002, 1003)
		if got, want := n.address("ZOOKEEPER"), fmt.Sprintf("127.0.0.%d:%d", i+1, ports[2]); got != want {
			t.Errorf("ZooKeeper's protocol at %s, want %s", got, want)
		}
	}
}

// TestRoles: a controller, and brokers that are none.
func TestRoles(t *testing.T) {
	ports := harness.FreePorts(t, 3)
	bootstrap := fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d\nhttp.listeners=http://127.0.0.1:0\nlog.dirs=/disk\n", ports[0])
	properties := []string{
		fmt.Sprintf("process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:%d\n", ports[0]) + bootstrap,
		fmt.Sprintf("process.roles=broker\nnode.id=2\nlisteners=PLAINTEXT://127.0.0.1:%d\n", ports[1]) + bootstrap,
		fmt.Sprintf("process.roles=broker\nnode.id=3\nlisteners=PLAINTEXT://127.0.0.1:%d\n", ports[2]) + bootstrap,
	}
	nodes := startAll(t, properties, []*vfs.Mem{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()})
	defer stopAll(t, nodes)
	awaitBrokers(t, nodes[1], 2, 3)
	awaitBrokers(t, nodes[2], 2, 3)
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "orders", 4, 2
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10000
	req.Topics = append(req.Topics, topic)
	if resp := ask[*kmsg.CreateTopicsResponse](t, nodes[1], "PLAINTEXT", req); resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create: error %d", resp.Topics[0].ErrorCode)
	}
}

// TestAutoCreatedShape: a topic that a client's use creates has the numbers of the broker that was used, where that was given some, else
// the controller's.
func TestAutoCreatedShape(t *testing.T) {
	ports := harness.FreePorts(t, 3)
	all := fmt.Sprintf("controller.quorum.bootstrap.servers=127.0.0.1:%d\nhttp.listeners=http://127.0.0.1:0\nlog.dirs=/disk\n", ports[0])
	nodes := startAll(t, []string{
		fmt.Sprintf("process.roles=controller\nnode.id=1\nlisteners=CONTROLLER://127.0.0.1:%d\nnum.partitions=3\ndefault.replication.factor=2\n", ports[0]) + all,
		fmt.Sprintf("process.roles=broker\nnode.id=2\nlisteners=PLAINTEXT://127.0.0.1:%d\nnum.partitions=5\ndefault.replication.factor=1\n", ports[1]) + all,
		fmt.Sprintf("process.roles=broker\nnode.id=3\nlisteners=PLAINTEXT://127.0.0.1:%d\n", ports[2]) + all,
	}, []*vfs.Mem{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()})
	defer stopAll(t, nodes)
	for _, c := range []struct {
		broker               *Node
		topic                string
		partitions, replicas int
	}{{nodes[1], "own", 5, 1}, {nodes[2], "theirs", 3, 2}} {
		awaitBrokers(t, c.broker, 2, 3)
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = &c.topic
		req := kmsg.NewPtrMetadataRequest()
		req.Version, req.AllowAutoTopicCreation = 12, true
		req.Topics = append(req.Topics, topic)
		ask[*kmsg.MetadataResponse](t, c.broker, "PLAINTEXT", req)
		req.AllowAutoTopicCreation = false
		await(t, c.topic+" is there", func() bool {
			return ask[*kmsg.MetadataResponse](t, c.broker, "PLAINTEXT", req).Topics[0].ErrorCode == 0
		})
		partitions := ask[*kmsg.MetadataResponse](t, c.broker, "PLAINTEXT", req).Topics[0].Partitions
		if len(partitions) != c.partitions || len(partitions[0].Replicas) != c.replicas {
			t.Errorf("%s: %d partitions of %d replicas, want %d of %d", c.topic, len(partitions), len(partitions[0].Replicas), c.partitions, c.replicas)
		}
	}
}

// TestLostVote: a voter that has lost what it promised to the others comes back under a new directory id: it serves what it has, and
// has no vote until somebody gives it one.
func TestLostVote(t *testing.T) {
	const folder = "/disk/__cluster_metadata-0"
	properties := clustered(t, 3)
	disks := []*vfs.Mem{vfs.NewMem(), vfs.NewMem(), vfs.NewMem()}
	nodes := startAll(t, properties, disks)
	defer func() { stopAll(t, nodes) }()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = "alone", -1, -1
	only := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	only.Replicas = []int32{3}
	topic.ReplicaAssignment = append(topic.ReplicaAssignment, only)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10000
	req.Topics = append(req.Topics, topic)
	awaitBrokers(t, nodes[0], 1, 2, 3)
	if resp := ask[*kmsg.CreateTopicsResponse](t, nodes[0], "PLAINTEXT", req); resp.Topics[0].ErrorCode != 0 {
		t.Fatalf("create: error %d", resp.Topics[0].ErrorCode)
	}
	for _, lose := range []func(disk *vfs.Mem) error{
		func(disk *vfs.Mem) error { return disk.Remove(folder + "/quorum-state") },
		func(disk *vfs.Mem) error { return disk.RemoveAll(folder) },
	} {
		stop(t, nodes[2])
		if err := lose(disks[2]); err != nil {
			t.Fatal(err)
		}
		nodes[2] = startAll(t, properties[2:], disks[2:])[0]
		awaitBrokers(t, nodes[0], 1, 2, 3)
		// who is the node whose controller is active, which cannot be node 3, and what it knows.
		who := func() (leader *Node, s quorum.Status) {
			await(t, "somebody leads who is not node 3", func() bool {
				v, _, ok := nodes[0].quorum.Leader()
				if ok = ok && v.ID < 3; ok {
					leader = nodes[v.ID-1]
					s = leader.quorum.Status()
				}
				return ok
			})
			return leader, s
		}
		observer := nodes[2].quorum.Status().Self.DirID
		var voter kafka.DirID
		await(t, "node 3 is an observer of another name than the voter", func() bool {
			_, s := who()
			i := slices.IndexFunc(s.VoterSet, func(v quorum.Voter) bool { return v.ID == 3 })
			if i >= 0 {
				voter = s.VoterSet[i].DirID
			}
			return i >= 0 && voter != observer && slices.ContainsFunc(s.Observers, func(r quorum.Replica) bool { return r.ID == 3 && r.DirID == observer })
		})
		await(t, "node 3 leads the partition that it alone has", func() bool {
			return slices.ContainsFunc(metadataOf(t, nodes[0], "PLAINTEXT").Topics, func(topic kmsg.MetadataResponseTopic) bool {
				return *topic.Topic == "alone" && topic.Partitions[0].Leader == 3
			})
		})
		// It gets its vote back, to lose it again.
		votes := func(dir kafka.DirID) bool {
			_, s := who()
			return slices.ContainsFunc(s.VoterSet, func(v quorum.Voter) bool { return v.ID == 3 && v.DirID == dir })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		await(t, "the name that it had has no vote", func() bool { // another may come to lead meanwhile
			leader, _ := who()
			return leader.quorum.RemoveVoter(ctx, quorum.Voter{ID: 3, DirID: voter}) == nil || !votes(voter)
		})
		await(t, "its new name has one", func() bool {
			leader, _ := who()
			return leader.quorum.AddVoter(ctx, quorum.Voter{ID: 3, DirID: observer, Endpoints: nodes[2].controllerEndpoints()}) == nil || votes(observer)
		})
	}
}
