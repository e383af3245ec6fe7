package api

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metrics"
)

func wantError(t *testing.T, code int16, want *kerr.Error) {
	t.Helper()
	if code != want.Code {
		t.Errorf("error code %d, want %d %s", code, want.Code, want.Message)
	}
}

// wantPartitions checks which partitions an answer tells of, in order.
func wantPartitions(t *testing.T, resp *kmsg.FetchResponse, want ...int32) []kmsg.FetchResponseTopicPartition {
	t.Helper()
	all := told(resp)
	var got []int32
	for _, p := range all {
		got = append(got, p.Partition)
	}
	if len(got) != len(want) {
		t.Fatalf("the answer tells of partitions %v, want %v (error %d)", got, want, resp.ErrorCode)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("the answer tells of partitions %v, want %v", got, want)
		}
	}
	return all
}

// fetchOn sends a Fetch of topic t on a connection.
func (c *conn) fetch(o fetchOptions, from map[int32]int64) *kmsg.FetchResponse {
	c.n.t.Helper()
	return c.do(c.n.fetchRequest(o, "t", from)).(*kmsg.FetchResponse)
}

func TestSessionTellsOnlyNews(t *testing.T) {
	for _, version := range []int16{7, 12, 13, 18} {
		inNode(t, nodeOptions{}, func(n *testNode) {
			n.create("t", 3)
			n.mustProduce("t", 1, 2)
			c := n.dial(n.broker)
			defer c.close()

			resp := c.fetch(fetchOptions{version: version}, map[int32]int64{0: 0, 1: 0, 2: 0})
			id := resp.SessionID
			if id <= 0 {
				n.t.Fatalf("session id %d", id)
			}
			p := wantPartitions(n.t, resp, 0, 1, 2) // a full answer tells of the empty ones too
			if count(p[1].RecordBatches) != 2 {
				n.t.Errorf("%d records", count(p[1].RecordBatches))
			}
			// The client has read partition 1 and says so.
			resp = c.fetch(fetchOptions{version: version, session: id, epoch: 1}, map[int32]int64{1: 2})
			if wantPartitions(n.t, resp); resp.SessionID != id {
				n.t.Errorf("session id %d, want %d", resp.SessionID, id)
			}
			n.mustProduce("t", 2, 1)
			p = wantPartitions(n.t, c.fetch(fetchOptions{version: version, session: id, epoch: 2}, nil), 2)
			if p[0].HighWatermark != 1 || count(p[0].RecordBatches) != 1 {
				n.t.Errorf("high watermark %d, %d records", p[0].HighWatermark, count(p[0].RecordBatches))
			}
			// Whether the client has taken them is not known until it says so: they come again.
			wantPartitions(n.t, c.fetch(fetchOptions{version: version, session: id, epoch: 3}, nil), 2)
			wantPartitions(n.t, c.fetch(fetchOptions{version: version, session: id, epoch: 4}, map[int32]int64{2: 1}))
			// A forgotten partition is told of no more.
			n.mustProduce("t", 0, 1)
			wantPartitions(n.t, c.fetch(fetchOptions{version: version, session: id, epoch: 5, forget: []int32{0}}, nil))
			n.mustProduce("t", 0, 1)
			n.mustProduce("t", 1, 1)
			wantPartitions(n.t, c.fetch(fetchOptions{version: version, session: id, epoch: 6}, nil), 1)
		})
	}
}

func TestSessionTellsOfLogStart(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		n.mustProduce("t", 0, 3)
		c := n.dial(n.broker)
		defer c.close()
		id := c.fetch(fetchOptions{}, map[int32]int64{0: 3}).SessionID
		wantPartitions(n.t, c.fetch(fetchOptions{session: id, epoch: 1}, nil))
		req := kmsg.NewPtrDeleteRecordsRequest()
		req.Version, req.TimeoutMillis = 2, 1000
		topic := kmsg.NewDeleteRecordsRequestTopic()
		topic.Topic = "t"
		topic.Partitions = []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: 2}}
		req.Topics = append(req.Topics, topic)
		n.ask(req)
		p := wantPartitions(n.t, c.fetch(fetchOptions{session: id, epoch: 2}, nil), 0)
		if p[0].LogStartOffset != 2 || len(p[0].RecordBatches) != 0 {
			n.t.Errorf("log start %d, %d bytes", p[0].LogStartOffset, len(p[0].RecordBatches))
		}
		wantPartitions(n.t, c.fetch(fetchOptions{session: id, epoch: 3}, nil))
	})
}

