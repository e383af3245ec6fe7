package quorum

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"moldau/internal/kafka"
	"moldau/internal/metadata"
	"moldau/internal/vfs"
	"moldau/test/harness"
)

// TestApacheKafkaReadsIt: DumpLogSegments of Apache Kafka decodes the log and a snapshot, our tagged fields included.
func TestApacheKafkaReadsIt(t *testing.T) {
	tool := harness.ApacheKafka(t, harness.KafkaVersion)
	dir := t.TempDir()
	r := &recorder{leads: -1}
	leads := make(chan kafka.Epoch, 1)
	self := Voter{ID: 1, DirID: kafka.NewUUID(), Endpoints: []Endpoint{{Name: "CONTROLLER", Host: "127.0.0.1", Port: 9093}}}
	q, err := Open(Options{
		FS: vfs.NewOS(), Dir: dir, NodeID: self.ID, DirID: self.DirID, Listener: leadChannel{r, leads},
		Endpoints: self.Endpoints, Voters: []Voter{self},
		Now: time.Now, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		SegmentBytes: 1 << 30, SegmentMs: 1 << 40, SnapshotMaxBytes: 1 << 30, RetentionBytes: -1, RetentionMs: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	q.Start()
	epoch := <-leads
	topic := &metadata.TopicRecord{Name: "orders", TopicID: kafka.UUID{0: 1, 15: 9}}
	level := &metadata.FeatureLevelRecord{Name: "metadata.version", FeatureLevel: 20}
	var last kafka.Offset
	for _, record := range []metadata.Record{level, topic} {
		last = propose(t, q, epoch, string(metadata.Encode(nil, record, 0)))
	}
	id, state := r.snapshot()
	if id.EndOffset != last+1 {
		t.Fatalf("the listener is at %v, the last record at %d", id, last)
	}
	if err := q.WriteSnapshot(id, emitAll(state)); err != nil {
		t.Fatal(err)
	}
	stop(t, q)

	folder := filepath.Join(dir, "__cluster_metadata-0")
	dump := func(name string, want ...string) {
		t.Helper()
		out := tool.Run(t, "", "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", filepath.Join(folder, name))
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s: no %q in\n%s", name, w, out)
			}
		}
		for _, bad := range []string{"Could not", "isvalid: false", "skipped", "Exception"} {
			if strings.Contains(out, bad) {
				t.Errorf("%s: %q in\n%s", name, bad, out)
			}
		}
	}
	records := []string{`"type":"FEATURE_LEVEL_RECORD"`, `"featureLevel":20`, `"type":"TOPIC_RECORD"`, `"name":"orders"`}
	dump("00000000000000000000.log", slices.Concat(records, []string{`"type":"NO_OP_RECORD"`, "LeaderChange", `"leaderId":1`, "KRaftVersion", "KRaftVoters", `"host":"127.0.0.1"`})...)
	dump(id.file(), slices.Concat(records, []string{fmt.Sprintf("Snapshot end offset: %d, epoch: %d", id.EndOffset, id.Epoch), "SnapshotHeader", "KRaftVoters", "SnapshotFooter"})...)
	dump(SnapshotID{}.file(), "SnapshotHeader", "KRaftVersion", "KRaftVoters", "SnapshotFooter")

	text, err := os.ReadFile(filepath.Join(folder, "partition.metadata"))
	if err != nil || !strings.Contains(string(text), "topic_id: AAAAAAAAAAAAAAAAAAAAAQ") {
		t.Errorf("partition.metadata: %q, %v", text, err)
	}
}

// leadChannel tells of leadership through a channel, for tests that run in real time.
type leadChannel struct {
	*recorder
	leads chan kafka.Epoch
}

func (l leadChannel) Lead(epoch kafka.Epoch) {
	l.recorder.Lead(epoch)
	l.leads <- epoch
}
