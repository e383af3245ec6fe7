package compat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// TestDamagedBatch: a byte of one batch changes on the disk. Clients that want to begin with that batch are told CORRUPT_MESSAGE, and
// they read everything before and behind it.
func TestDamagedBatch(t *testing.T) {
	n := harness.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	producer, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.DefaultProduceTopic("damaged"))
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	if _, err := kadm.NewClient(producer).CreateTopic(ctx, 1, 1, nil, "damaged"); err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // a batch each
		if err := producer.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("record-%d", i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	n.Stop(t)
	path := filepath.Join(n.Dir, "damaged-0", strings.Repeat("0", 20)+".log")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[bytes.Index(text, []byte("record-2"))] ^= 1
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	n.Run(t)

	// read returns what is read from an offset on until there is so much, or an error.
	read := func(from int64, want int) (values []string, err error) {
		c, err := kgo.NewClient(kgo.SeedBrokers(n.Addr), kgo.KeepRetryableFetchErrors(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"damaged": {0: kgo.NewOffset().At(from)}}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for err == nil && len(values) < want {
			fetches := c.PollFetches(ctx)
			fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
			err = fetches.Err()
		}
		return values, err
	}
	before, err := read(0, 5) // in the middle of an answer it is the client that finds out
	if got := strings.Join(before, " "); got != "record-0 record-1" || err == nil {
		t.Errorf("before it franz-go reads %q and then: %v", got, err)
	}
	if none, err := read(2, 1); len(none) > 0 || !errors.Is(err, kerr.CorruptMessage) {
		t.Errorf("of it franz-go reads %q: %v", none, err)
	}
	behind, err := read(3, 2)
	if got := strings.Join(behind, " "); got != "record-3 record-4" || err != nil {
		t.Errorf("behind it franz-go reads %q: %v", got, err)
	}

	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	const patience = time.Minute // without a record or an error Java's consumer ends after it
	java := func(from, want string) string {
		out, _ := kafka.Command(ctx, consoleConsumer, "--bootstrap-server", n.Addr, "--topic", "damaged", "--partition", "0",
			"--offset", from, "--max-messages", want, "--timeout-ms", fmt.Sprint(patience.Milliseconds())).CombinedOutput()
		return string(out)
	}
	if out := java("0", "2"); !strings.Contains(out, "record-0\nrecord-1\n") {
		t.Errorf("Java reads before it: %s", out)
	}
	began := time.Now()
	if out := java("2", "1"); strings.Contains(out, "record-") || time.Since(began) > patience {
		t.Errorf("of it Java reads, and ends by itself after %v: %s", time.Since(began), out)
	}
	if out := java("3", "2"); !strings.Contains(out, "record-3\nrecord-4\n") {
		t.Errorf("Java reads behind it: %s", out)
	}
	n.Stop(t)
}
