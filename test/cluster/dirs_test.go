package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"moldau/test/harness"
)

// TestMovesBetweenDirectories: under load the replicas of one node after the other move to its other log directory, and the
// node is killed on the way: the move goes on, what was acknowledged is there, and each replica is in one directory.
func TestMovesBetweenDirectories(t *testing.T) {
	needNetwork(t)
	c := &cluster{dir: t.TempDir(), nodes: map[int]*process{}}
	other := func(dir string) string {
		if before, ok := strings.CutSuffix(dir, "b"); ok {
			return before
		}
		return dir + "b"
	}
	const rate = "replica.alter.log.dirs.io.max.bytes.per.second"
	for id := range 3 {
		id++
		c.add(t, id, fmt.Sprintf("controller.quorum.bootstrap.servers=%s:9093,%s:9093,%s:9093", address(1), address(2), address(3)),
			"log.dirs="+c.data(id)+","+other(c.data(id)), "metadata.log.dir="+c.data(id), rate+"=2000") // the first replica uses up half a minute of it
	}
	for _, id := range c.ids() {
		c.nodes[id].spawn(t)
	}
	for _, id := range c.ids() {
		c.nodes[id].ready(t)
	}
	const partitions = 3
	c.create(t, "orders", partitions, 3, nil)
	c.inSync(t, "orders", 3)
	l := c.produce(t, "orders", partitions)
	l.await(t, 1500)
	// lies returns where a replica of a node is, and fails if that is in two directories.
	lies := func(id int, partition int32) (dir string) {
		t.Helper()
		folders, err := filepath.Glob(filepath.Join(c.data(id)+"*", fmt.Sprintf("orders-%d", partition)))
		if err != nil || len(folders) != 1 {
			t.Fatalf("node %d, partition %d: %v, %v", id, partition, folders, err)
		}
		return filepath.Dir(folders[0])
	}
	for _, id := range c.ids() {
		var parts []string
		for p := range int32(partitions) {
			var replicas, dirs []string
			for _, r := range c.topic(t, "orders").Partitions[p].Replicas {
				replicas = append(replicas, fmt.Sprint(r))
				dir := `"any"`
				if int(r) == id {
					dir = fmt.Sprintf("%q", other(lies(id, p)))
				}
				dirs = append(dirs, dir)
			}
			parts = append(parts, fmt.Sprintf(`{"topic":"orders","partition":%d,"replicas":[%s],"log_dirs":[%s]}`, p, strings.Join(replicas, ","), strings.Join(dirs, ",")))
		}
		plan := filepath.Join(c.dir, "plan.json")
		if err := os.WriteFile(plan, []byte(`{"version":1,"partitions":[`+strings.Join(parts, ",")+`]}`), 0o644); err != nil {
			t.Fatal(err)
		}
		out := c.must(t, "reassign-partitions", "--execute", "--reassignment-json-file", plan)
		if n := strings.Count(out, "Successfully started moving log directory"); n != partitions {
			t.Fatalf("%d moves have begun:\n%s", n, out)
		}
		if futures, _ := filepath.Glob(filepath.Join(c.data(id)+"*", "orders-*-future")); len(futures) == 0 {
			t.Fatal("nothing is on its way: the kill would prove nothing")
		}
		c.nodes[id].kill()
		l.await(t, 100)
		c.nodes[id].restart(t)
		c.must(t, "configs", "--alter", "--entity-type", "brokers", "--entity-name", fmt.Sprint(id), "--add-config", rate+"=1000000000")
		harness.Eventually(t, 60*time.Second, "the moves are over", func() error {
			out, err := c.tool(t, "reassign-partitions", "--verify", "--preserve-throttles", "--reassignment-json-file", plan)
			if n := strings.Count(out, "completed successfully."); err != nil || n != partitions {
				return fmt.Errorf("%v\n%s", err, out)
			}
			return nil
		})
		c.inSync(t, "orders", 3)
	}
	for _, id := range c.ids() {
		for p := range int32(partitions) {
			lies(id, p)
		}
		if futures, _ := filepath.Glob(filepath.Join(c.data(id)+"*", "*-future")); len(futures) > 0 {
			t.Errorf("node %d still has %v", id, futures)
		}
	}
	l.check(t, c)
}
