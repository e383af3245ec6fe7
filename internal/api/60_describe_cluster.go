package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/server"
)

// Endpoint types of DescribeCluster (EndpointType; KIP-919).
const (
	brokerEndpoints     = 1
	controllerEndpoints = 2
)

// describeCluster answers DescribeCluster on a broker's listener. Mirrors AuthHelper.computeDescribeClusterResponse.
func (a *API) describeCluster(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.ControllerID = a.o.ClusterID, -1
	resp.EndpointType = brokerEndpoints
	if req.Version >= 1 && req.EndpointType != brokerEndpoints {
		return r.Answer(wrongEndpoints(resp, req, "the controllers' listener knows them; this is a broker's"))
	}
	image := a.o.Image()
	for id, b := range image.Cluster.Brokers() {
		e, ok := b.Endpoint(r.Conn.Listener())
		if !ok || b.Fenced && !req.IncludeFencedBrokers {
			continue
		}
		broker := kmsg.NewDescribeClusterResponseBroker()
		broker.NodeID, broker.Host, broker.Port, broker.Rack, broker.IsFenced = id, e.Host, int32(e.Port), b.Rack, b.Fenced
		resp.Brokers = append(resp.Brokers, broker)
	}
	resp.ControllerID = a.controllerFor(image, r.Conn.Listener())
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return r.Answer(resp)
}

// describeControllers answers DescribeCluster on a controller's listener: the voters' addresses on it, and who leads
// (ControllerApis.handleDescribeCluster).
func (a *API) describeControllers(r *server.Request) server.Reply {
	req := r.Body.(*kmsg.DescribeClusterRequest)
	resp := kmsg.NewPtrDescribeClusterResponse()
	resp.ClusterID, resp.ControllerID = a.o.ClusterID, -1
	resp.EndpointType = controllerEndpoints
	if req.Version < 1 {
		text := "version 0 knows no controllers; ask a broker's listener"
		resp.ErrorCode, resp.ErrorMessage, resp.ClusterID = kerr.InvalidRequest.Code, &text, ""
		return r.Answer(resp)
	}
	if req.EndpointType != controllerEndpoints {
		return r.Answer(wrongEndpoints(resp, req, "a broker's listener knows them; this is the controllers'"))
	}
	status := a.o.Quorum.Status()
	for _, v := range status.VoterSet {
		for _, e := range v.Endpoints {
			if e.Name != r.Conn.Listener() {
				continue
			}
			node := kmsg.NewDescribeClusterResponseBroker()
			node.NodeID, node.Host, node.Port = v.ID, e.Host, int32(e.Port)
			resp.Brokers = append(resp.Brokers, node)
		}
	}
	resp.ControllerID = status.LeaderID
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return r.Answer(resp)
}

// wrongEndpoints refuses a request for endpoints that this listener does not know.
func wrongEndpoints(resp *kmsg.DescribeClusterResponse, req *kmsg.DescribeClusterRequest, text string) *kmsg.DescribeClusterResponse {
	err := kerr.MismatchedEndpointType
	if req.EndpointType != brokerEndpoints && req.EndpointType != controllerEndpoints {
		err = kerr.UnsupportedEndpointType
		text = err.Description
	}
	resp.ErrorCode, resp.ErrorMessage, resp.ClusterID, resp.EndpointType = err.Code, &text, "", brokerEndpoints
	return resp
}
