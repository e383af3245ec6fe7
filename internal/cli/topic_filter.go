package cli

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// includeList is Kafka's IncludeList: regular expressions by comma, of which one has to match the whole name.
func includeList(expression string) (func(topic string) bool, error) {
	e := strings.ReplaceAll(strings.ReplaceAll(strings.TrimSpace(expression), ",", "|"), " ", "")
	e = strings.Trim(e, `"'`)
	re, err := regexp.Compile("^(?:" + e + ")$")
	if err != nil {
		return nil, fmt.Errorf("%q is not a regular expression: %w", expression, err)
	}
	return re.MatchString, nil
}

// partitionRange is the partitions of one rule of a topic-partition filter: [from, to).
type partitionRange struct {
	topic    func(string) bool
	from, to int32
}

// parsePartitionRules reads GetOffsetShell's --topic-partitions: rules by comma, each "topic:3", "topic:3-", "topic:-3",
// "topic:1-3" (the end does not count), "topic", or the same without a topic.
func parsePartitionRules(list string) ([]partitionRange, error) {
	var rules []partitionRange
	for rule := range strings.SplitSeq(list, ",") {
		bad := fmt.Errorf("%q: want topic, topic:partition or topic:from-to", rule)
		name, partitions, split := strings.Cut(strings.TrimSpace(rule), ":")
		r := partitionRange{topic: func(string) bool { return true }, to: 1<<31 - 1}
		if name != "" {
			match, err := includeList(name)
			if err != nil {
				return nil, err
			}
			r.topic = match
		}
		from, to, ranged := strings.Cut(partitions, "-")
		number := func(s string, into *int32) bool {
			n, err := strconv.ParseInt(s, 10, 32)
			*into = int32(n)
			return err == nil && n >= 0
		}
		switch {
		case !split || partitions == "":
		case !ranged:
			if !number(from, &r.from) {
				return nil, bad
			}
			r.to = r.from + 1
		case from == "" && to == "", from != "" && !number(from, &r.from), to != "" && !number(to, &r.to):
			return nil, bad
		}
		rules = append(rules, r)
	}
	return rules, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// text is a string that may be null.
func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// id is an id of 16 bytes as Kafka writes it.
func id(b [16]byte) string { return kafka.UUID(b).String() }
