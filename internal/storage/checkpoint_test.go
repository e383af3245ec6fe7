package storage

import (
	"maps"
	"testing"

	"moldau/internal/kafka"
)

func TestCheckpointText(t *testing.T) {
	c := checkpoint{tp("orders", 10): 7, tp("orders", 2): 1 << 40, tp("a.b_c-d", 0): 0}
	// Byte for byte what CheckpointFile writes, but for the order of lines, which Kafka leaves to a hash map.
	const want = "0\n3\na.b_c-d 0 0\norders 2 1099511627776\norders 10 7\n"
	if got := string(c.text()); got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	back, err := parseCheckpoint([]byte(want))
	if err != nil || !maps.Equal(back, c) {
		t.Fatalf("parsed %v, %v", back, err)
	}
	if empty, err := parseCheckpoint([]byte("0\n0\n")); err != nil || len(empty) != 0 {
		t.Fatalf("empty file: %v, %v", empty, err)
	}
}

func TestCheckpointRefusesDamage(t *testing.T) {
	for _, text := range []string{
		"", "0", "0\n", "1\n0\n", "0\nx\n", "0\n-1\n", "0\n1\n", "0\n1\na 0\n", "0\n1\na 0 x\n", "0\n1\na 0 -5\n",
		"0\n1\na -1 5\n", "0\n1\na 0 5 6\n", "0\n2\na 0 5\n", "0\n1\na 0 5\nb 0 5\n", "0\n2\na 0 5\na 0 6\n", "\x00\x00\x00\x00",
	} {
		if c, err := parseCheckpoint([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, c)
		}
	}
}

func FuzzCheckpoint(f *testing.F) {
	f.Add([]byte("0\n1\na 0 5\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseCheckpoint(text)
		if err != nil {
			return
		}
		back, err := parseCheckpoint(c.text())
		if err != nil || !maps.Equal(map[kafka.TopicPartition]int64(back), map[kafka.TopicPartition]int64(c)) {
			t.Fatalf("%q: %v and then %v, %v", text, c, back, err)
		}
	})
}

func FuzzJournal(f *testing.F) {
	f.Add(appendPartition(nil, 1, id(1), tp("a", 0)))
	f.Add(appendOffsets([]byte{entryOffsets}, 1, offsets{1, 2, 3}))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if len(payload) == 0 {
			return
		}
		j := &journal{}
		j.reset()
		_ = j.apply(appendPartition(nil, 1, id(1), tp("a", 0)))
		before := stateOf(j)
		if j.apply(payload) != nil && !stateOf(j).equal(before) {
			t.Fatal("a malformed entry changed the state")
		}
	})
}
