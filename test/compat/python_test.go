package compat

import (
	"strings"
	"testing"

	"moldau/test/harness"
)

const confluentProgram = `
import sys
from confluent_kafka import Producer, Consumer, KafkaError, KafkaException, TopicPartition, OFFSET_BEGINNING
from confluent_kafka.admin import AdminClient, NewTopic
address = sys.argv[1]
admin = AdminClient({"bootstrap.servers": address})
def create():
    for name, future in admin.create_topics([NewTopic("py", num_partitions=2, replication_factor=1)]).items():
        future.result(10)
create()
try:
    create()
    sys.exit("a topic was created twice")
except KafkaException as e:
    assert e.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS, e
sent, refused = [], []
def delivered(err, message):
    if err is None:
        sent.append((message.partition(), message.offset(), message.value()))
    else:
        refused.append(err.code())
def produce(codec, values):
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "compression.type": codec, "linger.ms": 5, "message.max.bytes": 2000000})
    for i, value in enumerate(values):
        producer.produce("py", value=value, key=b"k%d" % i, partition=i % 2, headers=[("size", b"%d" % len(value)), ("empty", b"")], on_delivery=delivered)
        producer.poll(0)
    assert producer.flush(30) == 0
for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    produce(codec, [b"%s %d" % (codec.encode(), i) for i in range(400)])
produce("none", [b"x" * 900000])
assert not refused, refused
produce("none", [b"x" * 1100000])
assert refused == [KafkaError.MSG_SIZE_TOO_LARGE], refused
consumer = Consumer({"bootstrap.servers": address, "group.id": "unused", "enable.auto.commit": False, "enable.partition.eof": False})
consumer.assign([TopicPartition("py", p, OFFSET_BEGINNING) for p in (0, 1)])
got = []
while len(got) < 2001:
    message = consumer.poll(10)
    assert message is not None, "nothing for 10 s after %d records" % len(got)
    assert message.error() is None, message.error()
    assert dict(message.headers()) == {"size": b"%d" % len(message.value()), "empty": b""}, message.headers()
    got.append((message.partition(), message.offset(), message.value()))
assert sorted(got) == sorted(sent)
low, high = consumer.get_watermark_offsets(TopicPartition("py", 1), timeout=10)
assert (low, high) == (0, 1000), (low, high)
consumer.close()
lost = Consumer({"bootstrap.servers": address, "group.id": "unused", "auto.offset.reset": "error"})
lost.assign([TopicPartition("py", 0, 1000000)])
message = lost.poll(20)
assert message is not None and message.error() is not None and message.error().code() == KafkaError._AUTO_OFFSET_RESET, message
lost.close()
print("good")
`

func TestConfluentKafkaPython(t *testing.T) {
	python := harness.Python(t, "confluent-kafka==2.16.1")
	n := harness.Start(t)
	if got := harness.RunPython(t, python, confluentProgram, n.Addr); strings.TrimSpace(got) != "good" {
		t.Errorf("got %q", got)
	}
}
