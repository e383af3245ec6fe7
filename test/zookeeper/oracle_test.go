package zookeeper

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"moldau/test/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// genuine is the release that the others are compared with: the one that Apache Kafka 1.1.1 came with.
const genuine = "1.1.1"

// both starts a node and a genuine ZooKeeper.
func both(t *testing.T) (ours, theirs *peer) {
	t.Helper()
	zookeeper := harness.ApacheKafka(t, genuine).ZooKeeper(t)
	return newPeer(t, "moldau", startNode(t)), newPeer(t, "ZooKeeper", zookeeper)
}

// startNode returns the ZooKeeper port of a node.
func startNode(t *testing.T) string {
	t.Helper()
	addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)[0])
	harness.Start(t, "zookeeper.listeners="+addr)
	return addr
}

// pair is the same client of both servers.
type pair struct {
	t            *testing.T
	ours, theirs *conn
	told         *[]string // what has been done, for the message of a failure
}

// same fails unless both servers said the same.
func (p pair) same(what, ours, theirs string) string {
	p.t.Helper()
	*p.told = append(*p.told, what, theirs)
	if ours != theirs {
		told := (*p.told)[max(0, len(*p.told)-30):]
		p.t.Fatalf("%s\nmoldau:    %s\nZooKeeper: %s\n\nbefore:\n%s", what, ours, theirs, strings.Join(told, "\n"))
	}
	return ours
}

func connectBoth(t *testing.T, told *[]string, ours, theirs *peer, who string, timeoutMs int) pair {
	t.Helper()
	p := pair{t: t, told: told}
	var a, b string
	p.ours, a = ours.connect(who, timeoutMs, nil)
	p.theirs, b = theirs.connect(who, timeoutMs, nil)
	p.same(fmt.Sprintf("%s connects for %d ms", who, timeoutMs), a, b)
	return p
}

// again takes the session up on a new connection.
func (p *pair) again(timeoutMs int) {
	p.t.Helper()
	var a, b string
	p.ours, a = p.ours.connect(p.ours.who, timeoutMs, p.ours)
	p.theirs, b = p.theirs.connect(p.theirs.who, timeoutMs, p.theirs)
	p.same(p.ours.who+" takes its session up", a, b)
}

// do sends the same request to both.
func (p pair) do(what string, kind int, body []byte) string {
	p.t.Helper()
	return p.same(p.ours.who+": "+what, p.ours.do(kind, body), p.theirs.do(kind, body))
}

// TestRandomOperations sends random operations of two sessions, valid and not, and compares every answer, every Stat and the
// order of every event. Zxids that failed writes take in ZooKeeper are the one thing that is not looked at.
func TestRandomOperations(t *testing.T) {
	ours, theirs := both(t)
	for seed := range uint64(6 * harness.Thorough()) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			ours, theirs := *ours, *theirs
			ours.t, theirs.t = t, t
			g := &generator{rng: rand.New(rand.NewPCG(seed, 7)), root: fmt.Sprintf("/oracle%d", seed)}
			var told []string
			clients := []pair{
				connectBoth(t, &told, &ours, &theirs, "a", 30000),
				connectBoth(t, &told, &ours, &theirs, "b", 30000),
			}
			clients[0].do("create "+g.root, opCreate, words(g.root, []byte{}, open, 0))
			for range 400 {
				at := g.rng.IntN(2)
				g.step(&clients[at])
				// An event for the other was sent before this answer: it comes before the answer to a ping.
				clients[1-at].do("ping", opPing, nil)
			}
			for _, c := range clients {
				c.do("close", opCloseSession, nil)
				c.same("the connection", c.ours.do(opPing, nil), c.theirs.do(opPing, nil))
			}
		})
	}
}

// generator makes operations.
type generator struct {
	rng  *rand.Rand
	root string
}

func pick[T any](g *generator, from ...T) T { return from[g.rng.IntN(len(from))] }

func (g *generator) path() string {
	switch g.rng.IntN(40) {
	case 0:
		return pick(g, "x", "//", g.root+"/", g.root+"//a", g.root+"/./a", g.root+"/..", g.root+"/a/.", g.root+"/.a", g.root+"/a..")
	case 1:
		return pick(g, g.root+"/\x00", g.root+"/\x01", g.root+"/\x1e", g.root+"/\x1f", g.root+"/\x7f", g.root+"/\u0080", g.root+"/\u009e", g.root+"/\u009f", g.root+"/é",
			g.root+"/\ue000", g.root+"/\uf8fe", g.root+"/\uf8ff", g.root+"/\ufff0", g.root+"/\ufff1", g.root+"/\xff")
	}
	path := g.root
	for range 1 + g.rng.IntN(3) {
		path += "/" + pick(g, "a", "b", "c")
	}
	return path
}

