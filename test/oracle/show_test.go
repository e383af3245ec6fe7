package oracle

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
)

// shower says what an answer says on one line, without what is as it is by default and what differs from run to run.
type shower struct {
	ids map[[16]byte]string // names of topics
}

// hidden are fields that differ from run to run, or from one machine to the next.
var hidden = []string{"Version", "UnknownTags", "ThrottleMillis", "TotalBytes", "UsableBytes", "ApiKeys", "SupportedFeatures", "FinalizedFeatures"}

// random are fields whose value differs, and counts only for whether it is there.
var random = []string{"ClusterID", "SessionID", "ProducerID", "MemberID", "Dir", "Port", "FinalizedFeaturesEpoch", "LeaderID", "Position", "ClientInstanceID", "SubscriptionID"}

// texts are fields for people.
var texts = []string{"ErrorMessage", "Documentation"}

// versionInName matches the version that a scene puts into a name, so that the answers of all versions are the same.
var versionInName = regexp.MustCompile(`-v\d+\b`)

func (s shower) show(resp any) string {
	text := s.value("", reflect.ValueOf(resp).Elem())
	if text == "" {
		return "{}"
	}
	return versionInName.ReplaceAllString(text, "-vN")
}

// value is the text of a field; "" if it says nothing.
func (s shower) value(name string, v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return ""
		}
		return s.scalarOr(name, v.Elem())
	}
	return s.scalarOr(name, v)
}

func (s shower) scalarOr(name string, v reflect.Value) string {
	switch {
	case slices.Contains(hidden, name):
		return ""
	case slices.Contains(texts, name):
		return "…"
	case slices.Contains(random, name) && !v.IsZero() && fmt.Sprint(v) != "-1":
		return "some"
	}
	switch value := v.Interface().(type) {
	case [16]byte:
		if known, ok := s.ids[value]; ok {
			return "@" + known
		}
		return "some"
	case []byte:
		return records(value)
	}
	switch v.Kind() {
	case reflect.Struct:
		return s.fields(v)
	case reflect.Slice:
		var elements []string
		for i := range v.Len() {
			elements = append(elements, s.scalarOr("", v.Index(i)))
		}
		slices.Sort(elements)
		return "[" + strings.Join(elements, " ") + "]"
	case reflect.String:
		return strconv.Quote(v.String())
	}
	return number(name, v)
}

func number(name string, v reflect.Value) string {
	if v.Kind() == reflect.Int64 && v.Int() > 1_600_000_000_000 && v.Int() < 10_000_000_000_000 {
		return "now"
	}
	if name == "ErrorCode" {
		if err, ok := kerr.ErrorForCode(int16(v.Int())).(*kerr.Error); ok {
			return err.Message
		}
		return "NONE"
	}
	return fmt.Sprint(v)
}

// fields are those of a struct that do not have their default.
func (s shower) fields(v reflect.Value) string {
	plain := reflect.New(v.Type())
	if d, ok := plain.Interface().(interface{ Default() }); ok {
		d.Default()
	}
	var parts []string
	code := v.FieldByName("ErrorCode")
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if strings.HasPrefix(v.Type().Name(), "DescribeQuorum") && (name == "HighWatermark" || name == "LogEndOffset") {
			name = "Position" // how far the metadata log has come
		}
		if name == "ErrorMessage" && code.IsValid() && code.IsZero() {
			continue // a text that there was no error
		}
		if reflect.DeepEqual(f.Interface(), plain.Elem().Field(i).Interface()) || f.Kind() == reflect.Slice && f.Len() == 0 {
			continue
		}
		if text := s.value(name, f); text != "" {
			parts = append(parts, name+":"+text)
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// records says what batches or messages bytes hold, or the bytes themselves.
func records(data []byte) string {
	var parts []string
	for rest := data; len(rest) > 0; {
		part, after, err := firstOf(rest)
		if err != nil && parts != nil {
			break // Apache Kafka sends the beginning of what does not fit
		}
		if err != nil {
			return strconv.Quote(string(data))
		}
		parts = append(parts, part)
		rest = after
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

// firstOf says what the first batch or message of data is: base offset and number of records; for a message of format 0 or
// 1 its offset, and how many are in a compressed set.
func firstOf(data []byte) (said string, rest []byte, err error) {
	if !batch.IsMessageSet(data) {
		b, rest, err := batch.Next(data)
		if err != nil {
			return "", nil, err
		}
		return fmt.Sprintf("%d+%d %v", b.BaseOffset(), b.Count(), b.Codec()), rest, nil
	}
	size, offset, magic, err := batch.PeekHeader(data)
	if err != nil {
		return "", nil, err
	}
	if size > len(data) {
		return "", nil, batch.ErrShort
	}
	b, err := batch.FromMessages(data[:size], batch.UpOptions{})
	if err != nil {
		return "", nil, err
	}
	said = fmt.Sprintf("%d format %d", offset, magic)
	if b.Codec() != batch.None {
		said += fmt.Sprintf(" %v of %d", b.Codec(), b.Count())
	}
	return said, data[size:], nil
}
