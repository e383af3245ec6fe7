package oracle

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

var (
	renew  = flag.Bool("renew", false, "ask Apache Kafka and write its answers anew")
	accept = flag.String("accept", "", "write what we say otherwise as ours, for this row of docs/divergences.md")
	about  = flag.String("about", ".", "a pattern of the questions that -accept is for")
)

func TestMain(m *testing.M) { harness.Main(m) }

const rangesFile = "testdata/versions.txt"

// settings are those of all brokers here, ours and Apache Kafka's.
func settings() []string {
	return []string{"group.initial.rebalance.delay.ms=0", "offsets.topic.num.partitions=1", "offsets.topic.replication.factor=1", "auto.create.topics.enable=false"}
}

// moldau starts a node and tells which versions it shares with Apache Kafka.
func moldau(t *testing.T) (address string, common ranges) {
	t.Helper()
	address = harness.Start(t, settings()...).Addr
	text, err := os.ReadFile(rangesFile)
	if err != nil {
		t.Fatal(err)
	}
	return address, askRanges(t, address).both(readRanges(t, string(text)))
}

func apacheKafka(t *testing.T) string {
	t.Helper()
	b := harness.ApacheKafka(t, harness.KafkaVersion).PrepareBroker(t, settings()...)
	b.Spawn(t)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		c := &conn{address: b.Addr}
		_, err := c.exchange([]byte{}) // closes at once, if anybody listens
		c.close()
		if err == errClosed {
			return b.Addr
		}
		if time.Now().After(deadline) {
			t.Fatalf("Apache Kafka does not start:\n%s", b.Log())
		}
	}
}

// TestVersions: what Apache Kafka's clients can ask for here and what they cannot.
func TestVersions(t *testing.T) {
	if *renew {
		if err := os.WriteFile(rangesFile, []byte(askRanges(t, apacheKafka(t)).write()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	address, _ := moldau(t)
	text, err := os.ReadFile(rangesFile)
	if err != nil {
		t.Fatal(err)
	}
	ours := askRanges(t, address)
	for name, kafka := range readRanges(t, string(text)) {
		if v, ok := ours[name]; ok && (v.from > kafka.from || v.to < kafka.to) {
			t.Errorf("%s: versions %s are served, Apache Kafka serves %s", name, showRange(v.from, v.to), showRange(kafka.from, kafka.to))
		}
	}
}

// TestScenes plays each file of testdata/scenes.
func TestScenes(t *testing.T) {
	paths, err := filepath.Glob("testdata/scenes/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenes: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			book := readBook(t, path)
			compareBook(t, path, func() []*entry { return book }, playBook(&book))
		})
	}
}

// compareBook runs play on a node and compares what was said with the book; with -renew it runs it on Apache Kafka first
// and writes the book anew.
func compareBook(t *testing.T, path string, book func() []*entry, play func(*stage, func(*entry, answers))) {
	t.Helper()
	address, common := moldau(t)
	if *renew {
		play(newStage(t, apacheKafka(t), common), func(e *entry, said answers) { e.asked, e.kafka = said != nil, said })
		writeBook(t, path, book())
	}
	asked := map[string]bool{}
	play(newStage(t, address, common), func(e *entry, said answers) {
		if said == nil {
			return
		}
		if asked[e.line] {
			t.Errorf("%s: asked twice", e.line)
		}
		asked[e.line] = true
		if len(said) != len(e.kafka) {
			t.Errorf("%s: %d versions are served, answers of %d are kept: run with -renew", e.line, len(said), len(e.kafka))
		}
		e.compare(t, said)
	})
	if *accept != "" {
		writeBook(t, path, book())
	}
}
