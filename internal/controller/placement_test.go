package controller

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Whatever the brokers, racks and factor: replicas are distinct, the leader is active, leaders are spread evenly, and no
// rack has two replicas of a partition more than another has, as far as its brokers reach.
func TestPlacement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		brokers := rapid.IntRange(1, 9).Draw(t, "brokers")
		racks := rapid.IntRange(0, 4).Draw(t, "racks")
		fenced := rapid.SliceOfNDistinct(rapid.IntRange(0, 8), 0, 3, rapid.ID[int]).Draw(t, "fenced")
		d := metadata.NewDelta(metadata.EmptyImage())
		active := map[kafka.NodeID]bool{}
		rackOf := map[kafka.NodeID]string{}
		for i := range brokers {
			r := &metadata.RegisterBrokerRecord{BrokerID: int32(i), Fenced: slices.Contains(fenced, i)}
			if racks > 0 {
				rackOf[r.BrokerID] = fmt.Sprintf("rack%d", i%racks)
				rack := rackOf[r.BrokerID]
				r.Rack = &rack
			}
			active[r.BrokerID] = !r.Fenced
			if err := d.Replay(r); err != nil {
				t.Fatal(err)
			}
		}
		actives := 0
		for _, a := range active {
			if a {
				actives++
			}
		}
		s := &state{Options: &Options{}, image: d.Image(0, 0)}
		factor := rapid.IntRange(1, 9).Draw(t, "factor")
		count := rapid.IntRange(1, 40).Draw(t, "count")
		assignments, err := s.place(int32(rapid.IntRange(0, 50).Draw(t, "planned")), int32(count), int16(factor))
		if actives == 0 || factor > brokers {
			if err == nil {
				t.Fatalf("placed %d replicas on %d brokers of which %d are active", factor, brokers, actives)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		leaders := map[kafka.NodeID]int{}
		for _, replicas := range assignments {
			leaders[replicas[0]]++
			if len(replicas) != factor || len(slices.Compact(slices.Sorted(slices.Values(replicas)))) != factor {
				t.Fatalf("replicas %v, want %d distinct", replicas, factor)
			}
			if !active[replicas[0]] {
				t.Fatalf("replicas %v: the first is fenced", replicas)
			}
			used := 0
			for _, id := range replicas {
				if active[id] {
					used++
				}
			}
			if used != min(factor, actives) {
				t.Fatalf("replicas %v: %d active, want %d", replicas, used, min(factor, actives))
			}
			if racks > 0 && len(fenced) == 0 && factor <= min(racks, brokers) {
				seen := map[string]bool{}
				for _, id := range replicas {
					seen[rackOf[id]] = true
				}
				if len(seen) != factor {
					t.Fatalf("replicas %v are in %d racks, want %d", replicas, len(seen), factor)
				}
			}
		}
		for id, n := range leaders {
			if n > count/actives+1 {
				t.Fatalf("broker %d leads %d of %d partitions among %d brokers", id, n, count, actives)
			}
		}
	})
}

// Over whole rounds, followers are spread as evenly as leaders, and so are the pairs of leader and first follower: what a
// dead broker led is taken over by all others.
func TestFollowersAreSpread(t *testing.T) {
	for brokers := 2; brokers <= 6; brokers++ {
		d := metadata.NewDelta(metadata.EmptyImage())
		for i := range brokers {
			if err := d.Replay(&metadata.RegisterBrokerRecord{BrokerID: int32(i)}); err != nil {
				t.Fatal(err)
			}
		}
		s := &state{Options: &Options{}, image: d.Image(0, 0)}
		rounds := brokers * (brokers - 1)
		for factor := 2; factor <= brokers; factor++ {
			assignments, err := s.place(0, int32(rounds), int16(factor))
			if err != nil {
				t.Fatal(err)
			}
			replicas, heirs := map[kafka.NodeID]int{}, map[[2]kafka.NodeID]int{}
			for _, a := range assignments {
				heirs[[2]kafka.NodeID{a[0], a[1]}]++
				for _, id := range a {
					replicas[id]++
				}
			}
			for id, n := range replicas {
				if n != rounds*factor/brokers {
					t.Errorf("%d brokers, %d replicas: broker %d has %d of %d partitions", brokers, factor, id, n, rounds)
				}
			}
			for pair, n := range heirs {
				if n != 1 {
					t.Errorf("%d brokers, %d replicas: %d leads and %d follows first %d times", brokers, factor, pair[0], pair[1], n)
				}
			}
		}
	}
}
