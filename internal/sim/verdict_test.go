package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// A run that may end in a panic, or never, has a process of its own, which says what came of it in one line.

const verdictMark = "VERDICT "

// runTimeout is how long one run may take. It is some seconds on a quiet machine, and minutes of seven nodes on one that is overloaded.
const runTimeout = 15 * time.Minute

func tellVerdict(o Outcome) {
	o.Trace = nil
	line, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	fmt.Println(verdictMark + string(line))
}

// runApart has a binary of this package's tests run one seed. A panic of a node is a broken promise too.
func runApart(binary string, seed uint64, o Options, more ...string) Outcome {
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	flags := slices.Concat([]string{"-test.run", "TestSeeds$", "-verdict"}, arguments(seed, o), more)
	run := exec.CommandContext(ctx, binary, flags...)
	var stdout, stderr bytes.Buffer
	run.Stdout, run.Stderr = &stdout, &stderr
	err := run.Run()
	for line := range strings.SplitSeq(stdout.String(), "\n") {
		var out Outcome
		if _, text, found := strings.Cut(line, verdictMark); found && json.Unmarshal([]byte(text), &out) == nil {
			return out
		}
	}
	told := stdout.String() + stderr.String()
	what := fmt.Sprintf("the process ended without a verdict: %v", err)
	for line := range strings.SplitSeq(told, "\n") {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") {
			what = line
			break
		}
	}
	if ctx.Err() != nil {
		return Outcome{Plan: planned(seed, o), Broken: []Broken{{inTime, "the run does not end"}}}
	}
	return Outcome{Plan: planned(seed, o), Broken: []Broken{{sound, what}}, Tail: told[max(0, len(told)-8000):]}
}
