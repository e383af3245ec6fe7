package api

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/quorum"
	"moldau/internal/server"
	"moldau/internal/wire"
)

// row is one line of the table of APIs.
type row struct {
	key         int16
	min, max    int16 // versions served, both inclusive
	brokers     handler
	controllers handler
	hidden      bool // between our own nodes: ApiVersions does not tell it
	forwarded   bool // a broker passes it on to the active controller
	overlap     bool // may run while earlier requests of the connection wait for their answer
	maxBytes    int  // largest request; 0: socket.request.max.bytes
	reused      bool // one request after the other is served in the same memory
}

// handler serves one API on one kind of listener; nil: not served there.
type handler func(*API, *server.Request) server.Reply

// small is more bytes than any honest request has that names no topics.
const small = 1 << 20

// rows is THE table: what is not here is not served. The lowest versions are those that Apache Kafka 3.9 served, the highest
// those of 4.4.
func rows() []row {
	return []row{
		serve(kmsg.Produce, 0, 13, (*API).produce, nil).overlapping().again(),
		serve(kmsg.Fetch, 0, 18, (*API).fetch, (*API).fetchMetadata).again(),
		serve(kmsg.ListOffsets, 0, 11, (*API).listOffsets, nil),
		serve(kmsg.Metadata, 0, 13, (*API).metadata, nil).overlapping(),
		serve(kmsg.OffsetCommit, 0, 10, (*API).offsetCommit, nil),
		serve(kmsg.OffsetFetch, 0, 10, (*API).offsetFetch, nil),
		serve(kmsg.FindCoordinator, 0, 6, (*API).findCoordinator, nil).atMost(small),
		serve(kmsg.JoinGroup, 0, 9, (*API).joinGroup, nil),
		serve(kmsg.Heartbeat, 0, 4, (*API).heartbeat, nil).atMost(small),
		serve(kmsg.LeaveGroup, 0, 5, (*API).leaveGroup, nil).atMost(small),
		serve(kmsg.SyncGroup, 0, 5, (*API).syncGroup, nil),
		serve(kmsg.DescribeGroups, 0, 6, (*API).describeGroups, nil).atMost(small),
		serve(kmsg.ListGroups, 0, 5, (*API).listGroups, nil).atMost(small),
		serve(kmsg.ApiVersions, 0, 5, (*API).apiVersions, (*API).apiVersions).overlapping().atMost(small),
		forwarded(kmsg.CreateTopics, 0, 7),
		forwarded(kmsg.DeleteTopics, 0, 6),
		serve(kmsg.DeleteRecords, 0, 2, (*API).deleteRecords, nil),
		serve(kmsg.InitProducerID, 0, 5, (*API).initProducerID, nil).atMost(small),
		serve(kmsg.OffsetForLeaderEpoch, 0, 4, (*API).offsetForLeaderEpoch, nil),
		serve(kmsg.DescribeConfigs, 0, 4, (*API).describeConfigs, (*API).describeConfigs),
		serve(kmsg.AlterConfigs, 0, 2, (*API).alterConfigs, (*API).alterConfigs).passedOn(),
		serve(kmsg.AlterReplicaLogDirs, 0, 2, (*API).alterReplicaLogDirs, nil),
		serve(kmsg.DescribeLogDirs, 0, 5, (*API).describeLogDirs, nil),
		forwarded(kmsg.CreatePartitions, 0, 3),
		serve(kmsg.DeleteGroups, 0, 3, (*API).deleteGroups, nil).atMost(small),
		forwarded(kmsg.ElectLeaders, 0, 2),
		serve(kmsg.IncrementalAlterConfigs, 0, 1, (*API).incrementalAlterConfigs, (*API).incrementalAlterConfigs).passedOn(),
		forwarded(kmsg.AlterPartitionAssignments, 0, 1),
		forwarded(kmsg.ListPartitionReassignments, 0, 0),
		serve(kmsg.OffsetDelete, 0, 0, (*API).offsetDelete, nil),
		serve(kmsg.DescribeQuorum, 0, 2, (*API).describeQuorum, (*API).describeQuorum).atMost(small).passedOn(),
		serve(kmsg.AlterPartition, 2, 3, nil, (*API).control),
		forwarded(kmsg.UpdateFeatures, 0, 2).atMost(small),
		serve(kmsg.Envelope, 0, 0, nil, (*API).envelope),
		serve(kmsg.FetchSnapshot, 0, 1, nil, (*API).fetchSnapshot).atMost(small),
		serve(kmsg.DescribeCluster, 0, 2, (*API).describeCluster, (*API).describeControllers).atMost(small),
		serve(kmsg.DescribeProducers, 0, 0, (*API).describeProducers, nil),
		serve(kmsg.BrokerRegistration, 0, 4, nil, (*API).control).atMost(small),
		serve(kmsg.BrokerHeartbeat, 0, 2, nil, (*API).brokerHeartbeat).atMost(small),
		forwarded(kmsg.UnregisterBroker, 0, 0).atMost(small),
		serve(kmsg.AllocateProducerIDs, 0, 0, nil, (*API).control).atMost(small),
		serve(kmsg.ControllerRegistration, 0, 0, nil, (*API).control).atMost(small),
		serve(kmsg.GetTelemetrySubscriptions, 0, 0, (*API).getTelemetrySubscriptions, nil).atMost(small),
		serve(kmsg.PushTelemetry, 0, 0, (*API).pushTelemetry, nil),
		serve(kmsg.AssignReplicasToDirs, 0, 0, nil, (*API).control),
		serve(kmsg.ListConfigResources, 0, 1, (*API).listConfigResources, nil).atMost(small),
		serve(kmsg.DescribeTopicPartitions, 0, 0, (*API).describeTopicPartitions, nil),
		serve(kmsg.AddRaftVoter, 0, 1, (*API).addRaftVoter, (*API).addRaftVoter).atMost(small).passedOn(),
		serve(kmsg.RemoveRaftVoter, 0, 0, (*API).removeRaftVoter, (*API).removeRaftVoter).atMost(small).passedOn(),
		serve(kmsg.UpdateRaftVoter, 0, 0, nil, (*API).updateRaftVoter).atMost(small),
		serve(kmsg.Key(wire.RaftKey), 0, 0, nil, (*API).raft).atMost(quorum.MaxMessageBytes + small).untold(),
		serve(kmsg.Key(wire.FormKey), 0, 0, nil, (*API).whatAreYou).atMost(small).untold(),
		serve(kmsg.Key(wire.ZooKeeperKey), 0, 0, (*API).passed, nil).atMost(small).untold(),
		serve(kmsg.Key(wire.ZooKeeperOffsetsKey), 0, 0, (*API).passedOffsets, nil).untold(),
		serve(kmsg.Key(wire.NodeIDKey), 0, 0, nil, (*API).nodeID).atMost(small).untold(),
	}
}

