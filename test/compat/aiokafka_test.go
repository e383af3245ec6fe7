package compat

import (
	"strings"
	"testing"

	"moldau/test/harness"
)

// aiokafkaMember is a member of aiokafka that reads until it is killed.
const aiokafkaMember = `
import asyncio, sys
from aiokafka import AIOKafkaConsumer
async def main():
    c = AIOKafkaConsumer("aio", bootstrap_servers=sys.argv[1], group_id="aio", session_timeout_ms=6000, heartbeat_interval_ms=300)
    await c.start()
    while True:
        await c.getmany(timeout_ms=100)
asyncio.run(main())
`

const aiokafkaProgram = `
import asyncio, sys, time
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import MessageSizeTooLargeError, OffsetOutOfRangeError
address, child_program = sys.argv[1], sys.argv[2]
sent, got = {}, {}
async def produce(codec, values, idempotent=True):
    producer = AIOKafkaProducer(bootstrap_servers=address, compression_type=codec, enable_idempotence=idempotent, acks="all", linger_ms=20, max_request_size=1 << 22)
    await producer.start()
    try:
        futures = []
        for i, value in enumerate(values):
            future = await producer.send("aio", value, key=b"k%d" % i, partition=i % 4, headers=[("codec", str(codec).encode()), ("empty", b"")])
            futures.append((future, value))
        for future, value in futures:
            at = await asyncio.wait_for(future, 30)
            sent[(at.partition, at.offset)] = (str(codec), value)
    finally:
        await producer.stop()
async def member():
    c = AIOKafkaConsumer("aio", bootstrap_servers=address, group_id="aio", session_timeout_ms=6000, heartbeat_interval_ms=300,
        auto_offset_reset="earliest", enable_auto_commit=False)
    await c.start()
    return c
async def until(what, good, *members, within=30):
    end = time.monotonic() + within
    while not good():
        assert time.monotonic() < end, "not in %d s: %s" % (within, what)
        for m in members:
            for records in (await m.getmany(timeout_ms=50)).values():
                for r in records:
                    headers = dict(r.headers)
                    assert headers["empty"] == b"", r.headers
                    got[(r.partition, r.offset)] = (headers["codec"].decode(), r.value)
async def main():
    admin = AIOKafkaAdminClient(bootstrap_servers=address)
    await admin.start()
    await admin.create_topics([NewTopic("aio", 4, 1)])
    again = await admin.create_topics([NewTopic("aio", 4, 1)])
    assert [e[1] for e in again.topic_errors] == [36], again # TOPIC_ALREADY_EXISTS
    await admin.close()
    for codec in (None, "gzip", "snappy", "lz4", "zstd"):
        await produce(codec, [b"%s %d" % (str(codec).encode(), i) for i in range(100)], idempotent=codec != "gzip")
    await produce(None, [b"x" * 900000])
    try:
        await produce(None, [b"x" * 1100000])
        sys.exit("a record beyond max.message.bytes was accepted")
    except MessageSizeTooLargeError:
        pass
    a = await member()
    await until("a reads all", lambda: len(got) == len(sent), a)
    assert got == sent
    await a.commit()
    b = await member()
    await until("two share", lambda: len(a.assignment()) == 2 and len(b.assignment()) == 2, a, b)
    await b.stop()
    await until("a has all again", lambda: len(a.assignment()) == 4, a, within=5)
    child = await asyncio.create_subprocess_exec(sys.executable, "-c", child_program, address)
    try:
        await until("the child has its share", lambda: len(a.assignment()) == 2, a)
    finally:
        child.kill()
        await child.wait()
    await until("a has the child's share", lambda: len(a.assignment()) == 4, a, within=15)
    await a.commit()
    await a.stop()
    # The next one goes on where the group has stopped.
    got.clear()
    sent.clear()
    await produce("zstd", [b"new %d" % i for i in range(40)])
    c = await member()
    await until("c reads what is new", lambda: len(got) >= 40, c)
    assert got == sent
    await c.stop()
    lost = AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="none", enable_auto_commit=False)
    await lost.start()
    lost.assign([TopicPartition("aio", 0)])
    lost.seek(TopicPartition("aio", 0), 1000000)
    try:
        await asyncio.wait_for(lost.getone(), 20)
        sys.exit("an offset beyond the end is not out of range")
    except OffsetOutOfRangeError:
        pass
    await lost.stop()
    # A static member that comes back has its part again, and the others do not notice.
    moves = []
    class Moves(ConsumerRebalanceListener):
        def __init__(self, who):
            self.who = who
        def on_partitions_assigned(self, assigned):
            moves.append(self.who)
        def on_partitions_revoked(self, revoked):
            pass
    async def static(who):
        c = AIOKafkaConsumer(bootstrap_servers=address, group_id="static", group_instance_id=who, session_timeout_ms=30000, heartbeat_interval_ms=300,
            auto_offset_reset="latest", enable_auto_commit=False)
        c.subscribe(["aio"], listener=Moves(who))
        await c.start()
        return c
    one, two = await asyncio.gather(static("one"), static("two"))
    await until("two share", lambda: len(one.assignment()) == 2 and len(two.assignment()) == 2, one, two)
    settled = time.monotonic() + 1
    await until("nothing moves any more", lambda: time.monotonic() > settled, one, two)
    before = two.assignment()
    moves.clear()
    await two.stop()
    two = await static("two")
    await until("the static member is back", lambda: len(two.assignment()) == 2, one, two)
    assert two.assignment() == before and moves == ["two"], (two.assignment(), before, moves)
    await one.stop()
    await two.stop()
    print("good")
asyncio.run(main())
`

// TestAiokafka: aiokafka produces in every codec, and its members join, leave, are killed, commit and resume; static ones come back.
func TestAiokafka(t *testing.T) {
	skipClients(t)
	python := harness.Python(t, append([]string{"aiokafka==0.14.0"}, codecsOfPython...)...)
	n := harness.Start(t, quickGroups)
	if got := harness.RunPython(t, python, aiokafkaProgram, n.Addr, aiokafkaMember); strings.TrimSpace(got) != "good" {
		t.Errorf("got %q", got)
	}
}
