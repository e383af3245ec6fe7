package zkconsumer

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRegistrationIsKafkas(t *testing.T) {
	s, err := Matching(WhiteList, ` "first, sec.*" `)
	if err != nil {
		t.Fatal(err)
	}
	data, err := s.encode(time.UnixMilli(1795987252313))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"version":1,"subscription":{"first|sec.*":1},"pattern":"white_list","timestamp":"1795987252313"}`; string(data) != want {
		t.Errorf("registered as %s, want %s", data, want)
	}
	back, err := decodeSubscription(data)
	if err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("read back: %v, %v", back, err)
	}
}

func TestSubscriptionsAreUnderstood(t *testing.T) {
	all := []string{"__consumer_offsets", "first", "second", "third"}
	for _, c := range []struct{ data, want string }{
		{`{"version":1,"subscription":{"first":1,"other":2},"pattern":"static","timestamp":"1"}`, "first:1 other:2"},
		{`{"version":1,"subscription":{"first|second":3},"pattern":"white_list"}`, "first:3 second:3"},
		{`{"version":1,"subscription":{".*":1},"pattern":"white_list"}`, "first:1 second:1 third:1"},
		{`{"version":1,"subscription":{"f.*":1},"pattern":"black_list"}`, "second:1 third:1"},
		{`{"version":1,"subscription":{"irst":1},"pattern":"white_list"}`, ""},
		{`{"version":1,"subscription":{},"pattern":"white_list"}`, ""},
	} {
		s, err := decodeSubscription([]byte(c.data))
		if err != nil {
			t.Errorf("%s: %v", c.data, err)
			continue
		}
		streams, err := s.streams(all, false)
		var words []string
		for _, topic := range slices.Sorted(maps.Keys(streams)) {
			words = append(words, topic+":"+string(rune('0'+streams[topic])))
		}
		if got := strings.Join(words, " "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.data, got, err, c.want)
		}
	}
	for _, data := range []string{``, `[]`, `{"subscription":{"t":0},"pattern":"static"}`} {
		if s, err := decodeSubscription([]byte(data)); err == nil {
			t.Errorf("%s is taken for %v", data, s)
		}
	}
	if _, err := Matching(WhiteList, "a("); err == nil {
		t.Error("half an expression is taken")
	}
}

func TestBrokerAddresses(t *testing.T) {
	for _, c := range []struct {
		b    broker
		want string
	}{
		{broker{Host: "h", Port: 9092}, "h:9092"}, // version 1
		{broker{Host: "h", Port: 9092, Endpoints: []string{"PLAINTEXT://a:1"}}, "a:1"},
		{broker{Endpoints: []string{"SSL://a:1", "PLAINTEXT://[::1]:2"}}, "[::1]:2"},
		{broker{Endpoints: []string{"OUT://a:1", "IN://b:2"}, Protocols: map[string]string{"OUT": "SSL", "IN": "PLAINTEXT"}}, "b:2"},
		{broker{Host: "h", Port: 1, Endpoints: []string{"SSL://a:1"}}, ""},
	} {
		if got := c.b.address(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.b, got, c.want)
		}
	}
}
