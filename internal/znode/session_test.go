package znode

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestSessionsOutlastTheLease: a leader that has not heard of its fall may tell a client that its session lives for as long as its
// lease, so that the next one waits as much longer before it ends what nobody has told it of.
func TestSessionsOutlastTheLease(t *testing.T) {
	inWorld(t, func(w *world) {
		c := w.call("1", Connect{TimeoutMs: 4000})
		c.do(Create{Path: "/owned", ACL: open(), Flags: flagEphemeral})
		w.lease = 1500 * time.Millisecond
		w.Restart()
		there := func() bool {
			synctest.Wait()
			answer, _ := w.call("2", Connect{TimeoutMs: 4000}).do(Exists{Path: "/owned"})
			return answer.Code == OK
		}
		time.Sleep(5400 * time.Millisecond)
		if !there() {
			t.Error("the session is over before the next leader can know that nobody has told its client otherwise")
		}
		time.Sleep(200 * time.Millisecond)
		if there() {
			t.Error("the session lasts longer than its timeout and the lease")
		}
	})
}
