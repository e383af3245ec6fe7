package uplink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
)

// Call sends one request to the active controller, in a client's name, and returns its answer. An error means that no answer
// came; an error code inside the answer is the caller's to read. NOT_CONTROLLER: ask again, there may be another one.
type Call func(ctx context.Context, req kmsg.Request, client Client) (kmsg.Response, error)

// Client is in whose name a request is made.
type Client struct {
	Principal string // "User:name"
	ID        string // client.id
	Address   []byte // its IP address, 4 or 16 bytes
}

// Listener is one address that the broker advertises.
type Listener struct {
	Name     string
	Host     string
	Port     uint16
	Protocol int16 // SecurityProtocol: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL
}

// Options say who the broker is.
type Options struct {
	NodeID        kafka.NodeID
	ClusterID     string
	Rack          *string
	Dirs          []kafka.DirID
	Listeners     []Listener
	Features      []metadata.FeatureRange // that the broker can work at
	PreviousEpoch int64                   // broker epoch before a clean stop, -1 for none (KIP-966)

	Call      Call                     // for what the broker says for itself, heartbeats above all
	Admin     Call                     // for what clients ask, which may take long; nil: Call
	OnEpoch   func(epoch int64) error  // called with each new broker epoch before anything happens under it; nil: nothing
	Caught    func() int64             // offset of the newest metadata record that this broker has applied
	Levels    func() metadata.Features // of the cluster, as far as this broker knows; nil: it is not told what does not fit
	Offline   func() []kafka.DirID     // log directories that have failed
	Heartbeat time.Duration            // broker.heartbeat.interval.ms
	Timeout   time.Duration            // for one request; a heartbeat has less
	Logger    *slog.Logger

	AutoPartitions        int32 // of a topic that a client's use creates; 0: as the controller has it
	AutoReplicationFactor int16 // the same
}

// Uplink is the broker's side of the talk with the controller.
type Uplink struct {
	o           Options
	incarnation kafka.UUID
	epoch       atomic.Int64
	registered  chan struct{} // closed by the first registration
	unfenced    chan struct{} // closed by the first heartbeat that says so
	leaving     chan struct{} // closed by Shutdown
	left        chan struct{} // closed when the controller let the broker go
	wake        chan struct{} // asks for a heartbeat now

	leave func() // closes leaving, once

	refusal atomic.Pointer[error] // why the last attempt to register failed; nil: none has

	ids      ids
	creating creating
}

// New returns an uplink that says nothing until Run.
func New(o Options) *Uplink {
	u := &Uplink{
		o:           o,
		incarnation: kafka.NewUUID(),
		registered:  make(chan struct{}),
		unfenced:    make(chan struct{}),
		leaving:     make(chan struct{}),
		left:        make(chan struct{}),
		wake:        make(chan struct{}, 1),
	}
	if u.o.Admin == nil {
		u.o.Admin = u.o.Call
	}
	u.leave = sync.OnceFunc(func() { close(u.leaving) })
	u.epoch.Store(-1)
	u.creating.topics = make(map[string]*creation)
	return u
}

// Epoch is the broker epoch of the last registration, -1 before the first.
func (u *Uplink) Epoch() int64 { return u.epoch.Load() }

// Registered is closed once the controller has taken the broker in.
func (u *Uplink) Registered() <-chan struct{} { return u.registered }

// Refusal is why the last attempt to register failed; nil if none has.
func (u *Uplink) Refusal() error {
	if err := u.refusal.Load(); err != nil {
		return *err
	}
	return nil
}

