package quota

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// TestBucketKeepsItsRate: whoever pauses as he is told moves as much as the rate allows, whatever the sizes of his pieces.
func TestBucketKeepsItsRate(t *testing.T) {
	const rate, seconds = 1000, 200
	rng := rand.New(rand.NewPCG(1, 1))
	now := time.Unix(0, 0)
	b := NewBucket(rate, func() time.Time { return now })
	used := 0
	for now.Before(time.Unix(seconds, 0)) {
		if pause := b.Pause(); pause > 0 {
			if pause > longestPause {
				t.Fatalf("pause of %s", pause)
			}
			now = now.Add(pause)
			continue
		}
		n := 1 + rng.IntN(3*rate)
		b.Use(n)
		used += n
		now = now.Add(time.Duration(rng.IntN(10)) * time.Millisecond)
	}
	// A second's worth was in it, and the last piece may be on credit.
	if used < rate*(seconds-4) || used > rate*(seconds+1)+3*rate {
		t.Errorf("%d units in %d seconds at %d a second", used, seconds, rate)
	}
}

func TestBucketRates(t *testing.T) {
	now := time.Unix(0, 0)
	b := NewBucket(Unlimited, func() time.Time { return now })
	b.Use(1 << 40)
	if p := b.Pause(); p != 0 {
		t.Errorf("unlimited: pause of %s", p)
	}
	b.SetRate(100)
	if p := b.Pause(); p != 0 {
		t.Errorf("what was used without limit counts: pause of %s", p)
	}
	b.Use(150)
	if p := b.Pause(); p < 500*time.Millisecond || p > 510*time.Millisecond {
		t.Errorf("50 too many at 100 a second: pause of %s", p)
	}
	now = now.Add(-time.Hour)
	if p := b.Pause(); p < 500*time.Millisecond || p > 510*time.Millisecond {
		t.Errorf("the clock went back: pause of %s", p)
	}
	b.SetRate(0)
	now = now.Add(24 * time.Hour)
	if p := b.Pause(); p != longestPause {
		t.Errorf("rate 0: pause of %s", p)
	}
	b.SetRate(Unlimited)
	if p := b.Pause(); p != 0 {
		t.Errorf("unlimited again: pause of %s", p)
	}
}

// TestThrottledReplicas: the lists of the topics' settings, of which only what names this node counts.
func TestThrottledReplicas(t *testing.T) {
	r := NewReplication(ReplicationOptions{
		NodeID: 2, Now: func() time.Time { return time.Unix(0, 0) },
		Lists: func(_ string, set map[string]string) (leaders, followers []string) {
			return strings.Split(set["leaders"], ","), strings.Split(set["followers"], ",")
		},
	})
	image := metadata.EmptyImage()
	apply := func(records ...metadata.Record) {
		t.Helper()
		delta := metadata.NewDelta(image)
		for _, record := range records {
			if err := delta.Replay(record); err != nil {
				t.Fatal(err)
			}
		}
		image = delta.Image(image.Offset+1, 1)
		r.Apply(delta, image)
	}
	set := func(topic, key, value string) metadata.Record {
		record := &metadata.ConfigRecord{ResourceType: int8(metadata.ConfigTopic), ResourceName: topic, Name: key, Value: &value}
		if value == "" {
			record.Value = nil
		}
		return record
	}
	throttled := func(th *Throttle, topic string) (out []int32) {
		for p := range int32(4) {
			if th.Pause(kafka.TopicPartition{Topic: topic, Partition: p}) > 0 {
				out = append(out, p)
			}
		}
		return out
	}
	check := func(what string, got []int32, want ...int32) {
		t.Helper()
		if len(got) != len(want) {
			t.Fatalf("%s: throttled are %v, want %v", what, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%s: throttled are %v, want %v", what, got, want)
			}
		}
	}
	id := kafka.TopicID{1}
	apply(&metadata.TopicRecord{Name: "a", TopicID: id}, set("a", "leaders", "0:2,1:3,2:2"), set("a", "followers", "*"))
	check("pairs", throttled(r.Leader, "a"), 0, 2)
	check("all", throttled(r.Follower, "a"), 0, 1, 2, 3)
	check("another topic", throttled(r.Follower, "b"))
	apply(set("a", "leaders", ""))
	check("not any more", throttled(r.Leader, "a"))
	check("the other list stays", throttled(r.Follower, "a"), 0, 1, 2, 3)
	apply(&metadata.RemoveTopicRecord{TopicID: id})
	check("the topic is deleted", throttled(r.Follower, "a"))
	check("no throttle", throttled(nil, "a"))
}