func (g *generator) data() any {
	return pick[any](g, nil, []byte{}, []byte("x"), []byte("some data"), make([]byte, 3000))
}

func (g *generator) acl() raw {
	if g.rng.IntN(3) > 0 {
		return open
	}
	return pick(g, acls(), acls(acl{1, "world", "anyone"}), acls(acl{31, "auth", ""}), acls(acl{31, "digest", "u:p"}), acls(acl{31, "digest", "u"}),
		acls(acl{31, "digest", "u:"}), acls(acl{31, "digest", ":p"}), acls(acl{31, "digest", "a:b:c"}),
		acls(acl{31, "ip", "127.0.0.1"}), acls(acl{31, "ip", "10.0.0.0/8"}), acls(acl{31, "ip", "127.0.0.0/8"}), acls(acl{31, "ip", "127.0.0.1/33"}), acls(acl{31, "ip", "none"}),
		acls(acl{31, "none", "x"}), acls(acl{15, "world", "anyone"}, acl{31, "auth", "x"}, acl{15, "world", "anyone"}),
		acls(acl{31, "world", "someone"}), words(nil))
}

func (g *generator) version() int { return pick(g, -1, -1, -1, -1, 0, 1, 2, -2) }

func (g *generator) watch() bool { return g.rng.IntN(2) == 0 }

// write is an operation that a multi may have, too.
func (g *generator) write() (what string, kind int, body []byte) {
	path, version := g.path(), g.version()
	switch g.rng.IntN(5) {
	case 0, 1:
		flags := pick(g, 0, 0, 0, 1, 2, 3, 0, 0, 0, 4, -1)
		data := g.data()
		list := g.acl()
		return fmt.Sprintf("create %q flags=%d data=%.20q acl=%q", path, flags, data, list), opCreate, words(path, data, list, flags)
	case 2:
		return fmt.Sprintf("delete %q version=%d", path, version), opDelete, words(path, version)
	case 3:
		data := g.data()
		return fmt.Sprintf("set %q version=%d data=%.20q", path, version, data), opSetData, words(path, data, version)
	}
	return fmt.Sprintf("check %q version=%d", path, version), opCheck, words(path, version)
}

func (g *generator) step(p *pair) {
	p.t.Helper()
	path := g.path()
	switch g.rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		what, kind, body := g.write()
		if kind != opCheck { // alone it is asked by nobody
			p.do(what, kind, body)
		}
	case 6, 7:
		p.do(fmt.Sprintf("exists %q", path), opExists, words(path, g.watch()))
	case 8, 9:
		p.do(fmt.Sprintf("get %q", path), opGetData, words(path, g.watch()))
	case 10, 11:
		p.do(fmt.Sprintf("children %q", path), pick(g, opGetChildren, opGetChildren2), words(path, g.watch()))
	case 12:
		p.do(fmt.Sprintf("get ACL %q", path), opGetACL, words(path))
	case 13:
		list, version := g.acl(), g.version()
		p.do(fmt.Sprintf("set ACL %q version=%d %q", path, version, list), opSetACL, words(path, list, version))
	case 14:
		p.do(fmt.Sprintf("sync %q", path), opSync, words(path))
	case 15, 16:
		g.multi(p)
	case 17:
		g.comeBack(p)
	case 18:
		if g.rng.IntN(3) == 0 {
			p.do("auth", opAuth, words(0, "digest", []byte(pick(g, "u:p", "v", ""))))
		}
	case 19:
		what, kind, body := g.write()
		body = body[:g.rng.IntN(len(body))]
		p.do(fmt.Sprintf("%s, cut to %d bytes", what, len(body)), kind, body)
	}
}

func (g *generator) multi(p *pair) {
	var what []string
	var all []byte
	for range g.rng.IntN(5) {
		each, kind, body := g.write()
		what = append(what, each)
		all = append(all, words(kind, false, -1, raw(body))...)
	}
	all = append(all, words(-1, true, -1)...)
	p.do("multi: "+strings.Join(what, "; "), opMulti, all)
}

// comeBack breaks the connection and sets watches, some of which have to fire at once.
func (g *generator) comeBack(p *pair) {
	_ = p.ours.nc.Close()
	_ = p.theirs.nc.Close()
	p.again(30000)
	since := g.rng.IntN(min(len(p.ours.seen), len(p.theirs.seen)))
	var lists [3][]string
	for i := range lists {
		for range g.rng.IntN(4) {
			if path := g.path(); !slices.Contains(lists[i], path) {
				lists[i] = append(lists[i], path)
			}
		}
	}
	body := func(c *conn) []byte { return words(c.seen[since], lists[0], lists[1], lists[2]) }
	p.same(fmt.Sprintf("%s: set watches since %d: %q", p.ours.who, since, lists), p.ours.do(opSetWatches, body(p.ours)), p.theirs.do(opSetWatches, body(p.theirs)))
}
