package oracle

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

// release is one of Apache Kafka. It is asked for the versions that no newer one serves.
type release struct {
	version string
	first   map[string]int16 // by API: the first version that it serves, where it tells of earlier ones
	start   func(t *testing.T, k *harness.Kafka) *harness.Broker
}

// releases are those that are asked, newest first.
func releases() []release {
	return []release{
		{harness.KafkaVersion, map[string]int16{"Produce": 3}, startWithMetricsTaker}, // tells 0 to 2 for librdkafka's sake, and closes the connection on them
		{"3.9.2", map[string]int16{"OffsetCommit": 1, "OffsetFetch": 1}, startAlone},  // refuses 0 for want of a ZooKeeper
		{"1.1.1", nil, startWithZooKeeper},
	}
}

// settings are those of all brokers here, ours and Apache Kafka's.
func settings() []string {
	return []string{"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1", "offsets.topic.replication.factor=1", "auto.create.topics.enable=false"}
}

func startAlone(t *testing.T, k *harness.Kafka) *harness.Broker {
	return k.PrepareBroker(t, settings()...)
}

// startWithMetricsTaker is startAlone with a class that takes the metrics of clients.
func startWithMetricsTaker(t *testing.T, k *harness.Kafka) *harness.Broker {
	classes := t.TempDir()
	javac := exec.Command(harness.Tool(t, "javac", "install a JDK of Java 17 or newer"), "-Xlint:all,-path,-classfile", "-d", classes, "-cp", k.ClassPath(), "java/MetricsTaker.java")
	if out, err := harness.Output(javac, ""); err != nil {
		t.Fatalf("javac: %v\n%s", err, out)
	}
	return k.Behind(classes).PrepareBroker(t, append(settings(), "metric.reporters=MetricsTaker")...)
}

func startWithZooKeeper(t *testing.T, k *harness.Kafka) *harness.Broker {
	return k.PrepareOldBroker(t, k.ZooKeeper(t), 1, settings()...)
}

// run starts the release and waits until it listens.
func (r release) run(t *testing.T) cluster {
	t.Helper()
	b := r.start(t, harness.ApacheKafka(t, r.version))
	b.Spawn(t)
	for _, address := range []string{b.Addr, b.Controller} {
		for deadline := time.Now().Add(2 * time.Minute); address != "" && !listens(address); time.Sleep(100 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("Apache Kafka does not start:\n%s", b.Log())
			}
		}
	}
	return cluster{b.Addr, b.Controller}
}

func listens(address string) bool {
	c := &conn{address: address}
	defer c.close()
	_, err := c.exchange([]byte{}) // closes at once, if anybody listens
	return err == errClosed
}

// moldau starts a node.
func moldau(t *testing.T) cluster {
	t.Helper()
	n := harness.Start(t, settings()...)
	return cluster{n.Addr, n.Controller}
}

// cluster is where one node listens.
type cluster struct {
	broker     string
	controller string // "" if there is none
}

// served is what a node serves on its two listeners.
type served struct {
	broker, controller ranges
}

func (s served) both(o served) served {
	return served{s.broker.both(o.broker), s.controller.both(o.controller)}
}

func (s served) without(o served) served {
	return served{s.broker.without(o.broker), s.controller.without(o.controller)}
}

// ask asks what is served.
func (c cluster) ask(t *testing.T) served {
	t.Helper()
	s := served{broker: askRanges(t, c.broker), controller: ranges{}}
	if c.controller != "" {
		s.controller = askRanges(t, c.controller)
	}
	return s
}

func (r release) path() string { return "testdata/versions/" + r.version + ".txt" }

// serves is what the release serves, as kept.
func (r release) serves(t *testing.T) served {
	t.Helper()
	text, err := os.ReadFile(r.path())
	if err != nil {
		t.Fatal(err)
	}
	broker, controller, _ := strings.Cut(string(text), controllerHeading)
	return served{readRanges(t, broker), readRanges(t, controller)}
}

const controllerHeading = "on the controller's listener:\n"

// renew asks a running release what it serves and keeps it.
func (r release) renew(t *testing.T, c cluster) {
	t.Helper()
	s := c.ask(t)
	for name, first := range r.first {
		v := s.broker[name]
		s.broker[name] = versions{max(v.from, first), v.to}
	}
	if err := os.WriteFile(r.path(), []byte(s.broker.write()+controllerHeading+s.controller.write()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// answersFor is what the release is asked for: what it serves and no newer one does.
func (r release) answersFor(t *testing.T) served {
	t.Helper()
	mine := r.serves(t)
	for _, newer := range releases() {
		if newer.version == r.version {
			break
		}
		mine = mine.without(newer.serves(t))
	}
	return mine
}

// versions is a range, both inclusive; empty if to is less than from.
type versions struct{ from, to int16 }

func (v versions) both(o versions) versions { return versions{max(v.from, o.from), min(v.to, o.to)} }

// ranges are the versions of APIs, by name.
type ranges map[string]versions

// askRanges asks a listener what it serves.
func askRanges(t *testing.T, address string) ranges {
	t.Helper()
	c := &conn{address: address}
	defer c.close()
	r := ranges{}
	for _, k := range c.must(t, kmsg.NewPtrApiVersionsRequest(), 0).(*kmsg.ApiVersionsResponse).ApiKeys {
		if req := kmsg.RequestForKey(k.ApiKey); req != nil {
			r[kmsg.NameForKey(k.ApiKey)] = versions{k.MinVersion, min(k.MaxVersion, req.MaxVersion())}
		}
	}
	return r
}

// both are the versions that are in two ranges.
func (r ranges) both(o ranges) ranges {
	common := ranges{}
	for name, v := range r {
		if other, ok := o[name]; ok {
			if both := v.both(other); both.from <= both.to {
				common[name] = both
			}
		}
	}
	return common
}

// without are the versions older than those of o: releases give up the oldest ones.
func (r ranges) without(o ranges) ranges {
	rest := ranges{}
	for name, v := range r {
		if newer, ok := o[name]; ok {
			v.to = min(v.to, newer.from-1)
		}
		if v.from <= v.to {
			rest[name] = v
		}
	}
	return rest
}

// write is the ranges as a file has them.
func (r ranges) write() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r)) {
		fmt.Fprintf(&b, "%s %d-%d\n", name, r[name].from, r[name].to)
	}
	return b.String()
}

func readRanges(t *testing.T, text string) ranges {
	t.Helper()
	r := ranges{}
	for line := range strings.Lines(text) {
		name, versionsText, _ := strings.Cut(strings.TrimSpace(line), " ")
		from, to, err := parseRange(versionsText)
		if err != nil {
			t.Fatal(err)
		}
		r[name] = versions{from, to}
	}
	return r
}
