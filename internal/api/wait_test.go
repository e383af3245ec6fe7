package api

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// TestLongPoll: a fetch is answered when there is enough, and no later than it wants to wait. Time is the bubble's.
func TestLongPoll(t *testing.T) {
	for name, epoch := range map[string]int32{"sessionless": finalEpoch, "new session": initialEpoch} {
		t.Run(name, func(t *testing.T) {
			inNode(t, nodeOptions{}, func(n *testNode) {
				n.create("t", 2)
				c := n.dial(n.broker)
				defer c.close()
				size := int32(len(records(1, plain())))
				o := fetchOptions{maxWaitMs: 500, minBytes: 1, epoch: epoch}

				begin := time.Now()
				c.fetch(o, map[int32]int64{0: 0, 1: 0})
				if took := time.Since(begin); took != 500*time.Millisecond {
					n.t.Errorf("without records it took %v, want 500ms", took)
				}
				req := n.fetchRequest(o, "t", map[int32]int64{0: 0, 1: 0})
				c.send(req)
				time.Sleep(100 * time.Millisecond)
				begin = time.Now()
				n.mustProduce("t", 1, 1)
				resp := c.receive(req).(*kmsg.FetchResponse)
				if took := time.Since(begin); took != 0 {
					n.t.Errorf("the record took %v", took)
				}
				if p := told(resp); count(p[len(p)-1].RecordBatches) != 1 {
					n.t.Errorf("the answer has no record")
				}
				// More than there is: it takes both partitions' records to answer.
				o.minBytes = 3 * size
				req = n.fetchRequest(o, "t", map[int32]int64{0: 0, 1: 0})
				c.send(req)
				time.Sleep(100 * time.Millisecond)
				n.mustProduce("t", 0, 1)
				time.Sleep(100 * time.Millisecond)
				begin = time.Now()
				n.mustProduce("t", 1, 1)
				resp = c.receive(req).(*kmsg.FetchResponse)
				total := 0
				for _, p := range told(resp) {
					total += count(p.RecordBatches)
				}
				if took := time.Since(begin); took != 0 || total != 3 {
					n.t.Errorf("took %v for %d records, want 3 at once", took, total)
				}
			})
		})
	}
}

func TestSessionWaitsForNews(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 2)
		c := n.dial(n.broker)
		defer c.close()
		id := c.fetch(fetchOptions{}, map[int32]int64{0: 0, 1: 0}).SessionID
		req := n.fetchRequest(fetchOptions{session: id, epoch: 1, maxWaitMs: 60_000, minBytes: 1}, "t", nil)
		c.send(req)
		time.Sleep(30 * time.Second)
		begin := time.Now()
		n.mustProduce("t", 1, 4)
		p := wantPartitions(n.t, c.receive(req).(*kmsg.FetchResponse), 1)
		if took := time.Since(begin); took != 0 || count(p[0].RecordBatches) != 4 {
			n.t.Errorf("took %v for %d records", took, count(p[0].RecordBatches))
		}
	})
}

func TestErrorsDoNotWait(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		c := n.dial(n.broker)
		defer c.close()
		o := fetchOptions{maxWaitMs: 1000, minBytes: 1, epoch: finalEpoch}
		for name, tc := range map[string]struct {
			from map[int32]int64
			took time.Duration
		}{
			"out of range":                 {map[int32]int64{0: 9}, 0},
			"unknown, alone":               {map[int32]int64{5: 0}, 0},
			"unknown, beside one that is":  {map[int32]int64{0: 0, 5: 0}, time.Second},
			"nothing at all":               {nil, 0},
			"out of range, beside unknown": {map[int32]int64{0: 9, 5: 0}, 0},
		} {
			begin := time.Now()
			c.fetch(o, tc.from)
			if took := time.Since(begin); took != tc.took {
				n.t.Errorf("%s: took %v, want %v", name, took, tc.took)
			}
		}
	})
}

// TestFirstBatchIsWhole: a batch larger than all limits is sent if it is the first, and only then (KIP-74).
func TestFirstBatchIsWhole(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 2)
		n.mustProduce("t", 0, 20)
		n.mustProduce("t", 0, 20)
		n.mustProduce("t", 1, 20)
		c := n.dial(n.broker)
		defer c.close()
		o := fetchOptions{epoch: finalEpoch, minBytes: 1, partitionMax: 10}
		p := told(c.fetch(o, map[int32]int64{0: 0, 1: 0}))
		if count(p[0].RecordBatches) != 20 || len(p[1].RecordBatches) != 0 {
			n.t.Errorf("%d and %d records, want one whole batch", count(p[0].RecordBatches), count(p[1].RecordBatches))
		}
		o.partitionMax, o.maxBytes = 0, 10
		p = told(c.fetch(o, map[int32]int64{0: 0, 1: 0}))
		if count(p[0].RecordBatches) != 20 || len(p[1].RecordBatches) != 0 {
			n.t.Errorf("%d and %d records, want one whole batch", count(p[0].RecordBatches), count(p[1].RecordBatches))
		}
	})
}

