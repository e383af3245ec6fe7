package foreign

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestExpectationFiles: each file reads as it was written, and each line has a reason.
func TestExpectationFiles(t *testing.T) {
	files, err := filepath.Glob(expectationFile("*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := parseExpectation(text)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if e.String() != string(text) {
			t.Errorf("%s is not sorted, or has a line twice", file)
		}
		for n, x := range e.tests {
			if strings.HasPrefix(x.reason, unexplained) {
				t.Errorf("%s: %s: nobody has found out why it does not pass", file, n)
			}
		}
	}
}

// TestDifferences: nothing that changes goes unnoticed.
func TestDifferences(t *testing.T) {
	e, err := parseExpectation([]byte("pass 2 g\nfail g red: needs x\nskip g away: no x\nleave g long: needs x\npass 1 other\n"))
	if err != nil {
		t.Fatal(err)
	}
	asExpected := map[string]outcome{"a": passed, "b": passed, "red": failed, "away": skipped}
	for _, c := range []struct {
		change map[string]outcome // "" removes the test
		want   []string
	}{
		{nil, nil},
		{map[string]outcome{"a": failed}, []string{"g a: fail, not expected: ", "g: 1 tests pass, expected 2"}},
		{map[string]outcome{"a": ""}, []string{"g: 1 tests pass, expected 2"}},
		{map[string]outcome{"c": passed}, []string{"g: 3 tests pass, expected 2"}},
		{map[string]outcome{"red": passed}, []string{"g red: passes now; it was expected to fail: needs x", "g: 3 tests pass, expected 2"}},
		{map[string]outcome{"red": ""}, []string{"g red: did not run; expected to fail"}},
		{map[string]outcome{"away": failed}, []string{"g away: fail, not expected: "}},
		{map[string]outcome{"long": failed}, []string{"g long: fail, not expected: "}},
	} {
		results := make(map[name]result)
		for test, o := range asExpected {
			results[name{"g", test}] = result{outcome: o}
		}
		for test, o := range c.change {
			results[name{"g", test}] = result{outcome: o}
			if o == "" {
				delete(results, name{"g", test})
			}
		}
		if got := e.differences([]string{"g"}, results); !slices.Equal(got, c.want) {
			t.Errorf("%v:\ngot  %q\nwant %q", c.change, got, c.want)
		}
	}
	// What was learnt is what was seen.
	results := map[name]result{{"g", "a"}: {outcome: passed}, {"g", "b"}: {outcome: failed, why: "broken"}, {"g", "red"}: {outcome: failed}}
	e.learn([]string{"g"}, results)
	if got := e.differences([]string{"g"}, results); len(got) != 0 {
		t.Errorf("after learn: %q", got)
	}
	if want := "pass 1 g\nfail g b: unexplained: broken\nleave g long: needs x\nfail g red: needs x\npass 1 other\n"; e.String() != want {
		t.Errorf("learnt:\n%s", e)
	}
}
