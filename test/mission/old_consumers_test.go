package mission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/internal/zkconsumer"
	"moldau/test/harness"
)

// oldGroup is a group of one old release's consumers on a node of ours.
type oldGroup struct {
	*testing.T
	kafka             *harness.Kafka
	zookeeper, name   string
	tree              *zkconsumer.Tree
	client            *kgo.Client
	admin             *kadm.Client
	sent              int
	topic, laterTopic string
}

// TestOldConsumers: genuine consumers of each release that has them share a topic by the ZooKeeper port, take over from one that is
// killed, hear of a topic that comes, store their offsets in ZooKeeper or in Kafka, and go on there. Their tools see them.
func TestOldConsumers(t *testing.T) {
	if testing.Short() {
		t.Skip("each consumer takes a second or two to start")
	}
	zookeeper := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)[0])
	n := harness.Start(t, "zookeeper.listeners="+zookeeper, "offsets.topic.num.partitions=2")
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tree := treeOf(t, zookeeper)
	versions := []string{"0.8.2.2", "0.10.2.2", "0.11.0.3", "1.1.1"}
	if harness.Thorough() == 1 {
		versions = []string{"0.10.2.2", "0.11.0.3"} // the worked case has the others
	}
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			topic := "of-" + strings.ReplaceAll(version, ".", "-")
			g := &oldGroup{
				T: t, kafka: harness.ApacheKafka(t, version), zookeeper: zookeeper, name: "group-" + version, tree: tree, client: client, admin: kadm.NewClient(client),
				topic: topic, laterTopic: topic + "-later",
			}
			g.create(g.topic, 4)
			one := g.consume()
			g.settle(g.topic, 4)
			two := g.consume()
			g.settle(g.topic, 2, 2)
			g.flows(g.topic, 4, one, two)
			g.once(g.send(g.topic, 4, 8), one, two)
			verdict := "Rebalance operation successful"
			if version == "0.8.2.2" {
				verdict = "" // it takes a partition's number and its name in the tree for two things, and stops
			}
			g.run("kafka.tools.VerifyConsumerRebalance", verdict, "--zookeeper.connect", zookeeper, "--group", g.name)

			if err := one.cmd.Process.Kill(); err != nil { // it has stored nothing since it had all, a minute has not passed
				t.Fatal(err)
			}
			g.settle(g.topic, 4)
			g.flows(g.topic, 4, two)
			g.once(g.send(g.topic, 4, 8), two)

			g.create(g.laterTopic, 1)
			g.settle(g.laterTopic, 1)
			g.flows(g.laterTopic, 1, two)
			g.once(g.send(g.laterTopic, 1, 2), two)
			two.terminate(t)
			g.stored(g.topic, 4)

			file := filepath.Join(t.TempDir(), "offsets")
			g.run("kafka.tools.ExportZkOffsets", "", "--zkconnect", zookeeper, "--group", g.name, "--output-file", file)
			text, err := os.ReadFile(file)
			if want := fmt.Sprintf("/consumers/%s/offsets/%s/3:", g.name, g.topic); err != nil || !strings.Contains(string(text), want) {
				t.Errorf("exported %q, %v", text, err)
			}
			g.run("kafka.tools.ImportZkOffsets", "", "--zkconnect", zookeeper, "--input-file", file)
			g.stored(g.topic, 4)

			three := g.consume("offsets.storage=kafka")
			g.settle(g.topic, 4)
			g.once(g.send(g.topic, 4, 4), three)
			three.terminate(t)
			g.stored(g.topic, 4) // dual.commit.enabled is the default
			offsets, err := g.admin.FetchOffsets(context.Background(), g.name)
			if err != nil {
				t.Fatal(err)
			}
			for p, end := range g.ends(g.topic, 4) {
				if o, ok := offsets.Lookup(g.topic, int32(p)); !ok || o.At != end {
					t.Errorf("offset of partition %d in Kafka: %d, want %d", p, o.At, end)
				}
			}
		})
	}
}

func (g *oldGroup) create(topic string, partitions int32) {
	g.Helper()
	if _, err := g.admin.CreateTopic(context.Background(), partitions, 1, nil, topic); err != nil {
		g.Fatal(err)
	}
}

