package sim

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

var (
	hours = flag.Float64("hours", 0, "how long TestCampaign goes on")
	first = flag.Uint64("first", 0, "the seed that TestCampaign begins with; 0: one that depends on the day and time")
)

// TestCampaign runs seeds, each in a process of its own, for as long as -hours says. A failure is made smaller and told with the
// command that replays it; then it goes on. One seed in fifty, and each that fails, runs twice and has to do the same.
//
//	go test ./internal/sim -run TestCampaign -hours 2 -timeout 0
func TestCampaign(t *testing.T) {
	if *hours == 0 {
		t.Skip("goes on for as long as -hours says")
	}
	seed := *first
	if seed == 0 {
		seed = uint64(time.Now().Unix()) * 1000
	}
	var all sum
	began := time.Now()
	end, told := began.Add(time.Duration(*hours*float64(time.Hour))), began
	if deadline, ok := t.Deadline(); ok && deadline.Before(end) {
		t.Fatalf("-timeout ends it before -hours do: 0 is none")
	}
	for ; time.Now().Before(end); seed++ {
		try := func(o Options) Outcome { return runApart(os.Args[0], seed, o) }
		out := try(Options{})
		all.add(out)
		if failed := len(out.Broken) > 0; failed || seed%50 == 0 {
			if again := try(Options{}); again.Sum != out.Sum && !race {
				t.Logf("seed %d did not do the same again: the machine is overloaded, or something is left to chance", seed)
			}
		}
		if len(out.Broken) > 0 {
			options, smaller := shrink(out, try)
			t.Error(failure(seed, options, smaller))
		}
		if time.Since(told) > time.Minute {
			told = time.Now()
			fmt.Fprintf(os.Stderr, "%v, seed %d: %v\n", told.Sub(began).Round(time.Second), seed, &all)
		}
	}
	t.Log(&all)
}
