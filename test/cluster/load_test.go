package cluster

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

// quorumLeader asks for the leader of the metadata quorum.
func quorumLeader(ctx context.Context, cl *kgo.Client) (int, error) {
	req := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	req.Topics = append(req.Topics, topic)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return -1, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return -1, err
	}
	p := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
		return -1, err
	}
	if p.LeaderID < 0 {
		return -1, errors.New("no leader")
	}
	return int(p.LeaderID), nil
}

// load is a producer that writes numbered records to a topic until it is stopped, and remembers what was acknowledged.
type load struct {
	topic string
	stop  context.CancelFunc
	over  sync.WaitGroup

	mu     sync.Mutex
	acked  map[int32]map[int64]string // partition → offset → value
	count  int
	failed int
	why    error // of the last that failed
	last   time.Time
	gap    time.Duration // longest time between two acknowledgements
}

// told is a load of which another program has told what was acknowledged.
func told(topic string) *load {
	return &load{topic: topic, stop: func() {}, acked: map[int32]map[int64]string{}}
}

// produce starts a load with acks=all; the producer is idempotent unless options say otherwise.
func (c *cluster) produce(t *testing.T, topic string, partitions int32, options ...kgo.Opt) *load {
	t.Helper()
	cl := c.client(t, append([]kgo.Opt{
		kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(time.Minute),
	}, options...)...)
	ctx, cancel := context.WithCancel(context.Background())
	l := &load{topic: topic, acked: map[int32]map[int64]string{}}
	l.stop = cancel
	l.over.Go(func() {
		defer cl.Close()
		pace := time.NewTicker(2 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			select {
			case <-pace.C:
			case <-ctx.Done():
				flush, done := context.WithTimeout(context.Background(), time.Minute)
				defer done()
				if err := cl.Flush(flush); err != nil {
					t.Errorf("flush: %v", err)
				}
				return
			}
			r := kgo.StringRecord(strconv.Itoa(i) + strings.Repeat(".", 100))
			r.Partition = int32(i) % partitions
			cl.Produce(context.Background(), r, l.note)
		}
	})
	return l
}

func (l *load) note(r *kgo.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.failed++
		l.why = err
		return
	}
	now := time.Now()
	if !l.last.IsZero() {
		l.gap = max(l.gap, now.Sub(l.last))
	}
	l.last = now
	if l.acked[r.Partition] == nil {
		l.acked[r.Partition] = map[int64]string{}
	}
	l.acked[r.Partition][r.Offset] = string(r.Value)
	l.count++
}

// await waits until so many more records have been acknowledged.
func (l *load) await(t *testing.T, n int) {
	t.Helper()
	l.mu.Lock()
	want := l.count + n
	l.mu.Unlock()
	harness.Eventually(t, time.Minute, fmt.Sprintf("%d more records are acknowledged", n), func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.count < want {
			return fmt.Errorf("%d of %d, %d failed: %v", l.count, want, l.failed, l.why)
		}
		return nil
	})
}

// longestGap returns the longest time without an acknowledgement since the last call.
func (l *load) longestGap() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	gap := l.gap
	if !l.last.IsZero() {
		gap = max(gap, time.Since(l.last))
	}
	l.gap = 0
	return gap
}

// checkValues is check for a load whose records are not numbered: each is at its offset.
func (l *load) checkValues(t *testing.T, c *cluster) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for p, records := range l.acked {
		consumer := c.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: {p: kgo.NewOffset().AtStart()}}))
		for left := len(records); left > 0; {
			fetches := consumer.PollFetches(ctx)
			if ctx.Err() != nil {
				t.Fatalf("%s-%d: %d of %d records are missing", l.topic, p, left, len(records))
			}
			fetches.EachRecord(func(r *kgo.Record) {
				if want := records[r.Offset]; want != string(r.Value) {
					t.Errorf("%s-%d: at offset %d lies %q, acknowledged was %q", l.topic, p, r.Offset, r.Value, want)
				}
				left--
			})
		}
	}
}

// check stops the load and compares: every acknowledged record is at its offset, no record is there twice, and the numbers
// of each partition ascend.
func (l *load) check(t *testing.T, c *cluster) {
	t.Helper()
	l.stop()
	l.over.Wait()
	if l.count == 0 {
		t.Fatal("nothing was acknowledged: the load proves nothing")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var ends kadm.ListedOffsets
	harness.Eventually(t, time.Minute, "the end offsets are known", func() (err error) {
		if ends, err = kadm.NewClient(c.client(t)).ListEndOffsets(ctx, l.topic); err == nil {
			err = ends.Error()
		}
		return err
	})
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		from[o.Partition] = kgo.NewOffset().AtStart()
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	consumer := c.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{l.topic: from}))
	seen := map[string]int64{}
	highest := map[int32]int{}
	found := 0
	for len(left) > 0 {
		fetches := consumer.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d acknowledged records read, partitions left: %v", found, l.count, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			value := string(r.Value)
			if at, twice := seen[value]; twice {
				t.Errorf("%s: %.20q is at %d-%d and was at offset %d", l.topic, value, r.Partition, r.Offset, at)
			}
			seen[value] = r.Offset
			number, _ := strconv.Atoi(strings.TrimRight(value, "."))
			if before, ok := highest[r.Partition]; ok && number <= before {
				t.Errorf("%s-%d: record %d follows record %d", l.topic, r.Partition, number, before)
			}
			highest[r.Partition] = number
			if want, ok := l.acked[r.Partition][r.Offset]; ok {
				if want != value {
					t.Errorf("%s-%d: at offset %d lies %.20q, acknowledged was %.20q", l.topic, r.Partition, r.Offset, value, want)
				}
				found++
			}
			if end, ok := left[r.Partition]; ok && r.Offset >= end-1 {
				delete(left, r.Partition)
			}
		})
	}
	if found != l.count {
		t.Errorf("%s: %d records were acknowledged, %d of them are there", l.topic, l.count, found)
	}
	t.Logf("%s: %d records acknowledged, %d refused, longest gap %v", l.topic, l.count, l.failed, l.gap.Round(time.Millisecond))
}
