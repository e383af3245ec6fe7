package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"moldau/test/harness"
)

// bench runs workloads on systems and collects their figures.
type bench struct {
	systems   []system
	workloads []workload
	scale     scale
	dir       string // for data folders
	profile   string // folder for CPU profiles of the last round, "" for none
	progress  func(format string, args ...any)
	results   results
}

// run goes through the workloads. In each, the systems take turns: A B A B, so that a machine that grows busier or
// quieter does so for all of them.
func (b *bench) run(ctx context.Context) error {
	var together []workload
	for _, w := range b.workloads {
		if !w.alone {
			together = append(together, w)
			continue
		}
		if err := b.runAlone(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	for len(together) > 0 {
		// Clusters of one kind at a time: those of another would only take memory.
		like := together[0]
		differs := func(w workload) bool { return w.nodes != like.nodes || !slices.Equal(w.set, like.set) }
		same := slices.DeleteFunc(slices.Clone(together), differs)
		together = slices.DeleteFunc(together, func(w workload) bool { return !differs(w) })
		err := onStage(b.dir, func(t harness.T) {
			if err := b.runTogether(ctx, t, same); err != nil {
				t.Fatal(err)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) runAlone(ctx context.Context, w workload) error {
	for round := range b.scale.rounds {
		for _, s := range b.systems {
			err := onStage(b.dir, func(t harness.T) {
				if err := b.one(ctx, t, w, s, s.prepare(t, w.nodes, w.set...), round); err != nil {
					t.Fatal(err)
				}
			})
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
		}
	}
	return nil
}

func (b *bench) runTogether(ctx context.Context, t harness.T, workloads []workload) error {
	var clusters []*cluster
	for _, s := range b.systems {
		one := s.prepare(t, workloads[0].nodes, workloads[0].set...)
		if _, err := one.start(ctx, t); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		clusters = append(clusters, one)
	}
	for n, w := range workloads {
		warm := b.scale.warm
		if n == 0 {
			warm *= firstWarm
		}
		for i, s := range b.systems {
			if err := b.warmUp(ctx, t, w, s, clusters[i], warm); err != nil {
				return fmt.Errorf("%s: warm-up of %s: %w", w.name, s.name, err)
			}
		}
		for round := range b.scale.rounds {
			for i, s := range b.systems {
				if err := b.one(ctx, t, w, s, clusters[i], round); err != nil {
					return fmt.Errorf("%s: %s: %w", w.name, s.name, err)
				}
			}
		}
		for i, s := range b.systems {
			if err := b.count(ctx, t, w, s, clusters[i]); err != nil {
				return fmt.Errorf("%s: %s: count calls: %w", w.name, s.name, err)
			}
		}
	}
	return nil
}

// count runs a workload once more, to count the calls of the kernel that it makes the brokers do.
func (b *bench) count(ctx context.Context, t harness.T, w workload, s system, on *cluster) error {
	if !on.measured {
		return nil
	}
	on.measured = false
	counter, err := countCalls(on.pids())
	if err != nil {
		b.progress("%-28s %-14s no count of its calls: %v", w.name, s.name, err)
		return nil
	}
	defer counter.close()
	on.counter, on.counted = counter, nil
	_, err = b.limited(ctx, t, w, on)
	b.results.add(w, s.name, on.counted)
	on.counter = nil
	return err
}

// firstWarm is how much longer a JVM is warmed up for the first workload: until then nothing of it is compiled.
const firstWarm = 3

// warmUp runs a workload once, on a JVM for at least d, and forgets what it measured.
func (b *bench) warmUp(ctx context.Context, t harness.T, w workload, s system, on *cluster, d time.Duration) error {
	b.progress("%-28s %-14s warming up", w.name, s.name)
	for began := time.Now(); ; {
		last := time.Now()
		if _, err := b.limited(ctx, t, w, on); err != nil {
			return err
		}
		on.lastRun = time.Since(last)
		if !s.jvm || time.Since(began) >= d {
			return nil
		}
	}
}

func (b *bench) one(ctx context.Context, t harness.T, w workload, s system, on *cluster, round int) error {
	stop := func() error { return nil }
	if b.profile != "" && round == b.scale.rounds-1 && !w.alone {
		stop = profileCPU(ctx, on, on.lastRun, b.profile, w.name+"-"+s.name)
	}
	began := time.Now()
	figures, err := b.limited(ctx, t, w, on)
	if err != nil {
		return err
	}
	on.lastRun = time.Since(began)
	if err := stop(); err != nil {
		return err
	}
	b.progress("%-28s %-14s round %d of %d: %s %.4g %s", w.name, s.name, round+1, b.scale.rounds,
		figures[0].name, figures[0].value, figures[0].unit)
	b.results.add(w, s.name, figures)
	return nil
}

func (b *bench) limited(ctx context.Context, t harness.T, w workload, on *cluster) ([]figure, error) {
	ctx, cancel := context.WithTimeout(ctx, b.scale.timeout)
	defer cancel()
	return w.run(ctx, t, on, b.scale)
}
