package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Source is what a Config is read from, lowest precedence first.
type Source struct {
	File      string   // name for messages; "" = no file, the built-in start on loopback
	Text      []byte   // the content of that file
	Env       []string // "NAME=value" of the process; only names that can be settings count
	Overrides []string // "key=value" from the command line

	// Here tells whether a host is this machine; nil: only loopback and what listeners name are. It is asked about hosts in
	// zookeeper.connect, of which a node is one.
	Here func(host string) bool
}

// Config is a checked configuration. The zero value is not usable: Load or Default makes one.
type Config struct {
	static   map[string]setting // as given before the start, by key; only keys that have a row or that nobody knows
	own, all map[string]string  // dynamic: of this broker alone, and of every broker
	set      map[string]setting // in force: own over all over static
	file     string             // where keys that were not given could stand
	here     func(host string) bool
	node     Node
}

// Warning is something that a person should know and that does not keep the node from starting.
type Warning struct {
	File string
	Line int // 0 = not from a file
	Key  string
	Text string
}

// noFile is what a node without a file is set to: one node, everything on loopback.
const noFile = "listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093\nzookeeper.listeners=127.0.0.1:2181\n"

// builtIn is the name of noFile in messages.
const builtIn = "built-in settings"

// overrideFile is how messages call the command line.
const overrideFile = "--override"

// Default returns the configuration of a node that is started without a file: broker and controller in one process,
// data in ./data, Kafka on 127.0.0.1:9092 and 9093, ZooKeeper's protocol on 2181, HTTP on 127.0.0.1:9644.
func Default() *Config {
	c, _, err := Load(Source{})
	if err != nil {
		// Only an edit of the table or of noFile can cause this, and TestDefault fails then.
		return &Config{}
	}
	return c
}

// Load reads and checks a configuration. If anything is wrong the error is a Faults with all that is. Warnings are told
// in either case.
func Load(src Source) (*Config, []Warning, error) {
	l := &loader{set: map[string]setting{}, here: src.Here}
	l.read(src)
	node := l.assemble()
	l.refuse(node)
	slices.SortStableFunc(l.warnings, func(a, b Warning) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line)) })
	if len(l.faults) > 0 {
		return nil, l.warnings, l.faults.sorted()
	}
	return &Config{static: l.set, set: l.set, file: l.file, here: l.here, node: node}, l.warnings, nil
}

// Node returns the settings of this process.
func (c *Config) Node() Node { return c.node }

// loader gathers settings, then faults and warnings about them. A key with a fault is taken out of set, so that what is
// checked later sees its default and says nothing about it a second time.
type loader struct {
	file     string // where keys that were not given could stand
	here     func(host string) bool
	set      map[string]setting
	faults   Faults
	warnings []Warning
}

func (l *loader) read(src Source) {
	file, text := src.File, src.Text
	if file == "" {
		file, text = builtIn, []byte(noFile)
	}
	l.file = file
	settings, faults := readProperties(file, text)
	l.faults = append(l.faults, faults...)
	settings = append(settings, l.environment(src.Env, settings)...)
	for _, override := range src.Overrides {
		key, raw, ok := strings.Cut(override, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			l.faults = append(l.faults, Fault{File: overrideFile, Value: override, Text: fmt.Sprintf("%q: want key=value", override)})
			continue
		}
		settings = append(settings, setting{key: key, raw: raw, file: overrideFile})
	}
	settings, warnings := latest(settings)
	l.warnings = append(l.warnings, warnings...)
	for _, s := range settings {
		l.take(s)
	}
}

// take checks one setting by itself and keeps it if it is good.
func (l *loader) take(s setting) {
	row, known := brokerRow(s.key)
	if !known {
		l.unknown(s)
		return
	}
	if _, want := row.parse(s.raw); want != "" {
		l.faultAt(s, row.Type, "want "+want)
		return
	}
	if row.Standing == Refused && canonical(row, s.raw) != canonical(row, row.Default) {
		l.faultAt(s, row.Type, row.Why+"; take it out")
		return
	}
	if why := row.idle(s.raw); why != "" {
		l.warn(s, why)
	}
	l.set[s.key] = s
}

