package config

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Origin tells where a value comes from. The numbers are those of DescribeConfigs (KIP-226).
type Origin int8

// The origins that DescribeConfigs knows.
const (
	OriginTopic         Origin = 1
	OriginBroker        Origin = 2 // dynamic, this broker
	OriginDefaultBroker Origin = 3 // dynamic, all brokers
	OriginStatic        Origin = 4 // file, environment or command line
	OriginDefault       Origin = 5
	OriginBrokerLogger  Origin = 6
	OriginClientMetrics Origin = 7
	OriginGroup         Origin = 8
)

// Entry is one row of a DescribeConfigs answer.
type Entry struct {
	Name      string
	Value     *string // nil = not set, or sensitive
	Type      Type    // 0 = unknown
	Origin    Origin
	ReadOnly  bool
	Sensitive bool
	Text      string    // documentation
	Synonyms  []Synonym // highest precedence first; the first is what counts
}

// Synonym is one of the settings that decide an Entry's value.
type Synonym struct {
	Name   string
	Value  *string // nil = sensitive
	Origin Origin
}

// DescribeBroker returns this node's settings sorted by name, those that nobody set included. Mirrors
// ConfigHelper.createBrokerConfigEntry, where a key that nobody knows is shown as sensitive.
func (c *Config) DescribeBroker() []Entry {
	names := map[string]bool{}
	for _, row := range brokerRows {
		if !row.Hidden {
			names[row.Name] = true
		}
	}
	for key := range c.set {
		names[key] = true
	}
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(names)) {
		e := c.brokerEntry(name)
		e.Origin = OriginDefault
		if len(e.Synonyms) > 0 {
			e.Origin = e.Synonyms[0].Origin
		}
		if row, known := brokerRow(name); known {
			if raw, ok := either(c.set, name); ok {
				e.Value = visible(row, raw)
			} else if row.Name == name && !row.Unset {
				e.Value = visible(row, row.Default)
			}
		}
		entries = append(entries, e)
	}
	return entries
}

// DescribeBrokers returns what was set dynamically for all brokers, sorted by name.
func (c *Config) DescribeBrokers() []Entry {
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(c.all)) {
		e := c.brokerEntry(name)
		e.Origin = OriginDefaultBroker
		e.Synonyms = slices.DeleteFunc(e.Synonyms, func(s Synonym) bool { return s.Origin != OriginDefaultBroker })
		if row, known := brokerRow(name); known {
			e.Value = visible(row, c.all[name])
		}
		entries = append(entries, e)
	}
	return entries
}

// brokerEntry is an entry but for its value and origin.
func (c *Config) brokerEntry(name string) Entry {
	row, known := brokerRow(name)
	if !known {
		row = &Row{Name: name, Type: Password} // it may be one
		return Entry{Name: name, ReadOnly: true, Sensitive: true, Synonyms: c.synonyms(name, row, family(name))}
	}
	return Entry{
		Name: name, Type: row.Type, ReadOnly: row.Dynamic == ReadOnly || row.Name != name, Sensitive: row.Type == Password, Text: row.Text,
		Synonyms: c.synonyms(name, row, family(name)),
	}
}

// DescribeTopic returns the settings of a topic sorted by name; overrides are the topic's own. Mirrors
// ConfigHelper.createTopicConfigEntry.
func (c *Config) DescribeTopic(overrides map[string]string) []Entry {
	return c.describe(TopicScope, overrides, OriginTopic)
}

// DescribeGroup returns the settings of a group sorted by name; overrides are the group's own. Mirrors
// ConfigHelper.createGroupConfigEntry.
func (c *Config) DescribeGroup(overrides map[string]string) []Entry {
	return c.describe(GroupScope, overrides, OriginGroup)
}

// DescribeClientMetrics returns the settings of a subscription to metrics of clients (KIP-714).
func (c *Config) DescribeClientMetrics(overrides map[string]string) []Entry {
	return c.describe(ClientMetricsScope, overrides, OriginClientMetrics)
}

