package fetcher

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// session is what the leader remembers between requests (KIP-227). Mirrors FetchSessionHandler.
type session struct {
	id    int32 // 0: none
	epoch int32 // of the next request
}

// answered notes what the leader has made of a request.
func (s *session) answered(id int32) {
	if s.id = id; id == 0 {
		s.epoch = 0
		return
	}
	if s.epoch++; s.epoch < 0 {
		s.epoch = 1 // 0 would ask for a new session
	}
}

// restart makes the next request name everything.
func (l *loop) restart() {
	l.session, l.inSession, l.leaving = session{}, 0, nil
	for _, f := range l.followers {
		f.in = false
		if f.ready() {
			l.name(f)
		}
	}
}

// next is the request that brings the session up to date.
func (l *loop) next() *kmsg.FetchRequest {
	if l.session.id == 0 {
		l.restart()
	}
	req := kmsg.NewPtrFetchRequest()
	req.SessionID, req.SessionEpoch = l.session.id, l.session.epoch
	var t topics
	for _, f := range l.named.sorted() {
		t.add(f, l.f.o.PartitionBytes)
		f.told = f.at
		if !f.in {
			f.in = true
			l.inSession++
		}
	}
	req.Topics = t.list
	// What has left and come back, the same or as another follower, is named again; to forget it would end that.
	req.ForgottenTopics = forgotten(slices.DeleteFunc(l.leaving, func(f *follower) bool {
		now := l.followers[f.key]
		return now != nil && now.in
	}))
	l.named.clear()
	l.leaving = l.leaving[:0]
	return req
}

// meanwhile is a request without session for the partitions that the session cannot be told of yet, because its request is
// under way.
func (l *loop) meanwhile() *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.SessionEpoch = noSession
	l.aside.asked = make(map[*follower]replica.Following, l.named.len())
	var t topics
	for _, f := range l.named.sorted() {
		t.add(f, l.f.o.PartitionBytes)
		l.aside.asked[f] = f.at
	}
	req.Topics = t.list
	return req
}

// noSession is the epoch of a request that wants no session (FetchMetadata.FINAL_EPOCH).
const noSession = -1

// topics gathers partitions by topic, in order.
type topics struct {
	list []kmsg.FetchRequestTopic
}

func (t *topics) add(f *follower, maxBytes int32) {
	n := len(t.list)
	if n == 0 || kafka.TopicID(t.list[n-1].TopicID) != f.key.topic {
		topic := kmsg.NewFetchRequestTopic()
		topic.Topic, topic.TopicID = f.p.TopicPartition().Topic, f.key.topic
		t.list = append(t.list, topic)
		n++
	}
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition = f.key.partition
	p.CurrentLeaderEpoch, p.FetchOffset, p.LastFetchedEpoch, p.LogStartOffset = f.at.Epoch, f.at.From, f.at.LastEpoch, f.at.LogStart
	p.PartitionMaxBytes = maxBytes
	t.list[n-1].Partitions = append(t.list[n-1].Partitions, p)
}

func forgotten(list []*follower) []kmsg.FetchRequestForgottenTopic {
	var out []kmsg.FetchRequestForgottenTopic
	for _, f := range sorted(list) {
		n := len(out)
		if n == 0 || kafka.TopicID(out[n-1].TopicID) != f.key.topic {
			topic := kmsg.NewFetchRequestForgottenTopic()
			topic.Topic, topic.TopicID = f.p.TopicPartition().Topic, f.key.topic
			out = append(out, topic)
			n++
		}
		out[n-1].Partitions = append(out[n-1].Partitions, f.key.partition)
	}
	return out
}
