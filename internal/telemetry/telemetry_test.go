package telemetry

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/proto"

	"moldau/internal/batch"
	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/metrics"
)

// world is a Telemetry with a clock and an image.
type world struct {
	*Telemetry
	t     testing.TB
	now   time.Time
	set   *metrics.Set
	image *metadata.Image
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, now: time.UnixMilli(1_000_000), set: metrics.NewSet(), image: metadata.EmptyImage()}
	w.Telemetry = New(Options{MaxBytes: 10_000, Now: func() time.Time { return w.now }, Logger: slog.New(slog.DiscardHandler), Metrics: w.set})
	return w
}

// subscription sets one of pairs of key and value; an empty value removes the key.
func (w *world) subscription(name string, pairs ...string) {
	w.t.Helper()
	d := metadata.NewDelta(w.image)
	for i := 0; i < len(pairs); i += 2 {
		r := &metadata.ConfigRecord{ResourceType: int8(metadata.ConfigClientMetrics), ResourceName: name, Name: pairs[i]}
		if pairs[i+1] != "" {
			r.Value = &pairs[i+1]
		}
		if err := d.Replay(r); err != nil {
			w.t.Fatal(err)
		}
	}
	w.image = d.Image(w.image.Offset+1, 1)
	w.Apply(d, w.image)
}

func (w *world) subscribe(id kafka.UUID, c Client) Offer {
	w.t.Helper()
	o, err := w.Subscribe(id, c)
	if err != nil {
		w.t.Fatal(err)
	}
	return o
}

func (w *world) wantError(err error, want *kerr.Error) {
	w.t.Helper()
	if got, _ := errors.AsType[*kerr.Error](err); got != want {
		w.t.Errorf("got %v, want %v", err, want)
	}
}

// exported are the series that begin with a prefix, as text, sorted.
func (w *world) exported(prefix string) (series []string) {
	w.t.Helper()
	families, err := w.set.Gatherer().Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				if l.GetName() != "client_instance_id" {
					labels = append(labels, l.GetName()+"="+l.GetValue())
				}
			}
			value := m.GetGauge().GetValue() + m.GetCounter().GetValue()
			if strings.HasPrefix(f.GetName(), prefix) {
				series = append(series, fmt.Sprintf("%s{%s} %v %v", f.GetName(), strings.Join(labels, ","), value, f.GetType()))
			}
		}
	}
	slices.Sort(series)
	return series
}

func attribute(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

func number(value float64, attributes ...*commonpb.KeyValue) *metricspb.NumberDataPoint {
	return &metricspb.NumberDataPoint{Attributes: attributes, Value: &metricspb.NumberDataPoint_AsDouble{AsDouble: value}}
}

func gauge(name string, points ...*metricspb.NumberDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Data: &metricspb.Metric_Gauge{Gauge: &metricspb.Gauge{DataPoints: points}}}
}

func sum(name string, temporality metricspb.AggregationTemporality, points ...*metricspb.NumberDataPoint) *metricspb.Metric {
	return &metricspb.Metric{Name: name, Data: &metricspb.Metric_Sum{Sum: &metricspb.Sum{DataPoints: points, IsMonotonic: true, AggregationTemporality: temporality}}}
}

