package config

import (
	"bytes"
	"fmt"
	"sort"

	"github.com/magiconair/properties"
)

// setting is one key with its value and where it was given.
type setting struct {
	key, raw string
	file     string
	line     int    // 0 = not in a file
	variable string // of the environment; "" = not from there
}

// name is what a person called the key.
func (s setting) name() string {
	if s.variable != "" {
		return s.variable
	}
	return s.key
}

// readProperties reads a file in the format of java.util.Properties. The library knows the format but tells no lines, so
// it is given one logical line at a time. A line that is no property is a fault.
func readProperties(file string, text []byte) ([]setting, []Fault) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	var settings []setting
	var faults []Fault
	text = unixLines(text)
	for number := 1; len(text) > 0; {
		logical, lines := logicalLine(text)
		text = text[len(logical):]
		parsed, err := loader.LoadBytes(logical)
		if err != nil {
			faults = append(faults, Fault{File: file, Line: number, Text: fmt.Sprintf("cannot be read: %v", err)})
		} else {
			for _, key := range parsed.Keys() { // one, or none if the line is empty or a comment
				raw, _ := parsed.Get(key)
				settings = append(settings, setting{key: key, raw: raw, file: file, line: number})
			}
		}
		number += lines
	}
	return settings, faults
}

// unixLines drops a byte order mark and makes every line end as on Unix: the library does not see that a line goes on when
// its backslash stands before CR LF.
func unixLines(text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	return bytes.ReplaceAll(text, []byte("\r"), []byte("\n"))
}

// logicalLine returns the first line of text together with those that continue it, ends included, and how many they
// are. A line goes on when it ends with an odd number of backslashes; a comment never does, and neither does it continue
// one.
func logicalLine(text []byte) (logical []byte, lines int) {
	comment := false
	for n := 0; n < len(text); lines++ {
		line := text[n:]
		if i := bytes.IndexByte(line, '\n'); i >= 0 {
			line = line[:i+1]
		}
		n += len(line)
		content := bytes.TrimSuffix(line, []byte("\n"))
		if lines == 0 {
			start := bytes.TrimLeft(content, " \t\f")
			comment = len(start) > 0 && (start[0] == '#' || start[0] == '!')
		}
		slashes := len(content) - len(bytes.TrimRight(content, `\`))
		if comment || slashes%2 == 0 {
			return text[:n], lines + 1
		}
	}
	return text, lines
}

// latest keeps the last of several settings of one key, sorted by key, and warns of those that the same file sets twice.
func latest(settings []setting) ([]setting, []Warning) {
	at := map[string]int{}
	var kept []setting
	var warnings []Warning
	for _, s := range settings {
		i, again := at[s.key]
		if !again {
			at[s.key] = len(kept)
			kept = append(kept, s)
			continue
		}
		if old := kept[i]; old.line > 0 && s.line > 0 {
			warnings = append(warnings, Warning{s.file, s.line, s.key, fmt.Sprintf("is set a second time and counts; the one on line %d does not", old.line)})
		}
		kept[i] = s
	}
	sort.Slice(kept, func(i, j int) bool { return kept[i].key < kept[j].key })
	return kept, warnings
}
