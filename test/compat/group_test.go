package compat

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

const (
	verifiableConsumer   = "org.apache.kafka.tools.VerifiableConsumer"
	consumerGroupCommand = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"

	// quickGroups lets a group begin without waiting for members that a test does not have.
	quickGroups = "group.initial.rebalance.delay.ms=100"
)

// TestKcatGroup: a group of kcat reads everything once, and the next run goes on where the last has stopped, over a kill
// of the node too.
func TestKcatGroup(t *testing.T) {
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	n := harness.Start(t, quickGroups, "num.partitions=3")
	produce := func(from, to int) string {
		var lines strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&lines, "value-%03d\n", i)
		}
		runKcat(t, kcat, lines.String(), "-P", "-b", n.Addr, "-t", "grouped")
		return lines.String()
	}
	// With -c kcat commits what it has read as it leaves.
	consume := func(count int) string {
		out := runKcat(t, kcat, "", "-b", n.Addr, "-q", "-c", fmt.Sprint(count), "-X", "auto.offset.reset=earliest", "-G", "readers", "grouped")
		lines := strings.SplitAfter(out, "\n")
		slices.Sort(lines)
		return strings.Join(lines, "")
	}
	if want, got := produce(0, 100), consume(100); got != want {
		t.Errorf("first run: got %d bytes, want %d", len(got), len(want))
	}
	n.Kill(t)
	n.Run(t)
	if want, got := produce(100, 200), consume(100); got != want {
		t.Errorf("second run: got %q", got)
	}
}

// TestJavaGroup: the console consumer in a group, and what Kafka's own group tool says, sets back and deletes.
func TestJavaGroup(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, quickGroups, "num.partitions=1")
	kafka.Run(t, "one\ntwo\nthree\n", consoleProducer, "--bootstrap-server", n.Addr, "--topic", "words")
	consume := func(count string, more ...string) string {
		return kafka.Run(t, "", consoleConsumer, append([]string{"--bootstrap-server", n.Addr, "--topic", "words", "--group", "readers",
			"--from-beginning", "--max-messages", count, "--timeout-ms", "30000"}, more...)...)
	}
	if out := consume("2"); out != "one\ntwo\n" {
		t.Errorf("first run: %q", out)
	}
	if out := consume("1"); out != "three\n" {
		t.Errorf("second run goes on: %q", out)
	}
	tool := func(args ...string) string {
		return kafka.Run(t, "", consumerGroupCommand, append([]string{"--bootstrap-server", n.Addr}, args...)...)
	}
	if out := tool("--list"); strings.TrimSpace(out) != "readers" {
		t.Errorf("list: %q", out)
	}
	if out := strings.Join(strings.Fields(tool("--describe", "--group", "readers")), " "); !strings.Contains(out, "readers words 0 3 3 0 - - -") {
		t.Errorf("describe: %q", out)
	}
	if out := strings.Join(strings.Fields(tool("--describe", "--group", "readers", "--state")), " "); !strings.Contains(out, "Empty 0") {
		t.Errorf("state: %q", out)
	}
	tool("--group", "readers", "--topic", "words", "--reset-offsets", "--to-offset", "1", "--execute")
	if out := consume("2"); out != "two\nthree\n" {
		t.Errorf("after the reset: %q", out)
	}
	tool("--delete-offsets", "--group", "readers", "--topic", "words")
	if out := consume("1"); out != "one\n" {
		t.Errorf("after its offsets were deleted: %q", out)
	}
	tool("--delete", "--group", "readers")
	if out := tool("--list"); strings.TrimSpace(out) != "" {
		t.Errorf("list after delete: %q", out)
	}
	n.Stop(t)
	// Kafka reads the records of its own format.
	dump := kafka.Run(t, "", dumpLogSegments, "--offsets-decoder", "--files", n.Dir+"/"+segmentOfGroup("readers"))
	for _, want := range []string{`"group":"readers"`, `"topic":"words"`, `"protocolType":"consumer"`, `"assignment"`, `payload: <DELETE>`} {
		if !strings.Contains(dump, want) {
			t.Errorf("no %s in\n%s", want, dump)
		}
	}
}

// segmentOfGroup is the file that a young group's records are in.
func segmentOfGroup(group string) string {
	h := int32(0) // java.lang.String.hashCode
	for _, c := range []byte(group) {
		h = 31*h + int32(c)
	}
	if h < 0 {
		h = -h
	}
	return fmt.Sprintf("__consumer_offsets-%d/00000000000000000000.log", h%50)
}

// event is a line that VerifiableConsumer prints.
type event struct {
	Name       string
	Partitions json.RawMessage
	Count      int
}