func report(t testing.TB, m ...*metricspb.Metric) []byte {
	t.Helper()
	data, err := proto.Marshal(&metricspb.MetricsData{ResourceMetrics: []*metricspb.ResourceMetrics{{
		Resource:     &resourcepb.Resource{Attributes: []*commonpb.KeyValue{attribute("client_rack", "r1")}},
		ScopeMetrics: []*metricspb.ScopeMetrics{{Metrics: m}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestSubscriptionsAreMatched: a client gets the metrics of all subscriptions whose patterns match it in full, and the
// shortest interval.
func TestSubscriptionsAreMatched(t *testing.T) {
	w := newWorld(t)
	java := Client{ID: "billing-1", SoftwareName: "apache-kafka-java", SoftwareVersion: "4.4.0", Address: "10.0.0.1", Port: "55"}
	if o := w.subscribe(kafka.UUID{1: 1}, java); len(o.Metrics) != 0 || o.Interval != 5*time.Minute || o.MaxBytes != 10_000 {
		t.Errorf("without subscriptions: %+v", o)
	}
	w.subscription("all", "metrics", "org.apache.kafka.producer.,x", "interval.ms", "60000")
	w.subscription("billing", "metrics", "org.apache.kafka.consumer.,x", "interval.ms", "1000", "match", "client_id=billing-.*, client_software_version = 4\\..*")
	w.subscription("part", "metrics", "never", "match", "client_id=illing")
	w.subscription("other", "metrics", "*", "match", "client_source_address=10.0.0.2")
	first := w.subscribe(kafka.UUID{1: 1}, java)
	if got := strings.Join(first.Metrics, " "); got != "org.apache.kafka.consumer. org.apache.kafka.producer. x" || first.Interval != time.Second {
		t.Errorf("wanted of %v: %q every %v", java, got, first.Interval)
	}
	if o := w.subscribe(kafka.UUID{2: 1}, Client{ID: "a", Address: "10.0.0.2"}); !slices.Equal(o.Metrics, []string{"*"}) {
		t.Errorf("wanted of one that all is wanted of: %q", o.Metrics)
	}
	w.subscription("billing", "interval.ms", "2000")
	second := w.subscribe(kafka.UUID{1: 1}, java) // at once, because something has changed
	if second.Subscription == first.Subscription || second.Interval != 2*time.Second {
		t.Errorf("a changed subscription: %+v after %+v", second, first)
	}
	if o := w.subscribe(kafka.UUID{}, java); o.Instance.IsZero() || o.Subscription != second.Subscription {
		t.Errorf("a client without an id: %+v", o)
	}
}

// TestWhenClientsMayPush mirrors the rules of ClientMetricsManager.
func TestWhenClientsMayPush(t *testing.T) {
	w := newWorld(t)
	w.subscription("all", "metrics", "*", "interval.ms", "1000")
	o := w.subscribe(kafka.UUID{}, Client{ID: "c"})
	good := Push{Instance: o.Instance, Subscription: o.Subscription, Metrics: report(t, gauge("g", number(1)))}
	bad := func(change func(*Push)) Push { p := good; change(&p); return p }

	w.wantError(w.Push(good, Client{}), nil) // at once after the question
	w.now = w.now.Add(999 * time.Millisecond)
	w.wantError(w.Push(good, Client{}), kerr.ThrottlingQuotaExceeded)
	_, err := w.Subscribe(o.Instance, Client{})
	w.wantError(err, kerr.ThrottlingQuotaExceeded)
	w.now = w.now.Add(time.Millisecond)
	w.wantError(w.Push(good, Client{}), nil)

	for _, c := range []struct {
		change func(*Push)
		want   *kerr.Error
	}{
		{func(p *Push) { p.Instance = kafka.UUID{} }, kerr.InvalidRequest},
		{func(p *Push) { p.Subscription++ }, kerr.UnknownSubscriptionID},
		{func(p *Push) { p.Codec = 9 }, kerr.UnsupportedCompressionType},
		{func(p *Push) { p.Codec = -1 }, kerr.UnsupportedCompressionType},
		{func(p *Push) { p.Metrics = make([]byte, 10_001) }, kerr.TelemetryTooLarge},
		{func(p *Push) { p.Metrics = []byte("no protobuf") }, kerr.InvalidRecord},
		{func(p *Push) { p.Codec, p.Metrics = int8(batch.Zstd), []byte("no zstd") }, kerr.InvalidRecord},
		{func(p *Push) { p.Codec, p.Metrics = int8(batch.Gzip), packed(t, batch.Gzip, make([]byte, 50_000)) }, kerr.TelemetryTooLarge},
		{func(p *Push) { p.Metrics = nil }, nil},
	} {
		w.now = w.now.Add(time.Second)
		w.wantError(w.Push(bad(c.change), Client{}), c.want)
	}
	w.wantError(w.Push(bad(func(p *Push) { p.Terminating = true }), Client{}), nil) // the last may come at any moment
	w.now = w.now.Add(time.Second)
	w.wantError(w.Push(good, Client{}), kerr.InvalidRequest)
	if got := strings.Join(w.exported("moldau_telemetry_pushes_total"), "\n"); !strings.Contains(got, "error=NONE} 4 ") || !strings.Contains(got, "error=TELEMETRY_TOO_LARGE} 2 ") {
		t.Errorf("pushes are counted so:\n%s", got)
	}
}

func packed(t *testing.T, c batch.Codec, data []byte) []byte {
	t.Helper()
	out, err := batch.Compress(c, 0, data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatIsExported: gauges and sums of every codec, with the labels of client, resource and point; nothing that was not
// asked for; deltas are added up.
func TestWhatIsExported(t *testing.T) {
	w := newWorld(t)
	w.subscription("all", "metrics", "org.apache.kafka.", "interval.ms", "1000")
	o := w.subscribe(kafka.UUID{}, Client{ID: "bill\xffing", SoftwareName: "java", SoftwareVersion: "4.4", Address: "10.0.0.1"})
	cumulative, delta := metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_CUMULATIVE, metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	data := report(t,
		gauge("org.apache.kafka.producer.latency-avg", number(1.5, attribute("node.id", "3"), attribute("client_id", "liar")), number(2.5, attribute("node.id", "4"))),
		sum("org.apache.kafka.producer.sent.total", cumulative, number(7)),
		sum("org.apache.kafka.producer.bytes", delta, number(5, attribute("9", "no name is left"))),
		gauge("org.apache.kafka.info", number(9)),
		gauge("elsewhere", number(1)),
		&metricspb.Metric{Name: "org.apache.kafka.histogram", Data: &metricspb.Metric_Histogram{Histogram: &metricspb.Histogram{}}},
	)
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		if err := w.Push(Push{Instance: o.Instance, Subscription: o.Subscription, Codec: int8(codec), Metrics: packed(t, codec, data)}, Client{}); err != nil {
			t.Errorf("%v: %v", codec, err)
		}
		w.now = w.now.Add(time.Second)
	}
	want := []string{
		"kafka_client_info{client_id=bill?ing,client_software_name=java,client_software_version=4.4,client_source_address=10.0.0.1} 1 GAUGE",
		"kafka_client_producer_bytes_total{client_id=bill?ing,client_rack=r1} 25 COUNTER",
		"kafka_client_producer_latency_avg{client_id=bill?ing,client_rack=r1,node_id=3} 1.5 GAUGE",
		"kafka_client_producer_latency_avg{client_id=bill?ing,client_rack=r1,node_id=4} 2.5 GAUGE",
		"kafka_client_producer_sent_total{client_id=bill?ing,client_rack=r1} 7 COUNTER",
	}
	if got := w.exported("kafka_client_"); !slices.Equal(got, want) {
		t.Errorf("exported:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	w.now = w.now.Add(time.Minute + time.Second)
	if got := w.exported("kafka_client_"); len(got) != 0 {
		t.Errorf("a silent client is still exported:\n%s", strings.Join(got, "\n"))
	}
	w.subscribe(kafka.UUID{}, Client{})
	if len(w.instances) != 1 || w.series != 0 {
		t.Errorf("a silent client is not forgotten: %d clients, %d series", len(w.instances), w.series)
	}
}

// TestClientsCannotFlood: however many series and clients there are, what is kept is bounded, and a scrape works.
func TestClientsCannotFlood(t *testing.T) {
	w := newWorld(t)
	w.o.MaxBytes = 10 << 20
	w.subscription("all", "metrics", "*", "interval.ms", "1000")
	var points []*metricspb.NumberDataPoint
	for i := range maxClientSeries + 100 {
		points = append(points, number(1, attribute("n", fmt.Sprint(i)), attribute(strings.Repeat("k", 1000), strings.Repeat("v", 1000))))
	}
	data := report(t, gauge(strings.Repeat("name.", 1000), points...))
	for range maxSeries/maxClientSeries + 5 {
		o := w.subscribe(kafka.UUID{}, Client{ID: strings.Repeat("c", 10_000)})
		if err := w.Push(Push{Instance: o.Instance, Subscription: o.Subscription, Metrics: data}, Client{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(w.exported("kafka_client_name")); got != maxSeries || w.series != maxSeries {
		t.Errorf("%d series are exported, %d kept, want %d", got, w.series, maxSeries)
	}
	for _, s := range w.exported("kafka_client_name")[:3] {
		if len(s) > 1000 {
			t.Errorf("a series of %d bytes", len(s))
		}
	}
	for range maxInstances {
		w.subscribe(kafka.UUID{}, Client{})
	}
	if len(w.instances) != maxInstances || w.series != 0 {
		t.Errorf("%d clients and %d series are kept", len(w.instances), w.series)
	}
	var bomb []byte
	for range maxMessages + 1 {
		bomb = append(bomb, 0x0a, 0x00) // an empty ResourceMetrics
	}
	if _, _, err := decode(bomb, nil); !errors.Is(err, kerr.TelemetryTooLarge) {
		t.Errorf("a report of %d empty parts: %v", maxMessages+1, err)
	}
}

// FuzzReport: whatever is pushed, what is exported can be scraped.
func FuzzReport(f *testing.F) {
	f.Add(report(f, gauge("a.b", number(1, attribute("k", "v"))), sum("c", 1, number(2)), sum("c", 2, number(3))))
	f.Add([]byte{0x0a, 0x00})
	f.Fuzz(func(t *testing.T, data []byte) {
		w := newWorld(t)
		w.subscription("all", "metrics", "*")
		o := w.subscribe(kafka.UUID{}, Client{ID: string(data)})
		_ = w.Push(Push{Instance: o.Instance, Subscription: o.Subscription, Metrics: data}, Client{})
		if _, err := w.set.Gatherer().Gather(); err != nil {
			t.Error(err)
		}
	})
}
