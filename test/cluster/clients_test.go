package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// background runs a command whose standard output goes to a file, until stop asks it to end.
type background struct {
	cmd  *exec.Cmd
	path string
	done chan error
}

func launch(t *testing.T, cmd *exec.Cmd) *background {
	t.Helper()
	b := &background{cmd: cmd, path: filepath.Join(t.TempDir(), "output"), done: make(chan error, 1)}
	out, err := os.Create(b.path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	errs, err := os.Create(b.path + ".errors")
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	cmd.Stdout, cmd.Stderr = out, errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { b.done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		if t.Failed() {
			text, _ := os.ReadFile(b.path + ".errors")
			t.Logf("%s says:\n%s", filepath.Base(cmd.Path), last(string(text), 3000))
		}
	})
	return b
}

// stop asks the program to end and waits until it has.
func (b *background) stop(t *testing.T) {
	t.Helper()
	_ = b.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-b.done:
	case <-time.After(time.Minute):
		t.Fatalf("%s does not end", b.cmd)
	}
}

// event is what Kafka's verifiable clients, ours and the program below print, one a line.
type event struct {
	Name       string `json:"name"`
	Partition  int32
	Offset     int64
	Value      string
	Partitions []struct {
		Topic                string
		Partition            int32
		MinOffset, MaxOffset int64
	}
	Offsets []struct {
		Topic     string
		Partition int32
		Offset    int64
	}
}

// events returns what has been printed so far.
func (b *background) events(t *testing.T) []event {
	t.Helper()
	text, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	var all []event
	for line := range strings.Lines(string(text)) {
		var e event
		if strings.HasPrefix(line, "{") && strings.HasSuffix(line, "\n") {
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, e)
		}
	}
	return all
}

// count counts events of a name.
func (b *background) count(t *testing.T, name string) (n int) {
	t.Helper()
	for _, e := range b.events(t) {
		if e.Name == name {
			n++
		}
	}
	return n
}

// more waits for so many more events of a name.
func (b *background) more(t *testing.T, name string, n int) {
	t.Helper()
	want := b.count(t, name) + n
	harness.Eventually(t, 90*time.Second, fmt.Sprintf("%d more times %s", n, name), func() error {
		select {
		case err := <-b.done:
			t.Fatalf("%s has ended: %v", b.cmd, err)
		default:
		}
		if now := b.count(t, name); now < want {
			return fmt.Errorf("%d of %d", now, want)
		}
		return nil
	})
}

// acknowledged turns a producer's events into a load that can be checked.
func (b *background) acknowledged(t *testing.T, topic string) *load {
	t.Helper()
	l := told(topic)
	for _, e := range b.events(t) {
		switch e.Name {
		case "producer_send_success":
			l.note(&kgo.Record{Partition: e.Partition, Offset: e.Offset, Value: []byte(e.Value)}, nil)
		case "producer_send_error":
			l.failed++
		}
	}
	return l
}

// TestJavaClients: Apache Kafka's verifiable clients, an idempotent producer and a group of two, while each node is killed in turn.
func TestJavaClients(t *testing.T) {
	thorough(t)
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	config := filepath.Join(t.TempDir(), "producer.properties")
	text := "enable.idempotence=true\nretries=2147483647\nretry.backoff.ms=50\nreconnect.backoff.max.ms=200\ndelivery.timeout.ms=120000\nlinger.ms=0\n"
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	servers := strings.Join(c.seeds(), ",")
	producer := launch(t, kafka.Command(ctx, "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", servers, "--topic", "orders",
		"--throughput", "300", "--acks", "-1", "--producer.config", config))
	var consumers []*background
	for range 2 {
		consumers = append(consumers, launch(t, kafka.Command(ctx, "org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", servers,
			"--topic", "orders", "--group-id", "audit", "--reset-policy", "earliest", "--session-timeout", "6000",
			"--assignment-strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor")))
	}
	for _, id := range c.ids() {
		producer.more(t, "producer_send_success", 300)
		c.nodes[id].kill()
		producer.more(t, "producer_send_success", 300)
		c.nodes[id].restart(t)
		c.inSync(t, "orders", 3)
	}
	producer.stop(t)
	l := producer.acknowledged(t, "orders")
	harness.Eventually(t, time.Minute, "every record is consumed", func() error {
		seen := map[int32]map[int64]bool{}
		for _, consumer := range consumers {
			for _, e := range consumer.events(t) {
				if e.Name != "records_consumed" {
					continue
				}
				for _, p := range e.Partitions {
					if seen[p.Partition] == nil {
						seen[p.Partition] = map[int64]bool{}
					}
					for o := p.MinOffset; o <= p.MaxOffset; o++ {
						seen[p.Partition][o] = true
					}
				}
			}
		}
		for p, records := range l.acked {
			for offset := range records {
				if !seen[p][offset] {
					return fmt.Errorf("record %d of partition %d is not", offset, p)
				}
			}
		}
		return nil
	})
	for _, consumer := range consumers {
		consumer.stop(t)
	}
	l.check(t, c)
}

// librdkafka is the Python package that brings it.
const librdkafka = "confluent-kafka==2.16.1"

// librdkafkaProducer produces numbers until SIGTERM, and prints what was acknowledged as Kafka's verifiable producer does.
const librdkafkaProducer = `
import json, signal, sys, time
from confluent_kafka import Producer

going = True
def end(*_):
    global going
    going = False
signal.signal(signal.SIGTERM, end)

def told(err, m):
    if err:
        print(json.dumps({"name": "producer_send_error", "value": str(err)}), flush=True)
    else:
        print(json.dumps({"name": "producer_send_success", "partition": m.partition(), "offset": m.offset(), "value": m.value().decode()}), flush=True)

p = Producer({"bootstrap.servers": sys.argv[1], "enable.idempotence": True, "linger.ms": 0, "retry.backoff.ms": 50,
              "reconnect.backoff.max.ms": 200, "topic.metadata.refresh.interval.ms": 2000})
i = 0
while going:
    p.produce(sys.argv[2], str(i).encode(), partition=i % 3, on_delivery=told)
    i += 1
    p.poll(0.003)
p.flush(60)
`

// TestLibrdkafka: an idempotent producer of librdkafka over rolling restarts and kills: nodes that come back too early with
// what they know would have it start its sequence numbers over (row 21).
func TestLibrdkafka(t *testing.T) {
	thorough(t)
	python := harness.Python(t, librdkafka)
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	producer := launch(t, exec.CommandContext(ctx, python, "-c", librdkafkaProducer, strings.Join(c.seeds(), ","), "orders"))
	for round := range 2 {
		for _, id := range c.ids() {
			producer.more(t, "producer_send_success", 200)
			if round == 0 {
				c.nodes[id].stop(t)
			} else {
				c.nodes[id].kill()
			}
			c.nodes[id].restart(t)
			c.inSync(t, "orders", 3)
		}
	}
	producer.more(t, "producer_send_success", 200)
	producer.stop(t)
	producer.acknowledged(t, "orders").check(t, c)
}
