package zookeeper

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"

	"moldau/test/harness"
)

// TestSessionOutlivesItsNode takes the node with the tree from a cluster of three: sessions, ephemerals and watches of
// clients go on at another, whichever node a client is connected to.
func TestSessionOutlivesItsNode(t *testing.T) {
	nodes := harness.PrepareNodes(t, 3, "offsets.topic.replication.factor=3", "min.insync.replicas=2")
	ports := harness.FreePorts(t, 3)
	var addrs []string
	for i, n := range nodes {
		addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", ports[i]))
		n.Spawn(t, "--override", "zookeeper.listeners="+addrs[i])
	}
	for _, n := range nodes {
		n.WaitReady(t, time.Minute)
	}
	var clients []*zk.Conn
	var events []<-chan zk.Event
	var ids []int64
	for i, addr := range addrs {
		// The client's own node first: the first leads the tree, the others pass the connection on to it.
		order := append([]string{addr}, slices.DeleteFunc(slices.Clone(addrs), func(a string) bool { return a == addr })...)
		c, ch, err := zk.Connect(order, 10*time.Second, zk.WithHostProvider(&inOrder{}), zk.WithLogger(quiet{}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		eventually(t, func() error {
			_, err := c.Create(fmt.Sprintf("/client%d", i), []byte(addr), zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			if errors.Is(err, zk.ErrNodeExists) { // a try before has made it, and was not told; whose it is is looked at below
				err = nil
			}
			return err
		})
		clients, events, ids = append(clients, c), append(events, ch), append(ids, c.SessionID())
	}
	_, _, changed, err := clients[2].GetW("/client0")
	if err != nil {
		t.Fatal(err)
	}
	leader := treeLeader(t, addrs)
	t.Logf("node %d has the tree", leader+1)
	nodes[leader].Kill(t)
	for i, c := range clients {
		eventually(t, func() error {
			data, stat, err := c.Get(fmt.Sprintf("/client%d", i))
			if err == nil && (string(data) != addrs[i] || stat.EphemeralOwner != ids[i]) {
				return fmt.Errorf("client%d is %q of session %x, was %x", i, data, stat.EphemeralOwner, ids[i])
			}
			return err
		})
		if c.SessionID() != ids[i] {
			t.Errorf("client %d has session %x, had %x", i, c.SessionID(), ids[i])
		}
	}
	eventually(t, func() error {
		_, err := clients[1].Set("/client0", []byte("changed"), -1) // -1: a try before may have been heard, and the answer lost
		return err
	})
	select {
	case e := <-changed:
		if e.Type != zk.EventNodeDataChanged {
			t.Errorf("event %v", e)
		}
	case <-time.After(time.Minute):
		t.Error("the watch was lost with the node")
	}
	for i, ch := range events {
		for len(ch) > 0 {
			if e := <-ch; e.State == zk.StateExpired {
				t.Errorf("client %d was told that its session expired", i)
			}
		}
	}
	// And a session that ends takes its node along.
	clients[0].Close()
	eventually(t, func() error {
		ok, _, err := clients[1].Exists("/client0")
		if ok {
			err = fmt.Errorf("/client0 is still there")
		}
		return err
	})
}

// treeLeader is the node that says so.
func treeLeader(t *testing.T, addrs []string) (leader int) {
	t.Helper()
	eventually(t, func() error {
		leader = slices.IndexFunc(addrs, func(addr string) bool { return strings.Contains(ask(t, addr, "srvr"), "Mode: leader") })
		if leader < 0 {
			return errors.New("no node has the tree")
		}
		return nil
	})
	return leader
}

// eventually tries until there is no error.
func eventually(t *testing.T, f func() error) {
	t.Helper()
	harness.Eventually(t, 2*time.Minute, "there is no error", f)
}

// inOrder tries servers in the order given, and first the one that worked last.
type inOrder struct {
	servers   []string
	at, tried int
}

func (o *inOrder) Init(servers []string) error {
	o.servers = servers
	return nil
}

func (o *inOrder) Len() int { return len(o.servers) }

func (o *inOrder) Next() (server string, retryStart bool) {
	server = o.servers[o.at%len(o.servers)]
	o.at++
	o.tried++
	return server, o.tried%(len(o.servers)+1) == 0
}

func (o *inOrder) Connected() {
	o.at--
	o.tried = 0
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}

// ask returns the answer to a four-letter word.
func ask(t *testing.T, addr, word string) string {
	t.Helper()
	nc, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	if _, err := nc.Write([]byte(word)); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(nc)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
