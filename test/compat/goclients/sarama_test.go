package goclients

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
)

func saramaConfig() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Producer.RequiredAcks = sarama.WaitForAll
	c.Producer.Return.Successes = true
	c.Producer.Partitioner = sarama.NewManualPartitioner
	c.Producer.MaxMessageBytes = 4 << 20 // the broker is to refuse, not the client
	c.Producer.Retry.Max = 50            // a new topic may take a moment on a slow disk
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	c.Consumer.Offsets.AutoCommit.Enable = false
	c.Consumer.MaxWaitTime = 100 * time.Millisecond
	c.Consumer.Group.Session.Timeout = 6 * time.Second
	c.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	return c
}

func saramaProduce(t *testing.T, addr, topic string, codec sarama.CompressionCodec, idempotent bool, values []string) error {
	t.Helper()
	c := saramaConfig()
	c.Producer.Compression = codec
	if idempotent {
		c.Producer.Idempotent = true
		c.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer([]string{addr}, c)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	var messages []*sarama.ProducerMessage
	for i, v := range values {
		messages = append(messages, &sarama.ProducerMessage{Topic: topic, Partition: int32(i % 4), Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder(v),
			Headers: []sarama.RecordHeader{{Key: []byte("codec"), Value: []byte(codec.String())}, {Key: []byte("empty")}}})
	}
	return producer.SendMessages(messages)
}

// saramaMember is a member of a group.
type saramaMember struct {
	t      *testing.T
	shelf  *shelf
	owned  atomic.Int32 // partitions
	joined atomic.Int32 // generation of the newest session
	group  sarama.ConsumerGroup
	cancel context.CancelFunc
	done   chan struct{}
}

// saramaStrategies are sarama's ways to share partitions.
func saramaStrategies() map[string]sarama.BalanceStrategy {
	return map[string]sarama.BalanceStrategy{
		"range": sarama.NewBalanceStrategyRange(), "roundrobin": sarama.NewBalanceStrategyRoundRobin(), "sticky": sarama.NewBalanceStrategySticky(),
		"cooperative": sarama.NewBalanceStrategyCooperativeSticky(),
	}
}

// startSarama starts a member; with an instance id it is a static one.
func startSarama(t *testing.T, addr, name string, s *shelf, strategy sarama.BalanceStrategy, instance string) *saramaMember {
	t.Helper()
	c := saramaConfig()
	c.Consumer.Group.InstanceId = instance
	c.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	group, err := sarama.NewConsumerGroup([]string{addr}, name, c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	m := &saramaMember{t: t, shelf: s, group: group, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := group.Consume(ctx, []string{name}, m); err != nil && ctx.Err() == nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				t.Errorf("consume: %v", err)
				return
			}
		}
	}()
	return m
}

func (m *saramaMember) Setup(s sarama.ConsumerGroupSession) error {
	m.joined.Store(s.GenerationID())
	return nil
}

func (m *saramaMember) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim runs for as long as the member owns a partition, and commits what it has read before another can own it.
func (m *saramaMember) ConsumeClaim(s sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.owned.Add(1)
	defer m.owned.Add(-1)
	for r := range claim.Messages() {
		codec := ""
		for _, h := range r.Headers {
			if string(h.Key) == "codec" {
				codec = string(h.Value)
			}
		}
		if len(r.Headers) != 2 {
			m.t.Errorf("%d headers", len(r.Headers))
		}
		m.shelf.put(where{int(r.Partition), r.Offset}, codec, string(r.Value))
		s.MarkMessage(r, "")
	}
	s.Commit()
	return nil
}

func (m *saramaMember) close() {
	m.cancel()
	<-m.done
	if err := m.group.Close(); err != nil {
		m.t.Errorf("close: %v", err)
	}
}

