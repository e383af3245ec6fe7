package api

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
	"moldau/internal/uplink"
	"moldau/internal/wire"
)

// forward has the controller answer a request that came in on a broker's listener. The controller waits until the
// change is committed, which is what the client wants to know.
func (a *API) forward(r *server.Request) server.Reply {
	ctx, cancel := a.within(r, timeoutOf(r.Body))
	defer cancel()
	resp, err := a.o.Uplink.Forward(ctx, r.Body, senderOf(r))
	if err == nil {
		a.awaitMade(ctx, resp)
	}
	return a.relay(r, resp, err)
}

// senderOf is in whose name a request is passed on.
func senderOf(r *server.Request) uplink.Client {
	c := uplink.Client{Principal: r.Conn.Principal(), ID: r.ClientID()}
	if ap, err := netip.ParseAddrPort(r.Conn.RemoteAddr().String()); err == nil {
		c.Address = ap.Addr().Unmap().AsSlice()
	}
	return c
}

// awaitMade waits a moment for the logs of partitions that the controller has just made.
func (a *API) awaitMade(ctx context.Context, resp kmsg.Response) {
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	switch resp := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for _, t := range resp.Topics {
			if t.ErrorCode == 0 {
				a.awaitOpen(ctx, t.Topic)
			}
		}
	case *kmsg.CreatePartitionsResponse:
		for _, t := range resp.Topics {
			if t.ErrorCode == 0 {
				a.awaitOpen(ctx, t.Topic)
			}
		}
	}
}

// control has this node's controller answer a request that came in on a controller's listener.
func (a *API) control(r *server.Request) server.Reply {
	ctx, cancel := a.within(r, timeoutOf(r.Body))
	defer cancel()
	resp, err := a.o.Local(ctx, r.Body, r.Conn.Principal(), r.ClientID())
	return a.relay(r, resp, err)
}

func (a *API) relay(r *server.Request, resp kmsg.Response, err error) server.Reply {
	if err == nil {
		return r.Answer(resp)
	}
	resp = failure(r.Body, timedOut(err))
	if resp == nil {
		return server.Reply{None: true, Close: true, Reason: kmsg.NameForKey(r.Header.Key) + " has no answer: " + err.Error()}
	}
	return r.Answer(resp)
}

// timedOut is err, or Kafka's name of it if nobody answered in time.
func timedOut(err error) error {
	switch {
	case !errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, kerr.NotController):
		return fmt.Errorf("no controller was active in time, and a majority of the controllers has to run: %w", kerr.RequestTimedOut)
	}
	return kerr.RequestTimedOut
}

// timeoutOf is how long a client wants to wait, in ms; 0 if the request does not say.
func timeoutOf(req kmsg.Request) int32 {
	if t, ok := req.(kmsg.TimeoutRequest); ok {
		return t.Timeout()
	}
	return 0
}

