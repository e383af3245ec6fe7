package zookeeper

import (
	"strings"
	"testing"

	"moldau/test/harness"
)

// TestKazoo runs kazoo's own recipes, which lean on sessions, sequences, watches and their order.
func TestKazoo(t *testing.T) {
	python := harness.Python(t, "kazoo==2.11.0")
	out := harness.RunPython(t, python, kazooProgram, startNode(t))
	if !strings.HasSuffix(strings.TrimSpace(out), "all done") {
		t.Fatalf("kazoo said:\n%s", out)
	}
}

const kazooProgram = `
import sys, threading
from kazoo.client import KazooClient
from kazoo.exceptions import *

def client():
    c = KazooClient(hosts=sys.argv[1], timeout=30)
    c.start(timeout=60)
    return c

a, b = client(), client()

# A lock is held by one at a time.
held, most, order = [0], [0], []
def work(c, name):
    with c.Lock("/locks/one", name):
        held[0] += 1
        most[0] = max(most[0], held[0])
        order.append(name)
        held[0] -= 1
threads = [threading.Thread(target=work, args=(c, "%s%d" % (n, i))) for i in range(10) for n, c in (("a", a), ("b", b))]
[t.start() for t in threads]
[t.join(120) for t in threads]
assert most[0] == 1 and len(order) == 20, (most, order)

# Barriers, queues, counters, elections.
barrier = a.Barrier("/barrier")
barrier.create()
assert not b.Barrier("/barrier").wait(0.1)
waiter = threading.Thread(target=lambda: b.Barrier("/barrier").wait(60))
waiter.start()
barrier.remove()
waiter.join(60)
assert not waiter.is_alive()
queue = a.LockingQueue("/queue")
queue.put_all([b"one", b"two", b"three"])
other = b.LockingQueue("/queue")
for want in (b"one", b"two", b"three"):
    assert other.get(60) == want
    other.consume()
counters = [c.Counter("/counter") for c in (a, b)]
def count(c):
    for _ in range(20):
        c += 1
threads = [threading.Thread(target=count, args=(c,)) for c in counters]
[t.start() for t in threads]
[t.join(120) for t in threads]
assert a.Counter("/counter").value == 40, a.Counter("/counter").value
leaders = []
election = [c.Election("/election", n) for n, c in (("a", a), ("b", b))]
for e, n in zip(election, "ab"):
    t = threading.Thread(target=e.run, args=(leaders.append, n))
    t.start()
    t.join(60)
assert leaders == ["a", "b"], leaders

# Transactions and watches.
t = a.transaction()
t.create("/t", b"1")
t.create("/t/u", b"2")
t.set_data("/t", b"3")
t.check("/t", 1)
got = t.commit()
assert got[0] == "/t" and got[2].version == 1, got
t = a.transaction()
t.delete("/t/u")
t.check("/t", 9)
got = t.commit()
assert isinstance(got[0], RolledBackError) and isinstance(got[1], BadVersionError), got
assert a.exists("/t/u")
seen, changed = [], threading.Event()
@b.ChildrenWatch("/t")
def children(names):
    seen.append(sorted(names))
    if "gone" in names:
        changed.set()
a.create("/t/gone", ephemeral=True)
assert changed.wait(60), seen
changed.clear()
@b.DataWatch("/t/gone")
def data(value, stat):
    if stat is None:
        changed.set()
a.stop()
assert changed.wait(60)

# Errors are those of ZooKeeper.
for error, f in ((NoNodeError, lambda: b.get("/none")), (NodeExistsError, lambda: b.create("/t")), (NotEmptyError, lambda: b.delete("/t")),
                 (BadVersionError, lambda: b.set("/t", b"", version=7)), (NoAuthError, lambda: b.create("/brokers/mine"))):
    try:
        f()
        assert False, error
    except error:
        pass
assert b.server_version()[:2] == (3, 4)
b.stop()
print("all done")
`
