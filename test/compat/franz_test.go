package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

func TestFranzGo(t *testing.T) {
	n := harness.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, 3, 1, nil, "franz"); err != nil {
		t.Fatal(err)
	}
	const records = 10000
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		producer, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.DefaultProduceTopic("franz"), kgo.ProducerBatchCompression(codec))
		if err != nil {
			t.Fatal(err)
		}
		for i := range records / 5 {
			producer.Produce(ctx, kgo.StringRecord(fmt.Sprintf("value %d", i)), func(_ *kgo.Record, err error) {
				if err != nil {
					t.Errorf("produce: %v", err)
				}
			})
		}
		if err := producer.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		producer.Close()
	}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"franz": {0: kgo.NewOffset().AtStart(), 1: kgo.NewOffset().AtStart(), 2: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	next := make(map[int32]int64)
	for got := 0; got < records; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset != next[r.Partition] {
				t.Errorf("partition %d: offset %d, want %d", r.Partition, r.Offset, next[r.Partition])
			}
			next[r.Partition] = r.Offset + 1
			got++
		})
	}
	ends, err := admin.ListEndOffsets(ctx, "franz")
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset != next[o.Partition] {
			t.Errorf("partition %d ends at %d, and %d was read", o.Partition, o.Offset, next[o.Partition])
		}
	})
	if _, err := admin.DeleteTopics(ctx, "franz"); err != nil {
		t.Error(err)
	}
}

// TestFranzGoRecordsAndErrors: headers, a record of 900 KB, one that is too large, a topic that is there, an offset that is not.
func TestFranzGoRecordsAndErrors(t *testing.T) {
	n := harness.Start(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.DefaultProduceTopic("facts"), kgo.ProducerBatchMaxBytes(2<<20), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"facts": {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "facts"); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CreateTopic(t.Context(), 1, 1, nil, "facts"); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("creating it again: %v", err)
	}
	sent := &kgo.Record{Key: []byte("k"), Value: bytes.Repeat([]byte("x"), 900000), Headers: []kgo.RecordHeader{{Key: "colour", Value: []byte("blue")}, {Key: "empty", Value: []byte{}}}}
	if err := client.ProduceSync(t.Context(), sent).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := client.ProduceSync(t.Context(), kgo.SliceRecord(make([]byte, 1100000))).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("a record beyond max.message.bytes: %v", err)
	}
	fetches := client.PollFetches(t.Context())
	if err := fetches.Err(); err != nil || fetches.NumRecords() != 1 {
		t.Fatalf("%d records, %v", fetches.NumRecords(), err)
	}
	if got := fetches.Records()[0]; !bytes.Equal(got.Key, sent.Key) || !bytes.Equal(got.Value, sent.Value) || !reflect.DeepEqual(got.Headers, sent.Headers) {
		t.Errorf("key %q, %d bytes and headers %v came back", got.Key, len(got.Value), got.Headers)
	}
	lost, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"facts": {0: kgo.NewOffset().At(1000)}}))
	if err != nil {
		t.Fatal(err)
	}
	defer lost.Close()
	if err := lost.PollFetches(t.Context()).Err(); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("an offset beyond the end: %v", err)
	}
}

func endOffsets(ctx context.Context, t *testing.T, address, topic string) map[int32]int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	listed, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends := make(map[int32]int64)
	listed.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		ends[o.Partition] = o.Offset
	})
	return ends
}
