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
	OriginStatic        Origin = 4 // file or command line
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
		row, known := brokerRow(name)
		if !known {
			entries = append(entries, Entry{Name: name, Origin: OriginStatic, ReadOnly: true, Sensitive: true, Synonyms: []Synonym{{Name: name, Origin: OriginStatic}}})
			continue
		}
		e := Entry{Name: name, Type: row.Type, ReadOnly: row.Dynamic == ReadOnly, Sensitive: row.Type == Password, Text: row.Text}
		e.Synonyms = c.synonyms(name, row)
		e.Origin = OriginDefault
		if len(e.Synonyms) > 0 {
			e.Origin = e.Synonyms[0].Origin
		}
		if raw, ok := c.static(name); ok {
			e.Value = visible(row, raw)
		} else if row.Name == name && !row.Unset {
			e.Value = visible(row, row.Default)
		}
		entries = append(entries, e)
	}
	return entries
}

// DescribeTopic returns the settings of a topic sorted by name; overrides are the topic's own. Mirrors
// ConfigHelper.createTopicConfigEntry.
func (c *Config) DescribeTopic(overrides map[string]string) []Entry {
	var entries []Entry
	for _, row := range Rows(TopicScope) {
		own, overridden := overrides[row.Name]
		if row.Hidden && !overridden {
			continue
		}
		e := Entry{Name: row.Name, Type: row.Type, Origin: OriginDefault, Text: row.Text}
		switch v := c.topicValue(&row, overrides); {
		case row.Type == Int || row.Type == Long:
			e.Value = text(strconv.FormatInt(v.number, 10))
		case overridden:
			e.Value = visible(&row, own)
		default:
			e.Value = visible(&row, c.topicRaw(&row))
		}
		if overridden {
			e.Synonyms = append(e.Synonyms, Synonym{row.Name, e.Value, OriginTopic})
		}
		if len(row.Synonyms) > 0 {
			first := row.Synonyms[0].Name
			e.Synonyms = append(e.Synonyms, c.synonyms(first, brokerByName[first])...)
		}
		if len(e.Synonyms) > 0 {
			e.Origin = e.Synonyms[0].Origin
		}
		entries = append(entries, e)
	}
	return entries
}

// topicRaw is the text of a topic's default, for the types that have no unit to convert.
func (c *Config) topicRaw(row *Row) string {
	for _, link := range row.Synonyms {
		if s, ok := c.set[link.Name]; ok {
			return s.raw
		}
	}
	return row.Default
}

// synonyms lists the settings that decide a broker's key: those given, then the defaults. Mirrors
// ConfigHelper.configSynonyms, which also drops what comes before the key itself: retention in hours is no synonym of
// log.retention.ms unless log.retention.ms is set.
func (c *Config) synonyms(name string, row *Row) []Synonym {
	var all []Synonym
	family := c.family(name)
	for _, key := range family {
		if raw, ok := c.static(key); ok {
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
func (c *Config) family(name string) []string {
	if strings.HasPrefix(name, "listener.name.") {
		if row, ok := brokerRow(name); ok {
			return []string{name, row.Name}
		}
	}
	for _, row := range topicRows {
		if slices.ContainsFunc(row.Synonyms, func(l Link) bool { return l.Name == name }) {
			var names []string
			for _, link := range row.Synonyms {
				if link.Name == name || brokerByName[link.Name].Standing != Removed && !brokerByName[link.Name].Hidden {
					names = append(names, link.Name)
				}
			}
			return names
		}
	}
	return []string{name}
}

// static returns what was given for a key. node.id and broker.id set each other.
func (c *Config) static(name string) (string, bool) {
	if s, ok := c.set[name]; ok {
		return s.raw, true
	}
	other := map[string]string{"node.id": "broker.id", "broker.id": "node.id"}[name]
	s, ok := c.set[other]
	return s.raw, ok
}

func visible(row *Row, raw string) *string {
	if row.Type == Password {
		return nil
	}
	return text(canonical(row, raw))
}

func text(s string) *string { return &s }