func serve(key kmsg.Key, lowest, highest int16, brokers, controllers handler) row {
	return row{key: key.Int16(), min: lowest, max: highest, brokers: brokers, controllers: controllers}
}

// forwarded is a row for what only the active controller can do: brokers pass it on.
func forwarded(key kmsg.Key, lowest, highest int16) row {
	return serve(key, lowest, highest, (*API).forward, (*API).control).passedOn()
}

// passedOn says that brokers may pass it on in an envelope.
func (r row) passedOn() row {
	r.forwarded = true
	return r
}

func (r row) untold() row {
	r.hidden = true
	return r
}

func (r row) overlapping() row {
	r.overlap = true
	return r
}

func (r row) again() row {
	r.reused = true
	return r
}

func (r row) atMost(bytes int) row {
	r.maxBytes = bytes
	return r
}

// on is the handler for a kind of listener.
func (r row) on(kind server.Mask) handler {
	if kind == server.Controller {
		return r.controllers
	}
	return r.brokers
}

// Routes is the table in the form that a server takes.
func (a *API) Routes() []server.Route {
	var routes []server.Route
	for _, r := range a.table {
		for _, kind := range []server.Mask{server.Broker, server.Controller} {
			if h := r.on(kind); h != nil {
				routes = append(routes, server.Route{
					Key: r.key, Min: r.min, Max: r.max, Listeners: kind, MaxBytes: r.maxBytes, Hold: !r.overlap, Reused: r.reused,
					Handle: a.noting(kind, h),
				})
			}
		}
	}
	return routes
}

// noting is a handler that remembers who asks for what on the listeners of clients.
func (a *API) noting(kind server.Mask, h handler) func(*server.Request) server.Reply {
	return func(r *server.Request) server.Reply {
		reply := h(a, r)
		if kind == server.Broker {
			a.clients.saw(r) // only now: ApiVersions has told its name
		}
		return reply
	}
}
