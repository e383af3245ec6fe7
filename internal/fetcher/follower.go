package fetcher

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// key names a partition in requests and answers.
type key struct {
	topic     kafka.TopicID
	partition int32
}

// follower is one partition that a loop fetches.
type follower struct {
	p   *replica.Partition
	key key
	at  replica.Following // where it stands

	// in says that the leader's session has the partition, as of the last request; told is what it knows then.
	in   bool
	told replica.Following
	// named says that the next request has to name it.
	named bool

	behind   bool            // the leader's watermark is beyond at.From, as of the last answer
	syncing  *replica.Waiter // what is below at.From is not on disk yet; nil: it is
	resting  *rest           // after a failure, or for a throttle; nil: none
	failures int             // in a row
}

// ready reports whether the partition may be fetched.
func (f *follower) ready() bool { return f.syncing == nil && f.resting == nil }

// wakeUp ends the rest, if there is one.
func (f *follower) wakeUp() {
	r := f.resting
	if r == nil {
		return
	}
	f.resting = nil
	r.followers = slices.DeleteFunc(r.followers, func(other *follower) bool { return other == f })
	if len(r.followers) == 0 && r.timer != nil {
		r.timer.Stop()
	}
}

// rest is a pause that partitions begin in the same turn of their loop. They end it together too, so that one request
// names them all: with a timer for each, who comes first is chance, and the others wait for a request more.
type rest struct {
	length    time.Duration
	followers []*follower
	timer     *time.Timer // nil until that turn is over
}

// sorted puts followers into an order that does not depend on when they came.
func sorted(list []*follower) []*follower {
	slices.SortFunc(list, func(a, b *follower) int {
		x, y := a.p.TopicPartition(), b.p.TopicPartition()
		return cmp.Or(strings.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	return list
}
