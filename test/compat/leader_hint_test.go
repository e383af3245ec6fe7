package compat

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"moldau/test/harness"
)

// backoff keeps a client from asking for metadata again soon after it has, so that without a hint it would stand still.
const backoff = "retry.backoff.ms=20000\nretry.backoff.max.ms=20000\n"

// TestJavaFollowsLeaderHints: when the leader moves, a Java producer and a Java consumer go where the answer of the old one
// points them (KIP-951), without asking for metadata.
func TestJavaFollowsLeaderHints(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	nodes := harness.PrepareNodes(t, 2)
	for _, n := range nodes {
		n.Spawn(t)
	}
	for _, n := range nodes {
		n.WaitReady(t, 30*time.Second)
	}
	old, next := nodes[0], nodes[1]
	admin := dialRaw(t, old.Addr) // asks for no metadata, which is counted
	defer admin.conn.Close()

	t.Run("consumer", func(t *testing.T) {
		createOn(t, admin, "read", 1, 2)
		untilLeads(t, old, "read")
		write(t, old, "read", "one")
		consumer := converse(t, kafka, consoleConsumer, backoff, "--bootstrap-server", old.Addr, "--topic", "read", "--partition", "0", "--offset", "earliest")
		consumer.hear(t, "one")
		before := requests(t, "Metadata", nodes...)
		move(t, admin, "read", 2, 1)
		untilLeads(t, next, "read")
		write(t, next, "read", "two")
		consumer.hear(t, "two")
		if n := requests(t, "Metadata", nodes...); n != before {
			t.Errorf("it asked for metadata %d times", n-before)
		}
	})
	t.Run("producer", func(t *testing.T) {
		createOn(t, admin, "written", 1, 2)
		untilLeads(t, old, "written")
		at, there := requests(t, "Produce", old), requests(t, "Produce", next)
		producer := converse(t, kafka, consoleProducer, backoff+"linger.ms=0\n", "--bootstrap-server", old.Addr, "--topic", "written")
		producer.say(t, "one")
		untilProduced(t, old, at+1)
		before := requests(t, "Metadata", nodes...)
		move(t, admin, "written", 2, 1)
		untilLeads(t, next, "written")
		producer.say(t, "two")
		untilProduced(t, next, there+1)
		if n := requests(t, "Metadata", nodes...); n != before {
			t.Errorf("it asked for metadata %d times", n-before)
		}
	})
}

func untilProduced(t *testing.T, n *harness.Node, want int) {
	t.Helper()
	harness.Eventually(t, 90*time.Second, "a request to Produce at "+n.Addr, func() error {
		if got := requests(t, "Produce", n); got != want {
			return fmt.Errorf("%d requests, want %d", got, want)
		}
		return nil
	})
}

// write appends a record without asking for metadata.
func write(t *testing.T, n *harness.Node, topic, value string) {
	t.Helper()
	c := dialRaw(t, n.Addr)
	defer c.conn.Close()
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = sealed(plainBatch(time.Now(), value))
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, -1, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{partition}}}
	if code := asked[*kmsg.ProduceResponse](t, c, req).Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("write to %s: error %d", topic, code)
	}
}

// createOn creates a topic of one partition on given nodes, of which the first leads.
func createOn(t *testing.T, admin *raw, topic string, replicas ...int32) {
	t.Helper()
	one := kmsg.NewCreateTopicsRequestTopic()
	one.Topic, one.NumPartitions, one.ReplicationFactor = topic, -1, -1
	one.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: replicas}}
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis, req.Topics = 5, 10_000, append(req.Topics, one)
	if code := asked[*kmsg.CreateTopicsResponse](t, admin, req).Topics[0].ErrorCode; code != 0 {
		t.Fatalf("create %s: error %d", topic, code)
	}
}

// move gives a partition's replicas another order, and the first of them the lead.
func move(t *testing.T, admin *raw, topic string, replicas ...int32) {
	t.Helper()
	order := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	order.TimeoutMillis = 10_000
	order.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: topic, Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: replicas}}}}
	if r := asked[*kmsg.AlterPartitionAssignmentsResponse](t, admin, order); r.ErrorCode != 0 || r.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("another order: %+v", r)
	}
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.TimeoutMillis = 10_000
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: topic, Partitions: []int32{0}}}
	if r := asked[*kmsg.ElectLeadersResponse](t, admin, elect); r.ErrorCode != 0 || r.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("election: %+v", r)
	}
}

func asked[R kmsg.Response](t *testing.T, c *raw, req kmsg.Request) R {
	t.Helper()
	resp, err := c.ask(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(R)
}

// untilLeads waits until a node leads the topic's partition.
func untilLeads(t *testing.T, n *harness.Node, topic string) {
	t.Helper()
	c := dialRaw(t, n.Addr)
	defer c.conn.Close()
	harness.Eventually(t, 20*time.Second, "the node at "+n.Addr+" leads "+topic, func() error {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Timestamp = -2
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version, req.ReplicaID = 5, -1
		req.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{partition}}}
		if code := asked[*kmsg.ListOffsetsResponse](t, c, req).Topics[0].Partitions[0].ErrorCode; code != 0 {
			return fmt.Errorf("error %d", code)
		}
		return nil
	})
}

// requests is how many of an API the nodes have answered.
func requests(t *testing.T, api string, nodes ...*harness.Node) (sum int) {
	t.Helper()
	count := regexp.MustCompile(`(?m)^moldau_requests_total\{api="` + api + `"\} (\S+)$`)
	for _, n := range nodes {
		_, page := n.Get(t, "/metrics")
		if found := count.FindStringSubmatch(page); found != nil {
			number, err := strconv.ParseFloat(found[1], 64)
			if err != nil {
				t.Fatal(err)
			}
			sum += int(number)
		}
	}
	return sum
}

// conversation is a Java tool that lives as long as the test.
type conversation struct {
	in    io.Writer
	lines <-chan string
}

// converse starts a tool with a file of client settings.
func converse(t *testing.T, kafka *harness.Kafka, class, settings string, args ...string) *conversation {
	t.Helper()
	file := filepath.Join(t.TempDir(), "client.properties")
	if err := os.WriteFile(file, []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	cmd := kafka.Command(ctx, class, append(args, "--command-config", file)...)
	in, out := pipes(t, cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 10)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- s.Text()
		}
	}()
	t.Cleanup(func() {
		stop()
		for range lines {
		}
		_ = cmd.Wait()
	})
	return &conversation{in, lines}
}

func pipes(t *testing.T, cmd *exec.Cmd) (io.Writer, io.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	return in, out
}

func (c *conversation) say(t *testing.T, line string) {
	t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

// hear waits for the next line.
func (c *conversation) hear(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-c.lines:
		if got != want {
			t.Fatalf("it says %q, want %q", got, want)
		}
	case <-time.After(90 * time.Second):
		t.Fatalf("it does not say %q", want)
	}
}
