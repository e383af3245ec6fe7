package telemetry

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

const (
	maxNameBytes  = 200
	maxValueBytes = 200 // of a label
	maxLabels     = 16  // beside those of the client

	// maxMessages is how many messages a push may consist of: each takes some 100 bytes of memory once decoded, and two in
	// the push. maxDepth is how deep OTLP nests them.
	maxMessages = 200_000
	maxDepth    = 7
)

// point is one series and its value.
type point struct {
	name   string // as it is exported
	labels []label
	value  float64
	delta  bool // value is what came on top of the one before
}

type label struct{ name, value string }

// key identifies a series of a client.
func (p *point) key() string {
	var b strings.Builder
	b.WriteString(p.name)
	for _, l := range p.labels {
		b.WriteByte(0)
		b.WriteString(l.name)
		b.WriteByte(0)
		b.WriteString(l.value)
	}
	return b.String()
}

// decode reads a report in OTLP and returns what was asked for, and how many of its series cannot be exported.
func decode(data []byte, wanted []string) (points []*point, dropped int, err error) {
	left := maxMessages
	if count(data, maxDepth, &left); left < 0 {
		return nil, 0, fmt.Errorf("a report of more than %d parts: %w", maxMessages, kerr.TelemetryTooLarge)
	}
	var report metricspb.MetricsData
	if err := proto.Unmarshal(data, &report); err != nil {
		return nil, 0, fmt.Errorf("no OTLP: %w: %w", err, kerr.InvalidRecord)
	}
	for _, resource := range report.ResourceMetrics {
		shared := appendLabels(nil, resource.GetResource().GetAttributes())
		for _, scope := range resource.ScopeMetrics {
			for _, m := range scope.Metrics {
				if !slices.ContainsFunc(wanted, func(prefix string) bool { return prefix == "*" || strings.HasPrefix(m.Name, prefix) }) {
					continue
				}
				found, of := pointsOf(m, shared)
				points, dropped = append(points, found...), dropped+of-len(found)
			}
		}
	}
	return points, dropped, nil
}

// count takes the number of length-prefixed fields in data off left, fields inside them included. What only looks like a
// message is counted too; that makes a limit of this size no tighter.
func count(data []byte, depth int, left *int) {
	for len(data) > 0 && *left >= 0 {
		_, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return
		}
		data = data[n:]
		if kind != protowire.BytesType {
			if n = protowire.ConsumeFieldValue(1, kind, data); n < 0 {
				return
			}
			data = data[n:]
			continue
		}
		inner, n := protowire.ConsumeBytes(data)
		if n < 0 {
			return
		}
		*left--
		if depth > 0 {
			count(inner, depth-1, left)
		}
		data = data[n:]
	}
}

// pointsOf returns the series of a metric, gauges and sums, and how many there are of any kind.
func pointsOf(m *metricspb.Metric, shared []label) (points []*point, of int) {
	var numbers []*metricspb.NumberDataPoint
	counter, delta := false, false
	switch d := m.Data.(type) {
	case *metricspb.Metric_Gauge:
		numbers = d.Gauge.GetDataPoints()
	case *metricspb.Metric_Sum:
		numbers = d.Sum.GetDataPoints()
		counter = d.Sum.GetIsMonotonic()
		delta = d.Sum.GetAggregationTemporality() == metricspb.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA
	default:
		return nil, 1
	}
	name := exportedName(m.Name, counter)
	for _, n := range numbers {
		p := &point{name: name, labels: appendLabels(slices.Clip(shared), n.Attributes), delta: delta}
		switch v := n.Value.(type) {
		case *metricspb.NumberDataPoint_AsDouble:
			p.value = v.AsDouble
		case *metricspb.NumberDataPoint_AsInt:
			p.value = float64(v.AsInt)
		default:
			continue // no recorded value
		}
		points = append(points, p)
	}
	return points, len(numbers)
}

// namePrefix keeps what clients name apart from what the node does.
const namePrefix = "kafka_client_"

// exportedName is a name as Prometheus takes it: kafka_client_producer_record_send_total for
// org.apache.kafka.producer.record.send.total.
func exportedName(name string, counter bool) string {
	name = namePrefix + plain(strings.TrimPrefix(name, "org.apache.kafka."), maxNameBytes)
	if counter && !strings.HasSuffix(name, counterSuffix) {
		name += counterSuffix
	}
	return name
}

const counterSuffix = "_total"

// plain is text with nothing in it but letters, digits and "_".
func plain(text string, maxBytes int) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, text[:min(len(text), maxBytes)])
}

// appendLabels adds attributes as labels, sorted, each name once, the first of a name.
func appendLabels(to []label, attributes []*commonpb.KeyValue) []label {
	for _, a := range attributes {
		name := strings.TrimLeft(plain(a.GetKey(), maxNameBytes), "_0123456789")
		taken := name == "" || slices.Contains(clientLabels(), name) || slices.ContainsFunc(to, func(l label) bool { return l.name == name })
		if taken || len(to) == maxLabels {
			continue
		}
		to = append(to, label{name, labelValue(text(a.GetValue()))})
	}
	slices.SortFunc(to, func(a, b label) int { return strings.Compare(a.name, b.name) })
	return to
}

// labelValue is text as Prometheus takes it, and not more of it than is bounded.
func labelValue(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), maxValueBytes)], "?")
}

func text(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_DoubleValue:
		return strconv.FormatFloat(v.DoubleValue, 'g', -1, 64)
	}
	return ""
}
