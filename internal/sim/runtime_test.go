package sim

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// change is what a build has instead of something that stands in a source file once.
type change struct{ file, old, new string }

// steadied is what Go's runtime decides by chance or by the machine's clock, in builds of these tests not: a goroutine that runs
// for 10 ms of real time lets others go first, of timers that are due at one instant any may be first, and a select sets its timers
// in the order of its channels' addresses, which follow from how threads of the runtime shared the sweeping of memory. A version of
// Go that says these things in other words is used as it is: then runs of one seed can differ on a busy machine.
var steadied = []change{
	{"proc.go", "const forcePreemptNS = 10 * 1000 * 1000", "const forcePreemptNS = 1 << 60"},
	{"time.go", "			t.rand = cheaprand()", "			t.rand = 0"},
	{
		"select.go", `
		if c.timer != nil {
			blockTimerChan(c)
		}
	}
`, `	}
	for i := range scases { // in the order of the cases
		if c := scases[i].c; c != nil && c.timer != nil {
			blockTimerChan(c)
		}
	}
`,
	},
}

// apply returns the file as the change leaves it.
func (c change) apply() (string, error) {
	source, err := os.ReadFile(c.file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), c.old); n != 1 {
		return "", fmt.Errorf("%s has %q %d times, want once", c.file, c.old, n)
	}
	return strings.Replace(string(source), c.old, c.new, 1), nil
}

// compile builds a binary of this package's tests, with the tag and with changed sources.
func compile(binary string, changes []change, flags ...string) error {
	if !race { // which shuffles the scheduler anyway
		root, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return fmt.Errorf("go env GOROOT: %w", err)
		}
		for _, c := range steadied {
			c.file = filepath.Join(strings.TrimSpace(string(root)), "src", "runtime", c.file)
			if _, err := c.apply(); err != nil {
				fmt.Fprintln(os.Stderr, "built without a change of Go's runtime:", err)
				continue
			}
			changes = append(changes, c)
		}
	}
	dir, err := os.MkdirTemp("", "sim")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	overlay, err := overlayOf(dir, changes)
	if err != nil {
		return err
	}
	build := exec.Command("go", slices.Concat([]string{"test", "-c", "-tags", "sim", "-overlay", overlay, "-o", binary}, flags, []string{"."})...)
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go test -c -tags sim: %w\n%s", err, out)
	}
	return nil
}

// overlayOf writes changed sources into a directory, and returns the file that -overlay wants.
func overlayOf(dir string, changes []change) (string, error) {
	replaced := make(map[string]string)
	for i, c := range changes {
		source, err := c.apply()
		if err != nil {
			return "", err
		}
		replaced[c.file] = filepath.Join(dir, fmt.Sprintf("%d_%s", i, filepath.Base(c.file)))
		if err := os.WriteFile(replaced[c.file], []byte(source), 0o600); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}
