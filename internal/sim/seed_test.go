package sim

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
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

// report says all that somebody needs who looks into a failure.
func report(t *testing.T, seed uint64, options Options, o Outcome) {
	t.Helper()
	if len(o.Broken) > 0 {
		t.Errorf("%s\nsmaller: go test ./internal/sim -run TestCampaign -hours 0.0001 -first %d", failure(seed, options, o), seed)
	}
}

func failure(seed uint64, options Options, o Outcome) string {
	var s strings.Builder
	fmt.Fprintf(&s, "seed %d at commit %s\nplan: %+v\n", seed, commit(), o.Plan)
	for _, broken := range o.Broken {
		fmt.Fprintf(&s, "  %v\n", broken)
	}
	fmt.Fprintf(&s, "replay: %s\nlast events:\n%s", replay(seed, options), o.Tail)
	return s.String()
}

// replay is the command that does the same again.
func replay(seed uint64, o Options) string {
	return "go test ./internal/sim -run 'TestSeeds$' " + strings.Join(arguments(seed, o), " ")
}

// arguments are the flags that say which run it is.
func arguments(seed uint64, o Options) []string {
	all := []string{"-seed", fmt.Sprint(seed)}
	if o.Rounds > 0 {
		all = append(all, "-rounds", fmt.Sprint(o.Rounds))
	}
	if len(o.Skip) > 0 {
		var rounds []string
		for _, n := range o.Skip {
			rounds = append(rounds, fmt.Sprint(n))
		}
		all = append(all, "-skip", strings.Join(rounds, ","))
	}
	if len(o.Without) > 0 {
		all = append(all, "-without", strings.Join(o.Without, ","))
	}
	return all
}

// asked is what the flags say about the run of one seed.
func asked(t *testing.T) Options {
	t.Helper()
	o := Options{Whole: *whole, Rounds: *rounds}
	for text := range strings.SplitSeq(*skip, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			o.Skip = append(o.Skip, n)
		} else if text != "" {
			t.Fatalf("-skip %s: %v", *skip, err)
		}
	}
	if *without != "" {
		o.Without = strings.Split(*without, ",")
	}
	return o
}

// commit names the source that is tested.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// TestSeeds: whatever the faults, every promise is kept, and afterwards all works.
func TestSeeds(t *testing.T) {
	if *oneSeed != 0 {
		options := asked(t)
		o := run(t, *oneSeed, plantedIn(options, *inDisk))
		if *verdict {
			tellVerdict(o)
			return
		}
		report(t, *oneSeed, options, o)
		if *whole {
			t.Log(strings.Join(o.Trace, "\n"))
		}
		return
	}
	var all sum
	began := heap()
	for seed := range uint64(howMany(t)) {
		o := run(t, seed+1, Options{})
		if report(t, seed+1, Options{}, o); t.Failed() && !race {
			if again := run(t, seed+1, Options{}); again.Sum != o.Sum {
				t.Logf("seed %d did not do the same again: the machine is overloaded, or something is left to chance", seed+1)
			}
		}
		if why := o.Void(); why != "" && !t.Failed() {
			t.Logf("seed %d is void: %s", seed+1, why)
		}
		all.add(o)
		if t.Failed() {
			break
		}
	}
	t.Log(all.String())
	if all.void > all.runs/20 {
		t.Errorf("%d of %d runs tested nothing", all.void, all.runs)
	}
	if grown := heap() - began; grown > mostGrowth && !race {
		t.Errorf("%d bytes are in use that were not before", grown)
	}
}

// mostGrowth is by how much memory in use may grow over all runs.
const mostGrowth = 64 << 20

// heap is the memory in use, without what pools keep: that is gone with the second collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// sum is what several runs came to.
type sum struct {
	runs, void, acked, commits, checked int
	struck, hit                         [faultKinds]int
}

func (s *sum) add(o Outcome) {
	s.runs++
	if o.Void() != "" {
		s.void++
		return
	}
	s.acked += o.Acked
	s.commits += o.Commits
	s.checked += o.Checked
	for f := range faultKinds {
		s.struck[f] += o.Struck[f]
		s.hit[f] += o.Hit[f]
	}
}

func (s *sum) effective() int {
	n := 0
	for _, hit := range s.hit {
		n += hit
	}
	return n
}

func (s *sum) String() string {
	var parts []string
	for f, n := range s.struck {
		parts = append(parts, fmt.Sprintf("%d of %d %v", s.hit[f], n, Fault(f)))
	}
	return fmt.Sprintf("%d runs, %d void, %d records and %d commits acked, %d requests checked, %d effective faults: %s",
		s.runs, s.void, s.acked, s.commits, s.checked, s.effective(), strings.Join(parts, ", "))
}

// howMany is the number of seeds of a test that takes as much time as any here.
func howMany(t *testing.T) int {
	t.Helper()
	switch {
	case *seeds > 0:
		return *seeds
	case testing.Short():
		return 4
	case os.Getenv("MOLDAU_EFFORT") == "ci":
		return 200
	case os.Getenv("MOLDAU_EFFORT") == "night":
		return 5000
	}
	return 30
}

// TestSameSeedSameTrace: a failure can be replayed, because nothing but the seed decides what happens.
func TestSameSeedSameTrace(t *testing.T) {
	if race {
		t.Skip("the race detector shuffles the scheduler")
	}
	if *oneSeed != 0 {
		for range 10 {
			sameTwice(t, *oneSeed)
		}
		return
	}
	n := howMany(t)
	if *seeds == 0 {
		n = max(1, n/50)
	}
	for seed := range uint64(n) {
		sameTwice(t, seed+1)
	}
}

// sameTwice runs a seed twice. One difference may be the machine's: a thread that the system has kept waiting for 10 ms
// is told to let another goroutine go first. So the seed gets two more runs, which have to side with one of the first.
func sameTwice(t *testing.T, seed uint64) {
	t.Helper()
	o := Options{Whole: true}
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
