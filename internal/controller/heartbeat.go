package controller

import (
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// heartbeat mirrors ReplicationControlManager.processBrokerHeartbeat and BrokerHeartbeatManager.calculateNextBrokerState.
func (s *state) heartbeat(q *kmsg.BrokerHeartbeatRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.BrokerHeartbeatResponse)
	response.IsCaughtUp, response.IsFenced, response.ShouldShutdown = false, true, false
	b, err := s.checkBrokerEpoch(q.BrokerID, q.BrokerEpoch)
	if err != nil {
		response.ErrorCode, _ = faultOf(err)
		return Result{Response: response}, nil
	}
	contact := &contactNote{Broker: b.ID, MetadataOffset: q.CurrentMetadataOffset, Failed: dirs(q.OfflineLogDirs)}
	caughtUp := q.CurrentMetadataOffset >= b.Epoch // the epoch is the offset of its registration
	response.IsCaughtUp, response.IsFenced = caughtUp, false

	var records, then []metadata.Record
	switch {
	case b.Fenced && (q.WantShutdown || b.InControlledShutdown): // an incarnation that began to stop can not turn back
		response.IsFenced, response.ShouldShutdown = true, true
	case b.Fenced && !q.WantFence && caughtUp:
		records = s.unfence(b)
		then = s.after(records).raiseInternal()
	case b.Fenced:
		response.IsFenced = true

	case b.InControlledShutdown && s.contacts[b.ID].ShutdownOffset < 0:
		// Another controller began it, and nobody here knows how far it came. Whatever has left can not come back.
		contact.ShuttingDown = true
		records = s.leave(b.ID)
	case b.InControlledShutdown:
		response.ShouldShutdown = s.contacts[b.ID].ShutdownOffset <= s.lowestActiveOffset()
	case q.WantFence:
		records = s.fence(b)
		response.IsFenced, response.ShouldShutdown = true, q.WantShutdown
	case q.WantShutdown && s.leadsAny(b.ID):
		contact.ShuttingDown = true
		records = append([]metadata.Record{&metadata.BrokerRegistrationChangeRecord{
			BrokerID: b.ID, BrokerEpoch: b.Epoch, InControlledShutdown: metadata.StartControlledShutdown,
		}}, s.leave(b.ID)...)
	case q.WantShutdown:
		response.ShouldShutdown = true
	}
	if response.ShouldShutdown {
		if len(records) == 0 && !b.Fenced {
			records = s.fence(b)
		}
		response.IsFenced = true
		contact.Gone = true // whoever comes next with this id is no duplicate
	}
	if metadata.DirectoriesSupported(s.level()) {
		records = append(records, s.takeOffline(b, dirs(q.OfflineLogDirs), records)...)
	}
	return Result{Records: records, Then: then, Response: response, Contact: contact}, nil
}

func (s *state) leadsAny(id kafka.NodeID) bool {
	for _, topic := range s.image.Topics.All() {
		for _, p := range topic.Partitions.All() {
			if p.Leader == id {
				return true
			}
		}
	}
	return false
}

// lowestActiveOffset is the metadata offset that every active broker has reached: a broker that shuts down may go once
// all others know who leads in its place.
func (s *state) lowestActiveOffset() int64 {
	lowest := int64(math.MaxInt64)
	for id, b := range s.image.Cluster.Brokers() {
		if k, ok := s.contacts[id]; ok && k.Live && b.Active() {
			lowest = min(lowest, k.MetadataOffset)
		}
	}
	return lowest
}
