package config

import (
	"math"
	"strconv"
	"strings"
)

// Type is the type of a value. The numbers are those of DescribeConfigs (KIP-569).
type Type int8

// The types of values.
const (
	Bool     Type = 1
	String   Type = 2
	Int      Type = 3 // 32 bits
	Short    Type = 4 // 16 bits
	Long     Type = 5 // 64 bits
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// parse reads raw as a value of this row and checks it. A failure is the end of the sentence "want …".
func (r *Row) parse(raw string) (value, string) {
	v, want := r.Type.parse(raw)
	if want == "" && (r.Check.holds == nil || r.Check.holds(v)) {
		return v, ""
	}
	switch {
	case want == "":
		want = r.Type.noun()
		if r.Check.Allowed != "" && (r.Type == String || r.Type == List) {
			want = r.Check.Allowed
		} else if r.Check.Allowed != "" {
			want += ", " + r.Check.Allowed
		}
	case r.Check.Allowed != "":
		want += ", " + r.Check.Allowed
	}
	return value{}, want
}

// parse reads raw as Java's ConfigDef.parseType does: surrounding space does not count.
func (t Type) parse(raw string) (v value, want string) {
	raw = strings.TrimSpace(raw)
	bits := 64
	switch t {
	case Bool:
		switch {
		case strings.EqualFold(raw, "true"):
			return value{truth: true}, ""
		case strings.EqualFold(raw, "false"):
			return value{}, ""
		}
		return value{}, t.noun()
	case Short, Int, Long:
		if t == Short {
			bits = 16
		} else if t == Int {
			bits = 32
		}
		n, err := strconv.ParseInt(raw, 10, bits)
		if err != nil {
			return value{}, t.noun()
		}
		return value{number: n}, ""
	case Double:
		f, err := strconv.ParseFloat(raw, 64)
		if err != nil || math.IsNaN(f) || strings.ContainsAny(raw, "xX_pP") {
			return value{}, t.noun()
		}
		return value{double: f}, ""
	case List:
		return value{list: splitList(raw)}, ""
	default:
		return value{text: raw}, ""
	}
}

// noun names the type in a sentence.
func (t Type) noun() string {
	switch t {
	case Bool:
		return "true or false"
	case Short, Int:
		return "a whole number"
	case Long:
		return "a whole number"
	case Double:
		return "a number"
	case List:
		return "a list separated by commas"
	default:
		return "text"
	}
}

// String returns the type as the documentation names it.
func (t Type) String() string {
	names := [...]string{Bool: "boolean", String: "string", Int: "int", Short: "short", Long: "long", Double: "double", List: "list", Class: "class", Password: "password"}
	if int(t) >= len(names) || t <= 0 {
		return "unknown"
	}
	return names[t]
}

// splitList cuts at commas. Like Kafka it drops the space around an element and takes an empty text as no elements.
func splitList(raw string) []string {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return nil
	}
	parts := strings.Split(raw, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	return parts
}
