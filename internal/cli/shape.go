package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// shape is how one kind of internal record is laid out.
type shape struct {
	name     string // the last part of its name in the table
	versions span
	flexible int16 // from this version on; KIP-482
	fields   []field
}

// field is one field of a shape, or of a struct in one.
type field struct {
	name     string
	versions span
	tag      int64  // -1: not a tagged field
	arrays   int    // how many deep
	kind     string // "struct" for one with fields
	nullable bool   // a struct only: everything else says by itself whether it is null
	fields   []field
}

// span is versions, both ends included.
type span struct{ from, to int16 }

func (s span) has(version int16) bool { return version >= s.from && version <= s.to }

// findShape returns the shape whose name in the table is prefix and one more part.
func findShape(prefix string) (*shape, bool) {
	start := strings.Index(shapes, "\n"+prefix+".")
	if start < 0 {
		return nil, false
	}
	line, _, _ := strings.Cut(shapes[start+1:], "\n")
	words := append(strings.SplitN(line, " ", 4), "") // a record may have no fields
	s := &shape{name: words[0][len(prefix)+1:], versions: parseSpan(words[1]), flexible: math.MaxInt16}
	if words[2] != "-" {
		s.flexible = parseSpan(words[2]).from
	}
	s.fields, _ = parseFields(words[3], s.versions)
	return s, true
}

// parseSpan reads 2-4, 2+ or 2. The table is our own and TestShapes reads all of it, so nothing else comes here.
func parseSpan(text string) span {
	from, to, closed := strings.Cut(strings.TrimSuffix(text, "+"), "-")
	first, _ := strconv.ParseInt(from, 10, 16)
	if !closed {
		return span{int16(first), math.MaxInt16}
	}
	last, _ := strconv.ParseInt(to, 10, 16)
	return span{int16(first), int16(last)}
}

// parseFields reads fields by comma up to the end or to the brace that closes a struct, and returns what is behind it.
func parseFields(text string, all span) (fields []field, rest string) {
	for text != "" && text[0] != '}' {
		head, kind, _ := strings.Cut(strings.TrimPrefix(text, ", "), " ")
		f := field{versions: all, tag: -1}
		if name, tag, ok := strings.Cut(head, "@"); ok {
			f.tag, _ = strconv.ParseInt(tag, 10, 32)
			head = name
		}
		name, versions, some := strings.Cut(head, ":")
		if f.name = name; some {
			f.versions = parseSpan(versions)
		}
		for strings.HasPrefix(kind, "[]") {
			f.arrays, kind = f.arrays+1, kind[2:]
		}
		if kind[0] == '?' {
			f.nullable, kind = true, kind[1:]
		}
		if kind[0] == '{' {
			f.kind = "struct"
			f.fields, kind = parseFields(kind[1:], all)
			text = kind[1:]
		} else {
			end := strings.IndexAny(kind+",", ",}")
			f.kind, text = kind[:end], kind[end:]
		}
		fields = append(fields, f)
	}
	return fields, text
}

// read decodes what is behind the version of a record. Bytes at the end that no field has are left alone, as Kafka does.
func (s *shape) read(b []byte, version int16) (object, error) {
	if !s.versions.has(version) {
		return nil, fmt.Errorf("version %d of %s is not known, only %d to %d", version, s.name, s.versions.from, s.versions.to)
	}
	r := &shapeReader{b: b, version: version, flexible: version >= s.flexible}
	o := r.object(s.fields)
	return o, r.err
}
