package zkconsumer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// group reads "a=t:1,u:2 b=t:1": members with their topics and streams.
func group(text string) []member {
	var members []member
	for _, word := range strings.Fields(text) {
		id, topics, _ := strings.Cut(word, "=")
		m := member{id, make(map[string]int)}
		for topic := range strings.SplitSeq(topics, ",") {
			var n int
			name, count, _ := strings.Cut(topic, ":")
			fmt.Sscan(count, &n)
			m.streams[name] = n
		}
		members = append(members, m)
	}
	return members
}

func topics(text string) map[string][]int32 {
	all := make(map[string][]int32)
	for _, word := range strings.Fields(text) {
		var n int32
		name, count, _ := strings.Cut(word, ":")
		fmt.Sscan(count, &n)
		for p := range n {
			all[name] = append(all[name], p)
		}
	}
	return all
}

func (a assignment) String() string {
	var words []string
	for _, tp := range a.inOrder() {
		words = append(words, tp.String()+":"+a[tp])
	}
	return strings.Join(words, " ")
}

func TestAssign(t *testing.T) {
	for _, c := range []struct{ strategy, members, topics, want string }{
		{"range", "g_a=t:1 g_b=t:1", "t:3", "t-0:g_a-0 t-1:g_a-0 t-2:g_b-0"},
		{"range", "g_b=t:1 g_a=t:1", "t:1", "t-0:g_a-0"},
		{"range", "g_a=t:2 g_b=t:1", "t:4", "t-0:g_a-0 t-1:g_a-0 t-2:g_a-1 t-3:g_b-0"},
		{"range", "g_a=t:1 g_b=u:1", "t:2 u:1", "t-0:g_a-0 t-1:g_a-0 u-0:g_b-0"},
		{"range", "g_a=t:1", "u:1", ""},
		// Streams sort as text: -10 comes before -2.
		{"range", "g_a=t:11", "t:3", "t-0:g_a-0 t-1:g_a-1 t-2:g_a-10"},
		// By the hashes of "t-0" (112919) and "u-0" (113880), which the names follow.
		{"roundrobin", "g_a=t:1,u:1 g_b=t:1,u:1", "t:3 u:2", "t-0:g_a-0 t-1:g_b-0 t-2:g_a-0 u-0:g_b-0 u-1:g_a-0"},
		{"roundrobin", "g_a=t:1 g_b=t:1,u:1", "t:3 u:2", "t-0:g_a-0 t-1:g_b-0 t-2:g_a-0 u-0:g_b-0 u-1:g_b-0"},
	} {
		assign := assignRange
		if c.strategy == "roundrobin" {
			assign = assignRoundRobin
		}
		if got := assign(group(c.members), topics(c.topics)).String(); got != c.want {
			t.Errorf("%s %s %s:\n got %s\nwant %s", c.strategy, c.members, c.topics, got, c.want)
		}
	}
}

func TestJavaHash(t *testing.T) {
	for text, want := range map[string]int32{"": 0, "first-0": -849023917, "t-0": 112919, "€𝄞": 9810198} {
		if got := javaHash(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestEveryPartitionHasOneOwner: of those who read its topic, whatever the strategy.
func TestEveryPartitionHasOneOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		partitions := make(map[string][]int32)
		for _, name := range []string{"a", "b", "c"} {
			for p := range rapid.Int32Range(0, 9).Draw(t, "partitions of "+name) {
				partitions[name] = append(partitions[name], p)
			}
		}
		var members []member
		for i := range rapid.IntRange(1, 5).Draw(t, "members") {
			members = append(members, member{fmt.Sprintf("g_%d", i), rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.IntRange(1, 3)).Draw(t, "reads")})
		}
		read := streamsByTopic(members)
		for name, all := range map[string]assignment{"range": assignRange(members, partitions), "roundrobin": assignRoundRobin(members, partitions)} {
			want := 0
			for topic := range read {
				want += len(partitions[topic])
			}
			dealt := 0
			for _, m := range members {
				dealt += len(all.of(m.id, m.streams))
			}
			if len(all) != want || dealt != want {
				t.Fatalf("%s: %d partitions have an owner, members own %d, want %d", name, len(all), dealt, want)
			}
			for tp, stream := range all {
				if !slices.Contains(read[tp.Topic], stream) {
					t.Fatalf("%s: %s goes to %s, which does not read it", name, tp, stream)
				}
			}
			if again := map[string]func([]member, map[string][]int32) assignment{"range": assignRange, "roundrobin": assignRoundRobin}[name](members, partitions); !maps.Equal(all, again) {
				t.Fatalf("%s: twice computed, twice different", name)
			}
		}
	})
}
