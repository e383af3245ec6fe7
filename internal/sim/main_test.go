package sim

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
)

var (
	oneSeed  = flag.Uint64("seed", 0, "replay this one seed")
	whole    = flag.Bool("whole", false, "with -seed: print every event")
	rounds   = flag.Int("rounds", 0, "with -seed: end after so many faults")
	skip     = flag.String("skip", "", "with -seed: rounds without their fault, with commas")
	verdict  = flag.Bool("verdict", false, "with -seed: one line of JSON about what came of it")
	inDisk   = flag.String("planted", "", "with -seed: a planted bug between the nodes and their disks")
	bugNamed = flag.String("bug", "", "look for the planted bugs whose names contain this")
	searches = flag.Int("searches", 1, "how often to look for each planted bug")
	without  = flag.String("without", "", "with -seed: features to leave out, with commas")
	seeds    = flag.Int("seeds", 0, "how many seeds to run; 0 asks MOLDAU_EFFORT")
)

// TestMain runs this package's tests under the build tag "sim", which they need, whoever started them: without the tag
// it builds them again with it and passes flags, output and result through.
func TestMain(m *testing.M) {
	if tagged {
		runtime.GOMAXPROCS(1) // goroutines that are awake together run in a fixed order
		os.Exit(m.Run())
	}
	os.Exit(retag())
}

func retag() int {
	binary := os.Args[0] + ".sim"
	var flags []string
	if race {
		flags = append(flags, "-race")
	}
	if err := compile(binary, nil, flags...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.Remove(binary)
	run := exec.Command(binary, os.Args[1:]...)
	run.Stdout, run.Stderr = os.Stdout, os.Stderr
	if err := run.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
