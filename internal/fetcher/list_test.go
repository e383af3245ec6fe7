package fetcher

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestList: who is in a list, after any coming and going, is who a set would have.
func TestList(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	followers := make([]*follower, 20)
	for i := range followers {
		followers[i] = &follower{}
	}
	l, other, in := list{kind: slow}, list{kind: resting}, map[*follower]bool{}
	for range 5000 {
		f := followers[rng.IntN(len(followers))]
		switch rng.IntN(9) {
		case 0:
			l.clear()
			clear(in)
		case 1:
			l.removeIf(func(f *follower) bool {
				out := rng.IntN(3) == 0
				if out {
					delete(in, f)
				}
				return out
			})
		case 2, 3, 4:
			l.remove(f)
			delete(in, f)
		case 5:
			other.remove(f)
		default:
			l.add(f)
			other.add(f)
			in[f] = true
		}
		if l.len() != len(in) {
			t.Fatalf("%d are in, want %d", l.len(), len(in))
		}
		for f := range in {
			if !slices.Contains(l.all, f) || l.all[f.places[slow]-1] != f {
				t.Fatal("one that is in cannot be found")
			}
		}
	}
}
