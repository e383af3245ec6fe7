package replica

import (
	"testing"

	"pgregory.net/rapid"

	"moldau/internal/kafka"
)

func TestWatermark(t *testing.T) {
	for _, c := range []struct {
		name string
		count
		want kafka.Offset
	}{
		{"alone", count{current: 0, leaderEnd: 5, isr: 1, minISR: 1}, 5},
		{"nothing new", count{current: 5, leaderEnd: 5, isr: 1, minISR: 1}, 5},
		{"never back", count{current: 7, leaderEnd: 5, isr: 1, minISR: 1}, 7},
		{"the slowest decides", count{current: 2, leaderEnd: 9, followers: []int64{8, 4, 6}, isr: 4, minISR: 2}, 4},
		{"the leader's disk is the slowest", count{current: 2, leaderEnd: 3, followers: []int64{8, 9}, isr: 3, minISR: 2}, 3},
		{"a joining follower counts as an end, not as a member", count{current: 2, leaderEnd: 9, followers: []int64{9}, isr: 1, minISR: 2}, 2},
		{"too few in sync", count{current: 2, leaderEnd: 9, followers: []int64{9}, isr: 2, minISR: 3}, 2},
		{"a follower that never fetched", count{current: 0, leaderEnd: 9, followers: []int64{0}, isr: 2, minISR: 1}, 0},
	} {
		if got := watermark(c.count); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestWatermarkProperties: it never falls, is never above any counted end unless it was so before, and moves only with
// enough replicas in sync.
func TestWatermarkProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		offset := rapid.Int64Range(0, 20)
		c := count{
			current: offset.Draw(t, "current"), leaderEnd: offset.Draw(t, "leaderEnd"),
			followers: rapid.SliceOfN(offset, 0, 4).Draw(t, "followers"),
			isr:       rapid.IntRange(1, 5).Draw(t, "isr"), minISR: rapid.IntRange(1, 5).Draw(t, "minISR"),
		}
		got := watermark(c)
		if got < c.current {
			t.Fatal("fell")
		}
		if got > c.current {
			if c.isr < c.minISR {
				t.Fatal("moved with too few in sync")
			}
			for _, end := range append(c.followers, c.leaderEnd) {
				if got > end {
					t.Fatalf("above the end %d", end)
				}
			}
		}
	})
}