// TestSarama: sarama produces in every codec, and its members join, leave, are killed, commit and resume with every strategy.
func TestSarama(t *testing.T) {
	addr := address(t)
	t.Parallel()
	admin, err := sarama.NewClusterAdmin([]string{addr}, saramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { admin.Close() }) // after the parallel parts
	for name := range saramaStrategies() {
		strategy := func() sarama.BalanceStrategy { return saramaStrategies()[name] }
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a session takes seconds to end
			topic := "sarama-" + name
			detail := &sarama.TopicDetail{NumPartitions: 4, ReplicationFactor: 1}
			if err := admin.CreateTopic(topic, detail, false); err != nil {
				t.Fatal(err)
			}
			if err := admin.CreateTopic(topic, detail, false); !errors.Is(err, sarama.ErrTopicAlreadyExists) {
				t.Errorf("created twice: %v", err)
			}
			sent := make(map[string]int)
			for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
				values := hundred(codec.String())
				if err := saramaProduce(t, addr, topic, codec, codec != sarama.CompressionGZIP, values); err != nil {
					t.Fatalf("%v: %v", codec, err)
				}
				for _, v := range values {
					sent[codec.String()+" "+v] = 1
				}
			}
			large := strings.Repeat("x", 900000)
			if err := saramaProduce(t, addr, topic, sarama.CompressionNone, false, []string{large}); err != nil {
				t.Fatal(err)
			}
			sent["none "+large] = 1
			var refused sarama.ProducerErrors
			err := saramaProduce(t, addr, topic, sarama.CompressionNone, false, []string{large + large})
			if !errors.As(err, &refused) || !errors.Is(refused[0].Err, sarama.ErrMessageSizeTooLarge) {
				t.Errorf("a record beyond max.message.bytes: %v", err)
			}
			var read shelf
			a := startSarama(t, addr, topic, &read, strategy(), "")
			read.awaitRead(t, sent)
			b := startSarama(t, addr, topic, &read, strategy(), "")
			eventually(t, "two share", 30*time.Second, func() bool { return a.owned.Load() == 2 && b.owned.Load() == 2 })
			b.close()
			eventually(t, "the one that stays owns all", 5*time.Second, func() bool { return a.owned.Load() == 4 })
			kill := startProcess(t, "sarama", name, topic)
			eventually(t, "a process has its share", 30*time.Second, func() bool { return a.owned.Load() == 2 })
			kill()
			eventually(t, "the share of the process that was killed is back", 15*time.Second, func() bool { return a.owned.Load() == 4 })
			a.close()
			next := hundred("next")
			if err := saramaProduce(t, addr, topic, sarama.CompressionZSTD, true, next); err != nil {
				t.Fatal(err)
			}
			want := make(map[string]int)
			for _, v := range next {
				want["zstd "+v] = 1
			}
			var resumed shelf
			c := startSarama(t, addr, topic, &resumed, strategy(), "")
			resumed.awaitRead(t, want)
			c.close()
		})
	}
}

// TestSaramaStatic: a static member that is restarted has its part again, and nobody else notices.
func TestSaramaStatic(t *testing.T) {
	addr := address(t)
	t.Parallel()
	const topic = "sarama-static"
	admin, err := sarama.NewClusterAdmin([]string{addr}, saramaConfig())
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close()
	if err := admin.CreateTopic(topic, &sarama.TopicDetail{NumPartitions: 4, ReplicationFactor: 1}, false); err != nil {
		t.Fatal(err)
	}
	var read shelf
	strategy := sarama.NewBalanceStrategyRange()
	a := startSarama(t, addr, topic, &read, strategy, "one")
	defer a.close()
	b := startSarama(t, addr, topic, &read, strategy, "two")
	eventually(t, "two share", 30*time.Second, func() bool { return a.owned.Load() == 2 && b.owned.Load() == 2 })
	before := b.joined.Load()
	b.close() // a static member does not leave
	again := startSarama(t, addr, topic, &read, strategy, "two")
	defer again.close()
	eventually(t, "the restarted member has its part again", 30*time.Second, func() bool { return again.owned.Load() == 2 })
	if after := again.joined.Load(); after != before || a.joined.Load() != before || a.owned.Load() != 2 {
		t.Errorf("generation %d became %d, the other is in %d and owns %d", before, after, a.joined.Load(), a.owned.Load())
	}
}
