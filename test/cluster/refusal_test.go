package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/test/harness"
)

// TestStrangers: nodes that do not belong to the cluster, or say that they are somebody who is there, end and say why; the
// cluster does not notice. A node whose advertised address leads nowhere says so, and a move to it that was to be throttled does
// not begin, nor leaves throttles with those that could be reached.
func TestStrangers(t *testing.T) {
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	controllers := "controller.quorum.bootstrap.servers=" + address(1) + ":9093"

	foreign := c.add(t, 4, controllers, "cluster.id=AAAAAAAAAAAAAAAAAAAAAQ")
	foreign.broker = false
	foreign.spawn(t)
	foreign.gives(t, "cluster.id is AAAAAAAAAAAAAAAAAAAAAQ")

	double := c.add(t, 5, controllers, "node.id=2", "process.roles=broker", "initial.broker.registration.timeout.ms=10000")
	double.broker = false
	double.spawn(t)
	double.gives(t, "node.id")

	twin := c.add(t, 7, controllers, "node.id=2") // on a copy of its disk
	twin.broker = false
	c.nodes[2].halt(t) // files come and go while it runs
	err := os.CopyFS(c.data(7), os.DirFS(c.data(2)))
	c.nodes[2].signal(t, syscall.SIGCONT)
	if err != nil {
		t.Fatal(err)
	}
	twin.spawn(t)
	twin.gives(t, "is a copy of its disk")

	unreachable := c.add(t, 6, controllers, "process.roles=broker", "advertised.listeners=PLAINTEXT://10.77.0.99:9092")
	unreachable.broker = false
	unreachable.spawn(t)
	unreachable.ready(t)
	unreachable.logged(t, "clients are told an address that this node cannot reach itself")
	plan := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(plan, []byte(`{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,6]}]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := c.tool(t, "reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "100000"); err == nil {
		t.Errorf("the broker that nobody reaches was throttled:\n%s", out)
	}
	unreachable.stop(t)
	c.noThrottles(t, "orders")

	l.await(t, 200)
	l.check(t, c)
}

// TestImpossible: what the cluster cannot do is refused as a whole.
func TestImpossible(t *testing.T) {
	c := start(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	admin := kadm.NewClient(c.client(t))
	if _, err := admin.CreateTopic(ctx, 1, 4, nil, "too-many-copies"); !errors.Is(err, kerr.InvalidReplicationFactor) {
		t.Errorf("four replicas on three brokers: %v", err)
	}
	if topics, err := admin.ListTopics(ctx); err != nil || topics.Has("too-many-copies") {
		t.Errorf("the topic that was refused: %v %v", topics.Names(), err)
	}
	c.create(t, "orders", 2, 2, nil)
	before := c.topic(t, "orders")
	var moves kadm.AlterPartitionAssignmentsReq
	moves.Assign("orders", 0, []int32{1, 9})
	answers, err := admin.AlterPartitionAssignments(ctx, moves)
	if err != nil {
		t.Fatal(err)
	}
	if err := answers.Error(); !errors.Is(err, kerr.InvalidReplicaAssignment) {
		t.Errorf("a reassignment to broker 9: %v", err)
	}
	if listed, err := admin.ListPartitionReassignments(ctx, kadm.TopicsSet{}); err != nil || len(listed) != 0 {
		t.Errorf("reassignments %v %v", listed, err)
	}
	plan := filepath.Join(t.TempDir(), "plan.json")
	text := `{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[1,3]},{"topic":"orders","partition":0,"replicas":[1,9]}]}`
	if err := os.WriteFile(plan, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := c.tool(t, "reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "100000"); err == nil || !strings.Contains(err.Error(), "9") {
		t.Errorf("a plan with broker 9: %v", err)
	}
	after := c.topic(t, "orders")
	for id, p := range before.Partitions {
		if now := after.Partitions[id]; len(now.Replicas) != len(p.Replicas) || now.Replicas[0] != p.Replicas[0] || now.Replicas[1] != p.Replicas[1] {
			t.Errorf("partition %d was on %v and is on %v", id, p.Replicas, now.Replicas)
		}
	}
	c.noThrottles(t, "orders")
}

// noThrottles looks for throttles that somebody has left behind. The broker that is asked may hear a moment later that one was taken away.
func (c *cluster) noThrottles(t *testing.T, topic string) {
	t.Helper()
	for _, what := range [][]string{{"--entity-type", "topics", "--entity-name", topic}, {"--entity-type", "brokers"}} {
		harness.Eventually(t, time.Minute, "no throttle is left", func() error {
			out, err := c.tool(t, "configs", append([]string{"--describe"}, what...)...)
			if err == nil && strings.Contains(out, "throttled") {
				err = errors.New(out)
			}
			return err
		})
	}
}