// verifiable runs a VerifiableConsumer and sends its events.
func verifiable(t *testing.T, kafka *harness.Kafka, addr string, args ...string) (*exec.Cmd, <-chan event) {
	cmd := kafka.Command(t.Context(), verifiableConsumer, append([]string{"--bootstrap-server", addr, "--topic", "verified", "--group-id", "g",
		"--reset-policy", "earliest"}, args...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	events := make(chan event, 1000)
	go func() {
		defer close(events)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var e event
			if json.Unmarshal(lines.Bytes(), &e) == nil {
				events <- e
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("VerifiableConsumer: %s", &errs)
		}
	})
	return cmd, events
}

// awaitEvent waits for an event that suits.
func awaitEvent(t *testing.T, events <-chan event, what string, suits func(event) bool) {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatalf("the consumer ended; want %s", what)
			}
			if suits(e) {
				return
			}
		case <-timeout:
			t.Fatalf("no %s in a minute", what)
		}
	}
}

// TestJavaVerifiableConsumers: two consumers share six partitions; one is killed, and the other has all of them after its
// session.
func TestJavaVerifiableConsumers(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, quickGroups)
	kafka.Run(t, "", topicCommand, "--bootstrap-server", n.Addr, "--create", "--topic", "verified", "--partitions", "6")
	kafka.Run(t, "", verifiableProducer, "--bootstrap-server", n.Addr, "--topic", "verified", "--max-messages", "600", "--acks", "-1")
	for _, assignor := range []string{"RangeAssignor", "RoundRobinAssignor", "CooperativeStickyAssignor"} {
		t.Run(assignor, func(t *testing.T) {
			args := []string{"--session-timeout", "6000", "--assignment-strategy", "org.apache.kafka.clients.consumer." + assignor, "--group-id", assignor}
			partitions := func(want int) func(event) bool {
				return func(e event) bool {
					var list []json.RawMessage
					return e.Name == "partitions_assigned" && json.Unmarshal(e.Partitions, &list) == nil && len(list) == want
				}
			}
			_, first := verifiable(t, kafka, n.Addr, args...)
			awaitEvent(t, first, "all six partitions", partitions(6))
			read := 0
			awaitEvent(t, first, "600 records", func(e event) bool {
				if e.Name == "records_consumed" {
					read += e.Count
				}
				return read == 600
			})
			second, shared := verifiable(t, kafka, n.Addr, args...)
			awaitEvent(t, shared, "half of the partitions", partitions(3))
			killed := time.Now()
			if err := second.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			// A cooperative consumer is given what it lacks, an eager one everything anew.
			again := 6
			if assignor == "CooperativeStickyAssignor" {
				again = 3
			}
			awaitEvent(t, first, "the partitions of the one that was killed", partitions(again))
			if took := time.Since(killed); took < 2*time.Second || took > 30*time.Second {
				t.Errorf("the partitions of a dead member with a session of 6 s came after %v", took)
			}
			third, shared := verifiable(t, kafka, n.Addr, args...)
			awaitEvent(t, shared, "half of the partitions", partitions(3))
			if err := third.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			awaitEvent(t, shared, "the end of the one that leaves", func(e event) bool { return e.Name == "shutdown_complete" })
			left := time.Now()
			awaitEvent(t, first, "the partitions of the one that left", partitions(again))
			if took := time.Since(left); took > 5*time.Second {
				t.Errorf("the partitions of a member that left came after %v", took)
			}
		})
	}
	t.Run("static", func(t *testing.T) {
		start := func(instance string) (*exec.Cmd, <-chan event) {
			return verifiable(t, kafka, n.Addr, "--group-id", "static", "--group-instance-id", instance, "--session-timeout", "30000")
		}
		part := func(events <-chan event) (list string) {
			awaitEvent(t, events, "half of the partitions", func(e event) bool {
				var all []json.RawMessage
				list = string(e.Partitions)
				return e.Name == "partitions_assigned" && json.Unmarshal(e.Partitions, &all) == nil && len(all) == 3
			})
			return list
		}
		_, one := start("one")
		process, two := start("two")
		before := part(two)
		part(one)
		if err := process.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_, two = start("two")
		if again := part(two); again != before {
			t.Errorf("the static member had %s and comes back to %s", before, again)
		}
		for {
			select {
			case e := <-one:
				if strings.HasPrefix(e.Name, "partitions_") {
					t.Errorf("the other member is told of %s %s", e.Name, e.Partitions)
				}
				continue
			default:
			}
			break
		}
	})
}

// franzMember is a consumer of franz-go that remembers what it owns.
type franzMember struct {
	client *kgo.Client
	mu     sync.Mutex
	owned  map[int32]bool
	read   map[string]bool
	run    sync.WaitGroup
}