// WaitUnfenced returns when clients may be sent to this broker, or with the context's error.
func (u *Uplink) WaitUnfenced(ctx context.Context) error {
	select {
	case <-u.unfenced:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Hurry asks for a heartbeat now instead of at the next interval, for news such as a failed log directory.
func (u *Uplink) Hurry() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Run registers the broker and keeps it alive until ctx ends or a Shutdown is through.
func (u *Uplink) Run(ctx context.Context) {
	defer close(u.left)
	for ctx.Err() == nil {
		if !u.register(ctx) {
			return
		}
		if !u.live(ctx) {
			return
		}
	}
}

// register asks until the controller takes the broker in; false when ctx ended first.
func (u *Uplink) register(ctx context.Context) bool {
	told := ""
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		epoch, err := u.registerOnce(ctx)
		if err == nil && u.o.OnEpoch != nil {
			err = u.o.OnEpoch(epoch)
		}
		if err == nil {
			u.epoch.Store(epoch)
			closeOnce(u.registered)
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		u.refusal.Store(&err)
		if text := err.Error(); text != told && !errors.Is(err, kerr.NotController) {
			u.o.Logger.Warn("the controller did not register this broker; trying on", "error", err)
			told = text
		}
		if !u.pause(ctx, wait) {
			return false
		}
	}
}

func (u *Uplink) registerOnce(ctx context.Context) (int64, error) {
	req := kmsg.NewBrokerRegistrationRequest()
	req.Version = 4
	req.BrokerID = u.o.NodeID
	req.ClusterID = u.o.ClusterID
	req.IncarnationID = u.incarnation
	req.Rack = u.o.Rack
	req.PreviousBrokerEpoch = u.o.PreviousEpoch
	if epoch := u.Epoch(); epoch >= 0 { // this process goes on, and its logs have lost nothing
		req.PreviousBrokerEpoch = epoch
	}
	for _, dir := range u.o.Dirs {
		req.LogDirs = append(req.LogDirs, dir)
	}
	for _, l := range u.o.Listeners {
		listener := kmsg.NewBrokerRegistrationRequestListener()
		listener.Name, listener.Host, listener.Port, listener.SecurityProtocol = l.Name, l.Host, l.Port, l.Protocol
		req.Listeners = append(req.Listeners, listener)
	}
	for _, f := range u.o.Features {
		feature := kmsg.NewBrokerRegistrationRequestFeature()
		feature.Name, feature.MinSupportedVersion, feature.MaxSupportedVersion = f.Name, f.Min, f.Max
		req.Features = append(req.Features, feature)
	}
	resp, err := send[*kmsg.BrokerRegistrationResponse](ctx, u, &req)
	if err != nil {
		return -1, err
	}
	switch err := kerr.ErrorForCode(resp.ErrorCode); {
	case errors.Is(err, kerr.DuplicateBrokerRegistration):
		return -1, fmt.Errorf("another broker with node.id=%d is alive, or was until a moment ago: give this one an id and directories of its own (%w)", u.o.NodeID, err)
	case errors.Is(err, kerr.InconsistentClusterID):
		return -1, fmt.Errorf("the controllers belong to another cluster than the data here, which is of %s: look at controller.quorum.bootstrap.servers and log.dirs (%w)", u.o.ClusterID, err)
	case errors.Is(err, kerr.UnsupportedVersion) && u.o.Levels != nil:
		return -1, fmt.Errorf("the cluster has features at levels that this version does not serve: %s; a broker that serves them can take them back, with `features downgrade` or `disable` (%w)",
			u.unserved(), err)
	case errors.Is(err, kerr.InvalidRegistration):
		return -1, fmt.Errorf("a directory.id in the meta.properties of log.dirs is another broker's, or is there twice: was one copied? Give this broker directories of its own (%w)", err)
	case err != nil:
		return -1, fmt.Errorf("register broker %d: %w", u.o.NodeID, err)
	}
	return resp.BrokerEpoch, nil
}

// unserved names the features of the cluster whose level this broker does not serve.
func (u *Uplink) unserved() string {
	var names []string
	for name, level := range u.o.Levels().All() {
		if !metadata.RangeOf(u.o.Features, name).Has(level) {
			names = append(names, fmt.Sprintf("%s=%d", name, level))
		}
	}
	return strings.Join(names, ", ")
}

// live sends heartbeats; true when the broker has to register anew, false when it is to stop.
func (u *Uplink) live(ctx context.Context) bool {
	for {
		resp, err := u.beat(ctx)
		wait := u.o.Heartbeat
		switch {
		case ctx.Err() != nil:
			return false
		case errors.Is(err, kerr.StaleBrokerEpoch), errors.Is(err, kerr.BrokerIDNotRegistered):
			return true
		case err != nil:
			wait = min(wait, 100*time.Millisecond)
		case resp.ShouldShutdown && u.isLeaving():
			return false
		case resp.ShouldShutdown:
			// Somebody spoke in this broker's name. The controller would go on to think that this incarnation stops.
			u.o.Logger.Warn("the controller takes this broker for one that stops; it registers anew", "epoch", u.Epoch())
			u.incarnation = kafka.NewUUID()
			return true
		case u.isLeaving():
			wait = min(wait, 20*time.Millisecond) // leaderships are on the move
		case !resp.IsFenced:
			closeOnce(u.unfenced)
		default:
			wait = min(wait, 10*time.Millisecond) // not caught up yet: the start goal is a tenth of a second
		}
		if !u.pause(ctx, wait) {
			return false
		}
	}
}

// beat sends one heartbeat. It waits for the answer no longer than for two intervals: a controller whose machine is gone does
// not even break the connection, and whoever follows it has to hear of this broker before its session ends.
func (u *Uplink) beat(ctx context.Context) (*kmsg.BrokerHeartbeatResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, max(2*u.o.Heartbeat, time.Second))
	defer cancel()
	req := kmsg.NewBrokerHeartbeatRequest()
	req.Version = 1
	req.BrokerID = u.o.NodeID
	req.BrokerEpoch = u.Epoch()
	req.CurrentMetadataOffset = u.o.Caught()
	req.WantShutdown = u.isLeaving()
	for _, dir := range u.o.Offline() {
		req.OfflineLogDirs = append(req.OfflineLogDirs, dir)
	}
	resp, err := send[*kmsg.BrokerHeartbeatResponse](ctx, u, &req)
	if err != nil {
		return nil, err
	}
	return resp, kerr.ErrorForCode(resp.ErrorCode)
}

func (u *Uplink) isLeaving() bool {
	select {
	case <-u.leaving:
		return true
	default:
		return false
	}
}

// Shutdown tells the controller that the broker wants to stop and waits until its leaderships have moved as far as they
// can, or until ctx ends (controlled shutdown; BrokerLifecycleManager). Run has to be running.
func (u *Uplink) Shutdown(ctx context.Context) error {
	u.leave()
	u.Hurry()
	select {
	case <-u.left:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("controlled shutdown: %w", context.Cause(ctx))
	}
}

// Forward sends an admin request of a client to the controller, in the client's name. While nobody is active it asks on
// until ctx ends, so that a client sees an election as a delay; a request that a lost controller may have carried out is sent
// again, as in Apache Kafka (ForwardingManager).
func (u *Uplink) Forward(ctx context.Context, req kmsg.Request, client Client) (kmsg.Response, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		resp, err := u.o.Admin(ctx, req, client)
		if err == nil || !errors.Is(err, kerr.NotController) {
			return resp, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-u.left:
			timer.Stop()
			return nil, err
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// pause waits, but no longer than until the next Hurry; false when ctx ended.
func (u *Uplink) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-u.wake:
	case <-ctx.Done():
	}
	select {
	case <-u.wake: // came together with the other: what the caller does next answers it
	default:
	}
	return ctx.Err() == nil
}

// itself is the name under which a broker speaks for itself.
var itself = Client{Principal: "User:ANONYMOUS"}

func send[R kmsg.Response](ctx context.Context, u *Uplink, req kmsg.Request) (R, error) {
	var none R
	ctx, cancel := context.WithTimeout(ctx, u.o.Timeout)
	defer cancel()
	resp, err := u.o.Call(ctx, req, itself)
	if err != nil {
		return none, fmt.Errorf("%s to the controller: %w", kmsg.NameForKey(req.Key()), err)
	}
	typed, ok := resp.(R)
	if !ok {
		return none, fmt.Errorf("%s to the controller: answered with a %T", kmsg.NameForKey(req.Key()), resp)
	}
	return typed, nil
}

// closeOnce closes a channel that only the caller's goroutine ever closes.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}
