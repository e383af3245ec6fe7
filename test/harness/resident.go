package harness

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
)

var vmRSS = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// ResidentKiB is what a process takes of the machine's memory. Where the system does not tell, the test is skipped.
func ResidentKiB(t T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		Missing(t, "no process status here: %v", err)
	}
	m := vmRSS.FindSubmatch(text)
	if m == nil {
		t.Fatalf("no VmRSS in %s", text)
	}
	kib, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", m[0], err)
	}
	return kib
}
