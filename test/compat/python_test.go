package compat

import (
	"strings"
	"testing"

	"moldau/test/harness"
)

const confluentProgram = `
import sys
from confluent_kafka import Producer, Consumer, TopicPartition, OFFSET_BEGINNING
from confluent_kafka.admin import AdminClient, NewTopic
address = sys.argv[1]
admin = AdminClient({"bootstrap.servers": address})
for name, future in admin.create_topics([NewTopic("py", num_partitions=2, replication_factor=1)]).items():
    future.result(10)
sent = []
producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "compression.type": "zstd", "linger.ms": 5})
def delivered(err, message):
    assert err is None, err
    sent.append((message.partition(), message.offset(), message.value()))
for i in range(2000):
    producer.produce("py", value=b"v%d" % i, key=b"k%d" % i, partition=i % 2, headers=[("n", b"%d" % i)], on_delivery=delivered)
    producer.poll(0)
assert producer.flush(30) == 0
consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": False})
consumer.assign([TopicPartition("py", p, OFFSET_BEGINNING) for p in (0, 1)])
got = []
while len(got) < 2000:
    message = consumer.poll(10)
    assert message is not None, "nothing for 10 s after %d records" % len(got)
    assert message.error() is None, message.error()
    assert dict(message.headers())["n"] == message.value()[1:]
    got.append((message.partition(), message.offset(), message.value()))
assert sorted(got) == sorted(sent)
low, high = consumer.get_watermark_offsets(TopicPartition("py", 0), timeout=10)
assert (low, high) == (0, 1000), (low, high)
consumer.close()
print("good")
`

func TestConfluentKafkaPython(t *testing.T) {
	python := harness.Python(t, "confluent-kafka==2.16.1")
	n := harness.Start(t)
	if got := harness.RunPython(t, python, confluentProgram, n.Addr); strings.TrimSpace(got) != "good" {
		t.Errorf("got %q", got)
	}
}
