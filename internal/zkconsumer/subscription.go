package zkconsumer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Pattern is how a subscription names its topics.
type Pattern string

// The three patterns (TopicCount).
const (
	Static    Pattern = "static"     // topics by name
	WhiteList Pattern = "white_list" // topics that an expression matches
	BlackList Pattern = "black_list" // topics that it does not match
)

// Subscription is what a member wants to read.
type Subscription struct {
	Pattern Pattern
	Topics  map[string]int // topic, or the one expression, to how many streams its partitions go to; at least 1
}

// Named is a subscription to topics by name.
func Named(topics ...string) Subscription {
	s := Subscription{Static, make(map[string]int)}
	for _, topic := range topics {
		s.Topics[topic] = 1
	}
	return s
}

// Matching is a subscription to the topics that an expression matches, or does not match. Alternatives may be separated by
// commas (TopicFilter).
func Matching(pattern Pattern, expression string) (Subscription, error) {
	e := strings.NewReplacer(",", "|", " ", "").Replace(strings.TrimSpace(expression))
	e = strings.Trim(e, `"'`)
	s := Subscription{pattern, map[string]int{e: 1}}
	_, err := s.expression()
	return s, err
}

func (s Subscription) expression() (*regexp.Regexp, error) {
	e := slices.Min(slices.Collect(maps.Keys(s.Topics)))
	re, err := regexp.Compile("^(?:" + e + ")$")
	if err != nil {
		return nil, fmt.Errorf("%q is not a regular expression that is understood here: %w", e, err)
	}
	return re, nil
}

// wild tells whether the topics of a subscription depend on those that there are.
func (s Subscription) wild() bool { return s.Pattern != Static && len(s.Topics) > 0 }

// internalTopics are those that patterns leave out (org.apache.kafka.common.internals.Topic): members have to agree on them.
var internalTopics = []string{"__consumer_offsets", "__transaction_state"}

// streams tells how many streams each topic goes to, given all topics that there are.
func (s Subscription) streams(all []string, includeInternal bool) (map[string]int, error) {
	if !s.wild() {
		return s.Topics, nil
	}
	re, err := s.expression()
	if err != nil {
		return nil, err
	}
	streams := make(map[string]int)
	for _, topic := range all {
		if re.MatchString(topic) == (s.Pattern == WhiteList) && (includeInternal || !slices.Contains(internalTopics, topic)) {
			streams[topic] = slices.Max(slices.Collect(maps.Values(s.Topics)))
		}
	}
	return streams, nil
}

// registration is the data of /consumers/G/ids/ID.
type registration struct {
	Version      int            `json:"version"`
	Subscription map[string]int `json:"subscription"`
	Pattern      Pattern        `json:"pattern"`
	Timestamp    string         `json:"timestamp"` // milliseconds
}

func (s Subscription) encode(now time.Time) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(registration{1, s.Topics, s.Pattern, strconv.FormatInt(now.UnixMilli(), 10)})
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

func decodeSubscription(data []byte) (Subscription, error) {
	var r registration
	if err := json.Unmarshal(data, &r); err != nil {
		return Subscription{}, err
	}
	for topic, n := range r.Subscription {
		if n < 1 {
			return Subscription{}, fmt.Errorf("%d streams of %s", n, topic)
		}
	}
	if r.Pattern != WhiteList && r.Pattern != BlackList {
		r.Pattern = Static
	}
	return Subscription{r.Pattern, r.Subscription}, nil
}
