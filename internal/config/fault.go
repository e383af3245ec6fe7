package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File  string // "" = the command line
	Line  int    // 0 = no particular line
	Key   string // "" = no particular key
	Value string // as given, or dots for a password
	Text  string // what is wrong and what is allowed
}

// String returns the fault as one line that starts with its place.
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(place(f.File, f.Line))
	if f.Key != "" {
		fmt.Fprintf(&b, "%s=%s: ", f.Key, f.Value)
	}
	b.WriteString(f.Text)
	return b.String()
}

// Faults is every fault of one configuration, in the order of the file.
type Faults []Fault

// Error returns all faults, one a line.
func (fs Faults) Error() string {
	lines := make([]string, len(fs))
	for i, f := range fs {
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

// String returns the warning as one line that starts with its place.
func (w Warning) String() string { return place(w.File, w.Line) + w.Key + " " + w.Text }

func place(file string, line int) string {
	switch {
	case line > 0:
		return fmt.Sprintf("%s:%d: ", file, line)
	case file != "":
		return file + ": "
	default:
		return ""
	}
}

func (fs Faults) sorted() Faults {
	slices.SortStableFunc(fs, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
	return fs
}

// shown is what a message may say of a value.
func shown(t Type, raw string) string {
	if t == Password {
		return "•••"
	}
	if len(raw) > 200 {
		return raw[:200] + "…"
	}
	return raw
}
