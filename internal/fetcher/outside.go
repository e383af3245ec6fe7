package fetcher

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// outside brings a follower back whose next offset the leader does not have: one that is beyond the leader's end, after an
// unclean election, is cut to it; one that has fallen behind the leader's start begins there. Mirrors
// AbstractFetcherThread.fetchOffsetAndTruncate.
func (l *loop) outside(fl *flight, f *follower) error {
	end, err := l.leaderOffset(fl, f, kafka.LatestTimestamp)
	if err != nil {
		return err
	}
	logged := l.logger.With("partition", f.p.TopicPartition().String(), "offset", f.at.From)
	if end < f.at.From {
		logged.Warn("follower is ahead of its leader and is cut", "to", end)
		return f.p.Truncate(end, f.at.Epoch)
	}
	start, err := l.leaderOffset(fl, f, kafka.EarliestTimestamp)
	if err != nil {
		return err
	}
	if start > f.at.From {
		logged.Warn("follower lacks records that its leader has deleted; it starts anew", "at", start)
		return f.p.TruncateFullyAt(start, f.at.Epoch)
	}
	// The leader's log has changed since it answered. Whatever it has now, the next fetch will tell.
	return fmt.Errorf("offset %d was outside the leader's log and is not any more [%d, %d]: %w", f.at.From, start, end, kerr.OffsetOutOfRange)
}

// leaderOffset asks where the leader's log begins or ends.
func (l *loop) leaderOffset(fl *flight, f *follower, timestamp int64) (kafka.Offset, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version = 7
	req.ReplicaID = l.f.o.NodeID
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = f.p.TopicPartition().Topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = f.key.partition, f.at.Epoch, timestamp
	topic.Partitions = append(topic.Partitions, p)
	req.Topics = append(req.Topics, topic)
	ctx, cancel := context.WithTimeout(l.f.ctx, l.f.o.Timeout)
	defer cancel()
	got, err := fl.conn.Do(ctx, req)
	if err != nil {
		return 0, fmt.Errorf("ask for the offset at %d: %w", timestamp, err)
	}
	resp, ok := got.(*kmsg.ListOffsetsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, fmt.Errorf("ask for the offset at %d: the leader answered about something else: %w", timestamp, kerr.UnknownServerError)
	}
	answer := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return 0, fmt.Errorf("ask for the offset at %d: %w", timestamp, err)
	}
	return answer.Offset, nil
}
