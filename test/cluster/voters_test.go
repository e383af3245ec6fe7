package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestFiveNodes: two of five nodes die, the active controller among them.
func TestFiveNodes(t *testing.T) {
	thorough(t)
	c := start(t, 5)
	c.create(t, "orders", 5, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 5)
	l.await(t, 300)
	active := c.controller(t)
	other := active%5 + 1
	c.nodes[active].kill()
	c.nodes[other].kill()
	l.await(t, 300)
	c.nodes[active].restart(t)
	c.nodes[other].restart(t)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// TestControllersApart: three controllers that hold no records, three brokers that have no vote. A controller and a broker die.
func TestControllersApart(t *testing.T) {
	thorough(t)
	needNetwork(t)
	c := &cluster{dir: t.TempDir(), nodes: map[int]*process{}}
	voters := "controller.quorum.bootstrap.servers=" + address(1) + ":9093," + address(2) + ":9093," + address(3) + ":9093"
	for id := 1; id <= 3; id++ {
		c.add(t, id, "process.roles=controller", "listeners=CONTROLLER://"+address(id)+":9093", voters)
	}
	for id := 4; id <= 6; id++ {
		c.add(t, id, "process.roles=broker", voters, "offsets.topic.replication.factor=3", "offsets.topic.num.partitions=4")
	}
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
	active := c.controller(t)
	if active > 3 {
		t.Errorf("node %d is the active controller and has no vote", active)
	}
	c.nodes[active].kill()
	l.await(t, 200)
	c.create(t, "made-by-the-next", 1, 2, nil)
	leader := c.leader(t, "orders", 0)
	c.nodes[leader].kill()
	l.await(t, 200)
	c.nodes[leader].restart(t)
	c.nodes[active].restart(t)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// TestControllerPaused: the active controller sleeps for twice its session and wakes up: another has taken over, and the old
// one's decisions are nobody's (row 17).
func TestControllerPaused(t *testing.T) {
	c := start(t, 3, quick, "broker.heartbeat.interval.ms=500")
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 200)
	active := c.controller(t)
	c.nodes[active].signal(t, syscall.SIGSTOP)
	harness.Eventually(t, time.Minute, "a topic is made by another controller", func() error {
		return c.createBut(active, "made-meanwhile")
	})
	<-time.After(6 * time.Second) // twice the session
	c.nodes[active].signal(t, syscall.SIGCONT)
	l.await(t, 300)
	c.inSync(t, "orders", 3)
	c.inSync(t, "made-meanwhile", 2)
	l.check(t, c)
}

// quorumVoter is what metadata-quorum tells of the voters.
type quorumVoter struct {
	ID        int    `json:"id"`
	Directory string `json:"directoryId"`
}

// voters asks our tool who has a vote, which only the active controller can say.
func (c *cluster) voters(t *testing.T) (voters []quorumVoter) {
	t.Helper()
	harness.Eventually(t, time.Minute, "the active controller says who has a vote", func() error {
		out, err := c.tool(t, "metadata-quorum", "describe", "--status")
		if err != nil {
			return err
		}
		_, after, _ := strings.Cut(out, "CurrentVoters:")
		list, _, _ := strings.Cut(after, "\n")
		return json.Unmarshal([]byte(list), &voters)
	})
	return voters
}

// TestVotersChange: a controller is added by our tool and one is taken out, under load; the quorum then survives with the new one.
func TestVotersChange(t *testing.T) {
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	fourth := c.add(t, 4, "process.roles=controller", "listeners=CONTROLLER://"+address(4)+":9093",
		"controller.quorum.bootstrap.servers="+address(1)+":9093,"+address(2)+":9093,"+address(3)+":9093", "controller.quorum.auto.join.enable=false")
	fourth.spawn(t)
	fourth.ready(t)
	harness.Eventually(t, time.Minute, "node 4 has a vote", func() error {
		for _, v := range c.voters(t) {
			if v.ID == 4 {
				return nil
			}
		}
		_, err := c.tool(t, "metadata-quorum", "add-controller", "--command-config", fourth.properties)
		return err
	})
	l.await(t, 200)
	active := c.controller(t)
	for _, v := range c.voters(t) {
		if v.ID == active {
			c.must(t, "metadata-quorum", "remove-controller", "--controller-id", fmt.Sprint(v.ID), "--controller-directory-id", v.Directory)
		}
	}
	harness.Eventually(t, time.Minute, "another controller is active", func() error {
		if now := c.controller(t); now == active {
			return fmt.Errorf("node %d", now)
		}
		return nil
	})
	if voters := c.voters(t); len(voters) != 3 {
		t.Errorf("voters %v", voters)
	}
	l.await(t, 200)
	// Of the three that vote now one may die.
	now := c.controller(t)
	c.nodes[now].kill()
	harness.Eventually(t, time.Minute, "a topic is made by the rest", func() error { return c.createBut(now, "made-by-the-rest") })
	c.nodes[now].restart(t)
	c.inSync(t, "orders", 3)
	l.check(t, c)
}

// TestOtherPorts: all controllers of a cluster get other ports at once. What the voter set says of them leads nowhere, and they find each
// other by their configuration.
func TestOtherPorts(t *testing.T) {
	c := start(t, 3)
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 200)
	for _, id := range c.ids() {
		c.nodes[id].kill()
	}
	for _, id := range c.ids() {
		p := c.nodes[id]
		text, err := os.ReadFile(p.properties)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.ReplaceAll(string(text), ":9093", ":9193"), "\n")
		p.write(t, append(lines, fmt.Sprintf("listeners=PLAINTEXT://%s:9092,CONTROLLER://%s:9193", address(id), address(id)))...)
		p.spawn(t)
	}
	for _, id := range c.ids() {
		c.nodes[id].ready(t)
	}
	l.await(t, 200)
	c.inSync(t, "orders", 3)
	l.check(t, c)
	harness.Eventually(t, time.Minute, "it is said where the controllers are now", func() error {
		said, err := c.tool(t, "metadata-quorum", "describe", "--status")
		if err == nil && strings.Contains(said, ":9093") {
			err = errors.New(said)
		}
		return err
	})
}

