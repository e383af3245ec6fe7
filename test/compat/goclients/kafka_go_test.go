package goclients

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

func kafkaGoProduce(addr, topic string, codec kafka.Compression, values []string) error {
	name := "none"
	if codec != 0 {
		name = codec.String()
	}
	w := &kafka.Writer{Addr: kafka.TCP(addr), Topic: topic, Balancer: &kafka.RoundRobin{}, RequiredAcks: kafka.RequireAll, Compression: codec,
		BatchTimeout: 10 * time.Millisecond, BatchBytes: 4 << 20, MaxAttempts: 50} // a new topic may take a moment on a slow disk
	defer w.Close()
	var messages []kafka.Message
	for _, v := range values {
		messages = append(messages, kafka.Message{Key: []byte("k"), Value: []byte(v), Headers: []kafka.Header{{Key: "codec", Value: []byte(name)}, {Key: "empty"}}})
	}
	return w.WriteMessages(context.Background(), messages...)
}

// kafkaGoMember is a member of a group that reads, and commits each record that it has read.
type kafkaGoMember struct {
	t      *testing.T
	reader *kafka.Reader
	cancel context.CancelFunc
	done   chan struct{}
}

// kafkaGoBalancers are kafka-go's ways to share partitions.
func kafkaGoBalancers() map[string]kafka.GroupBalancer {
	return map[string]kafka.GroupBalancer{"range": kafka.RangeGroupBalancer{}, "roundrobin": kafka.RoundRobinGroupBalancer{}}
}

func startKafkaGo(t *testing.T, addr, name string, s *shelf, balancer kafka.GroupBalancer) *kafkaGoMember {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	m := &kafkaGoMember{t: t, cancel: cancel, done: make(chan struct{}), reader: kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{addr}, GroupID: name, Topic: name, GroupBalancers: []kafka.GroupBalancer{balancer}, StartOffset: kafka.FirstOffset,
		MaxWait: 100 * time.Millisecond, MaxBytes: 4 << 20, CommitInterval: 50 * time.Millisecond,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: 300 * time.Millisecond, JoinGroupBackoff: 200 * time.Millisecond,
	})}
	go func() {
		defer close(m.done)
		for {
			r, err := m.reader.FetchMessage(ctx)
			if err != nil {
				if ctx.Err() == nil {
					t.Errorf("fetch: %v", err)
				}
				return
			}
			codec := ""
			for _, h := range r.Headers {
				if h.Key == "codec" {
					codec = string(h.Value)
				}
			}
			if len(r.Headers) != 2 {
				t.Errorf("%d headers", len(r.Headers))
			}
			s.put(where{r.Partition, r.Offset}, codec, string(r.Value))
			if err := m.reader.CommitMessages(ctx, r); err != nil && ctx.Err() == nil {
				t.Errorf("commit: %v", err)
				return
			}
		}
	}()
	return m
}

// close ends the reading first: a reader that is closed commits what it was told to and leaves its group.
func (m *kafkaGoMember) close() {
	m.cancel()
	<-m.done
	if err := m.reader.Close(); err != nil {
		m.t.Errorf("close: %v", err)
	}
}

// shares are the numbers of partitions that a stable group's members own, or nil.
func shares(t *testing.T, addr, group string) []int {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(addr), Timeout: 10 * time.Second}
	resp, err := client.DescribeGroups(t.Context(), &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Groups) != 1 || resp.Groups[0].Error != nil {
		t.Fatalf("describe: %+v", resp.Groups)
	}
	if resp.Groups[0].GroupState != "Stable" {
		return nil
	}
	var owned []int
	for _, m := range resp.Groups[0].Members {
		n := 0
		for _, topic := range m.MemberAssignments.Topics {
			n += len(topic.Partitions)
		}
		owned = append(owned, n)
	}
	return owned
}

// TestKafkaGo: kafka-go produces in every codec, and its members join, leave, are killed, commit and resume.
func TestKafkaGo(t *testing.T) {
	addr := address(t)
	t.Parallel()
	client := &kafka.Client{Addr: kafka.TCP(addr), Timeout: 10 * time.Second}
	for name, balancer := range kafkaGoBalancers() {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a session takes seconds to end
			topic := "kafka-go-" + name
			create := func() error {
				resp, err := client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: 4, ReplicationFactor: 1}}})
				if err != nil {
					return err
				}
				return resp.Errors[topic]
			}
			if err := create(); err != nil {
				t.Fatal(err)
			}
			if err := create(); !errors.Is(err, kafka.TopicAlreadyExists) {
				t.Errorf("created twice: %v", err)
			}
			sent := make(map[string]int)
			for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
				name := "none"
				if codec != 0 {
					name = codec.String()
				}
				values := hundred(name)
				if err := kafkaGoProduce(addr, topic, codec, values); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				for _, v := range values {
					sent[name+" "+v] = 1
				}
			}
			large := strings.Repeat("x", 900000)
			if err := kafkaGoProduce(addr, topic, 0, []string{large}); err != nil {
				t.Fatal(err)
			}
			sent["none "+large] = 1
			if err := kafkaGoProduce(addr, topic, 0, []string{large + large}); err == nil || !strings.Contains(err.Error(), kafka.MessageSizeTooLarge.Error()) {
				t.Errorf("a record beyond max.message.bytes: %v", err)
			}
			var read shelf
			a := startKafkaGo(t, addr, topic, &read, balancer)
			read.awaitRead(t, sent)
			b := startKafkaGo(t, addr, topic, &read, balancer)
			owned := func(want ...int) func() bool {
				return func() bool { return slices.Equal(shares(t, addr, topic), want) }
			}
			eventually(t, "two share", 30*time.Second, owned(2, 2))
			b.close()
			eventually(t, "the one that stays owns all", 5*time.Second, owned(4))
			kill := startProcess(t, "kafka-go", name, topic)
			eventually(t, "a process has its share", 30*time.Second, owned(2, 2))
			kill()
			eventually(t, "the share of the process that was killed is back", 15*time.Second, owned(4))
			a.close()
			next := hundred("next")
			if err := kafkaGoProduce(addr, topic, kafka.Zstd, next); err != nil {
				t.Fatal(err)
			}
			want := make(map[string]int)
			for _, v := range next {
				want["zstd "+v] = 1
			}
			var resumed shelf
			c := startKafkaGo(t, addr, topic, &resumed, balancer)
			resumed.awaitRead(t, want)
			c.close()
		})
	}
}
