package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestLeaderKilled: kill -9 of a leader costs no acknowledged record, and another leads soon.
func TestLeaderKilled(t *testing.T) {
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 300)
	leader := c.leader(t, "orders", 0)
	c.nodes[leader].kill()
	l.await(t, 300)
	c.nodes[leader].restart(t)
	c.inSync(t, "orders", 3)
	l.await(t, 300)
	l.check(t, c)
}

// TestControllerKilled: the same for the node whose controller is active.
func TestControllerKilled(t *testing.T) {
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 300)
	active := c.controller(t)
	c.nodes[active].kill()
	l.await(t, 300)
	if now := c.controller(t); now == active {
		t.Errorf("node %d is dead and still the active controller", now)
	}
	c.create(t, "made-by-the-next", 1, 2, nil)
	c.nodes[active].restart(t)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// TestAllKilled: kill -9 of every node at once.
func TestAllKilled(t *testing.T) {
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	for range 3 {
		l.await(t, 200)
		for _, id := range c.ids() {
			c.nodes[id].kill()
		}
		for _, id := range c.ids() {
			c.nodes[id].spawn(t)
		}
		for _, id := range c.ids() {
			c.nodes[id].ready(t)
		}
	}
	l.await(t, 200)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// TestRollingRestart: nodes that are stopped and started one after the other are no event for a producer.
func TestRollingRestart(t *testing.T) {
	c := start(t, 3)
	c.create(t, "orders", 6, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 6)
	for _, id := range c.ids() {
		l.await(t, 200)
		c.nodes[id].stop(t)
		c.nodes[id].restart(t)
		c.inSync(t, "orders", 3)
	}
	l.await(t, 200)
	l.check(t, c)
}

// TestQuickFailovers: leaders die one after the other, each before its predecessor is back: everybody cuts his log where it parts
// from the next leader's and no earlier, and in the end the replicas are the same byte for byte (rows 1, 2).
func TestQuickFailovers(t *testing.T) {
	c := start(t, 5) // the quorum can spare two
	c.create(t, "orders", 1, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 1)
	for range scale(2, 10) {
		l.await(t, 100)
		var dead []int
		for range 2 {
			leader := c.leader(t, "orders", 0)
			c.nodes[leader].kill()
			dead = append(dead, leader)
			harness.Eventually(t, time.Minute, "another leads", func() error {
				d, err := c.describe("orders")
				if now := int(d.Partitions[0].Leader); err == nil && (now < 0 || slices.Contains(dead, now)) {
					err = fmt.Errorf("leader %d", now)
				}
				return err
			})
			l.await(t, 20)
		}
		for _, id := range dead {
			c.nodes[id].restart(t)
		}
		c.inSync(t, "orders", 3)
	}
	l.check(t, c)
	replicas := c.topic(t, "orders").Partitions[0].Replicas
	for _, id := range c.ids() {
		c.nodes[id].kill()
	}
	first := c.records(t, int(replicas[0]), "orders-0")
	for _, id := range replicas[1:] {
		if other := c.records(t, int(id), "orders-0"); !bytes.Equal(other, first) {
			t.Errorf("the replica of node %d has %d bytes, that of node %d has %d, and they differ", id, len(other), replicas[0], len(first))
		}
	}
}

// records are the bytes of a partition's segments on a node that does not run.
func (c *cluster) records(t *testing.T, id int, partition string) (all []byte) {
	t.Helper()
	segments, err := filepath.Glob(filepath.Join(c.data(id), partition, "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("node %d has no %s: %v", id, partition, err)
	}
	slices.Sort(segments)
	for _, segment := range segments {
		text, err := os.ReadFile(segment)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, text...)
	}
	return all
}
