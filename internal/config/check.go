package config

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"moldau/internal/kafka"
)

// Check is what a value must satisfy beyond its type. The zero Check takes every value.
type Check struct {
	Allowed string // completes "want …"; "" = the type says it all
	holds   func(v value) bool
}

// value is a parsed value: one of the fields is set, as its Type says.
type value struct {
	number int64
	double float64
	truth  bool
	text   string
	list   []string
}

// float returns a number of any type, for checks that do not care which.
func (v value) float() float64 {
	if v.double != 0 {
		return v.double
	}
	return float64(v.number)
}

func atLeast(low float64) Check {
	return Check{"at least " + plain(low), func(v value) bool { return v.float() >= low }}
}

func between(low, high float64) Check {
	return Check{"from " + plain(low) + " to " + plain(high), func(v value) bool { return v.float() >= low && v.float() <= high }}
}

func oneOf(words ...string) Check {
	return Check{alternatives(words), func(v value) bool { return slices.Contains(words, v.text) }}
}

func oneOfFold(words ...string) Check {
	return Check{alternatives(words) + " (upper or lower case)", func(v value) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, v.text) })
	}}
}

// eachOf takes lists without repetition of these words. Kafka 4 refuses repetitions too (KIP-1161).
func eachOf(words ...string) Check {
	return Check{"a list of " + alternatives(words), func(v value) bool {
		for i, word := range v.list {
			if !slices.Contains(words, word) || slices.Contains(v.list[:i], word) {
				return false
			}
		}
		return true
	}}
}

// repeated is eachOf for a list that may name a word twice, as Apache Kafka takes it for topics but not for brokers.
func repeated(words ...string) Check {
	return Check{eachOf(words...).Allowed, func(v value) bool {
		return !slices.ContainsFunc(v.list, func(word string) bool { return !slices.Contains(words, word) })
	}}
}

func nonEmpty() Check {
	return Check{"something", func(v value) bool { return v.text != "" || len(v.list) > 0 }}
}

func gzipLevel() Check {
	return Check{"from 1 to 9, or -1 for the default level", func(v value) bool {
		return v.number == -1 || v.number >= 1 && v.number <= 9
	}}
}

func clusterID() Check {
	return Check{"an id as `moldau storage random-uuid` prints it", func(v value) bool {
		_, err := kafka.ParseUUID(v.text)
		return err == nil
	}}
}

// throttled takes the lists of KIP-73: partition:broker pairs, "*", or nothing.
func throttled() Check {
	return Check{"partition:broker pairs such as 0:1,1:2, or *", func(v value) bool {
		if len(v.list) == 1 && v.list[0] == "*" {
			return true
		}
		for _, pair := range v.list {
			partition, broker, ok := strings.Cut(pair, ":")
			if !ok || !isNumber(partition) || !isNumber(broker) {
				return false
			}
		}
		return true
	}}
}

func isNumber(s string) bool {
	_, err := strconv.ParseUint(s, 10, 31)
	return err == nil
}

func alternatives(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func plain(f float64) string {
	if f == math.Trunc(f) {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}
