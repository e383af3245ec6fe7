package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// tools is a cluster of three, and the tools of one old release that know it by its ZooKeeper port.
type tools struct {
	*testing.T
	kafka     *harness.Kafka
	version   string
	zookeeper string
	admin     *kadm.Client
	client    *kgo.Client
	tree      *zk.Conn
}

// TestTools: the tools of every release that has them do by ZooKeeper what they are for. What they have done is looked at by
// Kafka's protocol. Oldest first: what newer ones leave below /kafka-acl stops older ones, with a genuine ZooKeeper too.
func TestTools(t *testing.T) {
	nodes := harness.PrepareNodes(t, 3, "offsets.topic.num.partitions=2", "offsets.topic.replication.factor=1")
	ports := harness.FreePorts(t, 3)
	for i, n := range nodes {
		n.Spawn(t, "--override", fmt.Sprintf("zookeeper.listeners=127.0.0.1:%d", ports[i]))
	}
	for _, n := range nodes {
		n.WaitReady(t, time.Minute)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(nodes[0].Addr), kgo.MetadataMinAge(50*time.Millisecond), kgo.UnknownTopicRetries(-1), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	zookeeper := fmt.Sprintf("127.0.0.1:%d", ports[1])
	tree, _, err := zk.Connect([]string{zookeeper}, 30*time.Second, zk.WithLogger(quiet{}))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for _, version := range harness.OldKafkaVersions() {
		if version >= "3" {
			continue // its tools know brokers only
		}
		t.Run(version, func(t *testing.T) {
			s := &tools{T: t, kafka: harness.ApacheKafka(t, version), version: version, zookeeper: zookeeper, client: client, admin: kadm.NewClient(client), tree: tree}
			topic := "of-" + strings.ReplaceAll(version, ".", "-")
			s.topics(topic)
			s.settings(topic)
			s.moves(topic)
			s.offsets(topic)
			s.groups(topic)
			s.acls(topic)
			s.deletes(topic)
		})
	}
}

// run runs a tool of theirs and returns what it prints, and whether it failed, which old ones say in different ways.
func (s *tools) run(class string, args ...string) (out string, failed bool) {
	s.Helper()
	out, err := s.kafka.Try("", class, args...)
	return out, err != nil || strings.Contains(out, "Error while")
}

// does runs a tool that has to succeed.
func (s *tools) does(class string, args ...string) string {
	s.Helper()
	out, failed := s.run(class, append([]string{"--zookeeper", s.zookeeper}, args...)...)
	if failed {
		s.Fatalf("%s %v:\n%s", class, args, out)
	}
	return out
}

func (s *tools) file(name, text string) string {
	path := filepath.Join(s.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}

// becomes waits until the replicas of a topic's partitions begin like this, and until the first has this leader, if it is to
// have one: a broker hears of it a moment after the one that the tool asked.
func (s *tools) becomes(topic, replicas string, partitions int, leader int32) {
	s.Helper()
	eventually(s.T, func() error {
		details, err := s.admin.ListTopics(context.Background(), topic)
		if err != nil {
			return err
		}
		var got [][]int32
		for _, p := range details[topic].Partitions.Sorted() {
			got = append(got, p.Replicas)
		}
		if !strings.HasPrefix(fmt.Sprint(got), replicas) || len(got) != partitions || leader >= 0 && details[topic].Partitions[0].Leader != leader {
			return fmt.Errorf("%s has replicas %v and leader %d, want %s, %d partitions and %d", topic, got, details[topic].Partitions[0].Leader, replicas, partitions, leader)
		}
		return nil
	})
}

// set waits until a topic has a setting of its own, or none.
func (s *tools) set(topic, key, want string) {
	s.Helper()
	eventually(s.T, func() error {
		described, err := s.admin.DescribeTopicConfigs(context.Background(), topic)
		if err != nil {
			return err
		}
		got := "none"
		for _, c := range described[0].Configs {
			if c.Key == key && c.Source.String() == "DYNAMIC_TOPIC_CONFIG" {
				got = *c.Value
			}
		}
		if got != want {
			return fmt.Errorf("%s of %s is %s, want %s", key, topic, got, want)
		}
		return nil
	})
}

// there tells whether there is a node. A connection may be cut when the tree moves; the client then makes another.
func (s *tools) there(path string) (there bool) {
	s.Helper()
	eventually(s.T, func() (err error) {
		there, _, err = s.tree.Exists(path)
		return err
	})
	return there
}

func (s *tools) topics(topic string) {
	const class = "kafka.admin.TopicCommand"
	s.does(class, "--create", "--topic", topic, "--replica-assignment", "1:2,2:3", "--config", "retention.ms=600000")
	s.becomes(topic, "[[1 2] [2 3]]", 2, 1)
	s.set(topic, "retention.ms", "600000")
	eventually(s.T, func() error {
		out := strings.ReplaceAll(s.does(class, "--describe", "--topic", topic), ": ", ":")
		for _, want := range []string{"PartitionCount:2\tReplicationFactor:2\tConfigs:retention.ms=600000", "Partition:0\tLeader:1\tReplicas:1,2\tIsr:1,2", "Partition:1\tLeader:2\tReplicas:2,3\tIsr:2,3"} {
			if !strings.Contains(out, want) {
				return fmt.Errorf("describe lacks %q:\n%s", want, out)
			}
		}
		return nil
	})
	s.does(class, "--alter", "--topic", topic, "--partitions", "3")
	s.becomes(topic, "[[1 2] [2 3] [", 3, 1)
	if out := s.does(class, "--list"); !slices.Contains(strings.Fields(out), topic) {
		s.Errorf("list lacks the topic: %s", out)
	}
}

func (s *tools) settings(topic string) {
	if s.version < "0.9" {
		s.does("kafka.admin.TopicCommand", "--alter", "--topic", topic, "--config", "max.message.bytes=70000", "--delete-config", "retention.ms")
	} else {
		const class = "kafka.admin.ConfigCommand"
		of := []string{"--entity-type", "topics", "--entity-name", topic}
		s.does(class, append([]string{"--alter", "--add-config", "max.message.bytes=70000", "--delete-config", "retention.ms"}, of...)...)
		if out := s.does(class, append([]string{"--describe"}, of...)...); !strings.Contains(out, " are max.message.bytes=70000\n") {
			s.Errorf("describe: %s", out)
		}
		out, failed := s.run(class, "--zookeeper", s.zookeeper, "--alter", "--entity-type", "clients", "--entity-name", "c", "--add-config", "producer_byte_rate=1024")
		if !failed || !strings.Contains(out, "NoAuth for /config/clients/c") {
			s.Errorf("a quota: %s", out)
		}
	}
	s.set(topic, "max.message.bytes", "70000")
	s.set(topic, "retention.ms", "none")
	if s.version == "1.1.1" {
		of := []string{"--entity-type", "brokers", "--entity-name", "1"}
		s.does("kafka.admin.ConfigCommand", append([]string{"--alter", "--add-config", "leader.replication.throttled.rate=1000000"}, of...)...)
		if out := s.does("kafka.admin.ConfigCommand", append([]string{"--describe"}, of...)...); !strings.Contains(out, "leader.replication.throttled.rate=1000000") {
			s.Errorf("describe broker 1: %s", out)
		}
		s.does("kafka.admin.ConfigCommand", append([]string{"--alter", "--delete-config", "leader.replication.throttled.rate"}, of...)...)
	}
}

func (s *tools) moves(topic string) {
	const class = "kafka.admin.ReassignPartitionsCommand"
	plan := s.file("plan.json", fmt.Sprintf(`{"version":1,"partitions":[{"topic":%q,"partition":0,"replicas":[3,1]}]}`, topic))
	s.does(class, "--execute", "--reassignment-json-file", plan)
	eventually(s.T, func() error {
		if out := s.does(class, "--verify", "--reassignment-json-file", plan); !strings.Contains(out, "complete") || strings.Contains(out, "still in progress") {
			return fmt.Errorf("verify: %s", out)
		}
		return nil
	})
	s.becomes(topic, "[[3 1] [2 3] [", 3, -1)
	s.does("kafka.admin.PreferredReplicaLeaderElectionCommand", "--path-to-json-file", s.file("elect.json", fmt.Sprintf(`{"partitions":[{"topic":%q,"partition":0}]}`, topic)))
	s.becomes(topic, "[[3 1] [2 3] [", 3, 3)
}

// offsets are moved in ZooKeeper, of a group that has none elsewhere.
func (s *tools) offsets(topic string) {
	if s.version >= "2" {
		return // these tools are gone
	}
	var records []*kgo.Record
	for range 3 {
		records = append(records, &kgo.Record{Topic: topic, Partition: 0, Value: []byte("x")})
	}
	if err := s.client.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		s.Fatal(err)
	}
	group := "group-" + topic
	file := s.file("consumer.properties", "zookeeper.connect="+s.zookeeper+"\ngroup.id="+group+"\n")
	if out, failed := s.run("kafka.tools.UpdateOffsetsInZK", "latest", file, topic); failed || !strings.Contains(out, "updated the offset for 3 partitions") {
		s.Errorf("UpdateOffsetsInZK: %s", out)
	}
	var data []byte
	eventually(s.T, func() (err error) {
		data, _, err = s.tree.Get("/consumers/" + group + "/offsets/" + topic + "/0")
		return err
	})
	if string(data) != "3" {
		s.Errorf("offset %q", data)
	}
	if s.version < "1" {
		out := s.does("kafka.tools.ConsumerOffsetChecker", "--group", group, "--topic", topic)
		if !strings.Contains(strings.Join(strings.Fields(out), " "), group+" "+topic+" 0 3 3 0 none") {
			s.Errorf("ConsumerOffsetChecker: %s", out)
		}
	}
	// Kafka has no offsets of this group, so the tools look in ZooKeeper.
	if s.version >= "0.9" {
		if out := s.does("kafka.admin.ConsumerGroupCommand", "--list"); !slices.Contains(strings.Fields(out), group) {
			s.Errorf("list lacks the group: %s", out)
		}
	}
}

func (s *tools) groups(topic string) {
	if s.version < "0.9" || s.version >= "2" {
		return
	}
	group := "group-" + topic
	eventually(s.T, func() error { // as its consumers leave it
		_, err := s.tree.Create("/consumers/"+group+"/ids", nil, 0, zk.WorldACL(zk.PermAll))
		if errors.Is(err, zk.ErrNodeExists) { // a try before has made it, and was not told
			err = nil
		}
		return err
	})
	out := s.does("kafka.admin.ConsumerGroupCommand", "--delete", "--group", group)
	if s.there("/consumers/" + group) {
		s.Errorf("the group is still there:\n%s", out)
	}
}

func (s *tools) acls(topic string) {
	if s.version < "0.9" {
		return
	}
	const class = "kafka.admin.AclCommand"
	by := []string{"--authorizer-properties", "zookeeper.connect=" + s.zookeeper}
	if out, failed := s.run(class, append(by, "--list")...); failed {
		s.Errorf("list: %s", out)
	}
	out, err := s.kafka.Try("", class, append(by, "--add", "--allow-principal", "User:A", "--operation", "Read", "--topic", topic)...)
	if s.there("/kafka-acl/Topic/"+topic) || !strings.Contains(out, "NoAuth for /kafka-acl/Topic/"+topic) {
		s.Errorf("add: %v\n%s", err, out)
	}
}

func (s *tools) deletes(topic string) {
	s.does("kafka.admin.TopicCommand", "--delete", "--topic", topic)
	for _, path := range []string{"/brokers/topics/" + topic, "/config/topics/" + topic, "/admin/delete_topics/" + topic} {
		if s.there(path) {
			s.Errorf("%s is still there", path)
		}
	}
	eventually(s.T, func() error {
		details, err := s.admin.ListTopics(context.Background())
		if err == nil && details.Has(topic) {
			err = fmt.Errorf("%s is still there", topic)
		}
		return err
	})
}
