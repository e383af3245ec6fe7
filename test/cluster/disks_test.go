package cluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	d, err := c.describe("orders")
	if err != nil {
		t.Fatal(err)
	}
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
	c.inSync(t, "others", 3)
	c.nodes[follower].logged(t, "orders-0")
	if d, err := c.describe("orders"); err != nil || len(d.Partitions[0].ISR) != 1 {
		t.Errorf("in sync with a damaged record: %v %v", d.Partitions[0].ISR, err)
	}
	flip() // as an operator would who has another copy
	c.inSync(t, "orders", 2)
	c.nodes[leader].kill()
	c.inSync(t, "orders", 1)
	l.checkValues(t, c)
}

// TestLastReplicaStanding: the last replica in sync is the only one that may lead while it is away, whoever else is there; what it
// acknowledged alone is not cut off by those that missed it (rows 11, 16, 18).
func TestLastReplicaStanding(t *testing.T) {
	c := start(t, 3)
	two := "2"
	c.create(t, "orders", 1, 3, map[string]*string{"min.insync.replicas": &two})
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 1)
	l.await(t, 200)
	d, err := c.describe("orders")
	if err != nil {
		t.Fatal(err)
	}
	leader := int(d.Partitions[0].Leader)
	var others []int
	for _, id := range c.ids() {
		if id != leader {
			others = append(others, id)
		}
	}
	// One goes, the others write on: it is behind. Then a second: the leader is alone, the second is eligible (ELR).
	c.nodes[others[0]].kill()
	c.inSync(t, "orders", 2)
	l.await(t, 200)
	c.nodes[others[1]].kill()
	// Two of three voters are gone: nobody can note it. The first comes back and the quorum with it.
	c.nodes[others[0]].spawn(t)
	c.inSync(t, "orders", 2)
	l.await(t, 200)
	out := c.must(t, "topics", "--describe", "--offsets", "--topic", "orders")
	t.Log(out)
	if !strings.Contains(out, "Elr:") || !strings.Contains(out, "HighWatermark:") {
		t.Errorf("topics --describe --offsets says:\n%s", out)
	}
	c.nodes[leader].kill()
	c.nodes[others[1]].spawn(t)
	c.nodes[others[1]].ready(t)
	l.await(t, 200)
	for _, id := range c.ids() {
		if out := metric(t, id, "moldau_controller_unclean_elections_total"); out != "" && out != "0" {
			t.Errorf("node %d counts %s unclean elections", id, out)
		}
	}
	c.nodes[leader].restart(t)
	c.inSync(t, "orders", 3)
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
