package replica

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWaiters compares the list with a model: those whose need is met are released, each once, the smallest need first
// and among equals the first to come.
func TestWaiters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list waiters
		var model []*Waiter
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch offset := rapid.Int64Range(0, 9).Draw(t, "offset"); rapid.IntRange(0, 9).Draw(t, "what") {
			case 0:
				failure := errors.New("over")
				release(list.fail(failure))
				for _, w := range model {
					<-w.Done()
					if w.Err() != failure {
						t.Fatal("failed with another error")
					}
				}
				model = nil
			case 1, 2, 3:
				var want, left []*Waiter
				for _, w := range model {
					if w.need <= offset {
						want = append(want, w)
					} else {
						left = append(left, w)
					}
				}
				slices.SortStableFunc(want, func(a, b *Waiter) int { return int(a.need - b.need) })
				chain := list.reach(offset)
				for w := chain; w != nil; w = w.next {
					if len(want) == 0 || want[0] != w {
						t.Fatalf("reach %d released one who needs %d out of turn", offset, w.need)
					}
					want = want[1:]
				}
				if len(want) > 0 {
					t.Fatalf("reach %d forgot one who needs %d", offset, want[0].need)
				}
				release(chain)
				model = left
			default:
				model = append(model, list.add(offset))
			}
			if list.count != len(model) {
				t.Fatalf("counts %d of %d", list.count, len(model))
			}
			for _, w := range model {
				select {
				case <-w.Done():
					t.Fatal("done too early")
				default:
				}
			}
		}
	})
}