// TestEmptyDisk: a node comes back with nothing: it is a new one to the quorum and to the brokers, no vote and no seat in
// sync are its before it has everything (row 15).
func TestEmptyDisk(t *testing.T) {
	c := start(t, 3, quick, "broker.heartbeat.interval.ms=500")
	c.create(t, "orders", 3, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", 3)
	l.await(t, 300)
	victim := c.leader(t, "orders", 0)
	directory := func() string {
		for _, v := range c.voters(t) {
			if v.ID == victim {
				return v.Directory
			}
		}
		return ""
	}
	had := directory()
	c.nodes[victim].kill()
	if err := os.RemoveAll(c.data(victim)); err != nil {
		t.Fatal(err)
	}
	c.nodes[victim].restart(t)
	properties, err := os.ReadFile(filepath.Join(c.data(victim), "meta.properties"))
	if err != nil || had == "" || strings.Contains(string(properties), had) {
		t.Errorf("the vote belongs to directory %q, and the new disk says, %v,\n%s", had, err, properties)
	}
	if now := directory(); now != had {
		t.Errorf("the vote of directory %s is that of %q now", had, now)
	}
	l.await(t, 300)
	c.inSync(t, "orders", 3)
	// Its own copy has to be whole: everything is read from there.
	var plan []string
	for p := range 3 {
		replicas := []string{strconv.Itoa(victim)}
		for _, id := range c.ids() {
			if id != victim {
				replicas = append(replicas, strconv.Itoa(id))
			}
		}
		plan = append(plan, fmt.Sprintf(`{"topic":"orders","partition":%d,"replicas":[%s]}`, p, strings.Join(replicas, ",")))
	}
	file := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(file, []byte(`{"version":1,"partitions":[`+strings.Join(plan, ",")+`]}`), 0o644); err != nil {
		t.Fatal(err)
	}
	c.must(t, "reassign-partitions", "--execute", "--reassignment-json-file", file)
	c.must(t, "leader-election", "--election-type", "preferred", "--topic", "orders", "--partition", "0")
	c.must(t, "leader-election", "--election-type", "preferred", "--topic", "orders", "--partition", "1")
	c.must(t, "leader-election", "--election-type", "preferred", "--topic", "orders", "--partition", "2")
	for p := range int32(3) {
		harness.Eventually(t, time.Minute, "the new disk leads", func() error {
			if leader := c.leader(t, "orders", p); leader != victim {
				return fmt.Errorf("partition %d is led by %d", p, leader)
			}
			return nil
		})
	}
	l.check(t, c)
}
