package controller

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/metadata"
)

const (
	maxTopicName  = 249 // the folder name "topic-partition" must fit in 255 bytes
	metadataTopic = "__cluster_metadata"
)

// checkTopicName mirrors org.apache.kafka.common.internals.Topic.validate.
func checkTopicName(name string) error {
	reason := ""
	switch {
	case name == "":
		reason = "the empty string is not allowed"
	case name == ".":
		reason = "'.' is not allowed"
	case name == "..":
		reason = "'..' is not allowed"
	case len(name) > maxTopicName:
		reason = "the length of '" + name + "' is longer than the max allowed length 249"
	case strings.ContainsFunc(name, func(c rune) bool { return !legalInTopicName(c) }):
		reason = "'" + name + "' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
	default:
		return nil
	}
	return faultf(kerr.InvalidTopicException, "Topic name is invalid: %s", reason)
}

func legalInTopicName(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-'
}

// collisions knows which topic names would give equal metric names, where "." and "_" look the same.
type collisions map[string]string // unified name → topic

func collides(name string) bool { return strings.ContainsAny(name, "._") }

func unify(name string) string { return strings.ReplaceAll(name, ".", "_") }

func newCollisions(topics metadata.Topics) collisions {
	c := collisions{}
	for name := range topics.All() {
		c.add(name)
	}
	return c
}

func (c collisions) add(name string) {
	if _, ok := c[unify(name)]; !ok && collides(name) {
		c[unify(name)] = name
	}
}

func (c collisions) check(name string) error {
	if !collides(name) {
		return nil
	}
	if other, ok := c[unify(name)]; ok {
		return faultf(kerr.InvalidTopicException, "Topic '%s' collides with existing topic: %s", name, other)
	}
	return nil
}
