package compat

import (
	"path/filepath"
	"strings"
	"testing"

	"moldau/test/harness"
)

// TestCompressionOfTopics: whatever codec Apache Kafka's producer uses, a topic stores its batches as its compression.type
// says, Apache Kafka's consumer reads them, and its DumpLogSegments names that codec.
func TestCompressionOfTopics(t *testing.T) {
	kafka := harness.ApacheKafka(t, harness.KafkaVersion)
	n := harness.Start(t)
	want := "first\nsecond\nthird\n"
	for topic, sent := range map[string]string{"uncompressed": "zstd", "gzip": "none", "snappy": "lz4", "lz4": "gzip", "zstd": "snappy"} {
		mustOwnTool(t, "", "topics", "--bootstrap-server", n.Addr, "--create", "--topic", topic, "--config", "compression.type="+topic)
		kafka.Run(t, want, consoleProducer, "--bootstrap-server", n.Addr, "--topic", topic, "--compression-codec", sent)
		got := kafka.Run(t, "", consoleConsumer, "--bootstrap-server", n.Addr, "--topic", topic, "--partition", "0", "--offset", "earliest", "--max-messages", "3", "--timeout-ms", "30000")
		if got != want {
			t.Errorf("%s: Apache Kafka's consumer reads %q", topic, got)
		}
		codec := strings.Replace(topic, "uncompressed", "none", 1)
		out := kafka.Run(t, "", dumpLogSegments, "--files", filepath.Join(n.Dir, topic+"-0", "00000000000000000000.log"))
		if !strings.Contains(out, "compresscodec: "+codec) || strings.Contains(out, "isvalid: false") {
			t.Errorf("%s: DumpLogSegments says\n%s", topic, out)
		}
	}
}
