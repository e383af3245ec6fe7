package compat

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

const (
	topicCommand        = "org.apache.kafka.tools.TopicCommand"
	consoleConsumer     = "org.apache.kafka.tools.consumer.ConsoleConsumer"
	consoleProducer     = "org.apache.kafka.tools.ConsoleProducer"
	producerPerformance = "org.apache.kafka.tools.ProducerPerformance"
	verifiableProducer  = "org.apache.kafka.tools.VerifiableProducer"
	dumpLogSegments     = "org.apache.kafka.tools.DumpLogSegments"
	configCommand       = "org.apache.kafka.tools.ConfigCommand"
	getOffsets          = "org.apache.kafka.tools.GetOffsetShell"
	deleteRecords       = "org.apache.kafka.tools.DeleteRecordsCommand"
	metadataQuorum      = "org.apache.kafka.tools.MetadataQuorumCommand"
	clusterTool         = "org.apache.kafka.tools.ClusterTool"
	logDirs             = "org.apache.kafka.tools.LogDirsCommand"
	apiVersions         = "org.apache.kafka.tools.BrokerApiVersionsCommand"
)

func TestJavaTopics(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t)
	topics := func(args ...string) string {
		return kafka.Run(t, "", topicCommand, append([]string{"--bootstrap-server", n.Addr}, args...)...)
	}
	topics("--create", "--topic", "first", "--partitions", "3", "--replication-factor", "1", "--config", "retention.ms=60000")
	if got := topics("--list"); strings.TrimSpace(got) != "first" {
		t.Errorf("list: %q", got)
	}
	described := topics("--describe", "--topic", "first")
	for _, want := range []string{"PartitionCount: 3", "ReplicationFactor: 1", "retention.ms=60000", "Partition: 2\tLeader: 1\tReplicas: 1\tIsr: 1"} {
		if !strings.Contains(described, want) {
			t.Errorf("describe lacks %q:\n%s", want, described)
		}
	}
	topics("--alter", "--topic", "first", "--partitions", "5")
	if got := topics("--describe", "--topic", "first"); !strings.Contains(got, "PartitionCount: 5") {
		t.Errorf("after alter:\n%s", got)
	}
	out, err := kafka.Try("", topicCommand, "--bootstrap-server", n.Addr, "--create", "--topic", "first")
	if err == nil || !strings.Contains(out, "already exists") {
		t.Errorf("creating it again: %v\n%s", err, out)
	}
	out, err = kafka.Try("", topicCommand, "--bootstrap-server", n.Addr, "--create", "--topic", "a b")
	if err == nil || !strings.Contains(out, "illegal") && !strings.Contains(out, "invalid") {
		t.Errorf("an illegal name: %v\n%s", err, out)
	}
	kafka.Run(t, "", configCommand, "--bootstrap-server", n.Addr, "--alter", "--entity-type", "topics", "--entity-name", "first", "--add-config", "segment.bytes=2097152")
	if got := kafka.Run(t, "", configCommand, "--bootstrap-server", n.Addr, "--describe", "--entity-type", "topics", "--entity-name", "first"); !strings.Contains(got, "segment.bytes=2097152") {
		t.Errorf("config describe:\n%s", got)
	}
	topics("--delete", "--topic", "first")
	if got := topics("--list"); strings.TrimSpace(got) != "" {
		t.Errorf("list after delete: %q", got)
	}
}

