package uplink

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
)

// ISRChange is an in-sync set that the leader of a partition asks for.
type ISRChange struct {
	TopicID        kafka.TopicID
	Partition      int32
	LeaderEpoch    kafka.Epoch
	PartitionEpoch int32 // of the set that the change starts from
	ISR            []ISRMember
	Recovering     bool // the leader of an unclean election has not taken over yet
}

// ISRMember is one replica of the set, in the incarnation that the leader has heard of.
type ISRMember struct {
	ID          kafka.NodeID
	BrokerEpoch int64 // -1: unknown
}

// AlterPartition asks the controller for new in-sync sets and returns why each was not taken, nil where it was; what was taken
// arrives as metadata. An error means that none was answered (AlterPartitionManager; KIP-497, KIP-903).
func (u *Uplink) AlterPartition(ctx context.Context, changes []ISRChange) ([]error, error) {
	req := kmsg.NewAlterPartitionRequest()
	req.Version = 3
	req.BrokerID, req.BrokerEpoch = u.o.NodeID, u.Epoch()
	type key struct {
		topic     kafka.TopicID
		partition int32
	}
	place := make(map[key]int, len(changes))
	topics := make(map[kafka.TopicID]int)
	for i, c := range changes {
		place[key{c.TopicID, c.Partition}] = i
		at, ok := topics[c.TopicID]
		if !ok {
			at = len(req.Topics)
			topics[c.TopicID] = at
			topic := kmsg.NewAlterPartitionRequestTopic()
			topic.TopicID = c.TopicID
			req.Topics = append(req.Topics, topic)
		}
		p := kmsg.NewAlterPartitionRequestTopicPartition()
		p.Partition, p.LeaderEpoch, p.PartitionEpoch = c.Partition, c.LeaderEpoch, c.PartitionEpoch
		if c.Recovering {
			p.LeaderRecoveryState = 1
		}
		for _, m := range c.ISR {
			member := kmsg.NewAlterPartitionRequestTopicPartitionNewEpochISR()
			member.BrokerID, member.BrokerEpoch = m.ID, m.BrokerEpoch
			p.NewEpochISR = append(p.NewEpochISR, member)
		}
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, p)
	}
	resp, err := send[*kmsg.AlterPartitionResponse](ctx, u, &req)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("change %d in-sync sets: %w", len(changes), err)
	}
	errs := make([]error, len(changes))
	for i := range errs {
		errs[i] = kerr.UnknownServerError // until the answer says otherwise
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			if i, ok := place[key{t.TopidID, p.Partition}]; ok {
				errs[i] = kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return errs, nil
}