// describe returns the settings of something that has its own over the broker's.
func (c *Config) describe(scope Scope, overrides map[string]string, origin Origin) []Entry {
	var entries []Entry
	for i := range sorted()[scope] {
		row := &sorted()[scope][i]
		own, overridden := overrides[row.Name]
		if row.Hidden && !overridden {
			continue
		}
		e := Entry{Name: row.Name, Type: row.Type, Origin: OriginDefault, Text: row.Text}
		switch v := c.valueOver(row, overrides); {
		case row.Type == Int || row.Type == Long:
			e.Value = text(strconv.FormatInt(v.number, 10))
		case overridden:
			e.Value = visible(row, own)
		default:
			e.Value = visible(row, c.brokersText(row))
		}
		if overridden {
			e.Synonyms = append(e.Synonyms, Synonym{row.Name, e.Value, origin})
		}
		if len(row.Synonyms) > 0 {
			first := row.Synonyms[0].Name
			e.Synonyms = append(e.Synonyms, c.synonyms(first, brokerByName[first], linked(row, first))...)
		} else if scope == GroupScope {
			// A key that no broker's key stands behind is its own default (ConfigHelper.createGroupConfigEntry).
			e.Synonyms = append(e.Synonyms, Synonym{row.Name, visible(row, row.Default), OriginDefault})
		}
		if len(e.Synonyms) > 0 {
			e.Origin = e.Synonyms[0].Origin
		}
		entries = append(entries, e)
	}
	return entries
}

// brokersText is the text of the broker's value for a key of a topic or a group, for the types that have no unit to
// convert.
func (c *Config) brokersText(row *Row) string {
	for _, link := range row.Synonyms {
		if s, ok := c.set[link.Name]; ok {
			return s.raw
		}
	}
	return row.Default
}

// synonyms lists the settings that decide a broker's key: the dynamic ones, those given before the start, then the
// defaults. Mirrors ConfigHelper.configSynonyms, which also drops what comes before the key itself: retention in hours is
// no synonym of log.retention.ms unless log.retention.ms is set.
func (c *Config) synonyms(name string, row *Row, family []string) []Synonym {
	var all []Synonym
	for _, layer := range []struct {
		values map[string]string
		origin Origin
	}{{c.own, OriginBroker}, {c.all, OriginDefaultBroker}} {
		for _, key := range family {
			if raw, ok := layer.values[key]; ok {
				all = append(all, Synonym{key, visible(row, raw), layer.origin})
			}
		}
	}
	for _, key := range family {
		if raw, ok := either(c.static, key); ok {
			all = append(all, Synonym{key, visible(row, raw), OriginStatic})
		}
	}
	for _, key := range family {
		if declared, ok := brokerByName[key]; ok && !declared.Unset {
			all = append(all, Synonym{key, visible(row, declared.Default), OriginDefault})
		}
	}
	if i := slices.IndexFunc(all, func(s Synonym) bool { return s.Name == name }); i >= 0 {
		return all[i:]
	}
	return nil
}

// family returns a key together with those that stand in for it, highest precedence first
// (DynamicBrokerConfig.brokerConfigSynonyms).
func family(name string) []string {
	if strings.HasPrefix(name, listenerPrefix) {
		if row, ok := brokerRow(name); ok {
			return []string{name, row.Name}
		}
	}
	for i := range topicRows {
		if slices.ContainsFunc(topicRows[i].Synonyms, func(l Link) bool { return l.Name == name }) {
			return linked(&topicRows[i], name)
		}
	}
	return []string{name}
}

// linked returns the brokers' keys that stand in for each other as the default of a row, but for those that Kafka has dropped,
// unless one is asked about.
func linked(row *Row, name string) []string {
	names := make([]string, 0, len(row.Synonyms))
	for _, link := range row.Synonyms {
		if other := brokerByName[link.Name]; link.Name == name || other.Standing != Removed && !other.Hidden {
			names = append(names, link.Name)
		}
	}
	return names
}

// either returns what is set for a key. node.id and broker.id set each other.
func either(set map[string]setting, name string) (string, bool) {
	if s, ok := set[name]; ok {
		return s.raw, true
	}
	switch name {
	case "node.id":
		name = "broker.id"
	case "broker.id":
		name = "node.id"
	}
	s, ok := set[name]
	return s.raw, ok
}

func visible(row *Row, raw string) *string {
	if row.Type == Password {
		return nil
	}
	return text(canonical(row, raw))
}

func text(s string) *string { return &s }

// IsSecret reports whether the value of a broker's key is not to be shown: it is a password, or nobody knows what it is.
func IsSecret(key string) bool {
	row, known := brokerRow(key)
	return !known || row.Type == Password
}
