package replica

import (
	"testing"

	"moldau/internal/kafka"
)

// What a follower's own retention has deleted counts as deleted once that is on its disk: DeleteRecords is answered by what the
// followers report, and a power cut must not bring back what it has confirmed.
func TestDeletionByRetentionCountsWhenDurable(t *testing.T) {
	c := newCluster(t, true, 1, 2)
	defer c.stop()
	both := []kafka.NodeID{1, 2}
	c.elect(nil, 0, 1, both, both, nil, "1")
	leader := c.nodes[1].partition()
	_, _, err := leader.Append(records(3, 1), AppendOptions{Acks: kafka.AcksAll, LeaderEpoch: kafka.NoEpoch})
	c.nodes[1].must(err)
	fetch := func() {
		t.Helper()
		c.quiet()
		a, err := c.ask(2)
		if err == nil {
			err = c.take(2, a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	fetch() // the records
	fetch() // and the watermark, which the one before has moved
	follower := c.nodes[2].partition()
	if follower.HighWatermark() != 3 {
		t.Fatalf("the follower's watermark is %d", follower.HighWatermark())
	}
	c.nodes[2].must(follower.acting.Load().log.Log.SetLogStart(2)) // as retention does: in memory first
	_, deleted, err := leader.DeleteRecords(2)
	c.nodes[1].must(err)
	for i := 0; deleted != nil && !isDone(deleted); i++ {
		if i == 5 {
			t.Fatal("the leader does not hear that the records are deleted")
		}
		fetch()
	}
	c.crash(2, true)
	c.restart(2)
	if start := c.nodes[2].partition().LogStart(); start < 2 {
		t.Errorf("records below 2 were confirmed as deleted, and the follower has them from %d on", start)
	}
}

func isDone(w *Waiter) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}
