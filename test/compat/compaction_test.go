package compat

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

	"moldau/test/harness"
)

// TestCompactedFiles writes the same keys again and again, in every codec, waits for compaction, and shows what is left to
// a consumer and to Apache Kafka's dump tool.
func TestCompactedFiles(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, "log.cleaner.backoff.ms=300", "log.cleaner.threads=2")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	last := map[string]string{}
	const rounds, keys = 600, 100
	for i, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.DefaultProduceTopic("kept"), kgo.ProducerBatchCompression(codec), kgo.ProducerLinger(0))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if i == 0 {
			configs := map[string]*string{}
			for key, value := range map[string]string{"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"} {
				configs[key] = &value
			}
			if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, configs, "kept"); err != nil {
				t.Fatal(err)
			}
		}
		for round := range rounds / 5 {
			var batch []*kgo.Record
			for k := range keys {
				r := &kgo.Record{Key: fmt.Appendf(nil, "key %d", k), Value: fmt.Appendf(nil, "%d/%d %s", i, round, randomText(i*1000+round*10+k, 150))}
				if (k+round)%10 == 0 {
					r.Value = nil
				}
				last[string(r.Key)] = string(r.Value)
				batch = append(batch, r)
			}
			if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := filepath.Join(n.Dir, "kept-0")
	size := func() (bytes int64) {
		files, err := filepath.Glob(filepath.Join(dir, "*.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				bytes += info.Size()
			}
		}
		return bytes
	}
	for deadline := time.Now().Add(30 * time.Second); size() > 2<<20; {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are not compacted:\n%s", size(), n.Log())
		}
		if !pause(ctx, 100*time.Millisecond) {
			t.Fatal(ctx.Err())
		}
	}

	consumer, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.ConsumeTopics("kept"))
	if err != nil {
		t.Fatal(err)
	}
	defer consumer.Close()
	got, count := map[string]string{}, 0
	for done := false; !done; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			count++
			got[string(r.Key)] = string(r.Value)
			done = r.Offset == rounds*keys-1
		})
	}
	for key, value := range last {
		if got[key] != value {
			t.Errorf("%s is %q, want %q", key, got[key], value)
		}
	}
	if count > rounds*keys/2 {
		t.Errorf("%d of %d records are left", count, rounds*keys)
	}
	n.Stop(t)

	files := func(patterns ...string) string {
		var all []string
		for _, p := range patterns {
			some, err := filepath.Glob(filepath.Join(dir, p))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, some...)
		}
		return strings.Join(all, ",")
	}
	out := kafka.Run(t, "", dumpLogSegments, "--deep-iteration", "--files", files("*.log"))
	if got := strings.Count(out, "| offset:"); got < keys || got > count { // compaction went on while the consumer read
		t.Errorf("the dump shows %d records of %d keys, the consumer got %d", got, keys, count)
	}
	if !strings.Contains(out, "deleteHorizonMs: OptionalLong[") {
		t.Error("the dump shows no delete horizon")
	}
	for _, bad := range []string{"isvalid: false", "invalid bytes", "Found", "Mismatches", "not found"} {
		if strings.Contains(out, bad) {
			t.Errorf("the dump says %q", bad)
		}
	}
	out = kafka.Run(t, "", dumpLogSegments, "--verify-index-only", "--files", files("*.index", "*.timeindex"))
	if strings.Contains(out, "Mismatches") || strings.Contains(out, "not found") {
		t.Errorf("indexes do not agree with the log:\n%s", out)
	}
}

// randomText is text that does not compress well, the same for the same seed.
func randomText(seed, n int) string {
	b := make([]byte, n)
	x := uint32(seed)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = 'a' + byte(x>>8)%26
	}
	return string(b)
}

// pause reports false when the time of the test is over.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
