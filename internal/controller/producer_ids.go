package controller

import (
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/metadata"
)

const producerIDBlock = 1000 // ProducerIdsBlock.PRODUCER_ID_BLOCK_SIZE

// allocateProducerIDs hands a broker the next block of producer ids (KIP-730).
func (s *state) allocateProducerIDs(q *kmsg.AllocateProducerIDsRequest) (Result, error) {
	response := q.ResponseKind().(*kmsg.AllocateProducerIDsResponse)
	if _, err := s.checkBrokerEpoch(q.BrokerID, q.BrokerEpoch); err != nil {
		response.ErrorCode, _ = faultOf(err)
		return Result{Response: response}, nil
	}
	first := s.image.ProducerIDs.Next
	if first > math.MaxInt64-producerIDBlock {
		response.ErrorCode = kerr.UnknownServerError.Code
		return Result{Response: response}, nil
	}
	response.ProducerIDStart, response.ProducerIDLen = first, producerIDBlock
	return Result{
		Records: []metadata.Record{&metadata.ProducerIDsRecord{
			BrokerID: q.BrokerID, BrokerEpoch: q.BrokerEpoch, NextProducerID: first + producerIDBlock,
		}},
		Response: response,
		Atomic:   true,
	}, nil
}