func startFranz(t *testing.T, addr, group string, opts ...kgo.Opt) *franzMember {
	m := &franzMember{owned: map[int32]bool{}, read: map[string]bool{}}
	note := func(owns bool) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
			m.mu.Lock()
			defer m.mu.Unlock()
			for _, p := range topics["franz"] {
				if owns {
					m.owned[p] = true
				} else {
					delete(m.owned, p)
				}
			}
		}
	}
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics("franz"), kgo.SessionTimeout(30 * time.Second),
		kgo.HeartbeatInterval(200 * time.Millisecond), kgo.OnPartitionsAssigned(note(true)), kgo.OnPartitionsRevoked(note(false)),
		kgo.OnPartitionsLost(note(false)), kgo.AutoCommitInterval(200 * time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	m.client = client
	m.run.Go(func() {
		for {
			fetches := client.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			fetches.EachError(func(topic string, p int32, err error) {
				if !errors.Is(err, context.Canceled) && !errors.Is(err, net.ErrClosed) { // as a cutDialer's connections say
					t.Errorf("fetch %s-%d: %v", topic, p, err)
				}
			})
			m.mu.Lock()
			fetches.EachRecord(func(r *kgo.Record) { m.read[string(r.Value)] = true })
			m.mu.Unlock()
		}
	})
	return m
}

func (m *franzMember) close() {
	m.client.CloseAllowingRebalance()
	m.run.Wait()
}

func (m *franzMember) owns() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owned)
}

// cutDialer dials until all that it has dialed is cut.
type cutDialer struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (d *cutDialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err != nil:
		return nil, err
	case d.dead:
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	d.conns = append(d.conns, conn)
	return conn, nil
}

func (d *cutDialer) all() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = true
	for _, conn := range d.conns {
		_ = conn.Close()
	}
}

func eventually(t *testing.T, what string, good func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !good(); {
		if time.Now().After(deadline) {
			t.Fatalf("not in a minute: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestFranzGoGroup: members come, leave and come back, in each way of sharing partitions that franz-go has; static ones
// keep theirs over a restart, and the node may be killed meanwhile.
func TestFranzGoGroup(t *testing.T) {
	n := harness.Start(t, quickGroups)
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.DefaultProduceTopic("franz"))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 6, 1, nil, "franz"); err != nil {
		t.Fatal(err)
	}
	produce := func(prefix string) {
		var records []*kgo.Record
		for i := range 300 {
			records = append(records, kgo.StringRecord(fmt.Sprintf("%s-%d", prefix, i)))
		}
		if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce("before")
	for name, balancer := range map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			a := startFranz(t, n.Addr, name, kgo.Balancers(balancer))
			defer a.close()
			eventually(t, "one member owns all", func() bool { return a.owns() == 6 })
			b := startFranz(t, n.Addr, name, kgo.Balancers(balancer))
			eventually(t, "two members share", func() bool { return a.owns() == 3 && b.owns() == 3 })
			left := time.Now()
			b.close()
			eventually(t, "the one that stays owns all", func() bool { return a.owns() == 6 })
			if took := time.Since(left); took > 20*time.Second { // less than the session, on a busy machine too
				t.Errorf("the partitions of a member that left came after %v", took)
			}
			// A process that is killed: all of its connections end, and it says nothing.
			cut := &cutDialer{}
			c := startFranz(t, n.Addr, name, kgo.Balancers(balancer), kgo.SessionTimeout(6*time.Second), kgo.Dialer(cut.dial))
			defer c.close()
			eventually(t, "two members share", func() bool { return a.owns() == 3 && c.owns() == 3 })
			cut.all()
			killed := time.Now()
			eventually(t, "the one that lives owns all", func() bool { return a.owns() == 6 })
			if took := time.Since(killed); took < 2*time.Second {
				t.Errorf("the partitions of a dead member with a session of 6 s came after %v", took)
			}
		})
	}
	whole := t
	t.Run("static", func(t *testing.T) {
		a := startFranz(t, n.Addr, "static", kgo.InstanceID("one"))
		defer a.close()
		b := startFranz(t, n.Addr, "static", kgo.InstanceID("two"))
		eventually(t, "two members share", func() bool { return a.owns() == 3 && b.owns() == 3 })
		_, before := b.client.GroupMetadata()
		b.close() // a static member does not leave
		again := startFranz(t, n.Addr, "static", kgo.InstanceID("two"))
		defer again.close()
		eventually(t, "the restarted member has its part again", func() bool { return again.owns() == 3 })
		if _, after := again.client.GroupMetadata(); after != before || a.owns() != 3 {
			t.Errorf("generation %d became %d, and the other owns %d", before, after, a.owns())
		}
		n.Kill(whole)
		n.Run(whole) // not to end with this part of the test
		produce("after")
		eventually(t, "both read on after the node was killed", func() bool {
			read := 0
			for _, m := range []*franzMember{a, again} {
				m.mu.Lock()
				for value := range m.read {
					if strings.HasPrefix(value, "after") {
						read++
					}
				}
				m.mu.Unlock()
			}
			return read == 300
		})
	})
	groups, err := admin.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := groups.Groups(), []string{"cooperative-sticky", "range", "roundrobin", "static", "sticky"}; !slices.Equal(got, want) {
		t.Errorf("groups %v, want %v", got, want)
	}
}