func TestJavaProduceAndConsume(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t)
	const records = 20000
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		t.Run(codec, func(t *testing.T) {
			topic := "perf-" + codec
			kafka.Run(t, "", topicCommand, "--bootstrap-server", n.Addr, "--create", "--topic", topic, "--partitions", "1")
			out := kafka.Run(t, "", producerPerformance, "--topic", topic, "--num-records", fmt.Sprint(records), "--record-size", "100",
				"--throughput", "-1", "--producer-props", "bootstrap.servers="+n.Addr, "acks=all", "compression.type="+codec)
			if !strings.Contains(out, fmt.Sprintf("%d records sent", records)) {
				t.Fatalf("ProducerPerformance:\n%s", out)
			}
			out = kafka.Run(t, "", consoleConsumer, "--bootstrap-server", n.Addr, "--topic", topic, "--partition", "0",
				"--offset", "earliest", "--max-messages", fmt.Sprint(records), "--timeout-ms", "30000")
			if got := strings.Count(out, "\n"); got != records {
				t.Errorf("consumed %d records, want %d", got, records)
			}
		})
	}
}

// TestJavaHeadersAndLargeRecords: what the console clients write and read besides plain lines, and a record that is refused.
func TestJavaHeadersAndLargeRecords(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, "num.partitions=1")
	lines := "colour:blue,size:\tkey\tvalue\nnothing:\t\t" + strings.Repeat("x", 900000) + "\n"
	kafka.Run(t, lines, consoleProducer, "--bootstrap-server", n.Addr, "--topic", "facts", "--reader-property", "parse.headers=true", "--reader-property", "parse.key=true")
	out := kafka.Run(t, "", consoleConsumer, "--bootstrap-server", n.Addr, "--topic", "facts", "--from-beginning", "--max-messages", "2", "--timeout-ms", "20000",
		"--formatter-property", "print.headers=true", "--formatter-property", "print.key=true")
	if out != lines {
		t.Errorf("%d bytes came back of %d; they begin with %.100q", len(out), len(lines), out)
	}
	kafka.Run(t, "", topicCommand, "--bootstrap-server", n.Addr, "--create", "--topic", "narrow", "--config", "max.message.bytes=20")
	out, err := kafka.Try("", verifiableProducer, "--bootstrap-server", n.Addr, "--topic", "narrow", "--max-messages", "1")
	if !strings.Contains(out, "producer_send_error") || !strings.Contains(out, "RecordTooLargeException") {
		t.Errorf("a record beyond max.message.bytes: %v\n%s", err, out)
	}
	if got := strings.TrimSpace(kafka.Run(t, "", getOffsets, "--bootstrap-server", n.Addr, "--topic", "narrow")); got != "narrow:0:0" {
		t.Errorf("it is there: %q", got)
	}
}

func TestJavaConsoleFromAnOffset(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, "num.partitions=1")
	// The topic is created by its first use.
	kafka.Run(t, "one\ntwo\nthree\nfour\n", consoleProducer, "--bootstrap-server", n.Addr, "--topic", "words")
	out := kafka.Run(t, "", consoleConsumer, "--bootstrap-server", n.Addr, "--topic", "words", "--partition", "0", "--offset", "2",
		"--max-messages", "2", "--timeout-ms", "20000")
	if out != "three\nfour\n" {
		t.Errorf("from offset 2: %q", out)
	}
	if got := strings.TrimSpace(kafka.Run(t, "", getOffsets, "--bootstrap-server", n.Addr, "--topic", "words")); got != "words:0:4" {
		t.Errorf("latest offset: %q", got)
	}
	file := filepath.Join(t.TempDir(), "offsets.json")
	text := `{"partitions":[{"topic":"words","partition":0,"offset":3}],"version":1}`
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	kafka.Run(t, "", deleteRecords, "--bootstrap-server", n.Addr, "--offset-json-file", file)
	if got := strings.TrimSpace(kafka.Run(t, "", getOffsets, "--bootstrap-server", n.Addr, "--topic", "words", "--time", "earliest")); got != "words:0:3" {
		t.Errorf("earliest offset after delete-records: %q", got)
	}
}

func TestJavaVerifiableProducer(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t)
	out := kafka.Run(t, "", verifiableProducer, "--bootstrap-server", n.Addr, "--topic", "verified", "--max-messages", "500", "--acks", "-1")
	acked := 0
	for line := range strings.Lines(out) {
		var event struct{ Name string }
		if json.Unmarshal([]byte(line), &event) == nil && event.Name == "producer_send_success" {
			acked++
		}
	}
	if acked != 500 {
		t.Errorf("%d of 500 acked", acked)
	}
}

