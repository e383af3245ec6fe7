package controller

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Log is the replicated metadata log, as far as a leader writes it.
type Log interface {
	// Propose appends the records as one batch, all or nothing, if this node still leads in the given epoch. It returns the
	// offset that the last record will have, and a channel that gets nil, or is closed, once the batch is committed. An error,
	// from the call or the channel, means that the epoch is over.
	Propose(epoch int32, records [][]byte) (lastOffset int64, done <-chan error, err error)
}

// Request is one request to the controller.
type Request struct {
	Body      kmsg.Request
	Principal string
	ClientID  string
}

// Options is what a controller needs.
type Options struct {
	NodeID    kafka.NodeID
	ClusterID string
	Log       Log
	Now       func() time.Time
	Logger    *slog.Logger
	Config    Config
	Rules     ConfigRules
	Features  []metadata.FeatureRange // what this node supports, metadata.version among them
}

// Config is the settings of a controller.
type Config struct {
	NumPartitions            int32
	DefaultReplicationFactor int16
	MinInsyncReplicas        int32 // of topics that do not set their own
	UncleanLeaderElection    bool  // of topics that do not set their own
	SessionTimeoutMs         int64 // broker.session.timeout.ms
	InitialMetadataVersion   int16 // finalized when the log is empty
	InitialFeatures          []metadata.FeatureLevelRecord
}

// ConfigRules is what the controller asks about configuration names and values.
type ConfigRules struct {
	// Check returns what is wrong with a value; nil when it may be set. An unknown name is wrong.
	Check func(t metadata.ConfigType, name, value string) error
	// Default returns the value in force where nothing is set for the resource.
	Default func(t metadata.ConfigType, name string) (string, bool)
	// List reports whether a name holds a list, which APPEND and SUBTRACT need.
	List func(t metadata.ConfigType, name string) bool
}

// Controller is one node's controller. It decides only while it leads.
type Controller struct{ o Options }

// New returns a controller that does not lead yet.
func New(o Options) *Controller { return &Controller{o: o} }

// Start begins to serve.
func (c *Controller) Start() {}

// Stop fails everything that waits and ends the loop.
func (c *Controller) Stop() {}

// Apply takes a newly committed image. It is a metadata.Subscriber and never waits.
func (c *Controller) Apply(delta *metadata.Delta, image *metadata.Image) {}

// Lead makes this node decide in the given epoch. Everything committed before it has been applied.
func (c *Controller) Lead(epoch int32) {}

// Resign ends the epoch: whoever waits gets NOT_CONTROLLER.
func (c *Controller) Resign() {}

// Handle decides on one request and returns its response once the records are committed and applied here.
func (c *Controller) Handle(ctx context.Context, r Request) (kmsg.Response, error) { return nil, nil }
