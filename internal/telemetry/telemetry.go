package telemetry

import (
	"container/list"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"

	"moldau/internal/batch"
	"moldau/internal/config"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
)

// Options are a Telemetry's settings.
type Options struct {
	MaxBytes int // telemetry.max.bytes
	Now      func() time.Time
	Logger   *slog.Logger
	Metrics  *metrics.Set
}

// Telemetry answers what clients ask about telemetry, and exports what they push.
type Telemetry struct {
	o          Options
	subscribed atomic.Pointer[subscriptions]
	decoding   sync.Mutex // one push is decoded at a time
	pushes     *prometheus.CounterVec
	dropped    prometheus.Counter

	mu        sync.Mutex
	instances map[kafka.UUID]*list.Element // of *instance
	recent    list.List                    // the same, those that were heard of last at the front
	series    int                          // of all instances
}

// subscriptions are those of the image, by name. The version grows with each change.
type subscriptions struct {
	version int64
	byName  []config.Subscription
}

// New returns a Telemetry without subscriptions, which come with Apply.
func New(o Options) *Telemetry {
	t := &Telemetry{
		o:         o,
		pushes:    o.Metrics.CounterVec("moldau_telemetry_pushes_total", "Reports of metrics that clients pushed, by Kafka's error.", "error"),
		dropped:   o.Metrics.Counter("moldau_telemetry_dropped_series_total", "Series that clients pushed and that are not exported, because there are too many or they are of a kind that is not."),
		instances: make(map[kafka.UUID]*list.Element),
	}
	t.subscribed.Store(&subscriptions{})
	o.Metrics.GaugeFunc("moldau_telemetry_clients", "Clients that have asked what metrics to push.", func() float64 {
		t.mu.Lock()
		defer t.mu.Unlock()
		return float64(len(t.instances))
	})
	o.Metrics.Register(exporter{t})
	return t
}

// Apply takes the subscriptions from a new image.
func (t *Telemetry) Apply(delta *metadata.Delta, image *metadata.Image) {
	if !slices.ContainsFunc(delta.ChangedConfigs(), func(r metadata.ConfigResource) bool { return r.Type == metadata.ConfigClientMetrics }) {
		return
	}
	next := &subscriptions{version: t.subscribed.Load().version + 1}
	for resource, values := range image.Configs.All() {
		if resource.Type != metadata.ConfigClientMetrics {
			continue
		}
		s, err := config.ClientMetrics(values)
		if err != nil { // the controller lets none through that is wrong
			t.o.Logger.Error("a subscription to metrics of clients has no effect", "subscription", resource.Name, "error", err)
			continue
		}
		next.byName = append(next.byName, s)
	}
	t.subscribed.Store(next)
}

// Client is what is known of who asks, and what subscriptions are matched with.
type Client struct {
	ID, SoftwareName, SoftwareVersion, Address, Port string
}

// cut makes what a client says of itself fit for labels.
func (c Client) cut() Client {
	for _, s := range []*string{&c.ID, &c.SoftwareName, &c.SoftwareVersion, &c.Address, &c.Port} {
		*s = labelValue(*s)
	}
	return c
}

// Offer is what a client is to push.
type Offer struct {
	Instance     kafka.UUID
	Subscription int32
	Metrics      []string // beginnings of names; "*" alone means all, none that nothing is wanted
	Interval     time.Duration
	MaxBytes     int
}

