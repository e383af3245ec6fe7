package cli

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// object is a JSON object that keeps the order of its members. A member's value is nil, a bool, int64, float64, string,
// []byte, json.RawMessage, kafka.UUID, []any or object.
type object []member

type member struct {
	name  string
	value any
}

// get returns the value of a name and where it is; nil where it is not.
func (o object) get(name string) (value any, at *any) {
	for i := range o {
		if o[i].name == name {
			return o[i].value, &o[i].value
		}
	}
	return nil, nil
}

// javaJSON is v as Kafka's tools print it with Jackson: on one line, without blanks, letters outside ASCII as they are.
func javaJSON(v any) string {
	var b strings.Builder
	writeJavaJSON(&b, v)
	return b.String()
}

func writeJavaJSON(b *strings.Builder, v any) {
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		b.WriteString(javaDouble(v))
	case string:
		writeJavaString(b, v)
	case json.RawMessage:
		b.Write(v)
	case []byte:
		writeJavaString(b, base64.StdEncoding.EncodeToString(v))
	case kafka.UUID:
		writeJavaString(b, v.String())
	case []any:
		b.WriteByte('[')
		for i, one := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJavaJSON(b, one)
		}
		b.WriteByte(']')
	case object:
		b.WriteByte('{')
		for i, m := range v {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJavaString(b, m.name)
			b.WriteByte(':')
			writeJavaJSON(b, m.value)
		}
		b.WriteByte('}')
	}
}

func writeJavaString(b *strings.Builder, s string) {
	b.WriteByte('"')
	for _, r := range s { // what is no UTF-8 becomes U+FFFD, as in Java
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r >= ' ':
			b.WriteRune(r)
		case strings.ContainsRune("\b\t\n\f\r", r):
			b.WriteByte('\\')
			b.WriteByte("btn?fr"[r-'\b'])
		default:
			fmt.Fprintf(b, `\u%04X`, r)
		}
	}
	b.WriteByte('"')
}

// javaDouble is Double.toString: digits on both sides of the point, and an exponent from ten million on and below a
// thousandth.
func javaDouble(f float64) string {
	switch size := math.Abs(f); {
	case math.IsNaN(f), math.IsInf(f, 0):
		return `"` + strings.Replace(strings.TrimPrefix(strconv.FormatFloat(f, 'f', -1, 64), "+"), "Inf", "Infinity", 1) + `"`
	case f == 0 || size >= 1e-3 && size < 1e7:
		text := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		return text
	}
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(digits, ".") {
		digits += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return digits + "E" + strconv.Itoa(n)
}
