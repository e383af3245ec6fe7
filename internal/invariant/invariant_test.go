package invariant

import "testing"

func TestCheck(t *testing.T) {
	Check(true, "never seen")
	defer func() {
		if got := recover(); got != "invariant: end 3 before start 5" {
			t.Fatalf("panic value %v", got)
		}
	}()
	Check(false, "end %d before start %d", 3, 5)
}
