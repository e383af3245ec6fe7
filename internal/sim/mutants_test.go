//go:build sim

package sim

import "testing"

// TestPlantedBugsAreCaught: each bug is found within as many seeds as can show it.
func TestPlantedBugsAreCaught(t *testing.T) {
	const within = 100 // the rarest needs a failed sync and a power cut with no restart in between, which would write again what is lost
	for _, m := range Mutants() {
		t.Run(m.Name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("takes a minute for all")
			}
			tried := 0
			for seed := uint64(1); tried < within; seed++ {
				if *oneSeed != 0 {
					seed = *oneSeed
				}
				if !m.needs(PlanOf(seed)) {
					continue
				}
				tried++
				out := run(t, seed, Options{Wrap: m.wrap, Alter: m.alter, Whole: *whole})
				if len(out.Broken) > 0 {
					t.Logf("caught by seed %d, the %d. that could: %s", seed, tried, out.Broken[0].String())
					return
				}
			}
			t.Errorf("not caught by %d seeds", tried)
		})
	}
}