// TestSessionServesInTurn: what has been served goes to the back, so that a busy partition does not starve the others.
func TestSessionServesInTurn(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 3)
		for i := range int32(3) {
			n.mustProduce("t", i, 5)
		}
		c := n.dial(n.broker)
		defer c.close()
		o := fetchOptions{maxBytes: 1, minBytes: 1}
		resp := c.fetch(o, map[int32]int64{0: 5, 1: 5, 2: 5})
		id := resp.SessionID
		wantPartitions(n.t, resp, 0, 1, 2)
		for i := range int32(3) {
			n.mustProduce("t", i, 5)
		}
		// With room for one batch at a time, all three get their turn.
		o.session = id
		turns := []int32{0, 1, 2, 0, 1}
		for i, want := range turns {
			o.epoch = int32(i + 1)
			var sent []int32
			for _, p := range told(c.fetch(o, nil)) {
				if len(p.RecordBatches) > 0 {
					sent = append(sent, p.Partition)
				}
			}
			if len(sent) != 1 || sent[0] != want {
				n.t.Errorf("fetch %d sent records of %v, want of %d", i, sent, want)
			}
		}
	})
}

func TestSessionErrors(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		c := n.dial(n.broker)
		defer c.close()
		id := c.fetch(fetchOptions{}, map[int32]int64{0: 0}).SessionID
		wantError(n.t, c.fetch(fetchOptions{session: id ^ 1, epoch: 1}, nil).ErrorCode, kerr.FetchSessionIDNotFound)
		wantError(n.t, c.fetch(fetchOptions{session: id, epoch: 5}, nil).ErrorCode, kerr.InvalidFetchSessionEpoch)
		wantError(n.t, c.fetch(fetchOptions{version: 13, session: id, epoch: 1}, nil).ErrorCode, kerr.FetchSessionTopicIDError)
		if resp := c.fetch(fetchOptions{session: id, epoch: 1}, nil); resp.ErrorCode != 0 || resp.SessionID != id {
			n.t.Errorf("after errors the session answers error %d, id %d", resp.ErrorCode, resp.SessionID)
		}
		// A full fetch that names a session ends it.
		if resp := c.fetch(fetchOptions{session: id, epoch: finalEpoch}, map[int32]int64{0: 0}); resp.SessionID != 0 {
			n.t.Errorf("session id %d of a fetch that wants none", resp.SessionID)
		}
		wantError(n.t, c.fetch(fetchOptions{session: id, epoch: 2}, nil).ErrorCode, kerr.FetchSessionIDNotFound)
		// So does forgetting all that is in it.
		id = c.fetch(fetchOptions{}, map[int32]int64{0: 0}).SessionID
		if resp := c.fetch(fetchOptions{session: id, epoch: 1, forget: []int32{0}}, nil); resp.ErrorCode != 0 || resp.SessionID != 0 {
			n.t.Errorf("error %d, session id %d", resp.ErrorCode, resp.SessionID)
		}
		wantError(n.t, c.fetch(fetchOptions{session: id, epoch: 2}, nil).ErrorCode, kerr.FetchSessionIDNotFound)
		// While a fetch of a session waits, another cannot use it.
		id = c.fetch(fetchOptions{}, map[int32]int64{0: 0}).SessionID
		waiting := n.fetchRequest(fetchOptions{session: id, epoch: 1, maxWaitMs: 1000, minBytes: 1}, "t", nil)
		c.send(waiting)
		other := n.dial(n.broker)
		defer other.close()
		wantError(n.t, other.fetch(fetchOptions{session: id, epoch: 2}, nil).ErrorCode, kerr.InvalidFetchSessionEpoch)
		if resp := c.receive(waiting).(*kmsg.FetchResponse); resp.ErrorCode != 0 {
			n.t.Errorf("the fetch that waited: error %d", resp.ErrorCode)
		}
	})
}

