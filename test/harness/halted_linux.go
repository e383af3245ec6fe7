package harness

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Halted tells whether no thread of a process runs in user space any more: each is stopped, or waits for a disk and will be.
func Halted(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended
		}
		_, after, _ := strings.Cut(string(stat), ") ") // the name may hold anything
		if !strings.ContainsAny(after[:min(1, len(after))], "TtDZX") {
			return false
		}
	}
	return true
}
