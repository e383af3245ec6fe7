package api

import "moldau/internal/server"

// row is one line of the table of APIs.
type row struct {
	key         int16
	min, max    int16 // served, both inclusive
	brokers     handler
	controllers handler
	advertise   int16 // lowest version that ApiVersions tells, when that is not min
	overlap     bool  // may run while earlier requests of the connection wait for their answer
	maxBytes    int   // largest request; 0: socket.request.max.bytes
}

// handler serves one API on one kind of listener; nil: not served there.
type handler func(*API, *server.Request) server.Reply

const (
	smallRequest = 1 << 20 // more than any honest request of a kind that lists names and numbers in small
	same         = -1      // advertise what is served
)

// rows is THE table: what is not here is not served.
func rows() []row {
	return []row{
		// Produce 0 to 2 are told but not served: librdkafka takes their absence for a broker that it can not speak to.
		{0, 3, 13, (*API).produce, nil, 0, true, 0},
		{1, 4, 18, (*API).fetch, (*API).fetchMetadata, same, false, 0},
		{2, 1, 11, (*API).listOffsets, nil, same, false, 0},
		{3, 0, 13, (*API).metadata, nil, same, true, 0},
		{18, 0, 5, (*API).apiVersions, (*API).apiVersions, same, true, smallRequest},
		{19, 2, 7, (*API).forward, (*API).control, same, false, 0},                 // CreateTopics
		{20, 1, 6, (*API).forward, (*API).control, same, false, 0},                 // DeleteTopics
		{21, 0, 2, (*API).deleteRecords, nil, same, false, 0},                      //
		{22, 0, 5, (*API).initProducerID, nil, same, false, smallRequest},          //
		{23, 2, 4, (*API).offsetForLeaderEpoch, nil, same, false, 0},               //
		{32, 1, 4, (*API).describeConfigs, (*API).describeConfigs, same, false, 0}, //
		{33, 0, 2, (*API).forward, (*API).control, same, false, 0},                 // AlterConfigs
		{35, 1, 5, (*API).describeLogDirs, nil, same, false, 0},                    //
		{37, 0, 3, (*API).forward, (*API).control, same, false, 0},                 // CreatePartitions
		{43, 0, 2, (*API).forward, (*API).control, same, false, 0},                 // ElectLeaders
		{44, 0, 1, (*API).forward, (*API).control, same, false, 0},                 // IncrementalAlterConfigs
		{55, 0, 2, (*API).describeQuorum, (*API).describeQuorum, same, false, smallRequest},
		{56, 2, 3, nil, (*API).control, same, false, 0},                       // AlterPartition
		{57, 0, 2, (*API).forward, (*API).control, same, false, smallRequest}, // UpdateFeatures
		{59, 0, 1, nil, (*API).fetchSnapshot, same, false, smallRequest},      //
		{60, 0, 2, (*API).describeCluster, (*API).describeControllers, same, false, smallRequest},
		{61, 0, 0, (*API).describeProducers, nil, same, false, 0},             //
		{62, 0, 4, nil, (*API).control, same, false, smallRequest},            // BrokerRegistration
		{63, 0, 2, nil, (*API).control, same, false, smallRequest},            // BrokerHeartbeat
		{64, 0, 0, (*API).forward, (*API).control, same, false, smallRequest}, // UnregisterBroker
		{67, 0, 0, nil, (*API).control, same, false, smallRequest},            // AllocateProducerIds
		{70, 0, 0, nil, (*API).control, same, false, smallRequest},            // ControllerRegistration
		{73, 0, 0, nil, (*API).control, same, false, 0},                       // AssignReplicasToDirs
		{75, 0, 0, (*API).describeTopicPartitions, nil, same, false, 0},       //
	}
}

// Routes is the table in the form that a server takes.
func (a *API) Routes() []server.Route {
	var routes []server.Route
	for _, r := range a.table {
		add := func(kind server.Mask, h handler) {
			if h == nil {
				return
			}
			routes = append(routes, server.Route{
				Key: r.key, Min: r.min, Max: r.max, Listeners: kind, MaxBytes: r.maxBytes, Hold: !r.overlap,
				Handle: func(req *server.Request) server.Reply { return h(a, req) },
			})
		}
		add(server.Broker, r.brokers)
		add(server.Controller, r.controllers)
	}
	return routes
}

// lowest is the lowest version that ApiVersions tells.
func (r row) lowest() int16 {
	if r.advertise == same {
		return r.min
	}
	return r.advertise
}

// on is the handler for a kind of listener.
func (r row) on(kind server.Mask) handler {
	if kind == server.Controller {
		return r.controllers
	}
	return r.brokers
}
