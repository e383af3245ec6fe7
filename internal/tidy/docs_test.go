package tidy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fence    = regexp.MustCompile("(?ms)^```.*?^```")
	link     = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	heading  = regexp.MustCompile(`(?m)^# `)
	ownPaths = regexp.MustCompile(`/(work|root)/|/tmp/[a-z]`)
)

// TestDocuments: one title each, and every relative link leads somewhere.
func TestDocuments(t *testing.T) {
	for _, path := range walk(t, ".md") {
		text := fence.ReplaceAllString(read(t, path), "")
		if n := len(heading.FindAllString(text, -1)); n != 1 {
			t.Errorf("%s has %d titles (lines with one #), want 1", path, n)
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s: dead link %s", path, m[1])
			}
		}
	}
}

// TestNoMachinePaths: nothing that is committed names a folder of one machine.
func TestNoMachinePaths(t *testing.T) {
	for _, ending := range []string{".go", ".md", ".sh", ".properties", ".yml"} {
		for _, path := range walk(t, ending) {
			if strings.HasPrefix(path, "internal/tidy/") {
				continue
			}
			for i, line := range strings.Split(read(t, path), "\n") {
				if ownPaths.MatchString(line) && !strings.Contains(line, "/tmp/kafka-logs") && !strings.Contains(line, "/tmp/kraft") {
					t.Errorf("%s:%d: a machine's path: %s", path, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}

// TestMetricsAreDescribed: every metric has its row in docs/operations/monitoring.md, and no page tells of one that there is not.
func TestMetricsAreDescribed(t *testing.T) {
	const page = "docs/operations/monitoring.md"
	name := regexp.MustCompile(`moldau_[a-z_]*[a-z]\b`)
	row := regexp.MustCompile("(?m)^\\| `moldau_.*")
	declared := make(map[string]bool)
	for _, path := range walk(t, ".go") {
		if !strings.HasPrefix(path, "internal/") || strings.HasSuffix(path, "_test.go") {
			continue
		}
		for _, literal := range regexp.MustCompile(`"moldau_[a-z_]+"`).FindAllString(read(t, path), -1) {
			declared[strings.Trim(literal, `"`)] = true
		}
	}
	described := make(map[string]bool)
	for _, line := range row.FindAllString(read(t, page), -1) {
		names, _, _ := strings.Cut(line[2:], " | ")
		for _, n := range name.FindAllString(names, -1) {
			described[n] = true
		}
	}
	for _, n := range sortedKeys(declared) {
		if !described[n] {
			t.Errorf("%s has no row for the metric %s", page, n)
		}
	}
	for _, path := range walk(t, ".md") {
		if path == "CHANGELOG.md" {
			continue // of what there was
		}
		for _, n := range name.FindAllString(read(t, path), -1) {
			if part := regexp.MustCompile(`_(bucket|sum|count)$`); !declared[n] && !declared[part.ReplaceAllString(n, "")] {
				t.Errorf("%s tells of the metric %s, which there is not", path, n)
			}
		}
	}
}