// TestDeletedTopicEndsTheWait: who waits for records of a topic that goes away learns it at once.
func TestDeletedTopicEndsTheWait(t *testing.T) {
	for _, version := range []int16{12, 13} {
		inNode(t, nodeOptions{}, func(n *testNode) {
			n.create("t", 1)
			c := n.dial(n.broker)
			defer c.close()
			req := n.fetchRequest(fetchOptions{version: version, maxWaitMs: 1 << 30, minBytes: 1}, "t", map[int32]int64{0: 0})
			c.send(req)
			time.Sleep(time.Second)
			del := kmsg.NewPtrDeleteTopicsRequest()
			del.Version, del.TimeoutMillis, del.TopicNames = 4, 1000, []string{"t"}
			n.ask(del)
			p := told(c.receive(req).(*kmsg.FetchResponse))
			want := kerr.UnknownTopicOrPartition
			if version >= 13 {
				want = kerr.UnknownTopicID
			}
			wantError(n.t, p[0].ErrorCode, want)
		})
	}
}

func TestStopEndsWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := startNode(t, nodeOptions{})
		n.create("t", 1)
		c := n.dial(n.broker)
		req := n.fetchRequest(fetchOptions{maxWaitMs: 1 << 30, minBytes: 1}, "t", map[int32]int64{0: 0})
		c.send(req)
		synctest.Wait()
		begin := time.Now()
		go n.stop()
		if resp := c.receive(req).(*kmsg.FetchResponse); len(told(resp)) != 1 {
			t.Error("the answer tells of nothing")
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("the answer took %v", took)
		}
	})
}

// TestClientThatLeavesLetsGo: the session of a client that left in the middle of a fetch stays usable for nobody, and its
// fetch ends.
func TestClientThatLeavesLetsGo(t *testing.T) {
	inNode(t, nodeOptions{}, func(n *testNode) {
		n.create("t", 1)
		c := n.dial(n.broker)
		c.send(n.fetchRequest(fetchOptions{maxWaitMs: 1 << 30, minBytes: 1, epoch: finalEpoch}, "t", map[int32]int64{0: 0}))
		synctest.Wait()
		c.close()
		synctest.Wait() // a fetch that goes on would keep the bubble, or stop, from ending
	})
}

// TestFetchOnBothSidesOfTheWatermark: what is not synced yet is not seen, and asking for it is no error.
func TestFetchOnBothSidesOfTheWatermark(t *testing.T) {
	gate := newSyncGate()
	inNode(t, nodeOptions{disk: gate.wrap}, func(n *testNode) {
		n.create("t", 1)
		gate.close()
		n.ask(n.produceRequest(9, 1, "t", 0, records(2, plain()))) // acks=1 does not wait
		c := n.dial(n.broker)
		defer c.close()
		o := fetchOptions{epoch: finalEpoch}
		for _, from := range []int64{0, 1, 2} {
			p := told(c.fetch(o, map[int32]int64{0: from}))
			if p[0].ErrorCode != 0 || len(p[0].RecordBatches) != 0 || p[0].HighWatermark != 0 {
				n.t.Errorf("from %d: error %d, %d bytes, high watermark %d", from, p[0].ErrorCode, len(p[0].RecordBatches), p[0].HighWatermark)
			}
		}
		p := told(c.fetch(o, map[int32]int64{0: 3}))
		wantError(n.t, p[0].ErrorCode, kerr.OffsetOutOfRange)
		gate.open()
	})
}

// TestListOffsetsSeesWhatWasAcked: records that were acked but are not synced are waited for, if they could be the answer.
func TestListOffsetsSeesWhatWasAcked(t *testing.T) {
	for _, test := range []struct {
		name      string
		timestamp int64
		want      int64
		waits     bool
	}{
		{"latest", kafka.LatestTimestamp, 2, true},
		{"the largest time", kafka.MaxTimestamp, 0, true}, // both have it, and the first one counts
		{"a time", 1, 0, true},
		{"earliest", kafka.EarliestTimestamp, 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			gate := newSyncGate()
			inNode(t, nodeOptions{disk: gate.wrap}, func(n *testNode) {
				n.create("t", 1)
				gate.close()
				n.ask(n.produceRequest(9, 1, "t", 0, records(2, plain()))) // acks=1 does not wait
				req := kmsg.NewPtrListOffsetsRequest()
				req.Version, req.ReplicaID = 9, -1
				topic := kmsg.NewListOffsetsRequestTopic()
				topic.Topic = "t"
				partition := kmsg.NewListOffsetsRequestTopicPartition()
				partition.Timestamp = test.timestamp
				topic.Partitions = append(topic.Partitions, partition)
				req.Topics = append(req.Topics, topic)
				c := n.dial(n.broker)
				defer c.close()
				began := time.Now()
				c.send(req)
				var took time.Duration
				var resp *kmsg.ListOffsetsResponse
				answered := make(chan struct{})
				go func() {
					resp, took = c.receive(req).(*kmsg.ListOffsetsResponse), time.Since(began)
					close(answered)
				}()
				time.Sleep(time.Second)
				gate.open()
				<-answered
				if got := resp.Topics[0].Partitions[0]; got.ErrorCode != 0 || got.Offset != test.want {
					n.t.Errorf("offset %d, error %d; want %d", got.Offset, got.ErrorCode, test.want)
				}
				if waited := took >= time.Second; waited != test.waits {
					n.t.Errorf("the answer took %v", took)
				}
			})
		})
	}
}
