package foreign

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

// TestStreamsSmoke: the smoke test of Kafka Streams, one of Apache Kafka's system tests. One process computes sums, counts,
// minima and windows of what another produces, which then checks every result. Without transactions it is at least once.
func TestStreamsSmoke(t *testing.T) {
	wantedAll(t)
	kafka := fetchApacheSuite(t).kafka
	n := startNode0(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(n.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	topics := []string{"data", "echo", "max", "min", "dif", "sum", "cnt", "avg", "wcnt", "tagg", "sws-raw", "sws-suppressed", "min-raw", "min-suppressed", "fcnt"}
	created, err := kadm.NewClient(client).CreateTopics(ctx, 5, 1, nil, topics...)
	if err == nil {
		err = created.Error()
	}
	if err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	settings := filepath.Join(dir, "smoke.properties")
	text := fmt.Sprintf("bootstrap.servers=%s\nstate.dir=%s\nprocessing.guarantee=at_least_once\n", n.Addr, filepath.Join(dir, "state"))
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	const class = "org.apache.kafka.streams.tests.StreamsSmokeTest"
	process, stop := context.WithCancel(ctx)
	processed := make(chan string, 1)
	go func() {
		out, _ := harness.Output(kafka.CommandJVM(process, harness.ClientJVM(), class, settings, "process"), "")
		processed <- out
	}()
	out, err := harness.Output(kafka.CommandJVM(ctx, harness.ClientJVM(), class, settings, "run"), "")
	stop()
	application := <-processed
	for _, want := range []string{"ALL-RECORDS-DELIVERED", "verifying topic 'sum'", "verifying topic 'cnt'", "\nSUCCESS"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	if err != nil || t.Failed() {
		t.Fatalf("%v\n%s\nthe application:\n%s", err, tail(out, 8000), tail(application, 8000))
	}
}