// failure is the answer to a request that the controller has not answered; nil if the request has no form of it.
func failure(req kmsg.Request, err error) kmsg.Response {
	code, message := wire.Code(err), wire.Message(err)
	switch req := req.(type) {
	case *kmsg.CreateTopicsRequest:
		resp := kmsg.NewPtrCreateTopicsResponse()
		for _, t := range req.Topics {
			answer := kmsg.NewCreateTopicsResponseTopic()
			answer.Topic, answer.ErrorCode, answer.ErrorMessage = t.Topic, code, message
			resp.Topics = append(resp.Topics, answer)
		}
		return resp
	case *kmsg.DeleteTopicsRequest:
		return deleteFailure(req, code, message)
	case *kmsg.CreatePartitionsRequest:
		resp := kmsg.NewPtrCreatePartitionsResponse()
		for _, t := range req.Topics {
			answer := kmsg.NewCreatePartitionsResponseTopic()
			answer.Topic, answer.ErrorCode, answer.ErrorMessage = t.Topic, code, message
			resp.Topics = append(resp.Topics, answer)
		}
		return resp
	case *kmsg.AlterConfigsRequest:
		resp := kmsg.NewPtrAlterConfigsResponse()
		for _, res := range req.Resources {
			answer := kmsg.NewAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName, answer.ErrorCode, answer.ErrorMessage = res.ResourceType, res.ResourceName, code, message
			resp.Resources = append(resp.Resources, answer)
		}
		return resp
	case *kmsg.IncrementalAlterConfigsRequest:
		resp := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, res := range req.Resources {
			answer := kmsg.NewIncrementalAlterConfigsResponseResource()
			answer.ResourceType, answer.ResourceName, answer.ErrorCode, answer.ErrorMessage = res.ResourceType, res.ResourceName, code, message
			resp.Resources = append(resp.Resources, answer)
		}
		return resp
	case *kmsg.ElectLeadersRequest:
		resp := kmsg.NewPtrElectLeadersResponse()
		resp.ErrorCode = code
		for _, t := range req.Topics {
			answer := kmsg.NewElectLeadersResponseTopic()
			answer.Topic = t.Topic
			for _, p := range t.Partitions {
				partition := kmsg.NewElectLeadersResponseTopicPartition()
				partition.Partition, partition.ErrorCode, partition.ErrorMessage = p, code, message
				answer.Partitions = append(answer.Partitions, partition)
			}
			resp.Topics = append(resp.Topics, answer)
		}
		return resp
	case *kmsg.AlterPartitionAssignmentsRequest:
		resp := kmsg.NewPtrAlterPartitionAssignmentsResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	case *kmsg.ListPartitionReassignmentsRequest:
		resp := kmsg.NewPtrListPartitionReassignmentsResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	case *kmsg.DescribeQuorumRequest:
		resp := kmsg.NewPtrDescribeQuorumResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	case *kmsg.AddRaftVoterRequest:
		resp := kmsg.NewPtrAddRaftVoterResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	case *kmsg.RemoveRaftVoterRequest:
		resp := kmsg.NewPtrRemoveRaftVoterResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	case *kmsg.UpdateRaftVoterRequest:
		resp := kmsg.NewPtrUpdateRaftVoterResponse()
		resp.ErrorCode = code
		return resp
	case *kmsg.UpdateFeaturesRequest:
		resp := kmsg.NewPtrUpdateFeaturesResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	case *kmsg.UnregisterBrokerRequest:
		resp := kmsg.NewPtrUnregisterBrokerResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	case *kmsg.AlterPartitionRequest:
		resp := kmsg.NewPtrAlterPartitionResponse()
		resp.ErrorCode = code
		return resp
	case *kmsg.BrokerRegistrationRequest:
		resp := kmsg.NewPtrBrokerRegistrationResponse()
		resp.ErrorCode, resp.BrokerEpoch = code, -1
		return resp
	case *kmsg.BrokerHeartbeatRequest:
		resp := kmsg.NewPtrBrokerHeartbeatResponse()
		resp.ErrorCode = code
		return resp
	case *kmsg.AllocateProducerIDsRequest:
		resp := kmsg.NewPtrAllocateProducerIDsResponse()
		resp.ErrorCode = code
		return resp
	case *kmsg.ControllerRegistrationRequest:
		resp := kmsg.NewPtrControllerRegistrationResponse()
		resp.ErrorCode, resp.ErrorMessage = code, message
		return resp
	case *kmsg.AssignReplicasToDirsRequest:
		resp := kmsg.NewPtrAssignReplicasToDirsResponse()
		resp.ErrorCode = code
		return resp
	}
	return nil
}

func deleteFailure(req *kmsg.DeleteTopicsRequest, code int16, message *string) *kmsg.DeleteTopicsResponse {
	resp := kmsg.NewPtrDeleteTopicsResponse()
	add := func(name *string, id [16]byte) {
		answer := kmsg.NewDeleteTopicsResponseTopic()
		answer.Topic, answer.TopicID, answer.ErrorCode, answer.ErrorMessage = name, id, code, message
		resp.Topics = append(resp.Topics, answer)
	}
	for _, name := range req.TopicNames { // to version 5
		add(&name, [16]byte{})
	}
	for _, t := range req.Topics { // from version 6
		add(t.Topic, t.TopicID)
	}
	return resp
}