func TestJavaAdminTools(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t)
	kafka.Run(t, "", topicCommand, "--bootstrap-server", n.Addr, "--create", "--topic", "seen", "--partitions", "2")
	for _, check := range []struct {
		class string
		args  []string
		want  string
	}{
		{clusterTool, []string{"cluster-id", "--bootstrap-server", n.Addr}, `Cluster ID: \S{22}`},
		{metadataQuorum, []string{"--bootstrap-server", n.Addr, "describe", "--status"}, `LeaderId:\s+1\n`},
		{metadataQuorum, []string{"--bootstrap-server", n.Addr, "describe", "--replication"}, `(?m)^1\s.*Leader`},
		{logDirs, []string{"--bootstrap-server", n.Addr, "--describe"}, `"partition":"seen-1"`},
		{apiVersions, []string{"--bootstrap-server", n.Addr}, `Produce\(0\): 0 to 13 \[usable: 13\]`},
	} {
		out := kafka.Run(t, "", check.class, check.args...)
		if !regexp.MustCompile(check.want).MatchString(out) {
			t.Errorf("%s %v lacks %s:\n%s", check.class, check.args, check.want, out)
		}
	}
}

// TestJavaReadsOurFiles: Apache Kafka's dump tool reads every file that it knows, byte for byte ours.
func TestJavaReadsOurFiles(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, "log.segment.bytes=1048576", "log.index.interval.bytes=4096")
	kafka.Run(t, "", topicCommand, "--bootstrap-server", n.Addr, "--create", "--topic", "first", "--partitions", "1")
	kafka.Run(t, "", producerPerformance, "--topic", "first", "--num-records", "30000", "--record-size", "100",
		"--throughput", "-1", "--producer-props", "bootstrap.servers="+n.Addr, "acks=all", "enable.idempotence=true")
	n.Stop(t)

	dir := filepath.Join(n.Dir, "first-0")
	var logs, indexes, snapshots []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch filepath.Ext(e.Name()) {
		case ".log":
			logs = append(logs, path)
		case ".index", ".timeindex":
			indexes = append(indexes, path)
		case ".snapshot":
			snapshots = append(snapshots, path)
		}
	}
	if len(logs) < 3 || len(snapshots) == 0 {
		t.Fatalf("%d segments, %d snapshots in %s", len(logs), len(snapshots), dir)
	}
	out := kafka.Run(t, "", dumpLogSegments, "--deep-iteration", "--files", strings.Join(logs, ","))
	if got := strings.Count(out, "| offset:"); got != 30000 {
		t.Errorf("the dump shows %d records, want 30000", got)
	}
	for _, bad := range []string{"isvalid: false", "invalid bytes", "Found"} {
		if strings.Contains(out, bad) {
			t.Errorf("the dump says %q", bad)
		}
	}
	out = kafka.Run(t, "", dumpLogSegments, "--index-sanity-check", "--files", strings.Join(indexes, ","))
	if got := strings.Count(out, "passed sanity check"); got != len(indexes) {
		t.Errorf("%d of %d indexes pass Kafka's check:\n%s", got, len(indexes), out)
	}
	out = kafka.Run(t, "", dumpLogSegments, "--verify-index-only", "--files", strings.Join(indexes, ","))
	if strings.Contains(out, "Mismatches") || strings.Contains(out, "not found") {
		t.Errorf("indexes do not agree with the log:\n%s", out)
	}
	out = kafka.Run(t, "", dumpLogSegments, "--files", snapshots[len(snapshots)-1])
	if !strings.Contains(out, "producerId:") {
		t.Errorf("the snapshot shows no producer:\n%s", out)
	}

	metadata := filepath.Join(n.Dir, "__cluster_metadata-0")
	out = kafka.Run(t, "", dumpLogSegments, "--cluster-metadata-decoder", "--files", filepath.Join(metadata, "00000000000000000000.log"))
	for _, want := range []string{`"type":"TOPIC_RECORD"`, `"type":"PARTITION_RECORD"`, `"type":"REGISTER_BROKER_RECORD"`, `"type":"FEATURE_LEVEL_RECORD"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the metadata log shows no %s", want)
		}
	}
	if strings.Contains(out, "Could not") || strings.Contains(out, "isvalid: false") {
		t.Errorf("the metadata log is not clean to Kafka:\n%s", out)
	}
}

// TestFilesOfTheMission is the listing of the mission, section 5: names and sizes of a partition that is in use.
func TestFilesOfTheMission(t *testing.T) {
	n := harness.Start(t, "num.partitions=3")
	kcat := harness.Tool(t, "kcat", "install the package kcat")
	runKcat(t, kcat, "hello world\n", "-P", "-b", n.Addr, "-t", "first", "-p", "0")
	for partition := range 3 {
		dir := filepath.Join(n.Dir, fmt.Sprintf("first-%d", partition))
		for name, size := range map[string]int64{
			"00000000000000000000.index":     10485760,
			"00000000000000000000.timeindex": 10485756,
			"00000000000000000000.log":       -1,
			"leader-epoch-checkpoint":        -1,
		} {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				t.Errorf("%s: %v", dir, err)
				continue
			}
			if size >= 0 && info.Size() != size {
				t.Errorf("%s/%s has %d bytes, want %d", dir, name, info.Size(), size)
			}
		}
	}
}

// TestJavaIdempotentProducerOverAKill: a producer that retries into a node that was killed loses and doubles nothing.
func TestJavaIdempotentProducerOverAKill(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t, "num.partitions=1")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := kafka.Command(ctx, verifiableProducer, "--bootstrap-server", n.Addr, "--topic", "verified", "--max-messages", "3000",
		"--throughput", "1000", "--acks", "-1", "--producer.config", producerConfig(t))
	result := make(chan string, 1)
	go func() {
		out, err := harness.Output(cmd, "")
		if err != nil {
			out += err.Error()
		}
		result <- out
	}()
	for range 3 {
		select {
		case out := <-result:
			result <- out
		case <-time.After(1500 * time.Millisecond):
		}
		n.Kill(t)
		n.Run(t)
	}
	out := <-result
	acked := make(map[string]int64)
	for line := range strings.Lines(out) {
		var event struct {
			Name   string
			Value  string
			Offset int64
		}
		if json.Unmarshal([]byte(line), &event) == nil && event.Name == "producer_send_success" {
			acked[event.Value] = event.Offset
		}
	}
	if len(acked) != 3000 {
		t.Fatalf("%d of 3000 acked:\n%s", len(acked), lastLines(out, 20))
	}
	got := kafka.Run(t, "", consoleConsumer, "--bootstrap-server", n.Addr, "--topic", "verified", "--partition", "0", "--offset", "earliest",
		"--max-messages", "3000", "--timeout-ms", "20000")
	seen := make(map[string]bool)
	offset := int64(0)
	for line := range strings.Lines(got) {
		value := strings.TrimSpace(line)
		if seen[value] {
			t.Errorf("%s is there twice", value)
		}
		seen[value] = true
		if acked[value] != offset {
			t.Errorf("%s was acked at %d and is at %d", value, acked[value], offset)
		}
		offset++
	}
	if len(seen) != 3000 {
		t.Errorf("%d of 3000 records are there", len(seen))
	}
}

func producerConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "producer.properties")
	text := "enable.idempotence=true\nretries=2147483647\nretry.backoff.ms=50\nreconnect.backoff.max.ms=200\ndelivery.timeout.ms=60000\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func lastLines(s string, n int) string {
	lines := strings.Split(s, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
