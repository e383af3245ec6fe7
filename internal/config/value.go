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
func (r *Row) parse(raw string) (v value, want string) {
	v, ok := r.Type.parse(raw)
	if ok && (r.Check.holds == nil || r.Check.holds(v)) {
		return v, ""
	}
	switch allowed := r.Check.Allowed; {
	case allowed == "":
		return value{}, r.Type.noun()
	case r.Type == String || r.Type == List:
		return value{}, allowed
	default:
		return value{}, r.Type.noun() + ", " + allowed
	}
}

// parse reads raw as Java's ConfigDef.parseType does: surrounding space does not count.
func (t Type) parse(raw string) (v value, ok bool) {
	raw = strings.TrimSpace(raw)
	bits := 64
	switch t {
	case Bool:
		switch {
		case strings.EqualFold(raw, "true"):
			return value{truth: true}, true
		case strings.EqualFold(raw, "false"):
			return value{}, true
		}
		return value{}, false
	case Short, Int, Long:
		if t == Short {
			bits = 16
		} else if t == Int {
			bits = 32
		}
		n, err := strconv.ParseInt(raw, 10, bits)
		if err != nil {
			return value{}, false
		}
		return value{number: n}, true
	case Double:
		f, err := strconv.ParseFloat(raw, 64)
		if err != nil || math.IsNaN(f) || strings.ContainsAny(raw, "xX_pP") {
			return value{}, false
		}
		return value{double: f}, true
	case List:
		return value{list: splitList(raw)}, true
	default:
		return value{text: raw}, true
	}
}

// noun names the type in a sentence.
func (t Type) noun() string {
	switch t {
	case Bool:
		return "true or false"
	case Short:
		return "a whole number up to 32767"
	case Int:
		return "a whole number up to 2147483647"
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
