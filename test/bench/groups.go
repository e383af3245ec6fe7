package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"moldau/test/harness"
)

// groupWorkload is a group of many members, as its coordinator sees it.
func groupWorkload() workload {
	return workload{
		name:  "groups",
		about: "one broker: -members members of a group on connections of their own, four partitions each, join; one leaves; the connection of one breaks. Heartbeats every 500 ms, sessions of 6 s, group.initial.rebalance.delay.ms=0",
		asked: true, nodes: 1,
		set: []string{"group.initial.rebalance.delay.ms=0"},
		run: runGroup,
	}
}

const (
	heartbeatEvery      = 500 * time.Millisecond
	sessionTimeoutMs    = 6000 // the least that both allow
	rebalanceTimeoutMs  = 60_000
	partitionsPerMember = 4
)

func runGroup(ctx context.Context, _ harness.T, c *cluster, s scale) ([]figure, error) {
	return c.onTopic(ctx, func(to topic) ([]figure, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		g := &crowd{addr: c.brokers[0].addr, group: to.name, topic: to.name, changed: make(chan struct{})}
		var members sync.WaitGroup
		defer members.Wait()
		defer cancel()
		if err := g.awaitCoordinator(ctx); err != nil {
			return nil, err
		}
		var figures []figure
		// event measures what happens from an act of some members until all that remain have the same generation.
		event := func(name string, remain int, act func()) error {
			before, err := cpuTime(c.brokers[0].Pid())
			if err != nil {
				return err
			}
			began := time.Now()
			from := g.begin()
			act()
			if err := g.await(ctx, remain, from); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			took := time.Since(began)
			after, err := cpuTime(c.brokers[0].Pid())
			figures = append(figures,
				figure{name + ": until all have the new generation", "ms", true, milliseconds(took)},
				figure{name + ": from the last JoinGroup to the last assignment", "ms", true, milliseconds(g.turnaround())},
				figure{name + ": coordinator CPU", "s", true, (after - before).Seconds()})
			return err
		}
		all := make([]*member, s.members)
		err := event("join", len(all), func() {
			for i := range all {
				all[i] = newMember(g)
				members.Go(func() { all[i].live(ctx) })
			}
		})
		if err != nil {
			return nil, err
		}
		if err := event("leave", len(all)-1, func() { close(all[0].leaves) }); err != nil {
			return nil, err
		}
		if err := event("killed", len(all)-2, func() { close(all[1].dies) }); err != nil {
			return nil, err
		}
		return figures, nil
	})
}

// crowd is what the members of a group have told of themselves.
type crowd struct {
	addr, group, topic string

	mu         sync.Mutex
	generation map[*member]int32 // the newest that a member has an assignment of
	least      int32             // only newer ones count
	lastJoin   time.Time         // when the last JoinGroup was sent
	lastSync   time.Time         // when the last assignment came
	failed     error
	changed    chan struct{} // closed and made anew when any of this changes
}

// begin returns the newest generation so far.
func (g *crowd) begin() int32 {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, n := range g.generation {
		g.least = max(g.least, n)
	}
	return g.least
}

func (g *crowd) joins() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lastJoin = time.Now()
}

func (g *crowd) has(m *member, generation int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.generation == nil {
		g.generation = make(map[*member]int32)
	}
	g.generation[m], g.lastSync = generation, time.Now()
	g.tellLocked()
}

func (g *crowd) gone(m *member, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.generation, m)
	if g.failed == nil {
		g.failed = err
	}
	g.tellLocked()
}

func (g *crowd) tellLocked() {
	close(g.changed)
	g.changed = make(chan struct{})
}

func (g *crowd) turnaround() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(0, g.lastSync.Sub(g.lastJoin))
}

// await waits until n members have one generation that is newer than from.
func (g *crowd) await(ctx context.Context, n int, from int32) error {
	for {
		g.mu.Lock()
		changed, failed := g.changed, g.failed
		newest, with := from, 0
		for _, generation := range g.generation {
			switch {
			case generation > newest:
				newest, with = generation, 1
			case generation == newest && newest > from:
				with++
			}
		}
		count := len(g.generation)
		g.mu.Unlock()
		if failed != nil {
			return failed
		}
		if with == n && count == n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d members have generation %d: %w", with, n, newest, ctx.Err())
		}
	}
}
