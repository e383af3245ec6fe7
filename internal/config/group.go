package config

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// CheckGroup tells what is wrong with the settings of a group, beside those of all brokers, which bound them; nil if they
// may be set. Mirrors GroupConfigManager.validate.
func (c *Config) CheckGroup(values, all map[string]string) error {
	if err := checkRows(groupByName, "groups", values); err != nil {
		return err
	}
	brokers, err := c.over(nil, all)
	if err != nil {
		brokers = c // what is wrong with all was told when it was set
	}
	bound := func(name, which string) (value, bool) {
		kind, rest, _ := strings.Cut(name, ".")
		row, ok := brokerByName["group."+kind+"."+which+"."+strings.TrimPrefix(rest, "num.")]
		if !ok {
			return value{}, false
		}
		return (&loader{set: brokers.set}).get(row.Name), true
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v, _ := groupByName[name].parse(values[name])
		low, hasLow := bound(name, "min")
		high, hasHigh := bound(name, "max")
		if hasLow && v.number < low.number || hasHigh && v.number > high.number {
			return fmt.Errorf("%s=%s: want from %d to %d", name, values[name], low.number, high.number)
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		of := func(name string) int64 { return brokers.valueOver(groupByName[name], values).number }
		_, one := values[session]
		_, other := values[heartbeat]
		if (one || other) && of(session) <= of(heartbeat) {
			return fmt.Errorf("%s=%d: want more than %s, which is %d", session, of(session), heartbeat, of(heartbeat))
		}
	}
	return nil
}

// CheckClientMetrics tells what is wrong with a subscription to metrics of clients; nil if it may be set.
func CheckClientMetrics(values map[string]string) error {
	return checkRows(metricByName, "client metrics", values)
}

// Subscription is what is wanted of clients' metrics (KIP-714).
type Subscription struct {
	Metrics  []string // beginnings of names; "*" means all
	Interval time.Duration
	Match    []ClientPattern // all of them have to match
}

// ClientPattern is what a property of a client has to look like, in full.
type ClientPattern struct {
	Property string // client_id, client_instance_id, client_software_name …
	Pattern  *regexp.Regexp
}

// ClientMetrics reads a subscription; the error is CheckClientMetrics's.
func ClientMetrics(values map[string]string) (Subscription, error) {
	if err := CheckClientMetrics(values); err != nil {
		return Subscription{}, err
	}
	of := func(name string) value {
		row := metricByName[name]
		raw, ok := values[name]
		if !ok {
			raw = row.Default
		}
		v, _ := row.parse(raw)
		return v
	}
	s := Subscription{Metrics: of("metrics").list, Interval: time.Duration(of("interval.ms").number) * time.Millisecond}
	for _, pair := range of("match").list {
		property, pattern, _ := strings.Cut(pair, "=")
		s.Match = append(s.Match, ClientPattern{strings.TrimSpace(property), regexp.MustCompile("^(?:" + strings.TrimSpace(pattern) + ")$")})
	}
	return s, nil
}

// checkRows tells what is wrong with each setting by itself.
func checkRows(rows map[string]*Row, of string, values map[string]string) error {
	var wrong []string
	unknown, mistyped := false, false
	for _, name := range slices.Sorted(maps.Keys(values)) {
		row, ok := rows[name]
		if !ok {
			unknown = true
			wrong = append(wrong, fmt.Sprintf("%s is not a setting of %s", name, of)+suggestion(name, rows))
			continue
		}
		if _, want := row.parse(values[name]); want != "" {
			_, ok := row.Type.parse(values[name])
			mistyped = mistyped || !ok || row.Type == List
			wrong = append(wrong, fmt.Sprintf("%s=%s: want %s", name, shown(row.Type, values[name]), want))
		}
	}
	if wrong == nil {
		return nil
	}
	err := errors.New(strings.Join(wrong, "; "))
	if mistyped && !unknown {
		return &NotOfTypeError{err}
	}
	return err
}

// NotOfTypeError is about a value that a setting of its type cannot have, such as a word for a number, or an element of a list
// (Kafka's ConfigException and InvalidConfigurationException).
type NotOfTypeError struct{ error }

var durations = regexp.MustCompile(`^by_duration:-?P(\d+D)?(T(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?$`)

// shareReset takes what a share group may begin at (ShareGroupAutoOffsetResetStrategy).
func shareReset() Check {
	return Check{"earliest, latest or by_duration:PnDTnHnMn.nS", func(v value) bool {
		return v.text == "earliest" || v.text == "latest" ||
			durations.MatchString(v.text) && !strings.HasSuffix(v.text, "P") && !strings.HasSuffix(v.text, "T") && !strings.Contains(v.text, "-P")
	}}
}

// names takes a list without empty elements.
func names() Check {
	return Check{"names, none of them empty", func(v value) bool { return !slices.Contains(v.list, "") }}
}

// clientPatterns takes pairs of a client's property and a regular expression (ClientMetricsConfigs).
func clientPatterns() Check {
	properties := []string{"client_instance_id", "client_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port"}
	return Check{"pairs such as client_id=pattern, of " + alternatives(properties), func(v value) bool {
		for _, pair := range v.list {
			property, pattern, ok := strings.Cut(pair, "=")
			if _, err := regexp.Compile(strings.TrimSpace(pattern)); !ok || err != nil || !slices.Contains(properties, strings.TrimSpace(property)) {
				return false
			}
		}
		return true
	}}
}
