package foreign

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// goSuite is a test binary of somebody else's Go package.
type goSuite struct {
	pkg       string        // import path
	dir       string        // folder of a module that requires it
	run, skip string        // regular expressions of tests, "" for none
	env       []string      // what points it at the node
	timeout   time.Duration // of the whole run
}

var verdict = regexp.MustCompile(`(?m)^ *--- (PASS|FAIL|SKIP): (\S+) \(`)

// results builds the suite and runs it in its package's folder, where it finds its files.
func (s goSuite) results(t *testing.T, group string, prefix ...string) map[name]result {
	t.Helper()
	golang := harness.Tool(t, "go", "install Go 1.26 or newer")
	tool := func(args ...string) string {
		cmd := exec.Command(golang, args...)
		cmd.Dir = s.dir
		cmd.Env = append(os.Environ(), "GOWORK=off")
		out, err := harness.Output(cmd, "")
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return strings.TrimSpace(out)
	}
	binary := t.TempDir() + "/suite.test"
	tool("test", "-c", "-o", binary, s.pkg)
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout+time.Minute)
	defer cancel()
	args := append(prefix[:len(prefix):len(prefix)], binary, "-test.v", "-test.timeout="+s.timeout.String())
	if s.run != "" {
		args = append(args, "-test.run="+s.run)
	}
	if s.skip != "" {
		args = append(args, "-test.skip="+s.skip)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = tool("list", "-f", "{{.Dir}}", s.pkg)
	cmd.Env = append(os.Environ(), s.env...)
	out, err := harness.Output(cmd, "")
	results := make(map[name]result)
	for _, m := range verdict.FindAllStringSubmatch(out, -1) {
		results[name{group, m[2]}] = result{outcome: outcome(strings.ToLower(m[1]))}
	}
	// A panic or a timeout ends everything before all have a verdict.
	if err != nil && !regexp.MustCompile(`(?m)^FAIL$`).MatchString(out) {
		t.Fatalf("the suite did not come to its end: %v\n%s", err, tail(out, 20000))
	}
	if err != nil {
		t.Logf("the suite's output ends with\n%s", tail(out, 8000))
	}
	return results
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// either is a regular expression that matches the names and nothing else, or "" if there are none.
func either(names []name) string {
	var quoted []string
	for _, n := range names {
		quoted = append(quoted, regexp.QuoteMeta(n.test))
	}
	if len(quoted) == 0 {
		return ""
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}
