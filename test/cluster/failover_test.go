package cluster

import "testing"

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
