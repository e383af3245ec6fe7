package config

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// nearest returns the known key that a user most probably meant by an unknown one.
func nearest(key string) (string, bool) {
	// Other separators, another case, or underscores as in an environment variable.
	if name, ok := brokerByPlain[plainName(key)]; ok {
		return name, true
	}
	// A topic's key in a node's file.
	if row, ok := topicByName[key]; ok {
		if len(row.Synonyms) > 0 {
			return row.Synonyms[0].Name, true
		}
		return "", false
	}
	return Closest(key, func(yield func(string) bool) {
		for _, row := range brokerRows {
			if row.Standing != Removed && !yield(row.Name) {
				return
			}
		}
	})
}

// Closest returns the first of the names that is misspelt as key by the fewest letters: up to two, fewer in a short word, where two
// letters make another word.
func Closest(key string, names iter.Seq[string]) (string, bool) {
	best, bestDistance := "", min(2, len(key)/4)+1
	for name := range names {
		if d := distance(key, name, bestDistance); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best, best != ""
}

// suggestion completes a sentence about a name that is not one of those.
func suggestion[V any](name string, names map[string]V) string {
	if near, ok := Closest(name, slices.Values(slices.Sorted(maps.Keys(names)))); ok {
		return "; did you mean " + near + "?"
	}
	return ""
}

// brokerByPlain finds the keys that still have a meaning by their plain names.
var brokerByPlain = func() map[string]string {
	names := map[string]string{}
	for _, row := range brokerRows {
		if row.Standing != Removed {
			names[plainName(row.Name)] = row.Name
		}
	}
	return names
}()

// plainName drops what people mix up.
func plainName(s string) string {
	return strings.Map(func(r rune) rune { // not a Replacer: one for each key would cost every start milliseconds
		if r == '.' || r == '-' || r == '_' {
			return -1
		}
		return r
	}, strings.ToLower(s))
}

// distance counts the insertions, deletions, substitutions and swaps of neighbours that turn a into b, each once
// (optimal string alignment). It may stop at limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, above := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above = above, row
	}
	return above[len(b)]
}
