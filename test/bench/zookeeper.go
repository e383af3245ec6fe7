package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"moldau/test/harness"
)

// zookeeperWorkloads are what clients of ZooKeeper's age do, on a node's ZooKeeper port and on Apache ZooKeeper. Both have a
// write on the disk before they answer it.
func zookeeperWorkloads() []workload {
	of := func(name, about string, run func(context.Context, harness.T, *cluster, scale) ([]figure, error)) workload {
		return workload{name: "zookeeper-" + name, about: about, beside: "zookeeper", asked: true, nodes: 1, run: run}
	}
	get := func(i int) []byte { return zkGetRequest(zkPath(i), false) }
	set := func(i int) []byte { return zkSetRequest(zkPath(i), zkData) }
	offsets := of("offsets", "a process's first 100,000 offsets of a group, each a node, created by 8 sessions with 32 requests on the way each: memory after an idle time", runOffsets)
	offsets.alone = true
	return []workload{
		of("set", "setData of 100 bytes to 100 nodes in turn, 8 sessions with 32 requests on the way each", askRun(8, 32, set)),
		of("set-one", "the same by one session that waits for each answer", askRun(1, 1, set)),
		of("get", "getData of 100 bytes from 100 nodes in turn, 8 sessions with 32 requests on the way each", askRun(8, 32, get)),
		of("get-one", "the same by one session that waits for each answer", askRun(1, 1, get)),
		of("watches", "50 sessions watch the same 1,000 nodes, which another sets with 32 requests on the way: 50,000 watches fire", runWatches),
		of("ephemerals", "100 sessions create 100 ephemeral nodes each, with 32 requests on the way, and then all are closed", runEphemerals),
		offsets,
	}
}

// zkRoot is above all nodes but the offsets.
const zkRoot = "/bench"

// zkData is what nodes hold.
var zkData = string(make([]byte, 100))

func zkPath(i int) string { return fmt.Sprintf("%s/node-%d", zkRoot, i%100) }

// keepers are sessions with one ZooKeeper.
type keepers []*keeper

func (b *broker) keepers(ctx context.Context, n int) (keepers, error) {
	var all keepers
	for range n {
		k, err := newKeeper(ctx, b.zookeeper)
		if err != nil {
			all.cut()
			return nil, err
		}
		all = append(all, k)
	}
	return all, nil
}

// cut closes the connections, whose sessions expire.
func (all keepers) cut() {
	for _, k := range all {
		k.conn.Close()
	}
}

// each runs f for all at a time. It returns what they measured, and how long the last took.
func (all keepers) each(f func(i int, k *keeper) ([]time.Duration, error)) ([]time.Duration, time.Duration, error) {
	measured, errs := make([][]time.Duration, len(all)), make([]error, len(all))
	var running sync.WaitGroup
	began := time.Now()
	for i, k := range all {
		running.Go(func() { measured[i], errs[i] = f(i, k) })
	}
	running.Wait()
	took := time.Since(began)
	var times []time.Duration
	for _, m := range measured {
		times = append(times, m...)
	}
	return times, took, firstCause(errs)
}

// end ends the sessions.
func (all keepers) end() (time.Duration, error) {
	_, took, err := all.each(func(_ int, k *keeper) ([]time.Duration, error) { return nil, k.end() })
	return took, err
}

// keepersOn begins sessions, which find some nodes.
func (c *cluster) keepersOn(ctx context.Context, n int, paths ...string) (keepers, error) {
	all, err := c.brokers[0].keepers(ctx, n)
	if err == nil {
		if err = all[0].make(paths...); err == nil {
			err = c.settle()
		}
	}
	if err != nil {
		all.cut()
		return nil, err
	}
	return all, nil
}

// spending runs f and returns what the server spent on each of so many things.
func (b *broker) spending(things int, f func() error) (figure, error) {
	before, err := cpuTime(b.Pid())
	if err != nil {
		return figure{}, err
	}
	if err := f(); err != nil {
		return figure{}, err
	}
	after, err := cpuTime(b.Pid())
	return figure{"server CPU of each", "µs", true, float64(after-before) / float64(things) / 1e3}, err
}

// askRun makes the run of one kind of request. A session that waits for each answer gets fewer done, so it has fewer to do.
func askRun(sessions, depth int, request func(i int) []byte) func(context.Context, harness.T, *cluster, scale) ([]figure, error) {
	return func(ctx context.Context, _ harness.T, c *cluster, s scale) ([]figure, error) {
		n := s.zkRequests / sessions
		if depth == 1 {
			n /= 20
		}
		paths := []string{zkRoot}
		for i := range 100 {
			paths = append(paths, zkPath(i))
		}
		all, err := c.keepersOn(ctx, sessions, paths...)
		if err != nil {
			return nil, err
		}
		defer all.cut()
		var times []time.Duration
		var took time.Duration
		cpu, err := c.brokers[0].spending(n*sessions, func() (err error) {
			times, took, err = all.each(func(_ int, k *keeper) ([]time.Duration, error) { return k.ask(n, depth, request) })
			return err
		})
		if err != nil {
			return nil, err
		}
		if _, err := all.end(); err != nil {
			return nil, err
		}
		rate, sum := float64(len(times))/took.Seconds(), summarise(times)
		return []figure{
			{"requests", "/s", false, rate},
			cpu,
			{"latency p50", "ms", true, milliseconds(sum.p50)},
			{"latency p99", "ms", true, milliseconds(sum.p99)},
		}, nil
	}
}

