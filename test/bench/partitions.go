package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

// partitionsWorkload is what many partitions cost when brokers come and go.
func partitionsWorkload() workload {
	return workload{
		name:  "cluster-partitions",
		about: "three brokers with -partitions partitions on each, all led by one: it is stopped, started again, and then the active controller, which leads them by then, is killed -9",
		alone: true, asked: true, nodes: clusterNodes,
		set: []string{"auto.leader.rebalance.enable=false"}, // who leads is part of the course
		run: runPartitions,
	}
}

// partitionsPerTopic is how many partitions a topic has at most, so that no answer is about all of them.
const partitionsPerTopic = 1000

func runPartitions(ctx context.Context, t harness.T, c *cluster, s scale) ([]figure, error) {
	if _, err := c.start(ctx, t); err != nil {
		return nil, err
	}
	client, err := impatient(c.seeds())
	if err != nil {
		return nil, err
	}
	defer client.Close()
	controller, others, err := c.active(ctx, client)
	if err != nil {
		return nil, err
	}
	f := &course{t: t, cluster: c, stopped: others[0], controller: controller, third: others[1], scale: s}
	for _, stage := range []func(context.Context, *kgo.Client) error{f.create, f.idle, f.stop, f.restart, f.kill} {
		if err := stage(ctx, client); err != nil {
			return nil, err
		}
	}
	return f.figures, nil
}

// course is one run through all that happens to the partitions.
type course struct {
	t          harness.T
	cluster    *cluster
	stopped    *broker // leads first, is stopped and started
	controller *broker // is active and leads from then on, until it is killed
	third      *broker // remains
	scale      scale
	topics     []string
	figures    []figure
}

func (f *course) took(what string, d time.Duration) {
	f.figures = append(f.figures, figure{what, "ms", true, milliseconds(d)})
}

// spent is the CPU of some brokers.
func spent(brokers ...*broker) (time.Duration, error) {
	sum := time.Duration(0)
	for _, b := range brokers {
		cpu, err := cpuTime(b.Pid())
		if err != nil {
			return 0, err
		}
		sum += cpu
	}
	return sum, nil
}

// idleCPU is what some brokers spend while nothing happens for a time, in percent of a core.
func idleCPU(ctx context.Context, d time.Duration, brokers ...*broker) (float64, error) {
	before, err := spent(brokers...)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := sleepUntil(ctx, began.Add(d)); err != nil {
		return 0, err
	}
	after, err := spent(brokers...)
	return float64(after-before) / float64(time.Since(began)) * 100, err
}

func (f *course) create(ctx context.Context, client *kgo.Client) error {
	before, err := spent(f.cluster.brokers...)
	if err != nil {
		return err
	}
	began := time.Now()
	for left := f.scale.partitions; left > 0; left -= partitionsPerTopic {
		name := fmt.Sprintf("many-%d", len(f.topics))
		f.topics = append(f.topics, name)
		if _, err := createTopics(ctx, client, assigned(name, min(left, partitionsPerTopic), f.stopped, f.controller, f.third)); err != nil {
			return err
		}
	}
	if err := f.allInSync(ctx, client, f.stopped); err != nil {
		return err
	}
	f.took("create until all are led and in sync", time.Since(began))
	after, err := spent(f.cluster.brokers...)
	f.figures = append(f.figures, figure{"create: CPU of all brokers", "s", true, (after - before).Seconds()})
	return err
}

// allInSync waits until every partition is led by a broker and has all replicas in sync.
func (f *course) allInSync(ctx context.Context, client *kgo.Client, leads *broker) error {
	return eventually(ctx, fmt.Sprintf("node %d leads, all are in sync", leads.id), func() error {
		return checkPartitions(ctx, client, f.topics, func(p kmsg.MetadataResponseTopicPartition) bool {
			return p.Leader == leads.id && len(p.ISR) == clusterNodes
		})
	})
}

// idle is what the partitions cost when nothing happens, once the brokers have made the folders of them all: metadata
// knows of partitions long before. A broker that is never at rest is measured after a minute.
func (f *course) idle(ctx context.Context, _ *kgo.Client) error {
	const atRest = 25 // percent of a core
	for range 60 {
		busy, err := idleCPU(ctx, time.Second, f.cluster.brokers...)
		if err != nil {
			return err
		}
		if busy < atRest {
			break
		}
	}
	idle, err := idleCPU(ctx, f.scale.idle/2, f.cluster.brokers...)
	f.figures = append(f.figures, figure{"idle CPU of all brokers", "% of a core", true, idle})
	return err
}

// stop stops the leader of all partitions.
func (f *course) stop(ctx context.Context, client *kgo.Client) error {
	before, err := spent(f.controller, f.third)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := syscall.Kill(f.stopped.Pid(), syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-f.stopped.Done():
	case <-ctx.Done():
		return fmt.Errorf("node %d does not stop: %w", f.stopped.id, ctx.Err())
	}
	f.took("leaders leave: SIGTERM to exit", time.Since(began))
	err = eventually(ctx, "others lead", func() error {
		return checkPartitions(ctx, client, f.topics, func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader == f.controller.id })
	})
	if err != nil {
		return err
	}
	f.took("leaders leave: SIGTERM to all led by another", time.Since(began))
	after, err := spent(f.controller, f.third)
	f.figures = append(f.figures, figure{"leaders leave: CPU of the others", "s", true, (after - before).Seconds()})
	return err
}

// restart starts it again.
func (f *course) restart(ctx context.Context, client *kgo.Client) error {
	took, err := f.stopped.start(ctx, f.t)
	if err != nil {
		return err
	}
	f.took("restart: start to first Metadata", took)
	began := time.Now().Add(-took)
	if err := f.allInSync(ctx, client, f.controller); err != nil {
		return err
	}
	f.took("restart: start to all in sync", time.Since(began))
	cpu, err := cpuTime(f.stopped.Pid())
	f.figures = append(f.figures, figure{"restart: its CPU", "s", true, cpu.Seconds()})
	return err
}

// kill kills the active controller, which leads all partitions.
func (f *course) kill(ctx context.Context, old *kgo.Client) error {
	if now, _, err := f.cluster.active(ctx, old); err != nil || now != f.controller {
		return fmt.Errorf("node %d is not the active controller any more: %w", f.controller.id, err)
	}
	// A client that does not know the one that is killed.
	client, err := impatient(f.cluster.seeds(f.controller))
	if err != nil {
		return err
	}
	defer client.Close()
	began := time.Now()
	f.controller.Kill(f.t)
	created := make(chan error, 1)
	var after time.Duration
	go func() {
		created <- eventually(ctx, "another controller creates a topic", func() error {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			name := fmt.Sprintf("after-%d", time.Now().UnixNano()) // an answer may be lost
			_, err := createTopics(ctx, client, assigned(name, 1, f.stopped, f.third))
			after = time.Since(began)
			return err
		})
	}()
	err = eventually(ctx, "others lead", func() error {
		return checkPartitions(ctx, client, f.topics, func(p kmsg.MetadataResponseTopicPartition) bool {
			return p.Leader >= 0 && p.Leader != f.controller.id
		})
	})
	led := time.Since(began)
	if createErr := <-created; createErr != nil {
		return createErr
	}
	if err != nil {
		return err
	}
	f.took("controller killed: to the next topic created", after)
	f.took("controller killed: to new leaders for all", led)
	return nil
}
