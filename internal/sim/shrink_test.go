package sim

import (
	"reflect"
	"slices"
	"testing"
)

// TestShrink: of a failure that takes two faults and one feature nothing else is left.
func TestShrink(t *testing.T) {
	fails := func(o Options) Outcome {
		out := Outcome{Rounds: 40}
		if o.Rounds > 0 {
			out.Rounds = min(out.Rounds, o.Rounds)
		}
		struck := func(round int) bool { return out.Rounds > round && !slices.Contains(o.Skip, round) }
		if struck(3) && struck(17) && !slices.Contains(o.Without, "group") {
			out.Broken = []Broken{{oneOwner, "two have it"}}
		}
		if struck(5) && !struck(3) {
			out.Broken = []Broken{{sound, "something else"}}
		}
		return out
	}
	o, out := shrink(fails(Options{}), fails)
	var left []int
	for round := range out.Rounds {
		if !slices.Contains(o.Skip, round) {
			left = append(left, round)
		}
	}
	if !reflect.DeepEqual(left, []int{3, 17}) {
		t.Errorf("faults of the rounds %v are left", left)
	}
	if len(o.Without) != len(features)-1 || slices.Contains(o.Without, "group") {
		t.Errorf("%v are left out", o.Without)
	}
	if len(out.Broken) == 0 || out.Broken[0].Promise != oneOwner {
		t.Errorf("broken: %v", out.Broken)
	}
}
