package fetcher

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

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

	behind   bool            // the leader's watermark is beyond at.From, as of the last answer
	syncing  *replica.Waiter // what is below at.From is not on disk yet; nil: it is
	slow     bool            // its last sync took so long that no request is to wait for the next
	resting  *rest           // after a failure, or for a throttle; nil: none
	failures int             // in a row

	places [kinds]int // in the lists of each kind, from 1; 0: it is in none
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
	r.followers.remove(f)
	if r.followers.len() == 0 && r.timer != nil {
		r.timer.Stop()
	}
}

// rest is a pause that partitions begin in the same turn of their loop. They end it together too, so that one request
// names them all: with a timer for each, who comes first is chance, and the others wait for a request more.
type rest struct {
	length    time.Duration
	followers list
	timer     *time.Timer // nil until that turn is over
	troubles  []trouble   // to be told at its beginning
}

// trouble is why partitions cannot be fetched: one line tells of all whose cause is the same, since there may be thousands.
type trouble struct {
	cause      *kerr.Error // nil: none of Kafka's
	partitions int
	one        kafka.TopicPartition // of them, with where it stands and its error
	at         replica.Following
	err        error
}

// note has a follower's failure told.
func (r *rest) note(f *follower, err error) {
	cause, _ := errors.AsType[*kerr.Error](err)
	i := slices.IndexFunc(r.troubles, func(t trouble) bool { return t.cause == cause })
	if i < 0 {
		i = len(r.troubles)
		r.troubles = append(r.troubles, trouble{cause: cause, one: f.p.TopicPartition(), at: f.at, err: err})
	}
	r.troubles[i].partitions++
}

// sorted puts followers into an order that does not depend on when they came.
func sorted(list []*follower) []*follower {
	slices.SortFunc(list, func(a, b *follower) int {
		x, y := a.p.TopicPartition(), b.p.TopicPartition()
		return cmp.Or(strings.Compare(x.Topic, y.Topic), cmp.Compare(x.Partition, y.Partition))
	})
	return list
}
