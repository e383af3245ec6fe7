package api

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/config"
	"moldau/internal/group"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
	"moldau/internal/quorum"
	"moldau/internal/quota"
	"moldau/internal/replica"
	"moldau/internal/server"
	"moldau/internal/storage"
	"moldau/internal/telemetry"
	"moldau/internal/uplink"
)

// Owners are whom requests are about. A mere controller has no Replicas, Groups, Store and Uplink; a mere broker has no Local and
// no Quorum.
type Owners struct {
	Image    func() *metadata.Image // the newest published image
	Replicas *replica.Set
	Groups   *group.Coordinator
	Store    *storage.Store
	Uplink   *uplink.Uplink
	// Local answers on controller listeners: it fails with NOT_CONTROLLER inside the answer when another node leads.
	Local func(ctx context.Context, req kmsg.Request, principal, clientID string) (kmsg.Response, error)
	// NextNodeID gives a number that no node has had; nil on a mere broker.
	NextNodeID func(ctx context.Context, least kafka.NodeID) (kafka.NodeID, error)
	// Disconnected is told that the connection over which a broker sent its heartbeats is gone. nil: nobody wants to know.
	Disconnected func(broker kafka.NodeID, epoch int64)
	Quorum       *quorum.Quorum
	// Passed is asked to serve a ZooKeeper client, with the body of the request; it returns what takes the connection.
	Passed func(body []byte) (func(net.Conn), error)
	// TreeOffsets answers OffsetCommit and OffsetFetch of version 0, PassedOffsets the same for another node.
	TreeOffsets   func(ctx context.Context, req kmsg.Request) (kmsg.Response, error)
	PassedOffsets func(ctx context.Context, body []byte) ([]byte, error)

	Config    func() *config.Config // in force now
	Telemetry *telemetry.Telemetry  // metrics that clients push; nil on a mere controller
	LogLevel  *slog.LevelVar        // of the node's log; nil: it cannot be changed
}

// Options are the owners and the settings that answers depend on.
type Options struct {
	Owners
	NodeID    kafka.NodeID
	ClusterID string
	Features  []metadata.FeatureRange // supported by this node

	Offsets           config.Groups // how the topic for groups is created
	AutoCreateTopics  bool          // auto.create.topics.enable
	FetchMaxBytes     int           // fetch.max.bytes
	FetchSessionSlots int           // max.incremental.fetch.session.cache.slots
	MaxPartitions     int           // max.request.partition.size.limit
	FullValidation    bool          // record.validation=full
	NearestReplica    bool          // replica.selector.class: consumers are sent to followers in their rack
	RequestTimeout    time.Duration

	LeaderThrottle *quota.Throttle // on what followers fetch here; nil: none

	Now     func() time.Time
	Logger  *slog.Logger
	Metrics *metrics.Set
}

// API serves requests. Make it with New and give Routes to a server.
type API struct {
	o        Options
	table    []row
	sessions *sessionCache
	whole    wholeMetadata
	meters   meters
	pulses   pulses
	opening  chan struct{} // holds one for each batch that may be large and is being decompressed

	conversions *conversions
	clients     clients
}

// New returns an API that serves nothing until its Routes are used.
func New(o Options) *API {
	a := &API{o: o, table: rows(), meters: newMeters(o.Metrics), opening: make(chan struct{}, openingSlots)}
	a.conversions = newConversions(o.Now, a.opening, o.Metrics)
	a.pulses.of = make(map[*server.Conn]pulse)
	a.sessions = newSessionCache(o.FetchSessionSlots, o.Now, o.Metrics)
	return a
}

// nowMs is the wall time in ms since 1970.
func (a *API) nowMs() int64 { return a.o.Now().UnixMilli() }

// within bounds a request's context by its own timeout, in ms; the setting request.timeout.ms when it has none.
func (a *API) within(r *server.Request, timeoutMs int32) (context.Context, context.CancelFunc) {
	d := time.Duration(timeoutMs) * time.Millisecond
	if timeoutMs <= 0 {
		d = a.o.RequestTimeout
	}
	return context.WithTimeout(r.Context(), d)
}