// Subscribe tells a client what to push; the zero id asks for one. The error is THROTTLING_QUOTA_EXCEEDED for a client that
// asks before its interval has passed. Mirrors ClientMetricsManager.processGetTelemetrySubscriptionRequest.
func (t *Telemetry) Subscribe(id kafka.UUID, c Client) (Offer, error) {
	if id.IsZero() {
		id = kafka.NewUUID()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.instanceLocked(id, c)
	now := t.o.Now()
	if !in.mayAsk(now) {
		return Offer{}, fmt.Errorf("client instance %v asks before its interval of %v has passed: %w", id, in.interval, kerr.ThrottlingQuotaExceeded)
	}
	in.asked = now
	return Offer{Instance: id, Subscription: in.subscription, Metrics: in.metrics, Interval: in.interval, MaxBytes: t.o.MaxBytes}, nil
}

// Push is one report.
type Push struct {
	Instance     kafka.UUID
	Subscription int32
	Terminating  bool // it is the client's last
	Codec        int8
	Metrics      []byte // not kept
}

// Push takes a report. The errors are those of PushTelemetry: INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED,
// UNKNOWN_SUBSCRIPTION_ID, UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE, INVALID_RECORD. Mirrors
// ClientMetricsManager.processPushTelemetryRequest.
func (t *Telemetry) Push(p Push, c Client) error {
	err := t.push(p, c)
	name := "NONE"
	if known, ok := errors.AsType[*kerr.Error](err); ok {
		name = known.Message
	}
	t.pushes.WithLabelValues(name).Inc()
	return err
}

func (t *Telemetry) push(p Push, c Client) error {
	if p.Instance.IsZero() || p.Instance == (kafka.UUID{15: 1}) {
		return fmt.Errorf("%v is no id of a client: %w", p.Instance, kerr.InvalidRequest)
	}
	wanted, err := t.admit(p, c)
	if err != nil || len(p.Metrics) == 0 {
		return err
	}
	t.decoding.Lock()
	defer t.decoding.Unlock()
	plain, err := batch.Decompress(batch.Codec(p.Codec), p.Metrics, plainFactor*t.o.MaxBytes)
	if errors.Is(err, batch.ErrTooLarge) {
		return fmt.Errorf("metrics of client instance %v have more than %d bytes once decompressed: %w", p.Instance, plainFactor*t.o.MaxBytes, kerr.TelemetryTooLarge)
	}
	if err != nil {
		return fmt.Errorf("metrics of client instance %v: %w", p.Instance, err)
	}
	points, dropped, err := decode(plain, wanted)
	if err != nil {
		return fmt.Errorf("metrics of client instance %v: %w", p.Instance, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if e, ok := t.instances[p.Instance]; ok {
		dropped += t.takeLocked(e.Value.(*instance), points)
	}
	t.dropped.Add(float64(dropped))
	return nil
}

// admit checks whether a client may push now, and what it has been asked for.
func (t *Telemetry) admit(p Push, c Client) (wanted []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.instanceLocked(p.Instance, c)
	now := t.o.Now()
	defer func() { in.terminating = p.Terminating }()
	mayPush := in.mayPush(now)
	if mayPush {
		in.pushed = now
	}
	switch {
	case in.terminating:
		return nil, fmt.Errorf("client instance %v has said that it was its last push: %w", p.Instance, kerr.InvalidRequest)
	case !mayPush && !p.Terminating:
		return nil, fmt.Errorf("client instance %v pushes before its interval of %v has passed: %w", p.Instance, in.interval, kerr.ThrottlingQuotaExceeded)
	case p.Subscription != in.subscription:
		return nil, fmt.Errorf("client instance %v pushes for subscription %d, its own is %d: %w", p.Instance, p.Subscription, in.subscription, kerr.UnknownSubscriptionID)
	case !batch.Codec(p.Codec).Known():
		return nil, fmt.Errorf("%v: %w", batch.Codec(p.Codec), kerr.UnsupportedCompressionType)
	case len(p.Metrics) > t.o.MaxBytes:
		return nil, fmt.Errorf("%d bytes of metrics, telemetry.max.bytes is %d: %w", len(p.Metrics), t.o.MaxBytes, kerr.TelemetryTooLarge)
	}
	return in.metrics, nil
}

// plainFactor is how many times telemetry.max.bytes a push may have once it is decompressed.
const plainFactor = 4

// instanceLocked finds or makes what is known of a client, as of the present subscriptions.
func (t *Telemetry) instanceLocked(id kafka.UUID, c Client) *instance {
	now := t.o.Now()
	t.expireLocked(now)
	current := t.subscribed.Load()
	e, known := t.instances[id]
	if !known {
		if len(t.instances) >= maxInstances {
			t.removeLocked(t.recent.Back())
		}
		e = t.recent.PushFront(&instance{id: id, client: c.cut(), version: -1})
		t.instances[id] = e
	}
	t.recent.MoveToFront(e)
	in := e.Value.(*instance)
	in.seen = now
	if in.version != current.version {
		in.subscribe(current)
	}
	return in
}

// expireLocked forgets clients that have been silent for too long. One with a long interval keeps those behind it that were
// heard of later.
func (t *Telemetry) expireLocked(now time.Time) {
	for e := t.recent.Back(); e != nil && e.Value.(*instance).expired(now); e = t.recent.Back() {
		t.removeLocked(e)
	}
}

func (t *Telemetry) removeLocked(e *list.Element) {
	in := e.Value.(*instance)
	t.recent.Remove(e)
	delete(t.instances, in.id)
	t.series -= len(in.series)
}

// subscribe decides what is wanted of a client. Mirrors ClientMetricsManager.createClientInstance.
func (in *instance) subscribe(s *subscriptions) {
	in.version = s.version
	in.asked, in.pushed, in.terminating = time.Time{}, time.Time{}, false
	in.metrics, in.interval = nil, defaultInterval
	for _, subscription := range s.byName {
		if in.matches(subscription) {
			in.metrics = append(in.metrics, subscription.Metrics...)
			in.interval = min(in.interval, subscription.Interval)
		}
	}
	slices.Sort(in.metrics)
	in.metrics = slices.Compact(in.metrics)
	if slices.Contains(in.metrics, "*") {
		in.metrics = []string{"*"}
	}
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	fmt.Fprint(sum, strings.Join(in.metrics, ","), in.interval)
	in.subscription = int32(sum.Sum32())
}
