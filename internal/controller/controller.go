package controller

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
)

// Log is the replicated metadata log, as far as its leader writes it.
type Log interface {
	// Propose appends the records as one batch, all or nothing, if this node leads in the given epoch. It returns the offset
	// that the last record will have, and a channel that gets nil, or is closed, once the batch is committed. An error from
	// the call means that nothing was appended. An error from the channel means that the epoch is over. The channel must not
	// need a reader: a controller that resigns stops listening.
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
	Logger    *slog.Logger
	Metrics   *metrics.Set // nil: nobody looks
	Config    Config
	Rules     ConfigRules
	Features  []metadata.FeatureRange // what this node supports, metadata.version among them
	NewID     func() kafka.UUID       // ids of new topics; nil: kafka.NewUUID

	// Probe tries to reach a broker at its addresses (host:port), until one listens or ctx ends. It runs on goroutines of
	// its own. nil: a silent broker is waited for until its session ends.
	Probe func(ctx context.Context, addresses []string) ProbeResult
}

// ProbeResult is what the attempt to reach a broker told.
type ProbeResult int8

// What a probe may tell.
const (
	Unknown ProbeResult = iota // nothing: no answer in time, or no way there
	Alive                      // something listens at one of the addresses
	Refused                    // the machine answers, and nothing listens at any of the addresses
)

// Config is the settings of a controller.
type Config struct {
	NumPartitions            int32
	DefaultReplicationFactor int16
	MinInsyncReplicas        int32            // of topics that do not set their own
	UncleanLeaderElection    bool             // of topics that do not set their own
	TopicDeletionDisabled    bool             // the opposite of delete.topic.enable
	SessionTimeoutMs         int64            // broker.session.timeout.ms; 0: 9,000
	BalanceIntervalMs        int64            // how often leadership moves back to preferred replicas; 0: never
	ReviveIntervalMs         int64            // how often partitions without a leader are looked at; 0: never
	InternalFactors          map[string]int16 // replication factors of internal topics, which grow to them as brokers join
	InitialMetadataVersion   int16            // finalized when the log is empty; 0: metadata.MaxMetadataVersion
	InitialFeatures          []metadata.FeatureLevelRecord
}

// ConfigRules is what the controller asks about configuration names and values. A nil function rules nothing out.
type ConfigRules struct {
	// Check returns what is wrong with the values that a resource would have, beside what is set for all brokers; nil when
	// it may have them.
	Check func(r metadata.ConfigResource, values, brokers map[string]string) error
	// Default returns the value in force where nothing is set for the resource.
	Default func(t metadata.ConfigType, name string) (string, bool)
	// List reports whether a name holds a list, which APPEND and SUBTRACT need.
	List func(t metadata.ConfigType, name string) bool
	// Effective returns every configuration of a topic that has the given overrides, by name, for CreateTopics v5+.
	Effective func(overrides map[string]string) []kmsg.CreateTopicsResponseTopicConfig
}

// Controller is one node's controller. It decides only while it leads.
type Controller struct {
	o         Options
	counters  counters
	published atomic.Pointer[metadata.Image] // newest, which the loop may not have seen yet

	mu      sync.Mutex // guards inbox and stopped
	inbox   []event
	stopped bool

	signal chan struct{} // capacity 1: the inbox is not empty
	stop   chan struct{}
	ended  chan struct{}
}

// New returns a controller that does not lead yet.
func New(o Options) *Controller {
	if o.NewID == nil {
		o.NewID = kafka.NewUUID
	}
	if o.Config.InitialMetadataVersion == 0 {
		o.Config.InitialMetadataVersion = metadata.MaxMetadataVersion
	}
	if o.Config.SessionTimeoutMs <= 0 {
		o.Config.SessionTimeoutMs = 9000 // Kafka's default; no timeout at all would fence everybody at once
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewSet()
	}
	c := &Controller{o: o, signal: make(chan struct{}, 1), stop: make(chan struct{}), ended: make(chan struct{})}
	c.published.Store(metadata.EmptyImage())
	c.counters = newCounters(o.Metrics, c.published.Load)
	return c
}

// Start starts the loop.
func (c *Controller) Start() { go newLoop(c).run() }

// Stop ends the loop and waits for it. Whoever waits, and whoever comes later, gets NOT_CONTROLLER. It must be called at
// most once, after Start.
func (c *Controller) Stop() {
	close(c.stop)
	<-c.ended
}

// Apply takes a newly committed image. It is a metadata.Subscriber, and best the last one: answers leave with it, and their
// receivers may then ask any other subscriber of this node about what they changed.
func (c *Controller) Apply(_ *metadata.Delta, image *metadata.Image) {
	c.published.Store(image)
	c.post(applied{image})
}

// Lead makes this node decide, in the given epoch. Everything committed before the epoch must have been applied.
func (c *Controller) Lead(epoch int32) { c.post(led{epoch}) }

// Resign ends the epoch: whoever waits gets NOT_CONTROLLER.
func (c *Controller) Resign() { c.post(resigned{}) }

// Disconnected says that the connection which carried the heartbeats of a broker in the given epoch broke. The broker is
// probed at once: if its machine says that it is gone it is fenced now, and else it has until its session ends. The
// connection alone proves nothing.
func (c *Controller) Disconnected(broker kafka.NodeID, epoch int64) {
	c.post(disconnected{broker, epoch})
}

// Handle decides on one request. It returns the response once all that it rests on is committed and applied here. Errors
// are NOT_CONTROLLER, kerr values for requests that the controller does not know, and ctx's error; the faults of a request
// that is known come in its response.
func (c *Controller) Handle(ctx context.Context, r Request) (kmsg.Response, error) {
	answer := make(chan outcome, 1)
	if !c.post(asked{request: r, answer: answer}) {
		return nil, kerr.NotController
	}
	o, err := await(ctx, answer)
	if err != nil {
		return nil, err
	}
	return o.response, o.err
}

// await waits for an outcome. One that comes together with the end of ctx counts.
func await(ctx context.Context, answer <-chan outcome) (outcome, error) {
	select {
	case o := <-answer:
		return o, nil
	case <-ctx.Done():
	}
	select {
	case o := <-answer:
		return o, nil
	default:
		return outcome{}, ctx.Err()
	}
}

// post hands an event to the loop; false when the loop has ended or is about to.
func (c *Controller) post(e event) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return false
	}
	c.inbox = append(c.inbox, e)
	select {
	case c.signal <- struct{}{}:
	default:
	}
	return true
}
