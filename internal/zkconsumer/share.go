package zkconsumer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/kafka"
)

// share is what a member owns between two rebalances, and how far it has come with it. Each has a client of its own, so that
// nothing that one has fetched can come out of the next.
type share struct {
	parts  assignment
	client *kgo.Client
	s      Settings
	news   func() // called when a partition has lost its place

	mu        sync.Mutex
	halted    bool
	positions map[kafka.TopicPartition]kafka.Offset // the next to hand out; what is not here waits for place
	rest      []*kgo.Record                         // fetched and not yet handed out; of Poll's caller, not under mu
}

// newShare prepares reading. Nothing is read before begin and place say where.
func newShare(s Settings, brokers []string, parts assignment, news func()) (*share, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(brokers...),
		kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return s.Dial(ctx, network, address)
		}),
		kgo.ClientID(s.ClientID), kgo.DisableClientMetrics(),
		kgo.RequestTimeoutOverhead(max(s.RequestTimeout, 100*time.Millisecond)),
		kgo.MetadataMinAge(max(s.RefreshLeader, 10*time.Millisecond)),
		kgo.RetryBackoffFn(func(int) time.Duration { return s.RefreshLeader }),
		kgo.FetchMinBytes(s.FetchMinBytes), kgo.FetchMaxWait(max(s.FetchMaxWait, 10*time.Millisecond)), kgo.FetchMaxPartitionBytes(s.FetchMessageMax),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
	)
	if err != nil {
		return nil, err
	}
	return &share{parts: parts, client: client, s: s, news: news, positions: make(map[kafka.TopicPartition]kafka.Offset)}, nil
}

// begin reads partitions from known offsets.
func (s *share) begin(offsets map[kafka.TopicPartition]kafka.Offset) {
	at := make(map[string]map[int32]kgo.Offset)
	s.mu.Lock()
	defer s.mu.Unlock()
	for tp, offset := range offsets {
		s.positions[tp] = offset
		if at[tp.Topic] == nil {
			at[tp.Topic] = make(map[int32]kgo.Offset)
		}
		at[tp.Topic][tp.Partition] = kgo.NoResetOffset().At(offset)
	}
	s.client.AddConsumePartitions(at)
}

// unplaced lists the partitions that have no offset to begin with.
func (s *share) unplaced() []kafka.TopicPartition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []kafka.TopicPartition
	for _, tp := range s.parts.inOrder() {
		if _, ok := s.positions[tp]; !ok {
			list = append(list, tp)
		}
	}
	return list
}

// place asks leaders where the log of the unplaced partitions begins or ends, and reads from there. Those without a leader stay
// unplaced.
func (s *share) place(ctx context.Context) {
	list := s.unplaced()
	if len(list) == 0 {
		return
	}
	// A leader that does not answer must not keep a rebalance waiting.
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	var topics []string
	for _, tp := range list {
		topics = append(topics, tp.Topic)
	}
	ask := kadm.NewClient(s.client).ListEndOffsets
	if s.s.FromSmallest {
		ask = kadm.NewClient(s.client).ListStartOffsets
	}
	listed, err := ask(ctx, topics...)
	if err != nil && len(listed) == 0 {
		s.s.Log.Debug("offsets are not to be had", slog.Any("error", err))
		return
	}
	found := make(map[kafka.TopicPartition]kafka.Offset)
	for _, tp := range list {
		if o, ok := listed.Lookup(tp.Topic, tp.Partition); ok && o.Err == nil && o.Offset >= 0 {
			found[tp] = o.Offset
		}
	}
	s.begin(found)
}

// displace gives up a partition's position, because there is no record at it.
func (s *share) displace(tp kafka.TopicPartition) {
	s.client.RemoveConsumePartitions(map[string][]int32{tp.Topic: {tp.Partition}})
	s.mu.Lock()
	delete(s.positions, tp)
	s.mu.Unlock()
	s.news()
}

// poll hands out at most limit records and returns how many it was. Without any it waits, until ctx is over or the share halts.
func (s *share) poll(ctx context.Context, limit int, hand func(*kgo.Record) error) (int, error) {
	n := 0
	for {
		for len(s.rest) > 0 && n < limit {
			handed, halted, err := s.next(s.rest[0], hand)
			if halted || err != nil {
				return n, err
			}
			if handed {
				n++
			}
			s.rest = s.rest[1:]
		}
		if n > 0 {
			return n, nil
		}
		if ctx.Err() != nil || s.isHalted() {
			return 0, ctx.Err()
		}
		fetches := s.client.PollRecords(ctx, limit)
		s.rest = fetches.Records()
		for _, f := range fetches.Errors() {
			if err := s.faulty(kafka.TopicPartition{Topic: f.Topic, Partition: f.Partition}, f.Err); err != nil {
				return 0, err
			}
		}
	}
}

// faulty decides what an error of a fetch means; nil is that reading goes on.
func (s *share) faulty(tp kafka.TopicPartition, err error) error {
	var known *kerr.Error
	switch {
	case tp.Topic == "": // the client is closed, or ctx is over
		return nil
	case errors.Is(err, kerr.OffsetOutOfRange):
		s.displace(tp)
		return nil
	case errors.As(err, &known), errors.Is(err, io.EOF), errors.Is(err, context.DeadlineExceeded):
		// kgo tries again by itself; what a topic's end means the tree says.
		s.s.Log.Debug("cannot read for now", slog.String("partition", tp.String()), slog.Any("error", err))
		return nil
	}
	return fmt.Errorf("read %s: %w", tp, err)
}

// next hands out one record, unless its place has been lost or it was handed out before. A share that is halted hands out
// nothing, and halt waits for the record that is under way.
func (s *share) next(r *kgo.Record, hand func(*kgo.Record) error) (handed, halted bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted {
		return false, true, nil
	}
	tp := kafka.TopicPartition{Topic: r.Topic, Partition: r.Partition}
	if position, ok := s.positions[tp]; !ok || r.Offset < position {
		return false, false, nil
	}
	if err := hand(r); err != nil {
		return false, false, err
	}
	s.positions[tp] = r.Offset + 1
	return true, false, nil
}

// consumed is how far each partition has been consumed.
func (s *share) consumed() map[kafka.TopicPartition]kafka.Offset {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.positions)
}

// halt hands out nothing more, until resume. The client goes on, for commits.
func (s *share) halt() { s.setHalted(true) }

func (s *share) resume() { s.setHalted(false) }

func (s *share) setHalted(halted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halted = halted
}

func (s *share) isHalted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halted
}

// close ends the client, and a poll that waits in it.
func (s *share) close() {
	s.halt()
	s.client.Close()
}