// idle tells that a value has no effect, if that is so; the default need not have one.
func (r *Row) idle(raw string) string {
	changed := canonical(r, raw) != canonical(r, r.Default)
	switch {
	case r.Standing == Later && changed:
		return "has no effect: it belongs to " + r.Why + ", which this version does not serve"
	case r.Standing == Inert && changed, r.Standing == Removed:
		return "has no effect: " + r.Why
	}
	return ""
}

// unknown decides about a key without a row: a fault if it is nearly one, else a warning.
func (l *loader) unknown(s setting) {
	for _, prefix := range pluginPrefixes {
		if strings.HasPrefix(s.key, prefix) {
			l.warn(s, "has no effect: Java classes cannot be loaded")
			l.set[s.key] = s
			return
		}
	}
	// The value stays out of both messages: nobody knows whether it is a secret.
	if near, ok := nearest(s.key); ok {
		if s.variable != "" {
			i := slices.IndexFunc(environmentPrefixes, func(p string) bool { return strings.HasPrefix(s.variable, p) })
			near = mangled(environmentPrefixes[i], near)
		}
		text := fmt.Sprintf("%s is not a setting; did you mean %s?", s.name(), near)
		if _, topic := topicByName[s.key]; topic {
			text = fmt.Sprintf("%s is a setting of topics; for all topics of this node it is %s", s.name(), near)
		}
		l.faults = append(l.faults, Fault{File: s.file, Line: s.line, Text: text})
		return
	}
	l.warn(s, "is not a setting that moldau or Kafka knows; it has no effect")
	l.set[s.key] = s
}

func (l *loader) warn(s setting, text string) {
	l.warnings = append(l.warnings, Warning{s.file, s.line, s.name(), text})
}

func (l *loader) faultAt(s setting, t Type, text string) {
	l.faults = append(l.faults, Fault{s.file, s.line, s.name(), shown(t, s.raw), text})
}

// fault is about the value of a key, given or by default.
func (l *loader) fault(key, format string, args ...any) {
	row := brokerByName[key]
	s, given := l.set[key]
	if !given {
		s = setting{key: key, raw: row.Default, file: l.file}
	}
	l.faultAt(s, row.Type, fmt.Sprintf(format, args...))
}

// given tells whether a key was set to anything.
func (l *loader) given(key string) bool {
	_, ok := l.set[key]
	return ok
}

// get returns the value of a key that is declared, given or by default; unset keys are zero.
func (l *loader) get(key string) value {
	row := brokerByName[key]
	raw := row.Default
	if s, ok := l.set[key]; ok {
		raw = s.raw
	} else if row.Unset {
		return value{}
	}
	v, _ := row.parse(raw) // a given value was checked by take, a default by TestDefaultsPass
	return v
}

func (l *loader) int32(key string) int32   { return int32(l.get(key).number) }
func (l *loader) int64(key string) int64   { return l.get(key).number }
func (l *loader) bool(key string) bool     { return l.get(key).truth }
func (l *loader) text(key string) string   { return l.get(key).text }
func (l *loader) list(key string) []string { return l.get(key).list }

// canonical writes a value as Kafka's ConfigDef.convertToString would, so that two spellings compare equal.
func canonical(row *Row, raw string) string {
	v, ok := row.Type.parse(raw)
	switch {
	case !ok:
		return raw
	case row.Type == Bool:
		return fmt.Sprint(v.truth)
	case row.Type == Short || row.Type == Int || row.Type == Long:
		return fmt.Sprint(v.number)
	case row.Type == List:
		return strings.Join(v.list, ",")
	case row.Type == Double:
		return strings.TrimSpace(raw)
	default:
		return v.text
	}
}
