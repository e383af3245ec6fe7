package node

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/internal/vfs"
)

// set changes settings of a resource; an empty value takes one back. It returns the error of the answer.
func set(t *testing.T, n *Node, kind kmsg.ConfigResourceType, name string, pairs ...string) (code int16, text string) {
	t.Helper()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kind, name
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = key, &value
		if value == "" {
			c.Op, c.Value = kmsg.IncrementalAlterConfigOpDelete, nil
		}
		resource.Configs = append(resource.Configs, c)
	}
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	req.Resources = append(req.Resources, resource)
	answer := ask[*kmsg.IncrementalAlterConfigsResponse](t, n, "PLAINTEXT", req).Resources[0]
	if answer.ErrorMessage != nil {
		text = *answer.ErrorMessage
	}
	return answer.ErrorCode, text
}

// described returns a setting of this broker as "value source".
func described(t *testing.T, n *Node, key string) string {
	t.Helper()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = kmsg.ConfigResourceTypeBroker, "1", []string{key}
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	req.Resources = append(req.Resources, resource)
	c := ask[*kmsg.DescribeConfigsResponse](t, n, "PLAINTEXT", req).Resources[0].Configs[0]
	return *c.Value + " " + c.Source.String()
}

type lockedLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedLog) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// TestDynamicSettings: those of one broker count more than those of all, these more than the file; they count at once, after
// a restart too, and the file's count again when they are taken back.
func TestDynamicSettings(t *testing.T) {
	disk := vfs.NewMem()
	o := options(t, base+"message.max.bytes=1000\nlog.retention.hours=1\n", disk)
	var log lockedLog
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	n := start(t, o)
	inForce := func(want string, maxMessageBytes int32, retentionMs int64) {
		t.Helper()
		topic := n.topicConfig("orders", nil)
		if got := described(t, n, "message.max.bytes"); got != want || topic.MaxMessageBytes != maxMessageBytes || topic.RetentionMs != retentionMs {
			t.Errorf("message.max.bytes is %s, and topics take %d and keep records for %d ms; want %s, %d and %d",
				got, topic.MaxMessageBytes, topic.RetentionMs, want, maxMessageBytes, retentionMs)
		}
	}
	inForce("1000 STATIC_BROKER_CONFIG", 1000, 3_600_000)
	for name, pairs := range map[string][]string{
		"":  {"message.max.bytes=2000", "log.retention.ms=5000", "log.cleaner.threads=3", "num.io.threads=16"},
		"1": {"message.max.bytes=3000"},
	} {
		if code, text := set(t, n, kmsg.ConfigResourceTypeBroker, name, pairs...); code != 0 {
			t.Fatalf("set %v of broker %q: %d %s", pairs, name, code, text)
		}
	}
	inForce("3000 DYNAMIC_BROKER_CONFIG", 3000, 5000)
	if c := n.settings.now.Load().Node().Cleaner.Threads; c != 3 {
		t.Errorf("%d threads clean", c)
	}
	if log.count("num.io.threads has no effect") != 1 {
		t.Error("it was not said once that num.io.threads has no effect")
	}
	stop(t, n)

	n = start(t, o)
	defer func() { stop(t, n) }()
	inForce("3000 DYNAMIC_BROKER_CONFIG", 3000, 5000)
	set(t, n, kmsg.ConfigResourceTypeBroker, "1", "message.max.bytes=")
	inForce("2000 DYNAMIC_DEFAULT_BROKER_CONFIG", 2000, 5000)
	set(t, n, kmsg.ConfigResourceTypeBroker, "", "message.max.bytes=", "log.retention.ms=")
	inForce("1000 STATIC_BROKER_CONFIG", 1000, 3_600_000)
}

// TestRefusedSettings: what may not be set is told, and nothing of the request counts.
func TestRefusedSettings(t *testing.T) {
	n := start(t, options(t, base, vfs.NewMem()))
	defer stop(t, n)
	createTopic(t, n, "orders")
	for _, c := range []struct {
		kind kmsg.ConfigResourceType
		name string
		pair []string
		code int16
		text string
	}{
		{kmsg.ConfigResourceTypeBroker, "", []string{"log.retention.hours=5"}, 42, "Cannot update these configs dynamically: [log.retention.hours]"},
		{kmsg.ConfigResourceTypeBroker, "1", []string{"message.max.bytes=5", "log.segment.bytes=5"}, 42, "log.segment.bytes=5: want a whole number up to 2147483647, at least 1048576"},
		{kmsg.ConfigResourceTypeBroker, "1", []string{"listeners=PLAINTEXT://:1"}, 42, "none of them is in listeners"},
		{kmsg.ConfigResourceTypeBroker, "", []string{"listeners=PLAINTEXT://:1"}, 42, "broker id must be specified: [listeners]"},
		{kmsg.ConfigResourceTypeTopic, "orders", []string{"min.compaction.lag.ms=5", "max.compaction.lag.ms=4"}, 40, "min.compaction.lag.ms is 5"},
		{kmsg.ConfigResourceTypeGroupConfig, "g", []string{"consumer.heartbeat.interval.ms=1"}, 40, "want from 5000 to 15000"},
		{kmsg.ConfigResourceTypeClientMetrics, "m", []string{"interval.ms=1"}, 42, "from 100 to 3600000"},
		{kmsg.ConfigResourceTypeClientMetrics, "m", []string{"interval.ms=soon"}, 40, "want a whole number"},
		{kmsg.ConfigResourceTypeClientMetrics, "m", []string{"interval.ms=soon", "colour=red"}, 42, "colour is not a setting"},
	} {
		if code, text := set(t, n, c.kind, c.name, c.pair...); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%v of %q: %d %q, want %d %q", c.pair, c.name, code, text, c.code, c.text)
		}
	}
	if got := described(t, n, "message.max.bytes"); got != "1048588 DEFAULT_CONFIG" {
		t.Errorf("message.max.bytes is %s", got)
	}
}
