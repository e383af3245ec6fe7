package fetcher

import (
	"testing"
	"testing/synctest"

	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// TestUnsyncedIsNotNamed: a request without session leaves a partition to be named to the session too. What it has brought
// meanwhile is not on this disk, and until it is no request may name the partition: the leader would count it, and a power
// cut take what was acked.
func TestUnsyncedIsNotNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		w.lead("t", 0, 0, []kafka.NodeID{1, 2}, 1, 1, 2)
		l := newLoop(w.nodes[2].fetcher, lane{leader: 1, shard: 1})
		f := &follower{p: w.nodes[2].partition("t", 0), key: key{topicID("t"), 0}}
		l.name(f)
		if req := l.meanwhile(); len(req.Topics) != 1 {
			t.Fatal("the request without session does not name the partition")
		}
		f.at.From++
		l.proceed(f, &replica.Waiter{}) // which nothing ends
		if req := l.meanwhile(); len(req.Topics) != 0 {
			t.Error("a request without session reports what is not synced")
		}
		l.giveUpSyncing()
		if req := l.next(); len(req.Topics) != 0 {
			t.Error("the session reports what is not synced")
		}
		l.held.Stop()
	})
}

// TestWhoComesBackIsNotForgotten: a partition whose role changes is dropped, and comes back under the new leader epoch as
// another follower. A request that names it must not forget it as well: the leader would, and wait for a partition of nobody.
func TestWhoComesBackIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		w.lead("t", 0, 0, []kafka.NodeID{1, 2}, 1, 1, 2)
		l := newLoop(w.nodes[2].fetcher, lane{leader: 1, shard: 1})
		l.session.id = 7
		enter := func() *follower {
			f := &follower{p: w.nodes[2].partition("t", 0), key: key{topicID("t"), 0}}
			l.followers[f.key] = f
			l.name(f)
			return f
		}
		f := enter()
		l.next()
		l.drop(f)
		enter()
		if req := l.next(); len(req.Topics) != 1 || len(req.ForgottenTopics) != 0 {
			t.Errorf("names %d topics and forgets %d", len(req.Topics), len(req.ForgottenTopics))
		}
		l.drop(l.followers[f.key])
		if req := l.next(); len(req.Topics) != 0 || len(req.ForgottenTopics) != 1 {
			t.Errorf("of a partition that does not come back it names %d and forgets %d", len(req.Topics), len(req.ForgottenTopics))
		}
	})
}
