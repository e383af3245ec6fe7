package zookeeper

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestAttacks: what clients can do to a node's memory is bounded, whatever they send and do not read, and it goes on serving others.
func TestAttacks(t *testing.T) {
	addr := fmt.Sprintf("127.0.0.1:%d", harness.FreePorts(t, 1)[0])
	n := harness.Start(t, "zookeeper.listeners="+addr)
	honest, text := newPeer(t, "moldau", addr).connect("honest", 40000, nil)
	if !strings.Contains(text, "session=true") {
		t.Fatal(text)
	}
	honest.do(opCreate, words("/attack", []byte("x"), open, 0))
	for _, attack := range []struct {
		name string
		mib  int64 // more than before
		run  func(*testing.T, string)
	}{
		{"a million watches", 600, millionWatches},
		{"answers that nobody takes", 900, deafClients},
		{"requests that are one multi", 700, hugeMultis},
		{"as many sessions as come", 300, sessionFlood},
		{"ephemerals, and words that list them all", 900, ephemeralsAndWords},
		{"a deep tree", 300, deepTree},
		{"noise", 200, noise},
	} {
		t.Run(attack.name, func(t *testing.T) {
			before := harness.ResidentKiB(t, n.Pid()) >> 10
			during(honest, func() { attack.run(t, addr) })
			began := time.Now()
			if got := honest.do(opGetData, words("/attack", false)); !strings.Contains(got, `data="x"`) {
				t.Errorf("an honest client got %s", got)
			}
			after := harness.ResidentKiB(t, n.Pid()) >> 10
			t.Logf("%d MiB before, %d after; an honest client waited %v", before, after, time.Since(began).Round(time.Millisecond))
			if after > before+attack.mib {
				t.Errorf("the node takes %d MiB, took %d", after, before)
			}
		})
	}
	if code, body := n.Get(t, "/livez"); code != 200 {
		t.Errorf("/livez: %d %s", code, body)
	}
	for _, word := range []string{"panic", "invariant:", "fatal error"} {
		if i := strings.Index(n.Log(), word); i >= 0 {
			t.Errorf("%q in the log: %.2000s", word, n.Log()[i:])
		}
	}
}

// during has a client tell that it is there as clients do, until f returns, which may take longer than its session lasts.
func during(c *conn, f func()) {
	over := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(5 * time.Second):
				if got := c.do(opPing, nil); !strings.HasPrefix(got, "code=0") {
					c.t.Errorf("a ping of an honest client got %s", got)
					return
				}
			}
		}
	})
	defer telling.Wait()
	defer close(over)
	f()
}

// millionWatches sets watches of nodes that are not there, until the connection is cut.
func millionWatches(t *testing.T, addr string) {
	c, _ := newPeer(t, "moldau", addr).connect("watcher", 40000, nil)
	const each = 10_000
	for set := 0; set < 2_000_000; set += each {
		var paths []string
		for i := range each {
			paths = append(paths, fmt.Sprintf("/none/%d", set+i))
		}
		if got := c.do(opSetWatches, words(int64(0), []string{}, paths, []string{})); strings.Contains(got, "closed") {
			t.Logf("cut before %d watches", set+each)
			return
		}
	}
	t.Error("two million watches of one connection were set")
}

// deafClients ask for a large node on and on, and read nothing.
func deafClients(t *testing.T, addr string) {
	p := newPeer(t, "moldau", addr)
	c, _ := p.connect("maker", 40000, nil)
	c.do(opCreate, words("/attack/large", make([]byte, 900<<10), open, 0))
	ask := bytes.Repeat(frame(words(1, opGetData, "/attack/large", false)), 1000)
	var asking sync.WaitGroup
	for range 100 {
		deaf, _ := p.connect("deaf", 40000, nil)
		if err := deaf.nc.SetWriteDeadline(time.Now().Add(3 * time.Second)); err != nil {
			t.Fatal(err)
		}
		asking.Go(func() {
			for range 100 {
				if _, err := deaf.nc.Write(ask); err != nil {
					return
				}
			}
		})
	}
	asking.Wait()
}

