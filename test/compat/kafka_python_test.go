package compat

import (
	"strings"
	"testing"

	"moldau/test/harness"
)

// codecsOfPython are the packages that make the codecs of both pure Python clients available.
var codecsOfPython = []string{"cramjam==2.14.0", "python-snappy==0.7.3", "lz4==4.4.5", "zstandard==0.25.0", "crc32c==2.9.post0"}

// kafkaPythonMember is a member of kafka-python that reads until it is killed.
const kafkaPythonMember = `
import sys
from kafka import KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
name = sys.argv[2]
assignor = {"range": RangePartitionAssignor, "cooperative": CooperativeStickyAssignor}[name]
c = KafkaConsumer(name, bootstrap_servers=sys.argv[1], group_id=name, session_timeout_ms=6000, heartbeat_interval_ms=300, partition_assignment_strategy=[assignor])
while True:
    c.poll(100)
`

const kafkaPythonProgram = `
import subprocess, sys, time
from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError, TopicAlreadyExistsError
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
address, name, child_program = sys.argv[1:]
assignor = {"range": RangePartitionAssignor, "cooperative": CooperativeStickyAssignor}[name]
admin = KafkaAdminClient(bootstrap_servers=address)
admin.create_topics({name: {"num_partitions": 4, "replication_factor": 1}}, wait_for_metadata=True)
try:
    admin.create_topics({name: {"num_partitions": 4, "replication_factor": 1}})
    sys.exit("a topic was created twice")
except TopicAlreadyExistsError:
    pass
sent = {}
def produce(codec, values, idempotent=True):
    producer = KafkaProducer(bootstrap_servers=address, compression_type=codec, enable_idempotence=idempotent, acks="all", linger_ms=20, max_request_size=1 << 22)
    futures = []
    for i, value in enumerate(values):
        futures.append((producer.send(name, value, key=b"k%d" % i, partition=i % 4, headers=[("codec", str(codec).encode()), ("empty", b"")]), value))
    for future, value in futures:
        at = future.get(30)
        sent[(at.partition, at.offset)] = (str(codec), value)
    producer.close()
for codec in (None, "gzip", "snappy", "lz4", "zstd"):
    produce(codec, [b"%s %d" % (str(codec).encode(), i) for i in range(100)], idempotent=codec != "gzip")
produce(None, [b"x" * 900000])
try:
    produce(None, [b"x" * 1100000])
    sys.exit("a record beyond max.message.bytes was accepted")
except MessageSizeTooLargeError:
    pass
got = {}
def member():
    return KafkaConsumer(name, bootstrap_servers=address, group_id=name, partition_assignment_strategy=[assignor], session_timeout_ms=6000, heartbeat_interval_ms=300,
        auto_offset_reset="earliest", enable_auto_commit=False)
def until(what, good, *members, within=30):
    end = time.monotonic() + within
    while not good():
        assert time.monotonic() < end, "not in %d s: %s" % (within, what)
        for m in members:
            for records in m.poll(50).values():
                for r in records:
                    headers = dict(r.headers)
                    assert headers["empty"] == b"", r.headers
                    got[(r.partition, r.offset)] = (headers["codec"].decode(), r.value)
a = member()
until("a reads all", lambda: len(got) == len(sent), a)
assert got == sent
a.commit()
b = member()
until("two share", lambda: len(a.assignment()) == 2 and len(b.assignment()) == 2, a, b)
b.close()
until("a has all again", lambda: len(a.assignment()) == 4, a, within=5)
child = subprocess.Popen([sys.executable, "-c", child_program, address, name])
try:
    until("the child has its share", lambda: len(a.assignment()) == 2, a)
finally:
    child.kill()
    child.wait()
until("a has the child's share", lambda: len(a.assignment()) == 4, a, within=15)
a.commit()
a.close()
# The next one goes on where the group has stopped.
got = {}
sent = {}
produce("zstd", [b"new %d" % i for i in range(40)])
c = member()
until("c reads what is new", lambda: len(got) >= 40, c)
assert got == sent
c.close()
lost = KafkaConsumer(bootstrap_servers=address, auto_offset_reset="none", enable_auto_commit=False)
lost.assign([TopicPartition(name, 0)])
lost.seek(TopicPartition(name, 0), 1000000)
try:
    end = time.monotonic() + 20
    while time.monotonic() < end:
        lost.poll(200)
    sys.exit("an offset beyond the end is not out of range")
except OffsetOutOfRangeError:
    pass
lost.close()
# A static member that comes back has its part again, and the others do not notice.
moves = []
class Moves(ConsumerRebalanceListener):
    def __init__(self, who):
        self.who = who
    def on_partitions_assigned(self, assigned):
        moves.append(self.who)
    def on_partitions_revoked(self, revoked):
        pass
def static(who):
    c = KafkaConsumer(bootstrap_servers=address, group_id=name + "-static", group_instance_id=who, partition_assignment_strategy=[assignor], session_timeout_ms=30000,
        heartbeat_interval_ms=300, auto_offset_reset="latest", enable_auto_commit=False)
    c.subscribe([name], listener=Moves(who))
    return c
one, two = static("one"), static("two")
until("two share", lambda: len(one.assignment()) == 2 and len(two.assignment()) == 2, one, two)
settled = time.monotonic() + 1
until("nothing moves any more", lambda: time.monotonic() > settled, one, two)
before = two.assignment()
moves.clear()
two.close()
two = static("two")
until("the static member is back", lambda: len(two.assignment()) == 2, one, two)
assert two.assignment() == before and moves == ["two"], (two.assignment(), before, moves)
one.close()
two.close()
admin.close()
print("good")
`

// TestKafkaPython: kafka-python produces in every codec, and its members join, leave, are killed, commit and resume; static ones come
// back.
func TestKafkaPython(t *testing.T) {
	skipClients(t)
	python := harness.Python(t, append([]string{"kafka-python==3.0.12"}, codecsOfPython...)...)
	n := harness.Start(t, quickGroups)
	for _, assignor := range []string{"range", "cooperative"} {
		t.Run(assignor, func(t *testing.T) {
			t.Parallel() // a session takes seconds to end
			if got := harness.RunPython(t, python, kafkaPythonProgram, n.Addr, assignor, kafkaPythonMember); strings.TrimSpace(got) != "good" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// skipClients keeps a short run short: each of these clients waits for a session to end.
func skipClients(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short")
	}
}
