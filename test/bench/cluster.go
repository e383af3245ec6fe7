package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"moldau/test/harness"
)

// cluster is the brokers of one system that know of each other, or one broker.
type cluster struct {
	brokers []*broker
	lastRun time.Duration

	measured bool         // the last run was one of measure
	counter  *callCounter // of a run for nothing else, nil in all others
	counted  []figure     // in that run
}

// addrs are the brokers' addresses as clients take them.
func (c *cluster) addrs() string { return strings.Join(c.seeds(), ",") }

// seeds are the addresses of the brokers, but for those that are named.
func (c *cluster) seeds(but ...*broker) []string {
	var out []string
next:
	for _, b := range c.brokers {
		for _, without := range but {
			if b == without {
				continue next
			}
		}
		out = append(out, b.addr)
	}
	return out
}

// start starts all processes and returns the time until every one of them knows all.
func (c *cluster) start(ctx context.Context, t harness.T) (time.Duration, error) {
	began := time.Now()
	for _, b := range c.brokers {
		b.Spawn(t)
	}
	for _, b := range c.brokers {
		if _, err := b.await(ctx, began, len(c.brokers)); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}

func (c *cluster) settle() error {
	for _, b := range c.brokers {
		if err := settle(b.dir); err != nil {
			return err
		}
	}
	return nil
}

// onTopic runs f with a new topic, which it deletes afterwards. Every broker has a replica of every partition, and they
// lead in turns.
func (c *cluster) onTopic(ctx context.Context, f func(topic) ([]figure, error)) ([]figure, error) {
	return c.onTopicOf(ctx, partitions, f)
}

func (c *cluster) onTopicOf(ctx context.Context, n int32, f func(topic) ([]figure, error)) ([]figure, error) {
	to, err := c.createTopic(ctx, fmt.Sprintf("bench-%d", time.Now().UnixNano()), n)
	if err != nil {
		return nil, err
	}
	if err := c.settle(); err != nil {
		return nil, err
	}
	figures, err := f(to)
	if err != nil {
		return nil, err
	}
	return figures, c.deleteTopic(ctx, to.name)
}

// onFilledTopic runs f with a new topic that a load has been written to, all of it on the disk.
func (c *cluster) onFilledTopic(ctx context.Context, l load, f func(to topic, filled outcome) ([]figure, error)) ([]figure, error) {
	return c.onTopic(ctx, func(to topic) ([]figure, error) {
		filled, err := replayProduce(ctx, to, l)
		if err != nil {
			return nil, err
		}
		if err := c.settle(); err != nil {
			return nil, err
		}
		return f(to, filled)
	})
}

// measure runs a client against the brokers and returns what both of them did.
func (c *cluster) measure(client func() (outcome, error)) ([]figure, error) {
	c.measured = true
	if c.counter != nil {
		return nil, c.count(client)
	}
	kernelBefore, err := kernelThreads()
	if err != nil {
		return nil, err
	}
	before, err := c.usage()
	if err != nil {
		return nil, err
	}
	o, err := client()
	if err != nil {
		return nil, err
	}
	// What the brokers still do for these records in the background belongs to them.
	time.Sleep(200 * time.Millisecond)
	after, err := c.usage()
	if err != nil {
		return nil, err
	}
	kernel, err := c.kernelTime(kernelBefore)
	if err != nil {
		return nil, err
	}
	gigabytes := float64(o.bytes) / 1e9
	spent := (after.cpu - before.cpu).Seconds()
	figures := []figure{
		{"broker CPU per GB", "s", true, spent / gigabytes},
		{"broker CPU per million records", "s", true, spent / float64(o.records) * 1e6},
		{"CPU of the kernel's threads per GB", "s", true, kernel.Seconds() / gigabytes},
		{"client CPU per GB", "s", true, o.clientCPU.Seconds() / gigabytes},
		{"throughput", "MB/s", false, o.perSecond * float64(o.bytes) / float64(o.records) / 1e6},
		{"throughput", "records/s", false, o.perSecond},
	}
	if o.latency != (latencies{}) { // not every client tells
		figures = append(figures,
			figure{"latency p50", "ms", true, milliseconds(o.latency.p50)},
			figure{"latency p95", "ms", true, milliseconds(o.latency.p95)},
			figure{"latency p99", "ms", true, milliseconds(o.latency.p99)},
			figure{"latency p99.9", "ms", true, milliseconds(o.latency.p999)})
	}
	if o.requests > 0 {
		figures = append(figures, figure{"read and write calls per request", "", true, float64(after.calls-before.calls) / float64(o.requests)})
	}
	resident := int64(0)
	for _, b := range c.brokers {
		rss, _, err := memory(b.Pid())
		if err != nil {
			return nil, err
		}
		resident += rss
	}
	return append(figures,
		figure{"bytes written per byte", "", true, float64(after.written-before.written) / float64(o.bytes)},
		figure{"resident memory after the run", "MB", true, float64(resident) / 1e6}), nil
}

// kernelTime is what the kernel's threads have spent since before, until all that the brokers left to them is on the disk.
func (c *cluster) kernelTime(before map[string]time.Duration) (spent time.Duration, err error) {
	if err := c.settle(); err != nil {
		return 0, err
	}
	after, err := kernelThreads()
	for thread, now := range after {
		spent += now - before[thread]
	}
	return spent, err
}

// count runs a client and counts what the brokers call the kernel for. It takes some of their time, so that nothing else is
// measured in the same run.
func (c *cluster) count(client func() (outcome, error)) error {
	allBefore, syncsBefore, err := c.counter.read()
	if err != nil {
		return err
	}
	o, err := client()
	if err != nil {
		return err
	}
	all, syncs, err := c.counter.read()
	if err != nil {
		return err
	}
	all, syncs = all-allBefore, syncs-syncsBefore
	if o.requests > 0 {
		c.counted = append(c.counted, figure{"system calls per request", "", true, float64(all) / float64(o.requests)})
	}
	c.counted = append(c.counted,
		figure{"system calls per MB", "", true, float64(all) / float64(o.bytes) * 1e6},
		figure{"syncs per GB", "", true, float64(syncs) / float64(o.bytes) * 1e9})
	return nil
}

// pids are the brokers' processes.
func (c *cluster) pids() []int {
	var pids []int
	for _, b := range c.brokers {
		pids = append(pids, b.Pid())
	}
	return pids
}

// usage is what all brokers have used so far.
type usage struct {
	cpu            time.Duration
	written, calls int64 // bytes written; calls of the kernel to read and write
}

func (c *cluster) usage() (u usage, err error) {
	for _, b := range c.brokers {
		cpu, err := cpuTime(b.Pid())
		if err != nil {
			return usage{}, err
		}
		written, err := bytesWritten(b.Pid())
		if err != nil {
			return usage{}, err
		}
		calls, err := syscalls(b.Pid())
		if err != nil {
			return usage{}, err
		}
		u.cpu, u.written, u.calls = u.cpu+cpu, u.written+written, u.calls+calls
	}
	return u, nil
}
