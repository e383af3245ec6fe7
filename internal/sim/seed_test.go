package sim

import (
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
)

// run lets one seed take its course in a bubble of its own.
func run(t *testing.T, seed uint64, o Options) Outcome {
	t.Helper()
	var out Outcome
	// A collection stops the goroutine that runs, and lets others go before it.
	runtime.GC()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if os.Getenv("MOLDAU_SIM_LOG") != "" {
		o.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) { out = Run(seed, o) })
	})
	return out
}

func report(t *testing.T, seed uint64, o Outcome) {
	t.Helper()
	if len(o.Broken) > 0 {
		t.Errorf("seed %d, %+v: %s\nreplay: go test ./internal/sim -run TestSeeds -seed %d\nlast events:\n%s",
			seed, o.Plan, strings.Join(o.Broken, "\n  "), seed, o.Tail)
	}
}

// TestSeeds: whatever the faults, what was acked is there, once and where it was acked, and afterwards all works.
func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		o := run(t, *oneSeed, Options{Whole: *whole})
		report(t, *oneSeed, o)
		if *whole {
			t.Log(strings.Join(o.Trace, "\n"))
		}
		return
	}
	acked, commits, void := 0, 0, 0
	var struck [faultKinds]int
	for seed := range uint64(howMany(t)) {
		o := run(t, seed+1, Options{})
		report(t, seed+1, o)
		acked += o.Acked
		commits += o.Commits
		for f, n := range o.Struck {
			struck[f] += n
		}
		if o.Acked == 0 {
			void++
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d records and %d commits acked, %d void runs, faults: %s", acked, commits, void, tally(struck))
	if acked == 0 || commits == 0 || struck[Kill]+struck[PowerLoss] == 0 {
		t.Error("no run had acked records, acked commits and deaths: nothing was tested")
	}
}

// TestFleets is TestSeeds for clusters of three.
func TestFleets(t *testing.T) {
	first, n := uint64(1), howMany(t)/20
	if *oneSeed != 0 {
		first, n = *oneSeed, 1
	} else if *seeds > 0 {
		n = *seeds
	}
	acked, commits := 0, 0
	var struck [faultKinds]int
	for seed := first; seed < first+uint64(max(n, 1)); seed++ {
		o := run(t, seed, Options{Fleet: true, Whole: *whole})
		if len(o.Broken) > 0 {
			t.Errorf("seed %d, %+v: %s\nreplay: go test ./internal/sim -run TestFleets -seed %d\nlast events:\n%s",
				seed, o.Plan, strings.Join(o.Broken, "\n  "), seed, o.Tail)
		}
		if *whole {
			t.Log(strings.Join(o.Trace, "\n"))
		}
		acked += o.Acked
		commits += o.Commits
		for f, n := range o.Struck {
			struck[f] += n
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d records and %d commits acked, faults: %s", acked, commits, tally(struck))
	if acked == 0 {
		t.Error("no run had acked records: nothing was tested")
	}
}

func tally(struck [faultKinds]int) string {
	var parts []string
	for f, n := range struck {
		parts = append(parts, fmt.Sprintf("%d %v", n, Fault(f)))
	}
	return strings.Join(parts, ", ")
}

// howMany is the number of seeds of a test that takes as much time as any here.
func howMany(t *testing.T) int {
	t.Helper()
	switch {
	case *seeds > 0:
		return *seeds
	case testing.Short():
		return 5
	case os.Getenv("MOLDAU_EFFORT") == "ci":
		return 2000
	case os.Getenv("MOLDAU_EFFORT") == "night":
		return 20000
	}
	return 150
}

// TestSameSeedSameTrace: a failure can be replayed, because nothing but the seed decides what happens.
func TestSameSeedSameTrace(t *testing.T) {
	if race {
		t.Skip("the race detector shuffles the scheduler")
	}
	if *oneSeed != 0 {
		for range 10 {
			sameTwice(t, *oneSeed, Options{Fleet: *fleet})
		}
		return
	}
	n := howMany(t)
	if *seeds == 0 {
		n = max(2, n/5)
	}
	for seed := range uint64(n) {
		sameTwice(t, seed+1, Options{})
	}
	for seed := range uint64(max(1, n/10)) {
		sameTwice(t, seed+1, Options{Fleet: true})
	}
}

// sameTwice runs a seed twice. One difference may be the machine's: a thread that the system has kept waiting for 10 ms
// is told to let another goroutine go first. So the seed gets two more runs, which have to side with one of the first.
func sameTwice(t *testing.T, seed uint64, o Options) {
	t.Helper()
	o.Whole = true
	first, again := run(t, seed, o), run(t, seed, o)
	if first.Sum == again.Sum {
		return
	}
	o.Whole = false
	third, fourth := run(t, seed, o), run(t, seed, o)
	if third.Sum == fourth.Sum && (third.Sum == first.Sum || third.Sum == again.Sum) {
		t.Logf("seed %d gave another trace once in four times", seed)
		return
	}
	at := 0
	for at < len(first.Trace) && at < len(again.Trace) && first.Trace[at] == again.Trace[at] {
		at++
	}
	t.Errorf("seed %d, %+v gave two traces, equal for %d events.\nfirst:\n%s\nagain:\n%s", seed, first.Plan, at, around(first.Trace, at), around(again.Trace, at))
}

func around(trace []string, at int) string {
	return strings.Join(trace[max(0, at-15):min(len(trace), at+5)], "\n")
}
