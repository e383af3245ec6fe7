package fetcher

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/replica"
)

// answered does what an answer asks for.
func (l *loop) answered(fl *flight, resp *kmsg.FetchResponse) {
	asked := fl.asked
	fl.asked = nil
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case err == nil:
	case errors.Is(err, kerr.FetchSessionIDNotFound), errors.Is(err, kerr.InvalidFetchSessionEpoch), errors.Is(err, kerr.FetchSessionTopicIDError):
		l.restart()
		return
	default:
		fl.fail(err)
		return
	}
	if fl == &l.main {
		l.session.answered(resp.SessionID)
	}
	var waiters []*replica.Waiter
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			f := l.follower(t, p.Partition)
			if f == nil || !f.ready() {
				continue
			}
			told, in := f.told, f.in
			if fl == &l.aside {
				told, in = asked[f]
			}
			if !in || told.From != f.at.From || told.Epoch != f.at.Epoch {
				continue // it stands elsewhere since, or under another leader epoch
			}
			if w := l.take(fl, f, p); w != nil {
				waiters = append(waiters, w)
			}
		}
	}
	replica.Hurry(waiters...)
}

// follower finds the partition that a part of an answer is about.
func (l *loop) follower(t *kmsg.FetchResponseTopic, partition int32) *follower {
	id := kafka.TopicID(t.TopicID)
	if id.IsZero() { // version 12 has names
		p, err := l.f.o.Replicas.Partition(kafka.TopicPartition{Topic: t.Topic, Partition: partition})
		if err != nil {
			return nil
		}
		id = p.TopicID()
	}
	return l.followers[key{id, partition}]
}

// take does what the answer for one partition asks for. The Waiter is for what it has written.
func (l *loop) take(fl *flight, f *follower, p *kmsg.FetchResponseTopicPartition) *replica.Waiter {
	err := kerr.ErrorForCode(p.ErrorCode)
	switch {
	case errors.Is(err, kerr.OffsetOutOfRange):
		err = l.outside(fl, f)
	case err != nil:
	case p.DivergingEpoch.Epoch >= 0:
		err = l.diverged(f, replica.EpochEnd{Epoch: p.DivergingEpoch.Epoch, EndOffset: p.DivergingEpoch.EndOffset})
	default:
		var waiter *replica.Waiter
		if waiter, err = l.append(f, p); err == nil {
			return waiter
		}
	}
	if err != nil {
		l.fail(f, err)
		return nil
	}
	f.failures = 0
	l.resume([]*follower{f})
	return nil
}

func (l *loop) append(f *follower, p *kmsg.FetchResponseTopicPartition) (*replica.Waiter, error) {
	records, err := sound(p.RecordBatches, f.at.Epoch)
	if err != nil {
		return nil, err
	}
	at, waiter, err := f.p.AppendFetched(records, p.HighWatermark, p.LogStartOffset, f.at.Epoch)
	if err != nil {
		return nil, err
	}
	f.failures = 0
	f.behind = at.From < p.HighWatermark
	l.f.meters.bytes.Add(float64(len(records)))
	l.f.o.Throttle.Copied(f.p.TopicPartition(), len(records))
	if at != f.at {
		f.at = at
		l.proceed(f, waiter)
	}
	return waiter, nil
}

// sound returns the whole batches at the beginning of what a leader has sent; the last one may be cut off. A batch of a
// later epoch than the one that was asked for is from a leader that has changed meanwhile (KAFKA-18723).
func sound(b []byte, epoch kafka.Epoch) ([]byte, error) {
	for rest := b; len(rest) > 0; {
		bt, after, err := batch.Next(rest)
		if errors.Is(err, batch.ErrShort) || err == nil && bt.LeaderEpoch() > epoch {
			return b[:len(b)-len(rest)], nil
		}
		if err != nil {
			return nil, fmt.Errorf("the leader sent what is no batch: %w", err)
		}
		rest = after
	}
	return b, nil
}

// diverged cuts what the leader does not have.
func (l *loop) diverged(f *follower, end replica.EpochEnd) error {
	at, err := f.p.TruncateDiverging(end, f.at.Epoch)
	if err != nil {
		return err
	}
	if at == f.at {
		return fmt.Errorf("the leader's epoch %d ends at %d, which leaves nothing to cut: %w", end.Epoch, end.EndOffset, kerr.UnknownServerError)
	}
	l.logger.Info("follower was cut to where it is the leader's", "partition", f.p.TopicPartition().String(), "from", f.at.From, "to", at.From, "epoch", end.Epoch)
	return nil
}

// worthTelling is false for errors that every leader change brings.
func worthTelling(err error) bool {
	for _, usual := range []error{kerr.NotLeaderForPartition, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch, kerr.UnknownTopicOrPartition, kerr.UnknownTopicID} {
		if errors.Is(err, usual) {
			return false
		}
	}
	return true
}
