package compat

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// lie is a batch that is not what it says.
type lie struct {
	name    string
	topic   string // attack-plain unless set
	version int16  // of Produce; 12 unless set
	batch   func() []byte
}

func lies() []lie {
	now := time.Now()
	honest := func(change func(b *kmsg.RecordBatch)) func() []byte {
		return func() []byte {
			b := plainBatch(now, "one", "two")
			change(&b)
			return sealed(b)
		}
	}
	bytesOf := func(change func(b []byte) []byte) func() []byte {
		return func() []byte { return change(sealed(plainBatch(now, "one", "two"))) }
	}
	records := func(change func(b []byte) []byte) func() []byte {
		return honest(func(b *kmsg.RecordBatch) { b.Records = change(b.Records) })
	}
	return []lie{
		{name: "honest", batch: honest(func(*kmsg.RecordBatch) {})},
		{name: "no bytes", batch: func() []byte { return []byte{} }},
		{name: "null", batch: func() []byte { return nil }},
		{name: "CRC", batch: bytesOf(func(b []byte) []byte { b[17]++; return b })},
		{name: "magic 1", batch: bytesOf(func(b []byte) []byte { b[16] = 1; return b })},
		{name: "magic 3", batch: bytesOf(func(b []byte) []byte { b[16] = 3; return b })},
		{name: "magic -1", batch: bytesOf(func(b []byte) []byte { b[16] = 255; return b })},
		{name: "length 0", batch: bytesOf(func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 0); return b })},
		{name: "length negative", batch: bytesOf(func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 1<<31); return b })},
		{name: "length huge", batch: bytesOf(func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 1<<30); return b })},
		{name: "length short", batch: bytesOf(func(b []byte) []byte { binary.BigEndian.PutUint32(b[8:], 48); return b })},
		{name: "cut", batch: bytesOf(func(b []byte) []byte { return b[:len(b)-1] })},
		{name: "cut in header", batch: bytesOf(func(b []byte) []byte { return b[:40] })},
		{name: "cut to 10", batch: bytesOf(func(b []byte) []byte { return b[:10] })},
		{name: "two batches", batch: bytesOf(func(b []byte) []byte { return append(b, b...) })},
		{name: "trailing garbage", batch: bytesOf(func(b []byte) []byte { return append(b, 1, 2, 3) })},
		{name: "trailing zeros", batch: bytesOf(func(b []byte) []byte { return append(b, make([]byte, 100)...) })},

		{name: "base offset", batch: honest(func(b *kmsg.RecordBatch) { b.FirstOffset = 5 })},
		{name: "base offset negative", batch: honest(func(b *kmsg.RecordBatch) { b.FirstOffset = -1 })},
		{name: "leader epoch", batch: honest(func(b *kmsg.RecordBatch) { b.PartitionLeaderEpoch = math.MaxInt32 })},
		{name: "count 0", batch: honest(func(b *kmsg.RecordBatch) { b.NumRecords = 0; b.LastOffsetDelta = -1; b.Records = nil })},
		{name: "count negative", batch: honest(func(b *kmsg.RecordBatch) { b.NumRecords = -1 })},
		{name: "count lower", batch: honest(func(b *kmsg.RecordBatch) { b.NumRecords = 1; b.LastOffsetDelta = 0 })},
		{name: "count higher", batch: honest(func(b *kmsg.RecordBatch) { b.NumRecords = 3; b.LastOffsetDelta = 2 })},
		{name: "count two billion", batch: honest(func(b *kmsg.RecordBatch) { b.NumRecords = math.MaxInt32; b.LastOffsetDelta = math.MaxInt32 - 1 })},
		{name: "last delta only", batch: honest(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = 7 })},
		{name: "last delta negative", batch: honest(func(b *kmsg.RecordBatch) { b.LastOffsetDelta = -5 })},
		{name: "deltas backwards", batch: records(func([]byte) []byte {
			return append(plainRecord(1, nil, []byte("a")), plainRecord(0, nil, []byte("b"))...)
		})},
		{name: "deltas twice", batch: records(func([]byte) []byte {
			return append(plainRecord(0, nil, []byte("a")), plainRecord(0, nil, []byte("b"))...)
		})},
		{name: "delta negative", batch: records(func([]byte) []byte {
			return append(plainRecord(-9, nil, []byte("a")), plainRecord(1, nil, []byte("b"))...)
		})},
		{name: "record length negative", batch: records(func(b []byte) []byte { b[0] = 1; return b })},
		{name: "record length long", batch: records(func(b []byte) []byte { b[0] = 0x7e; return b })},
		{name: "record varint overlong", batch: records(func(b []byte) []byte { return append(bytes.Repeat([]byte{0xff}, 11), b...) })},
		{name: "key length beyond", batch: records(func(b []byte) []byte { b[4] = 0x7e; return b })},
		{name: "headers negative", batch: records(func(b []byte) []byte { b[len(b)-1] = 1; return b })},
		{name: "headers many", batch: records(func(b []byte) []byte { b[len(b)-1] = 0x7e; return b })},
		{name: "records garbage", batch: records(func([]byte) []byte { return bytes.Repeat([]byte{0xab}, 50) })},

		{name: "future", batch: honest(func(b *kmsg.RecordBatch) {
			b.FirstTimestamp, b.MaxTimestamp = now.Add(2*time.Hour).UnixMilli(), now.Add(2*time.Hour).UnixMilli()
		})},
		{name: "end of time", batch: honest(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = math.MaxInt64, math.MaxInt64 })},
		{name: "start of time", batch: honest(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = math.MinInt64, math.MinInt64 })},
		{name: "timestamp -5", batch: honest(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = -5, -5 })},
		{name: "no timestamp", batch: honest(func(b *kmsg.RecordBatch) { b.FirstTimestamp, b.MaxTimestamp = -1, -1 })},
		{name: "max below records", batch: honest(func(b *kmsg.RecordBatch) { b.MaxTimestamp = 5 })},
		{name: "max above records", batch: honest(func(b *kmsg.RecordBatch) { b.MaxTimestamp = now.Add(time.Minute).UnixMilli() })},

		{name: "log append time", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 8 })},
		{name: "log append time, topic too", topic: "attack-append", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 8 })},
		{name: "control", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 0x20 })},
		{name: "delete horizon", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 0x40 })},
		{name: "unknown attributes", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 0x7f00 })},
		{name: "codec 5", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 5 })},
		{name: "codec 7", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 7 })},
		{name: "zstd in version 6", version: 6, batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 4 })},
		{name: "gzip of garbage, compacted", topic: "attack-compact", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 1 })},
		{name: "snappy of garbage, compacted", topic: "attack-compact", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 2 })},
		{name: "lz4 of garbage, compacted", topic: "attack-compact", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 3 })},
		{name: "zstd of garbage, compacted", topic: "attack-compact", batch: honest(func(b *kmsg.RecordBatch) { b.Attributes = 4 })},
		{name: "no key, compacted", topic: "attack-compact", batch: records(func([]byte) []byte {
			return append(plainRecord(0, nil, []byte("a")), plainRecord(1, nil, []byte("b"))...)
		})},

		{name: "producer without sequence", batch: honest(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch = 4000, 0 })},
		{name: "producer -2", batch: honest(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = -2, 0, 0 })},
		{name: "producer without epoch", batch: honest(func(b *kmsg.RecordBatch) { b.ProducerID, b.ProducerEpoch, b.FirstSequence = 4001, -1, 0 })},
		{name: "sequence at the end", batch: honest(func(b *kmsg.RecordBatch) {
			b.ProducerID, b.ProducerEpoch, b.FirstSequence = 4002, 0, math.MaxInt32
		})},
		{name: "sequence with no producer", batch: honest(func(b *kmsg.RecordBatch) { b.FirstSequence = 12 })},
		{name: "transactional without id", batch: honest(func(b *kmsg.RecordBatch) {
			b.Attributes, b.ProducerID, b.ProducerEpoch, b.FirstSequence = 0x10, 4003, 0, 0
		})},
		{name: "too large", batch: honest(func(b *kmsg.RecordBatch) {
			b.Records = append(plainRecord(0, nil, make([]byte, 1<<20)), plainRecord(1, nil, nil)...)
		})},
		{name: "bomb, compacted", topic: "attack-compact", batch: honest(func(b *kmsg.RecordBatch) {
			b.Attributes, b.Records, b.NumRecords, b.LastOffsetDelta = 1, bomb(100<<20), 1, 0
		})},
	}
}