const confluentGroupProgram = `
import sys, time, subprocess
from confluent_kafka import Producer, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
address, strategy = sys.argv[1], sys.argv[2]
group = "py-" + strategy
topic = "py-" + strategy
admin = AdminClient({"bootstrap.servers": address})
for name, future in admin.create_topics([NewTopic(topic, num_partitions=4, replication_factor=1)]).items():
    future.result(10)
producer = Producer({"bootstrap.servers": address})
def produce(first, last):
    for i in range(first, last):
        producer.produce(topic, value=b"%d" % i, partition=i % 4)
    assert producer.flush(30) == 0
def member():
    c = Consumer({"bootstrap.servers": address, "group.id": group, "session.timeout.ms": 10000, "heartbeat.interval.ms": 300,
        "auto.offset.reset": "earliest", "enable.auto.commit": False, "partition.assignment.strategy": strategy})
    c.subscribe([topic])
    return c
def until(what, good, *members):
    end = time.time() + 60
    while not good():
        assert time.time() < end, "not in a minute: " + what
        for m in members:
            message = m.poll(0.05)
            if message is not None:
                assert message.error() is None, message.error()
                got.add(int(message.value()))
got = set()
produce(0, 400)
a = member()
until("a reads all", lambda: got == set(range(400)), a)
a.commit(asynchronous=False)
b = member()
until("two share", lambda: len(a.assignment()) == 2 and len(b.assignment()) == 2, a, b)
left = time.time()
b.close()
until("a has all again", lambda: len(a.assignment()) == 4, a)
assert time.time() - left < 9, "a member that left was missed after %.1f s" % (time.time() - left)
# A member that is killed is missed after its session.
child = subprocess.Popen([sys.executable, "-c", """
import sys
from confluent_kafka import Consumer
c = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "session.timeout.ms": 10000, "heartbeat.interval.ms": 300, "partition.assignment.strategy": sys.argv[4]})
c.subscribe([sys.argv[3]])
while True:
    c.poll(0.1)
""", address, group, topic, strategy])
try:
    until("the child has its share", lambda: len(a.assignment()) == 2, a)
finally:
    child.kill()
    child.wait()
killed = time.time()
until("a has the child's share", lambda: len(a.assignment()) == 4, a)
assert time.time() - killed < 40, "a member that was killed was missed after %.1f s" % (time.time() - killed)
produce(400, 500)
until("a reads on", lambda: got == set(range(500)), a)
a.commit(asynchronous=False)
a.close()
# The next one goes on where the group has stopped.
got = set()
produce(500, 520)
c = member()
until("c reads what is new", lambda: got >= set(range(500, 520)), c)
assert got == set(range(500, 520)), sorted(got)[:10]
position = {p.partition: p.offset for p in c.committed([TopicPartition(topic, p) for p in range(4)], timeout=10)}
assert position == {0: 125, 1: 125, 2: 125, 3: 125}, position
c.close()
# A static member that comes back has its part again, and the others do not notice.
moves = []
def static(name):
    c = Consumer({"bootstrap.servers": address, "group.id": group + "-static", "group.instance.id": name, "session.timeout.ms": 30000,
        "heartbeat.interval.ms": 300, "auto.offset.reset": "latest", "partition.assignment.strategy": strategy})
    c.subscribe([topic], on_assign=lambda c, partitions: moves.append(name))
    return c
def part(c):
    return sorted(p.partition for p in c.assignment())
one, two = static("one"), static("two")
until("two share", lambda: len(part(one)) == 2 and len(part(two)) == 2, one, two)
settled = time.time() + 1
until("nothing moves any more", lambda: time.time() > settled, one, two)
before = part(two)
moves.clear()
two.close()
two = static("two")
until("the static member is back", lambda: len(part(two)) == 2, one, two)
assert part(two) == before and moves == ["two"], (part(two), before, moves)
one.close()
two.close()
print("good")
`

// TestConfluentKafkaGroup: members of librdkafka join, leave, are killed, commit and resume; static ones come back.
func TestConfluentKafkaGroup(t *testing.T) {
	python := harness.Python(t, "confluent-kafka==2.16.1")
	n := harness.Start(t, quickGroups)
	for _, strategy := range []string{"range", "roundrobin", "cooperative-sticky"} {
		t.Run(strategy, func(t *testing.T) {
			if got := harness.RunPython(t, python, confluentGroupProgram, n.Addr, strategy); strings.TrimSpace(got) != "good" {
				t.Errorf("got %q", got)
			}
		})
	}
}
