package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// TestReassignUnderLoad: partitions move to a fourth broker under load and a throttle; nothing is lost, and no throttle and no
// reassignment is left.
func TestReassignUnderLoad(t *testing.T) {
	c := start(t, 3)
	joined := c.join(t, 4)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 500)
	dir := t.TempDir()
	plan := filepath.Join(dir, "plan.json")
	var parts []string
	for p, replicas := range []string{"4,1,2", "2,4,3", "3,1,4"} {
		parts = append(parts, fmt.Sprintf(`{"topic":"orders","partition":%d,"replicas":[%s]}`, p, replicas))
	}
	if err := os.WriteFile(plan, []byte(`{"version":1,"partitions":[`+strings.Join(parts, ",")+`]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log(c.must(t, "reassign-partitions", "--execute", "--reassignment-json-file", plan, "--throttle", "200000", "--wait"))
	l.await(t, 300)
	c.inSync(t, "orders", 3)
	c.lies(t, "orders", 4, true)
	c.noThrottles(t, "orders")
	if out := c.must(t, "reassign-partitions", "--list"); strings.Contains(out, "orders") {
		t.Errorf("still listed:\n%s", out)
	}
	joined.kill()
	l.await(t, 300)
	joined.restart(t)
	l.check(t, c)
}

// TestDrain: a broker that is drained has nothing left, and can go.
func TestDrain(t *testing.T) {
	thorough(t)
	c := start(t, 3)
	c.join(t, 4)
	c.create(t, "orders", 6, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 6)
	l.await(t, 300)
	t.Log(c.must(t, "drain", "4"))
	c.lies(t, "orders", 4, false)
	c.nodes[4].stop(t)
	c.must(t, "cluster", "unregister", "--id", "4")
	delete(c.nodes, 4)
	l.await(t, 300)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// lies waits until a node has a replica of every partition of a topic, or of none, as far as any broker knows: it may hear a moment later
// than the tool that moved them.
func (c *cluster) lies(t *testing.T, topic string, id int32, there bool) {
	t.Helper()
	harness.Eventually(t, time.Minute, fmt.Sprintf("replicas of %s are on node %d: %t", topic, id, there), func() error {
		d, err := c.describe(topic)
		if err != nil {
			return err
		}
		for _, p := range d.Partitions.Sorted() {
			if slices.Contains(p.Replicas, id) != there {
				return fmt.Errorf("partition %d is on %v", p.Partition, p.Replicas)
			}
		}
		return nil
	})
}

// join starts a broker that comes to a cluster that is there, and waits until it serves.
func (c *cluster) join(t *testing.T, id int, properties ...string) *process {
	t.Helper()
	p := c.add(t, id, append([]string{"process.roles=broker", "controller.quorum.bootstrap.servers=" + address(1) + ":9093," + address(2) + ":9093"}, properties...)...)
	p.spawn(t)
	p.ready(t)
	return p
}

// TestControlledShutdown: leaders leave a node before it ends: a producer that sends a record twice at most, the second time to the one
// that it is told leads now, needs no more (row 20).
func TestControlledShutdown(t *testing.T) {
	c := start(t, 3)
	partitions := int32(scale(6, 600))
	c.create(t, "orders", partitions, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", partitions, kgo.RecordRetries(1))
	for _, id := range c.ids() {
		l.await(t, 200)
		l.longestGap()
		began := time.Now()
		c.nodes[id].stop(t)
		took := time.Since(began)
		c.nodes[id].logged(t, "Starting controlled shutdown")
		var d kadm.TopicDetail
		harness.Eventually(t, time.Minute, "another broker tells of the topic", func() (err error) {
			d, err = c.describeBut(id, "orders")
			return err
		})
		for _, p := range d.Partitions.Sorted() {
			if int(p.Leader) == id {
				t.Errorf("partition %d is led by node %d, which has stopped", p.Partition, id)
			}
		}
		l.await(t, 200)
		t.Logf("node %d stopped within %v, longest gap %v", id, took.Round(time.Millisecond), l.longestGap().Round(time.Millisecond))
		c.nodes[id].restart(t)
		c.inSync(t, "orders", 3)
	}
	l.check(t, c)
	if l.failed > 0 {
		t.Errorf("%d records failed: %v", l.failed, l.why)
	}
}

// TestTopicMadeAgain: a topic is deleted and made again while somebody produces to it and nodes are restarted: the new one has
// only what was acknowledged after it was made (row 22).
func TestTopicMadeAgain(t *testing.T) {
	thorough(t)
	c := start(t, 3)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for round := range 5 {
		c.create(t, "orders", 3, 3, nil)
		c.inSync(t, "orders", 3)
		l := c.produce(t, "orders", 3)
		l.await(t, 100)
		if round%2 == 1 {
			victim := c.leader(t, "orders", 0)
			c.nodes[victim].kill()
			l.await(t, 100)
			c.nodes[victim].restart(t)
		}
		c.inSync(t, "orders", 3)
		l.check(t, c)
		harness.Eventually(t, time.Minute, "the topic is gone", func() error { return c.remove(ctx, "orders") })
	}
}