// bomb is one record of n zeros, as gzip packs it a thousand times smaller.
func bomb(n int) []byte {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	head := []byte{0, 0, 0}
	head = binary.AppendVarint(head, 1)
	head = append(head, 'k')
	head = binary.AppendVarint(head, int64(n))
	_, _ = w.Write(binary.AppendVarint(nil, int64(len(head)+n+1)))
	_, _ = w.Write(head)
	zeros := make([]byte, 1<<20)
	for range n >> 20 {
		_, _ = w.Write(zeros)
	}
	_, _ = w.Write([]byte{0})
	_ = w.Close()
	return packed.Bytes()
}

func createTopics(t *testing.T, r *raw) {
	t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 30000
	add := func(name string, settings ...string) {
		topic := kmsg.NewCreateTopicsRequestTopic()
		topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, 1, 1
		for i := 0; i < len(settings); i += 2 {
			topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: settings[i], Value: &settings[i+1]})
		}
		req.Topics = append(req.Topics, topic)
	}
	add("attack-plain")
	add("attack-old")
	add("attack-compact", "cleanup.policy", "compact")
	add("attack-append", "message.timestamp.type", "LogAppendTime")
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		resp, err := r.ask(req)
		if err != nil {
			t.Fatal(err)
		}
		left := ""
		for _, topic := range resp.(*kmsg.CreateTopicsResponse).Topics {
			if topic.ErrorCode != 0 && topic.ErrorCode != kerr.TopicAlreadyExists.Code {
				left = topic.Topic + ": " + answerName(topic.ErrorCode)
			}
		}
		if left == "" {
			return
		}
		if time.Now().After(deadline) { // a broker that has just started may not be unfenced yet
			t.Fatalf("create %s", left)
		}
	}
}

func (l lie) tell(t *testing.T, address string) (answer string) {
	r := dialRaw(t, address)
	defer r.conn.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = l.version, -1, 10000
	if req.Version == 0 {
		req.Version = 12
	}
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = l.topic
	if topic.Topic == "" {
		topic.Topic = "attack-plain"
	}
	partition := kmsg.NewProduceRequestTopicPartition()
	partition.Records = l.batch()
	topic.Partitions = append(topic.Partitions, partition)
	req.Topics = append(req.Topics, topic)
	for range 50 {
		resp, err := r.ask(req)
		if err != nil {
			return "closed"
		}
		code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
		if code == kerr.NotLeaderForPartition.Code || code == kerr.UnknownTopicOrPartition.Code {
			time.Sleep(20 * time.Millisecond) // the topic is new
			continue
		}
		return answerName(code)
	}
	return "not led"
}
