package cluster

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// quick is a session that a test can wait for.
const quick = "broker.session.timeout.ms=3000"

// TestZombieLeader: a leader that is paused for longer than its session wakes up to a world that has gone on. What clients get
// acknowledged before, meanwhile and after is there (rows 3, 17).
func TestZombieLeader(t *testing.T) {
	c := start(t, 3, quick, "broker.heartbeat.interval.ms=500")
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 200)
	leader := c.leader(t, "orders", 0)
	c.nodes[leader].signal(t, syscall.SIGSTOP)
	harness.Eventually(t, time.Minute, "another leads", func() error {
		d, err := c.describeBut(leader, "orders")
		if err != nil {
			return err
		}
		if now := int(d.Partitions[0].Leader); now == leader || now < 0 {
			return fmt.Errorf("leader %d", now)
		}
		return nil
	})
	l.await(t, 300)
	c.nodes[leader].signal(t, syscall.SIGCONT)
	l.await(t, 300)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// TestIsolatedLeader: a leader that its clients reach and the other nodes do not can commit nothing: with acks=all nobody is
// told what the others will never have (rows 3, 9, 11).
func TestIsolatedLeader(t *testing.T) {
	c := start(t, 3, quick, "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=2000")
	two := "2"
	c.create(t, "orders", 3, 3, map[string]*string{"min.insync.replicas": &two})
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 200)
	leader := c.leader(t, "orders", 0)
	c.isolate(t, leader)
	l.await(t, 300)
	c.heal(t)
	l.await(t, 300)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// TestOneWayCut: a node that hears and is not heard, and one that is heard and hears nothing.
func TestOneWayCut(t *testing.T) {
	c := start(t, 3, quick, "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=2000")
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	for _, deaf := range []bool{true, false} {
		l.await(t, 200)
		victim := c.leader(t, "orders", 1)
		for _, other := range c.ids() {
			switch {
			case other == victim:
			case deaf:
				cut(t, other, victim)
			default:
				cut(t, victim, other)
			}
		}
		l.await(t, 300)
		c.heal(t)
		c.inSync(t, "orders", 3)
	}
	l.await(t, 200)
	l.check(t, c)
}

// TestTooFewInSync: with too few replicas producers are refused at once and not left to wait, and nothing of theirs is there.
func TestTooFewInSync(t *testing.T) {
	c := start(t, 3)
	two := "2"
	c.create(t, "orders", 1, 2, map[string]*string{"min.insync.replicas": &two})
	c.inSync(t, "orders", 2)
	d := c.topic(t, "orders")
	leader := int(d.Partitions[0].Leader)
	for _, id := range d.Partitions[0].Replicas {
		if int(id) != leader {
			c.nodes[int(id)].kill()
		}
	}
	harness.Eventually(t, time.Minute, "the leader has too few replicas in sync", func() error { // others may know before the one that refuses does
		if n := metric(t, leader, "moldau_partitions_under_min_isr"); n != "1" {
			return fmt.Errorf("it counts %q such partitions", n)
		}
		return nil
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cl := c.client(t, kgo.DefaultProduceTopic("orders"), kgo.RecordRetries(0), kgo.DisableIdempotentWrite())
	began := time.Now()
	err := cl.ProduceSync(ctx, kgo.StringRecord("refused")).FirstErr()
	if !errors.Is(err, kerr.NotEnoughReplicas) {
		t.Fatalf("answered %v", err)
	}
	t.Logf("refused after %v", time.Since(began).Round(time.Millisecond))
	for _, id := range d.Partitions[0].Replicas {
		if int(id) != leader {
			c.nodes[int(id)].restart(t)
		}
	}
	c.inSync(t, "orders", 2)
	l := c.produce(t, "orders", 1)
	l.await(t, 50)
	l.check(t, c)
}

// TestControllerCutOff: the active controller loses the other voters: another takes over, and the one that is cut off changes
// nothing any more.
func TestControllerCutOff(t *testing.T) {
	c := start(t, 3, quick, "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=2000")
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	active := c.controller(t)
	c.isolate(t, active)
	l.await(t, 300)
	harness.Eventually(t, time.Minute, "a topic is made by another controller", func() error {
		return c.createBut(active, "made-meanwhile")
	})
	c.heal(t)
	c.inSync(t, "orders", 3)
	c.inSync(t, "made-meanwhile", 2)
	l.await(t, 200)
	l.check(t, c)
}

// TestConnectionsReset: connections of clients and between nodes are reset, again and again: nothing is lost or doubled by those
// who do not know whether they were heard.
func TestConnectionsReset(t *testing.T) {
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	for range 2 {
		for _, id := range c.ids() {
			l.await(t, 100)
			c.reset(t, id)
		}
	}
	l.await(t, 200)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}
