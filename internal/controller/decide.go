package controller

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/invariant"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// maxRecords is how many records one request of a user may write (QuorumController.MAX_RECORDS_PER_USER_OP).
const maxRecords = 10000

// state is all that a decision may read. It changes nothing of it.
type state struct {
	*Options
	image      *metadata.Image
	nextOffset int64 // that the first record of the decision is expected to get
	contacts   map[kafka.NodeID]contact
}

func (s *state) level() int16 { return s.image.Features.MetadataVersion() }

// after is the state that records lead to, so that one decision can rest on another.
func (s *state) after(records []metadata.Record) *state {
	delta := metadata.NewDelta(s.image)
	for _, r := range records {
		err := delta.Replay(r)
		invariant.Check(err == nil, "replay of the controller's own record: %v", err)
	}
	next := *s
	next.nextOffset += int64(len(records))
	next.image = delta.Image(next.nextOffset-1, s.image.Epoch)
	return &next
}

// Result is a decision: what to write, and what to answer once it is written.
type Result struct {
	Records  []metadata.Record
	Response kmsg.Response
	Atomic   bool              // the records take effect together or not at all
	Then     []metadata.Record // what follows from the records; written after them, in as many entries as it takes
	Contact  *contactNote      // nil: nothing new about a broker's session
}

// fault is a client's mistake with the text that goes into the response.
type fault struct {
	code    *kerr.Error
	message string
}

func (f *fault) Error() string { return f.code.Message + ": " + f.message }

func (f *fault) Unwrap() error { return f.code }

func faultf(code *kerr.Error, format string, args ...any) error {
	return &fault{code, fmt.Sprintf(format, args...)}
}

// faultOf gives the code and the text of an error as a response carries them. Kafka states the description of the code
// where there is nothing more to say.
func faultOf(err error) (code int16, message *string) {
	if err == nil {
		return 0, nil
	}
	if f, ok := errors.AsType[*fault](err); ok {
		return f.code.Code, &f.message
	}
	if k, ok := errors.AsType[*kerr.Error](err); ok {
		return k.Code, &k.Description
	}
	text := err.Error()
	return kerr.UnknownServerError.Code, &text
}

// decide dispatches a request to its decision.
func decide(s *state, r Request) (Result, error) {
	switch q := r.Body.(type) {
	case *kmsg.CreateTopicsRequest:
		return s.createTopics(q)
	case *kmsg.DeleteTopicsRequest:
		return s.deleteTopics(q)
	case *kmsg.CreatePartitionsRequest:
		return s.createPartitions(q)
	case *kmsg.AlterConfigsRequest:
		return s.alterConfigs(q)
	case *kmsg.IncrementalAlterConfigsRequest:
		return s.incrementalAlterConfigs(q)
	case *kmsg.BrokerRegistrationRequest:
		return s.registerBroker(q)
	case *kmsg.BrokerHeartbeatRequest:
		return s.heartbeat(q)
	case *kmsg.UnregisterBrokerRequest:
		return s.unregisterBroker(q)
	case *kmsg.ControllerRegistrationRequest:
		return s.registerController(q)
	case *kmsg.AlterPartitionRequest:
		return s.alterPartition(q)
	case *kmsg.AlterPartitionAssignmentsRequest:
		return s.alterReassignments(q)
	case *kmsg.ListPartitionReassignmentsRequest:
		return s.listReassignments(q)
	case *kmsg.ElectLeadersRequest:
		return s.electLeaders(q)
	case *kmsg.AssignReplicasToDirsRequest:
		return s.assignReplicasToDirs(q)
	case *kmsg.AllocateProducerIDsRequest:
		return s.allocateProducerIDs(q)
	case *kmsg.UpdateFeaturesRequest:
		return s.updateFeatures(q)
	}
	return Result{}, fmt.Errorf("controller request %s: %w", kmsg.NameForKey(r.Body.Key()), kerr.UnsupportedVersion)
}

// checkBrokerEpoch refuses requests of a broker that is not registered, or of an incarnation that is not the current one.
func (s *state) checkBrokerEpoch(id kafka.NodeID, epoch int64) (*metadata.Broker, error) {
	b, ok := s.image.Cluster.Broker(id)
	if !ok {
		return nil, faultf(kerr.StaleBrokerEpoch, "No broker registration found for broker id %d", id)
	}
	if b.Epoch != epoch {
		return nil, faultf(kerr.StaleBrokerEpoch, "Expected broker epoch %d, but got broker epoch %d", b.Epoch, epoch)
	}
	return b, nil
}
