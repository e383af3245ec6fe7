package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"moldau/test/harness"
)

// TestPowerCut: the power of all nodes fails at once, their disks lose what was not synced, and everything acknowledged is
// there (rows 11, 12).
func TestPowerCut(t *testing.T) {
	c := prepare(t, 3)
	disks := map[int]*harness.Disk{}
	for _, id := range c.ids() {
		disks[id] = harness.NewDisk(t, c.data(id), 512)
		c.nodes[id].spawn(t)
	}
	for _, id := range c.ids() {
		c.nodes[id].ready(t)
	}
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	for range 2 {
		l.await(t, 300)
		for _, id := range c.ids() {
			c.nodes[id].halt(t)
		}
		for _, id := range c.ids() {
			disks[id].CutPower(t)
			c.nodes[id].kill()
		}
		for _, id := range c.ids() {
			disks[id].PowerOn(t)
		}
		for _, id := range c.ids() { // not before: a new process sees the mounts of all, as they are at its start
			c.nodes[id].spawn(t)
		}
		for _, id := range c.ids() {
			c.nodes[id].ready(t)
		}
		c.inSync(t, "orders", 3)
	}
	l.await(t, 300)
	l.check(t, c)
}

// TestFullDisk: the disk of one node fills up. The others go on, and the node comes back in sync when there is space again,
// without a restart (row 37).
func TestFullDisk(t *testing.T) {
	thorough(t)
	c := prepare(t, 3, "replica.lag.time.max.ms=2000")
	const victim = 2
	harness.NewDisk(t, c.data(victim), 64)
	for _, id := range c.ids() {
		c.nodes[id].spawn(t)
	}
	for _, id := range c.ids() {
		c.nodes[id].ready(t)
	}
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 200)
	ballast := filepath.Join(c.data(victim), "ballast")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for size := 1 << 20; size > 0; size /= 16 { // up to the last byte
		for err = nil; err == nil; {
			_, err = f.Write(make([]byte, size))
		}
	}
	if err := f.Close(); err != nil {
		t.Log(err)
	}
	l.await(t, 2000)
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	l.await(t, 200)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// TestFlippedByte: a byte of the leader's log changes on its disk. The follower that needs it refuses it and says so, goes on with other
// partitions, and has the record once the leader has it again (row 8).
func TestFlippedByte(t *testing.T) {
	c := start(t, 3, "replica.fetch.backoff.ms=200")
	c.create(t, "orders", 1, 2, nil)
	c.create(t, "others", 3, 3, nil)
	c.inSync(t, "orders", 2)
	d := c.topic(t, "orders")
	leader := int(d.Partitions[0].Leader)
	follower := int(d.Partitions[0].Replicas[0])
	if follower == leader {
		follower = int(d.Partitions[0].Replicas[1])
	}
	c.nodes[follower].stop(t)
	c.inSync(t, "orders", 1)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cl := c.client(t, kgo.DefaultProduceTopic("orders"))
	l := told("orders")
	for i := range 20 {
		r, err := cl.ProduceSync(ctx, kgo.StringRecord(fmt.Sprintf("%d.sound", i))).First()
		if err != nil {
			t.Fatal(err)
		}
		l.note(r, nil)
	}
	path := filepath.Join(c.data(leader), "orders-0", strings.Repeat("0", 20)+".log")
	flip := func() {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(text, []byte("10.sound"))
		if at < 0 {
			at = bytes.Index(text, []byte("10.xound"))
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteAt([]byte{text[at+3] ^ 's' ^ 'x'}, int64(at+3)); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	c.nodes[follower].restart(t)
	c.nodes[follower].logged(t, "partition=orders-0", "CRC")
	others := c.produce(t, "others", 3)
	others.await(t, 100)
	c.inSync(t, "others", 3)
	others.check(t, c)
	copied, err := os.ReadFile(filepath.Join(c.data(follower), "orders-0", filepath.Base(path)))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(copied, []byte("10.xound")) {
		t.Error("the follower has the damaged record")
	}
	if d := c.topic(t, "orders"); len(d.Partitions[0].ISR) != 1 {
		t.Errorf("in sync with a damaged record: %v", d.Partitions[0].ISR)
	}
	flip() // as an operator would who has another copy
	c.inSync(t, "orders", 2)
	c.nodes[leader].kill()
	c.inSync(t, "orders", 1)
	l.checkValues(t, c)
}

// TestLastReplicaStanding: while the last replica in sync is away nobody leads, whoever else is there; what it acknowledged alone
// is not cut off by the one that missed it (rows 11, 16, 18).
func TestLastReplicaStanding(t *testing.T) {
	c := start(t, 5) // the quorum can spare two
	c.create(t, "orders", 1, 2, nil)
	c.inSync(t, "orders", 2)
	l := c.produce(t, "orders", 1)
	l.await(t, 200)
	d := c.topic(t, "orders")
	leader := int(d.Partitions[0].Leader)
	follower := int(d.Partitions[0].Replicas[0])
	if follower == leader {
		follower = int(d.Partitions[0].Replicas[1])
	}
	c.nodes[follower].kill()
	c.inSync(t, "orders", 1)
	l.await(t, 200) // these the follower lacks
	c.nodes[leader].kill()
	c.nodes[follower].restart(t)
	harness.Eventually(t, time.Minute, "the one that is behind is back", func() error {
		up, err := kadm.NewClient(c.client(t)).ListBrokers(t.Context())
		if err == nil && !slices.Contains(up.NodeIDs(), int32(follower)) {
			err = fmt.Errorf("brokers %v", up.NodeIDs())
		}
		return err
	})
	controller := 0
	for range 10 { // for longer than an election takes
		<-time.After(200 * time.Millisecond)
		harness.Eventually(t, time.Minute, "nobody leads", func() error { // brokers hear of a death a moment later
			d, err := c.describe("orders")
			if err != nil && !errors.Is(err, kerr.LeaderNotAvailable) {
				return err
			}
			switch p := d.Partitions[0]; {
			case int(p.Leader) == follower || slices.Contains(p.ISR, int32(follower)):
				t.Fatalf("node %d leads, in sync %v: only node %d has everything", p.Leader, p.ISR, leader)
			case p.Leader >= 0:
				return fmt.Errorf("node %d does", p.Leader)
			}
			return nil
		})
		controller = c.controller(t)
	}
	if out := metric(t, controller, "moldau_controller_unclean_elections_total"); out != "0" {
		t.Errorf("the active controller, node %d, counts %q unclean elections", controller, out)
	}
	c.nodes[leader].restart(t)
	l.await(t, 200)
	c.inSync(t, "orders", 2)
	out := c.must(t, "topics", "--describe", "--offsets", "--topic", "orders")
	if !strings.Contains(out, "HighWatermark:") {
		t.Errorf("topics --describe --offsets says:\n%s", out)
	}
	l.check(t, c)
}

// metric returns a metric's value without labels; "" if the node does not run or has none.
func metric(t *testing.T, id int, name string) string {
	t.Helper()
	resp, err := http.Get("http://" + address(id) + ":9644/metrics")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// TestKilledInRecovery: a node is killed while it recovers from a kill, twice: that is no clean end either (row 12).
func TestKilledInRecovery(t *testing.T) {
	thorough(t)
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 300)
	victim := c.leader(t, "orders", 0)
	for _, after := range []time.Duration{0, 20, 60} {
		c.nodes[victim].kill()
		c.nodes[victim].spawn(t)
		<-time.After(after * time.Millisecond)
	}
	c.nodes[victim].kill()
	c.nodes[victim].restart(t)
	l.await(t, 300)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}
