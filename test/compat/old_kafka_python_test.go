package compat

import (
	"strings"
	"testing"

	"moldau/test/harness"
)

const oldKafkaPythonProgram = `
import sys
from kafka import KafkaProducer, KafkaConsumer, TopicPartition
versions = [(0, 8, 2), (0, 9), (0, 10), (0, 10, 1), (0, 11), (1, 0, 0), (2, 5, 0)]
tp = TopicPartition("old-python", 0)
sent = []
for version in versions:
    for codec in [None, "gzip", "snappy", "lz4"]:
        producer = KafkaProducer(bootstrap_servers=sys.argv[1], api_version=version, compression_type=codec, acks="all", linger_ms=20)
        futures = []
        for i in range(10):
            key, value = b"%d" % i, (b"%s of %s, " % (str(version).encode(), str(codec).encode())) * 20
            futures.append((key, value, producer.send(tp.topic, key=key, value=value, partition=0)))
        producer.flush()
        sent += [(future.get(10).offset, key, value) for key, value, future in futures]
        producer.close()
for version in versions:
    consumer = KafkaConsumer(bootstrap_servers=sys.argv[1], api_version=version, group_id=None, enable_auto_commit=False, consumer_timeout_ms=20000)
    consumer.assign([tp])
    consumer.seek(tp, 0)
    got = []
    for message in consumer:
        got.append((message.offset, message.key, message.value))
        if len(got) == len(sent):
            break
    assert got == sent, (version, len(got), len(sent))
    consumer.close()
print("good")
`

// TestOldKafkaPython: the last kafka-python that still spoke to brokers of 0.8, as if the node was of that and each later age.
func TestOldKafkaPython(t *testing.T) {
	skipClients(t)
	python := harness.Python(t, "kafka-python==2.0.2", "python-snappy==0.7.3", "lz4==4.4.5", "xxhash==3.6.0")
	n := harness.Start(t, "num.partitions=1")
	if got := harness.RunPython(t, python, oldKafkaPythonProgram, n.Addr); strings.TrimSpace(got) != "good" {
		t.Errorf("got %q", got)
	}
}
