package foreign

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// outcome is how one test of a suite ended.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip" // by itself, or by our launcher
)

// name is a test of a suite: its group (a class, a file, or the suite's only group) and its name in there.
type name struct{ group, test string }

func (n name) String() string { return n.group + " " + n.test }

// result is what was seen of a test.
type result struct {
	outcome outcome
	why     string // first line of what the suite says, "" if it says nothing
}

// expectation is what a suite's file says. The file has a line for everything but tests that pass:
//
//	pass N GROUP              N tests of the group pass
//	fail GROUP TEST: REASON   fails, for that reason
//	skip GROUP TEST: REASON   ends without a verdict
//	leave GROUP TEST: REASON  is not run
//	absent N GROUP: REASON    none of the group's N tests is run
//
// A reason that begins with "needs" names a feature that is missing; "unexplained" is not a reason.
type expectation struct {
	head   string // comment lines at the top
	passes map[string]int
	tests  map[name]expected
	absent map[string]absence
}

type expected struct{ verb, reason string }

type absence struct {
	tests  int
	reason string
}

const unexplained = "unexplained"

func expectationFile(suite string) string { return filepath.Join("testdata", suite+".txt") }

func readExpectation(t *testing.T, suite string) *expectation {
	t.Helper()
	text, err := os.ReadFile(expectationFile(suite))
	if err != nil && !(*update && os.IsNotExist(err)) {
		t.Fatal(err)
	}
	e, err := parseExpectation(text)
	if err != nil {
		t.Fatalf("%s: %v", expectationFile(suite), err)
	}
	return e
}

func parseExpectation(text []byte) (*expectation, error) {
	e := &expectation{passes: make(map[string]int), tests: make(map[name]expected), absent: make(map[string]absence)}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			e.head += line + "\n"
			continue
		}
		if line == "" {
			continue
		}
		what, reason, _ := strings.Cut(line, ": ")
		verb, rest, _ := strings.Cut(what, " ")
		first, second, _ := strings.Cut(rest, " ")
		bad := fmt.Errorf("line %d: %q", number, line)
		switch verb {
		case "pass", "absent":
			n, err := strconv.Atoi(first)
			if err != nil || second == "" || (verb == "absent") != (reason != "") {
				return nil, bad
			}
			if verb == "pass" {
				e.passes[second] = n
			} else {
				e.absent[second] = absence{n, reason}
			}
		case "fail", "skip", "leave":
			if second == "" || reason == "" {
				return nil, bad
			}
			e.tests[name{first, second}] = expected{verb, reason}
		default:
			return nil, bad
		}
	}
	return e, lines.Err()
}

func (e *expectation) String() string {
	var lines []string
	for group, n := range e.passes {
		lines = append(lines, fmt.Sprintf("%s\x00pass %d %s", group, n, group))
	}
	for group, a := range e.absent {
		lines = append(lines, fmt.Sprintf("%s\x00absent %d %s: %s", group, a.tests, group, a.reason))
	}
	for n, x := range e.tests {
		lines = append(lines, fmt.Sprintf("%s\x00z %s\x00%s %s: %s", n.group, n.test, x.verb, n, x.reason))
	}
	sort.Strings(lines)
	text := e.head
	for _, line := range lines {
		text += line[strings.LastIndex(line, "\x00")+1:] + "\n"
	}
	return text
}

// differences lists, sorted, where results of the given groups are not as expected.
func (e *expectation) differences(groups []string, results map[name]result) []string {
	ran := make(map[string]bool)
	for _, group := range groups {
		ran[group] = true
	}
	passes := make(map[string]int)
	var list []string
	for n, r := range results {
		x, listed := e.tests[n]
		switch {
		case !ran[n.group]:
			list = append(list, fmt.Sprintf("%s: a test of a group that was not asked for", n))
		case r.outcome == passed && listed:
			list = append(list, fmt.Sprintf("%s: passes now; it was expected to %s: %s", n, x.verb, x.reason))
		case r.outcome != passed && (!listed || x.verb != string(r.outcome)):
			list = append(list, fmt.Sprintf("%s: %s, not expected: %s", n, r.outcome, r.why))
		}
		if r.outcome == passed {
			passes[n.group]++
		}
	}
	for group := range ran {
		if passes[group] != e.passes[group] {
			list = append(list, fmt.Sprintf("%s: %d tests pass, expected %d", group, passes[group], e.passes[group]))
		}
	}
	for n, x := range e.tests {
		if _, seen := results[n]; ran[n.group] && !seen && x.verb != "leave" {
			list = append(list, fmt.Sprintf("%s: did not run; expected to %s", n, x.verb))
		}
	}
	sort.Strings(list)
	return list
}

// learn takes what was seen of the groups as expected, with the reasons that are known.
func (e *expectation) learn(groups []string, results map[name]result) {
	for _, group := range groups {
		delete(e.passes, group)
		for n, x := range e.tests {
			if _, seen := results[n]; n.group == group && x.verb != "leave" && !seen {
				delete(e.tests, n)
			}
		}
	}
	for n, r := range results {
		if r.outcome == passed {
			delete(e.tests, n)
			e.passes[n.group]++
			continue
		}
		x := expected{string(r.outcome), unexplained}
		if known, ok := e.tests[n]; ok {
			x.reason = known.reason
		}
		if x.reason == unexplained && r.why != "" {
			x.reason += ": " + r.why
		}
		e.tests[n] = x
	}
}

// check compares what was seen with the suite's file, or writes the file.
func (e *expectation) check(t *testing.T, suite string, groups []string, results map[name]result) {
	t.Helper()
	if *update {
		e.learn(groups, results)
		if err := os.WriteFile(expectationFile(suite), []byte(e.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range e.differences(groups, results) {
		t.Error(line)
	}
	count(t, suite, results)
}

// compare tells how results of another system differ from what is expected here.
func (e *expectation) compare(t *testing.T, suite string, groups []string, results map[name]result) {
	t.Helper()
	for _, line := range e.differences(groups, results) {
		t.Log(line)
	}
	count(t, suite, results)
}

func count(t *testing.T, suite string, results map[name]result) {
	t.Helper()
	counts := make(map[outcome]int)
	for _, r := range results {
		counts[r.outcome]++
	}
	t.Logf("%d tests of %s pass, %d fail and %d skip", counts[passed], suite, counts[failed], counts[skipped])
	if counts[passed] == 0 {
		t.Errorf("no test of %s has passed", suite)
	}
}

// names tells whether a test of the group is listed.
func (e *expectation) names(group string) bool {
	for n := range e.tests {
		if n.group == group {
			return true
		}
	}
	return false
}

// leaveOut lists the tests that are not run, sorted.
func (e *expectation) leaveOut() []name {
	var names []name
	for n, x := range e.tests {
		if x.verb == "leave" {
			names = append(names, n)
		}
	}
	sort.Slice(names, func(i, j int) bool { return names[i].String() < names[j].String() })
	return names
}