// TestSessionOfPartitionThatComesAndGoes: errors are told each time; a topic that is made anew is found by its name.
func TestSessionOfPartitionThatComesAndGoes(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		c := n.dial(n.broker)
		defer c.close()
		id := c.fetch(fetchOptions{}, map[int32]int64{0: 0, 1: 0}).SessionID
		for epoch := range int32(2) {
			p := wantPartitions(n.t, c.fetch(fetchOptions{session: id, epoch: 1 + epoch}, nil), 1)
			wantError(n.t, p[0].ErrorCode, kerr.UnknownTopicOrPartition)
		}
		del := kmsg.NewPtrDeleteTopicsRequest()
		del.Version, del.TimeoutMillis, del.TopicNames = 4, 1000, []string{"t"}
		n.ask(del)
		p := wantPartitions(n.t, c.fetch(fetchOptions{session: id, epoch: 3}, nil), 0, 1)
		wantError(n.t, p[0].ErrorCode, kerr.UnknownTopicOrPartition)
		n.create("t", 2)
		n.mustProduce("t", 0, 1)
		p = wantPartitions(n.t, c.fetch(fetchOptions{session: id, epoch: 4}, nil), 0, 1)
		if p[0].ErrorCode != 0 || p[1].ErrorCode != 0 || count(p[0].RecordBatches) != 1 {
			n.t.Errorf("errors %d and %d, %d records", p[0].ErrorCode, p[1].ErrorCode, count(p[0].RecordBatches))
		}
	})
}

func TestNextEpoch(t *testing.T) {
	for e, want := range map[int32]int32{0: 1, 1: 2, 1<<31 - 1: 1} {
		if got := nextEpoch(e); got != want {
			t.Errorf("nextEpoch(%d) = %d, want %d", e, got, want)
		}
	}
}

// TestEviction follows FetchSessionCacheShard.tryEvict.
func TestEviction(t *testing.T) {
	var now time.Time
	c := newSessionCache(2, func() time.Time { return now }, metrics.NewSet())
	make := func(follower bool, partitions int32) *session {
		r := reader{replica: -1}
		if follower {
			r.replica = 7
		}
		s := newSession(false, r)
		for i := range partitions {
			s.add(partitionKey{topic: "t", partition: i})
		}
		c.offer(s)
		c.end(s)
		return s
	}
	in := func(s *session) bool { return s.id != noSession && !s.closed }
	want := func(what string, s *session, cached bool) {
		t.Helper()
		if in(s) != cached {
			t.Errorf("%s: in the cache %v, want %v", what, in(s), cached)
		}
	}
	small, large := make(false, 2), make(false, 9)
	want("there is room", small, true)
	want("a larger one does not push out the young", make(false, 20), false)
	follower := make(true, 1)
	want("a follower does", follower, true)
	want("the smaller client goes", small, false)
	now = now.Add(sessionIdle + time.Second)
	c.byID[large.id].used, c.byID[follower.id].used = now, now
	want("an old one yields to a larger", make(false, 10), true)
	want("the smaller one is gone", large, false)
	want("an equal one does not push out", make(false, 10), false)
	want("a client does not push out a follower", follower, true)
	now = now.Add(sessionIdle + time.Second)
	want("whatever is idle goes", make(false, 1), true)
	if c.partitions != 2 && c.partitions != 11 {
		t.Errorf("%d partitions are counted", c.partitions)
	}
	total := 0
	for _, s := range c.byID {
		total += len(s.partitions)
	}
	if total != c.partitions {
		t.Errorf("%d partitions are counted, there are %d", c.partitions, total)
	}
}

func TestNoRoomForSession(t *testing.T) {
	inNode(t, nodeOptions{slots: 1}, func(n *testNode) {
		n.create("t", 1)
		c := n.dial(n.broker)
		defer c.close()
		first := c.fetch(fetchOptions{}, map[int32]int64{0: 0})
		second := c.fetch(fetchOptions{}, map[int32]int64{0: 0})
		if first.SessionID == 0 || second.SessionID != 0 || len(told(second)) != 1 {
			n.t.Errorf("sessions %d and %d; the second tells of %d partitions", first.SessionID, second.SessionID, len(told(second)))
		}
	})
}