// hugeMultis are as many creates as fit in a packet, all of which fail in the end.
func hugeMultis(t *testing.T, addr string) {
	p := newPeer(t, "moldau", addr)
	var body []byte
	for i := 0; len(body) < 1<<20-400; i++ {
		body = append(body, words(opCreate, false, -1, fmt.Sprintf("/attack/m%d", i), nil, open, 0)...)
	}
	body = append(body, words(opCheck, false, -1, "/attack", 99, -1, true, -1)...)
	var asking sync.WaitGroup
	for range 16 {
		c, _ := p.connect("multi", 40000, nil)
		asking.Go(func() {
			for range 3 {
				if err := c.nc.SetDeadline(time.Now().Add(patience)); err != nil {
					t.Error(err)
				}
				if _, err := c.nc.Write(frame(append(words(1, opMulti), body...))); err != nil {
					t.Error(err)
					return
				}
				if _, err := readFrame(c.nc); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	asking.Wait()
}

// sessionFlood begins sessions and leaves them to their timeouts.
func sessionFlood(t *testing.T, addr string) {
	var asking sync.WaitGroup
	for range 16 {
		asking.Go(func() {
			for range 500 {
				nc, err := net.DialTimeout("tcp", addr, patience)
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := nc.Write(frame(words(0, int64(0), 40000, int64(0), make([]byte, 16), false))); err != nil {
					t.Error(err)
				}
				if _, err := readFrame(nc); err != nil {
					t.Error(err)
				}
				_ = nc.Close()
			}
		})
	}
	asking.Wait()
}

// ephemeralsAndWords makes a session own many nodes; then many ask, with four letters, for the list of them.
func ephemeralsAndWords(t *testing.T, addr string) {
	p := newPeer(t, "moldau", addr)
	c, _ := p.connect("owner", 40000, nil)
	name := strings.Repeat("x", 100)
	for round := range 30 {
		var body []byte
		for i := range 5000 {
			body = append(body, words(opCreate, false, -1, fmt.Sprintf("/attack/%s-%d-%d", name, round, i), nil, open, 1)...)
		}
		if got := c.do(opMulti, append(body, words(-1, true, -1)...)); strings.Contains(got, "closed") {
			t.Fatal(got)
		}
	}
	var asking sync.WaitGroup
	for range 100 {
		nc := p.dial()
		asking.Go(func() {
			if _, err := nc.Write([]byte("dump")); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, nc)
		})
	}
	asking.Wait()
	if got := c.do(opCloseSession, nil); !strings.Contains(got, "code=0") {
		t.Errorf("the end of the session: %.200s", got)
	}
	q, _ := p.connect("other", 40000, nil)
	if got := q.do(opExists, words(fmt.Sprintf("/attack/%s-0-0", name), false)); !strings.Contains(got, "code=-101") {
		t.Errorf("an ephemeral outlives its session: %s", got)
	}
}

// deepTree makes a node in a node in a node.
func deepTree(t *testing.T, addr string) {
	c, _ := newPeer(t, "moldau", addr).connect("digger", 40000, nil)
	path := "/attack/deep"
	for range 3000 {
		if got := c.do(opCreate, words(path, nil, open, 0)); !strings.HasPrefix(got, "code=0") {
			t.Fatalf("%.200s", got)
		}
		path += "/d"
	}
	c.do(opCreate, words("/zookeeper/quota/attack", nil, open, 0))
	if got := c.do(opCreate, words("/zookeeper/quota/attack/zookeeper_limits", []byte("count=1,bytes=1"), open, 0)); !strings.HasPrefix(got, "code=0") {
		t.Errorf("%.200s", got)
	}
	c.do(opDelete, words("/zookeeper/quota/attack/zookeeper_limits", -1))
	for path = path[:len(path)-2]; path != "/attack"; path = path[:strings.LastIndexByte(path, '/')] {
		if got := c.do(opDelete, words(path, -1)); !strings.HasPrefix(got, "code=0") {
			t.Fatalf("%.200s", got)
		}
	}
}

// noise sends frames of any operation with any bytes in them.
func noise(t *testing.T, addr string) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := newPeer(t, "moldau", addr)
	kinds := []int{opCreate, opDelete, opExists, opGetData, opSetData, opGetACL, opSetACL, opGetChildren, opSync, opGetChildren2, opCheck, opMulti, 15, opAuth, opSetWatches, 0, 77}
	for range 300 {
		nc := p.dial()
		out := frame(words(0, int64(0), 40000, int64(0), make([]byte, 16), false))
		for range 20 {
			body := make([]byte, rng.IntN(200))
			for i := range body {
				if body[i] = byte(rng.IntN(256)); rng.IntN(3) > 0 {
					body[i] = byte(rng.IntN(2)) // so that lengths are short, too
				}
			}
			out = append(out, frame(append(words(rng.IntN(100), kinds[rng.IntN(len(kinds))]), body...))...)
		}
		_, _ = nc.Write(out)
		_ = nc.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		_, _ = io.Copy(io.Discard, nc)
		_ = nc.Close()
	}
}