// Who watches, and how many nodes each of them.
const (
	watchers = 50
	watched  = 1000
)

func runWatches(ctx context.Context, _ harness.T, c *cluster, _ scale) ([]figure, error) {
	path := func(i int) string { return fmt.Sprintf("%s/watched-%d", zkRoot, i) }
	paths := []string{zkRoot}
	for i := range watched {
		paths = append(paths, path(i))
	}
	all, err := c.keepersOn(ctx, 1+watchers, paths...)
	if err != nil {
		return nil, err
	}
	defer all.cut()
	setter, watching := all[0], all[1:]
	_, setting, err := watching.each(func(_ int, k *keeper) ([]time.Duration, error) {
		return k.ask(watched, 32, func(i int) []byte { return zkGetRequest(path(i), true) })
	})
	if err != nil {
		return nil, err
	}
	var took time.Duration
	cpu, err := c.brokers[0].spending(watchers*watched, func() (err error) {
		_, took, err = all.each(func(_ int, k *keeper) ([]time.Duration, error) {
			if k == setter {
				return k.ask(watched, 32, func(i int) []byte { return zkSetRequest(path(i), zkData) })
			}
			return nil, k.await(watched)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := all.end(); err != nil {
		return nil, err
	}
	return []figure{
		{"watches fired", "/s", false, watchers * watched / took.Seconds()},
		cpu,
		{"watches set", "/s", false, watchers * watched / setting.Seconds()},
	}, nil
}

// Who has ephemeral nodes, and how many each of them.
const (
	owners = 100
	owned  = 100
)

func runEphemerals(ctx context.Context, _ harness.T, c *cluster, _ scale) ([]figure, error) {
	all, err := c.keepersOn(ctx, owners, zkRoot)
	if err != nil {
		return nil, err
	}
	defer all.cut()
	var creating, closing time.Duration
	cpu, err := c.brokers[0].spending(owners*owned, func() (err error) {
		_, creating, err = all.each(func(who int, k *keeper) ([]time.Duration, error) {
			return k.ask(owned, 32, func(i int) []byte {
				return zkCreateRequest(fmt.Sprintf("%s/own-%d-%d", zkRoot, who, i), zkData, zkEphemeral)
			})
		})
		if err == nil {
			closing, err = all.end()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return []figure{
		{"created", "/s", false, owners * owned / creating.Seconds()},
		cpu,
		{"until all sessions are closed", "ms", true, milliseconds(closing)},
	}, nil
}

// Offsets of topics of so many partitions.
const (
	offsetTopics     = 1000
	offsetPartitions = 100
	offsetSessions   = 8
)

func runOffsets(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
	b := c.brokers[0]
	if _, err := b.start(ctx, t); err != nil {
		return nil, err
	}
	folders := []string{"/consumers", "/consumers/bench", "/consumers/bench/offsets"}
	topic := func(i int) string { return fmt.Sprintf("%s/a-topic-of-many-%d", folders[2], i) }
	for i := range offsetTopics {
		folders = append(folders, topic(i))
	}
	all, err := c.keepersOn(ctx, offsetSessions, folders...)
	if err != nil {
		return nil, err
	}
	defer all.cut()
	before, err := b.settled(ctx, s)
	if err != nil {
		return nil, err
	}
	const nodes = offsetTopics * offsetPartitions
	_, _, err = all.each(func(who int, k *keeper) ([]time.Duration, error) {
		return k.ask(nodes/offsetSessions, 32, func(i int) []byte {
			i = i*offsetSessions + who
			return zkCreateRequest(fmt.Sprintf("%s/%d", topic(i%offsetTopics), i/offsetTopics), "1234567", 0)
		})
	})
	if err != nil {
		return nil, err
	}
	after, err := b.settled(ctx, s)
	if err != nil {
		return nil, err
	}
	b.Kill(t)
	return []figure{{"growth of RSS per node", "B", true, float64(after-before) / nodes}}, nil
}

// settled is the memory of a server that has had some time to give back what it does not need.
func (b *broker) settled(ctx context.Context, s scale) (rss int64, err error) {
	if err := sleepUntil(ctx, time.Now().Add(s.idle)); err != nil {
		return 0, err
	}
	rss, _, err = memory(b.Pid())
	return rss, err
}
