// Command bench compares brokers on one machine: moldau as built from this module, and Apache Kafka as Maven fetches it.
//
// It runs workloads on systems in turns (A B A B) and prints one table of medians and spreads. The loads come from a
// replayer of pre-encoded requests, which shows what the broker itself can do, and from Apache Kafka's own tools, so that
// nobody needs to trust a client of ours. Beside every throughput stands the CPU that broker and client spent, because on
// a machine that they share the client sets the ceiling.
//
// Files: workload.go (what is measured on one broker), old.go (old clients), paced.go (latencies), many.go (many producers, partitions, connections), recovery.go, failover.go and partitions.go (on a cluster of three), groups.go and
// member.go (on a coordinator), zookeeper.go and keeper.go (on a ZooKeeper), system.go, cluster.go and topic.go (on what), rounds.go (in which order), load.go (words for both sides),
// replay.go with replay_produce.go and replay_fetch.go (the replayer), java.go (Kafka's tools), franz.go (franz-go), proc_linux.go (what a
// process used), calls_linux.go (what it called the kernel for), report.go (the table), chart.go (the charts), profile.go (CPU profiles of moldau), stage.go (the harness outside of tests).
//
// docs/benchmarks.md says how to run it and how to read it.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"moldau/test/harness"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ExitOnError)
	var (
		quick    = flags.Bool("quick", false, "fewer workloads, smaller runs, short warm-ups; under ten minutes")
		rounds   = flags.Int("rounds", 0, "how often each system runs each workload (default 5, with -quick 3)")
		megs     = flags.Int64("mb", 0, "MiB of record values in a run (default 1024, with -quick 192)")
		only     = flags.String("only", "", "comma-separated names, or beginnings of names, of workloads")
		on       = flags.String("systems", "", "comma-separated names of systems; the first two are compared (default moldau and what the workloads are for: kafka, kafka-3.9 or zookeeper)")
		output   = flags.String("output", "table", "table or json")
		dir      = flags.String("dir", os.TempDir(), "folder for data; its disk is part of what is measured")
		charts   = flags.String("charts", "", "folder for a chart (SVG) of each workload")
		profiles = flags.String("profiles", "", "folder for CPU profiles of moldau, taken in the last round")
		parts    = flags.Int("partitions", 0, "partitions of the workloads that say so (default 10000, with -quick 1000)")
		members  = flags.Int("members", 0, "members of groups (default 1000)")
		before   = flags.String("before", "", "another binary of moldau, the system moldau-before: what a change is measured against")
		list     = flags.Bool("list", false, "list workloads and systems")
	)
	_ = flags.Parse(args) // exits by itself
	workloads := allWorkloads()
	if *list {
		return printNames(workloads, allSystems(*before))
	}
	if *output != "table" && *output != "json" {
		return fmt.Errorf("-output is %q, allowed are table and json", *output)
	}
	b := &bench{scale: fullScale(), dir: *dir, profile: *profiles, progress: func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}}
	if *quick {
		b.scale = quickScale()
	}
	if *rounds > 0 {
		b.scale.rounds = *rounds
	}
	if *megs > 0 {
		b.scale.bytes = *megs << 20
	}
	if *parts > 0 {
		b.scale.partitions = int32(*parts)
	}
	if *members > 0 {
		b.scale.members = *members
	}
	var err error
	if b.workloads, err = chooseWorkloads(workloads, *only, *quick); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if *on == "" {
		if *on, err = defaultSystems(b.workloads); err != nil {
			return fmt.Errorf("-only: %w", err)
		}
		if *before != "" {
			*on = "moldau,moldau-before"
		}
	}
	if b.systems, err = chooseSystems(allSystems(*before), *on); err != nil {
		return fmt.Errorf("-systems: %w", err)
	}
	m, err := describeMachine(*dir)
	if err != nil {
		return err
	}
	m.Processors, m.Go, m.Kafka = runtime.GOMAXPROCS(0), runtime.Version(), harness.KafkaVersion
	if err := b.run(ctx); err != nil {
		return err
	}
	if *charts != "" {
		if err := b.writeCharts(*charts); err != nil {
			return err
		}
	}
	command := strings.Join(append([]string{"go run ./test/bench"}, args...), " ")
	if *output == "json" {
		return b.writeJSON(os.Stdout, m, command)
	}
	return b.writeTable(os.Stdout, m, command)
}

// defaultSystems are moldau and what all the workloads compare it with.
func defaultSystems(workloads []workload) (string, error) {
	beside := workloads[0].beside
	for _, w := range workloads {
		if w.beside != beside {
			return "", fmt.Errorf("%s and %s compare with different systems: run them apart", workloads[0].name, w.name)
		}
	}
	return "moldau," + cmp.Or(beside, "kafka"), nil
}

// chooseSystems returns the named systems in the order in which they are named.
func chooseSystems(all []system, names string) ([]system, error) {
	var chosen []system
next:
	for name := range strings.SplitSeq(names, ",") {
		for _, s := range all {
			if s.name == name {
				chosen = append(chosen, s)
				continue next
			}
		}
		return nil, fmt.Errorf("there is no system %q; -list names them", name)
	}
	return chosen, nil
}

// chooseWorkloads returns the workloads whose name begins with one of the given words; for "" all that
// need not be asked for, or those for a quick run.
func chooseWorkloads(all []workload, words string, quick bool) ([]workload, error) {
	var chosen []workload
	if words == "" {
		for _, w := range all {
			if !w.asked && (!quick || !w.full) {
				chosen = append(chosen, w)
			}
		}
		return chosen, nil
	}
	wanted := strings.Split(words, ",")
	used := make([]bool, len(wanted))
	for _, w := range all {
		takes := false
		for i, word := range wanted {
			if strings.HasPrefix(w.name, word) {
				used[i], takes = true, true
			}
		}
		if takes {
			chosen = append(chosen, w)
		}
	}
	if i := slices.Index(used, false); i >= 0 {
		return nil, fmt.Errorf("no workload begins with %q; -list names them", wanted[i])
	}
	return chosen, nil
}

func printNames(workloads []workload, systems []system) error {
	fmt.Println("workloads:")
	for _, w := range workloads {
		fmt.Printf("  %s\n      %s\n", w.name, w.about)
	}
	fmt.Println("systems:")
	for _, s := range systems {
		fmt.Printf("  %s\n      %s\n", s.name, s.about)
	}
	return nil
}