// send writes so many lines to the partitions in turn and returns them.
func (g *oldGroup) send(topic string, partitions, n int) (lines []string) {
	g.Helper()
	var records []*kgo.Record
	for i := range n {
		g.sent++
		lines = append(lines, fmt.Sprintf("%s line %d", topic, g.sent))
		records = append(records, &kgo.Record{Topic: topic, Partition: int32(i % partitions), Value: []byte(lines[i])})
	}
	if err := g.client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		g.Fatal(err)
	}
	return lines
}

// flows sends lines until one of each partition has arrived: who owns a partition of which no offset is stored finds out a moment later
// where its end is.
func (g *oldGroup) flows(topic string, partitions int, programs ...*program) {
	g.Helper()
	arrived := make(map[int]bool)
	sent := make(map[string]int)
	harness.Eventually(g.T, 2*time.Minute, "lines of "+topic+" arrive", func() error {
		for p, line := range g.send(topic, partitions, partitions) {
			sent[line] = p
		}
		<-time.After(300 * time.Millisecond)
		for _, each := range programs {
			for _, line := range each.has() {
				if p, ok := sent[line]; ok {
					arrived[p] = true
				}
			}
		}
		if len(arrived) < partitions {
			return fmt.Errorf("of %d partitions of %d", len(arrived), partitions)
		}
		return nil
	})
}

// once waits until every line has arrived, and fails if one has more than once.
func (g *oldGroup) once(lines []string, programs ...*program) {
	g.Helper()
	count := make(map[string]int)
	for _, line := range reads(g.T, lines, programs...) {
		count[line]++
	}
	for _, line := range lines {
		if count[line] != 1 {
			g.Errorf("%q came %d times", line, count[line])
		}
	}
}

// ends are the ends of a topic's partitions.
func (g *oldGroup) ends(topic string, partitions int) (ends []int64) {
	g.Helper()
	listed, err := g.admin.ListEndOffsets(context.Background(), topic)
	if err != nil {
		g.Fatal(err)
	}
	for p := range partitions {
		o, _ := listed.Lookup(topic, int32(p))
		ends = append(ends, o.Offset)
	}
	return ends
}

// consume starts a console consumer of all topics whose names begin as the group's does, with the settings that it comes with but for
// its patience.
func (g *oldGroup) consume(properties ...string) *program {
	g.Helper()
	file := filepath.Join(g.TempDir(), "consumer.properties")
	text := strings.Join(append([]string{"zookeeper.connect=" + g.zookeeper, "group.id=" + g.name, "zookeeper.session.timeout.ms=8000",
		"zookeeper.connection.timeout.ms=60000", "rebalance.max.retries=30"}, properties...), "\n")
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		g.Fatal(err)
	}
	return launch(g.T, g.kafka.Command(context.Background(), "kafka.tools.ConsoleConsumer", "--zookeeper", g.zookeeper, "--whitelist", g.topic+".*", "--consumer.config", file))
}

// settle waits until the members of the group own so many partitions each.
func (g *oldGroup) settle(topic string, want ...int) {
	g.Helper()
	settle(g.T, 2*time.Minute, g.tree, g.name, topic, want...)
}

// stored checks that the offsets in ZooKeeper are the ends of the partitions.
func (g *oldGroup) stored(topic string, partitions int) {
	g.Helper()
	for p, want := range g.ends(topic, partitions) {
		data, _, err := g.tree.Get(fmt.Sprintf("/consumers/%s/offsets/%s/%d", g.name, topic, p))
		if err != nil || string(data) != fmt.Sprint(want) {
			g.Errorf("offset of %s-%d is %q, %v, want %d", topic, p, data, err, want)
		}
	}
}

// run runs a tool that has to succeed and to say something.
func (g *oldGroup) run(class, says string, args ...string) {
	g.Helper()
	out, err := g.kafka.Try("", class, args...)
	if err != nil || !strings.Contains(out, says) {
		g.Errorf("%s: %v\n%s", class, err, out)
	}
}
