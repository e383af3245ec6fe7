package fetcher

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"

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
		l.held.Stop()
		l.held = nil // as when it has been waited for long enough
		l.readSynced()
		if req := l.next(); len(req.Topics) != 0 {
			t.Error("the session reports what is not synced")
		}
		l.look.Stop()
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

// TestManyFailuresAreTwoLines: a thousand partitions that cannot be fetched for one reason, and some for another, are told of in a line for
// each reason.
func TestManyFailuresAreTwoLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1, 2)
		defer w.stop()
		w.lead("t", 0, 0, []kafka.NodeID{1, 2}, 1, 1, 2)
		l := newLoop(w.nodes[2].fetcher, lane{leader: 1, shard: 1})
		for i := range int32(1000) {
			f := &follower{p: w.nodes[2].partition("t", 0), key: key{topicID("t"), i}, failures: 20}
			defer f.wakeUp()
			err := error(kerr.NotLeaderForPartition)
			if i%100 == 0 {
				err = kerr.KafkaStorageError
			}
			l.fail(f, fmt.Errorf("partition %d: %w", i, err))
		}
		l.lieDown()
		for _, want := range []string{"partitions=990", "partitions=10"} {
			if n := strings.Count(w.log.String(), want+" "); n != 1 {
				t.Errorf("%d lines with %q", n, want)
			}
		}
		if n := strings.Count(w.log.String(), "cannot fetch"); n != 2 {
			t.Errorf("%d lines", n)
		}
	})
}
