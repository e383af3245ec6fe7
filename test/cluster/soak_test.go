package cluster

import (
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// TestSoak: harm after harm, chosen by chance, for as long as MOLDAU_SOAK says ("3h"); by hand only:
//
//	MOLDAU_SOAK=3h go test ./test/cluster -run Soak -v -timeout 4h
func TestSoak(t *testing.T) {
	text := os.Getenv("MOLDAU_SOAK")
	if text == "" {
		t.Skip("set MOLDAU_SOAK to how long it may take, for example 3h")
	}
	span, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("MOLDAU_SOAK: %v", err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	c := start(t, 3, append([]string{quick, "broker.heartbeat.interval.ms=500", "replica.lag.time.max.ms=2000", "log.segment.bytes=1048576"}, groupSettings...)...)
	harms := []struct {
		name string
		do   func(victim int)
	}{
		{"kill", func(victim int) { c.nodes[victim].kill() }},
		{"stop", func(victim int) { c.nodes[victim].stop(t) }},
		{"pause", func(victim int) { c.nodes[victim].signal(t, syscall.SIGSTOP) }},
		{"isolate", func(victim int) { c.isolate(t, victim) }},
		{"deafen", func(victim int) { cut(t, victim%3+1, victim) }},
		{"reset", func(victim int) { c.reset(t, victim) }},
	}
	for round, began := 0, time.Now(); time.Since(began) < span; round++ {
		// A new topic each round, so that comparing stays cheap. Of a name of its own: a client that hears of an earlier one of
		// the name, from a node that was away, never uses the later one.
		topic := "orders-" + strconv.Itoa(round)
		c.create(t, topic, 6, 3, nil)
		c.inSync(t, topic, 3)
		l := c.produce(t, topic, 6)
		g := c.team("audit", topic, kgo.Balancers(kgo.CooperativeStickyBalancer()))
		members := []*mate{g.join(t, "anna", false), g.join(t, "bela", false)}
		for range 6 {
			l.await(t, 200)
			victim, harm := 1+rng.IntN(3), harms[rng.IntN(len(harms))]
			t.Logf("%v: %s node %d", time.Since(began).Round(time.Second), harm.name, victim)
			harm.do(victim)
			<-time.After(time.Duration(rng.IntN(6000)) * time.Millisecond)
			c.heal(t)
			switch p := c.nodes[victim]; {
			case p.cmd == nil:
				p.restart(t)
			case harm.name == "pause":
				p.signal(t, syscall.SIGCONT)
			}
			c.inSync(t, topic, 3)
		}
		g.check(t, l)
		l.check(t, c)
		for _, m := range members {
			m.leave()
		}
		harness.Eventually(t, time.Minute, "the topic is gone", func() error { return c.remove(t.Context(), topic) })
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}
