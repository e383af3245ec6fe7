package cli

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerSlack is how late the kernel may wake a node's threads. Go's scheduler has a thread of its own that sleeps 20 µs at a
// time while anything runs, and longer only when nothing has blocked for a while, which is never in a node that syncs: with
// the kernel's 50 µs it takes a sixth of the CPU of a small Produce. No timer of a node needs to be more exact.
const timerSlack = time.Millisecond

// coarseTimers makes timerSlack the slack of every thread of the process: docs/decisions/0012-coarse-timers.md. A thread
// has it from the one that made it, and that of the scheduler is there before main, so the process executes itself again,
// under the same number. Where that is impossible it goes on as it is.
func coarseTimers() {
	if slices.Contains(os.Environ(), startedAgain) {
		return
	}
	if now, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0); err != nil || time.Duration(now) >= timerSlack {
		return
	}
	self, err := os.Executable()
	if err != nil || unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(timerSlack), 0, 0, 0) != nil {
		return
	}
	_ = syscall.Exec(self, os.Args, append(os.Environ(), startedAgain)) // returns only if it failed
}
