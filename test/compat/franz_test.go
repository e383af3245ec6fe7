package compat

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
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
